"""`egorecovery export lerobot`."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tyro.conf import Positional


@dataclass(frozen=True, kw_only=True)
class ExportLerobot:
    """Write a store as a LeRobot data set, v3.0."""

    EXAMPLE: ClassVar = "export lerobot runs/cubes --source robot_success robot_recovery --out runs/cubes_lerobot"

    store: Positional[Path]
    """The store to export."""
    out: Path
    """The folder to make."""
    source: tuple[Literal["robot_success", "robot_recovery", "human_success", "human_recovery"], ...] = ()
    """Only these sources; people and robots cannot be in one data set."""
    instruction: str = ""
    """The task in words, for policies that read; its name by default."""
    codec: Literal["libx264", "libsvtav1"] = "libx264"
    """Of the videos; libsvtav1 makes smaller files, more slowly."""
    without_labels: bool = False
    """Leave out in_recovery, intent and their masks: for stores that are not annotated."""

    def run(self) -> int:
        from egorecovery.cli.console import console, progress_bar
        from egorecovery.episodes import EpisodeStore, Source
        from egorecovery.errors import RecipeError

        try:
            from egorecovery.export.lerobot import ExportRules, export_lerobot
        except ModuleNotFoundError as error:
            raise RecipeError(
                f"export lerobot needs {error.name}: install the extra, 'pip install egorecovery[formats]'"
            ) from None
        rules = ExportRules(
            sources=tuple(map(Source, self.source)),
            labels=not self.without_labels,
            codec=self.codec,
            instruction=self.instruction,
        )
        with progress_bar("Exporting", "episodes") as advance:
            made = export_lerobot(EpisodeStore(self.store), self.out, rules, advance)
        console.print(f"exported {made.episodes} episodes, {made.frames} frames: {self.out}", soft_wrap=True)
        for name in made.left_out:
            console.print(f"  left out {name}: discarded by its annotation")
        if made.depth_left_out:
            console.print("  left out depth: LeRobot 0.4 has no place for it")
        console.print(
            f'next: python -c "from lerobot.datasets.lerobot_dataset import LeRobotDataset; '
            f"print(LeRobotDataset('me/{self.out.name}', root='{self.out}')[0])\"",
            soft_wrap=True,
        )
        return 0
