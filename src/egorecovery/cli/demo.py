"""`egorecovery demo`."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Generate a few recordings, then import, annotate and label them: the whole data path in seconds."""

    out: Path = Path("runs/demo")
    """Where to work; an earlier demo there is replaced."""
    episodes: int = 4
    """Per source."""
    seed: int = 0

    def run(self) -> int:
        from egorecovery.cli.console import console
        from egorecovery.cli.label import tally_table
        from egorecovery.demo import run_demo

        result = run_demo(self.out, self.episodes, self.seed)
        console.print(f"{result.accepted} recordings accepted, {len(result.discarded)} discarded")
        for name, reasons in result.discarded.items():
            console.print(f"  {name}: {'; '.join(reasons)}")
        console.print(tally_table(result.tallies))
        for who, scale_m in result.statistics.scale_m.items():
            windows = result.statistics.windows[who]
            console.print(f"embodiment scale s_{who} = {scale_m * 1000:.1f} mm, from {windows} recovery windows")
        console.print(f"store: {result.store}   look at it: egorecovery inspect {result.store}")
        return 0
