"""What a person sees while a policy trains: how far, how well, how much longer."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table

from egorecovery.cli.console import ProgressLine, console
from egorecovery.cli.words import PLURALS
from egorecovery.policy.policy_name import method_words
from egorecovery.storage.typed_json import to_json

if TYPE_CHECKING:
    from egorecovery.training import Recipe
    from egorecovery.training.loop import Progress as Step

SHOWN = (("imitation_robot", "robot"), ("imitation_human", "human"), ("intent", "intent"))
SCORES = {
    "action_error": "action error, as a share of their spread",
    "gate_accuracy": "gate, right decisions",
    "gate_auc": "gate, AUC over all its frames",
    "gate_auc_in_recoveries": "gate, AUC in recovery clips (as diagnose)",
    "intent_error": "intent error",
    "position_error_mm": "position error, mm",
    "intent_error_of_mean": "intent error of always saying the mean",
}


def described(recipe: "Recipe") -> str:
    """What, and on which episodes: that is not always what was asked for, and one should see it."""
    parts = [f"{count} {words}" for source, words in PLURALS.items() if (count := getattr(recipe.budget, source))]
    size = f"{recipe.policy.image_size} x {recipe.policy.image_size}"
    steps = f"{recipe.optimisation.steps:,} steps"
    what = f"{method_words(to_json(recipe))}; {recipe.task.replace('_', ' ')}; recipe {recipe.name}, {steps}"
    held_out = f"{recipe.held_out} of each held out" if recipe.held_out else "none held out"
    return f"Training: {what}\n  on {', '.join(parts)}; {held_out}; pictures {size}"


class TrainingProgress:
    """One line that is redrawn; plain lines now and then where there is no terminal."""

    def __init__(self, shown: bool = True) -> None:
        self._line = ProgressLine(console, shown=shown)
        self._shown = shown
        self._losses: list[str] = []
        self._plain = shown and not console.is_terminal
        self._tenth = 0  # of the run, told last

    def begun(self, recipe: "Recipe") -> None:
        """Nothing was refused: says what is trained, on what."""
        if self._shown:
            console.print(described(recipe), soft_wrap=True)

    def decoding(self, done: int, total: int) -> None:
        self._line.show("Reading pictures", done, total, "pictures")

    def stepped(self, step: int, steps: int) -> None:
        self._line.show("Training", step, steps, "steps", self._losses)

    def step(self, at: "Step") -> None:
        parts = [f"{short} {at.values[name]:.2f}" for name, short in SHOWN if name in at.values]
        self._losses = [f"loss {parts[0]}", *parts[1:]] if parts else []
        self.stepped(at.step, at.steps)
        tenth = at.step * 10 // at.steps
        if self._plain and tenth > self._tenth:
            console.print(f"step {at.step:,} of {at.steps:,}; {', '.join(self._losses)}", soft_wrap=True)
        self._tenth = tenth

    def __enter__(self) -> "TrainingProgress":
        self._line.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.__exit__(kind, error, at)


def scores_table(scores: Mapping[str, float]) -> Table:
    """Scores on episodes that were held out; a column for each embodiment or source."""
    table = Table(title="scores on held-out episodes", title_justify="left", box=SIMPLE)
    table.add_column("score")
    table.add_column("episodes")
    table.add_column("value", justify="right")
    before = ""
    for name, value in scores.items():
        what, _, whose = name.removeprefix("probe/").partition("/")
        words = SCORES.get(what, what.replace("_", " ")) + (" (probe)" if name.startswith("probe/") else "")
        table.add_row("" if words == before else words, whose.replace("_", " "), f"{value:.3f}")
        before = words
    return table
