"""`egorecovery export`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg, subcommand

from egorecovery.cli.export_lerobot import ExportLerobot
from egorecovery.cli.export_onnx import ExportOnnx


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a store as a LeRobot data set, or a policy as an ONNX file."""

    what: Annotated[
        Annotated[ExportLerobot, subcommand("lerobot", prefix_name=False)]
        | Annotated[ExportOnnx, subcommand("onnx", prefix_name=False)],
        arg(name=""),
    ]

    def run(self) -> int:
        return self.what.run()
