"""`egorecovery export onnx`."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tyro.conf import Positional

from egorecovery.errors import ServingError


@dataclass(frozen=True, kw_only=True)
class ExportOnnx:
    """Write a policy as one ONNX file: pictures and joints in, actions, gate and intent out."""

    EXAMPLE: ClassVar = "export onnx runs/policy --out policy.onnx"

    checkpoint: Positional[Path]
    """A training run, whose latest checkpoint is meant, or one checkpoint."""
    out: Path
    """The file to write, ending in .onnx; one that is there is replaced."""

    def run(self) -> int:
        from egorecovery.cli.console import console

        try:
            from egorecovery.serving.onnx_export import export_onnx
        except ImportError as error:
            raise ServingError(f"ONNX export needs {error.name}: pip install 'egorecovery[policy,onnx]'") from None
        parity = export_onnx(self.checkpoint, self.out)
        console.print(f"exported: {self.out}", soft_wrap=True)
        console.print(f"  onnxruntime against PyTorch, {parity.observations} random observations, largest difference:")
        for name, apart in parity.worst.items():
            unit = " of their spread" if name == "actions" else ""
            console.print(f"    {name:8s} {apart:.1e}{unit}")
        code = f"import onnxruntime as o; print(o.InferenceSession('{self.out}').get_modelmeta().custom_metadata_map)"
        console.print(f'next: python -c "{code}"', soft_wrap=True)
        return 0
