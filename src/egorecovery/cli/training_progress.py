"""What a person sees while a policy trains: how far, how fast, how well, how much longer."""

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from egorecovery.cli.console import console
from egorecovery.training.loop import Progress as Step

SHOWN = (("imitation_robot", "robot"), ("imitation_human", "human"), ("intent", "intent"), ("gate_accuracy", "gate"))


class TrainingProgress:
    """One line that is redrawn; plain lines now and then where there is no terminal."""

    def __init__(self, title: str, shown: bool = True) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}"),
            console=console,
            disable=not shown or not console.is_terminal,
        )
        self._plain = shown and not console.is_terminal
        self._title = title
        self._tenth = 0  # of the run, told last
        self._decoding = self._bar.add_task("decoding pictures", total=None, now="")
        self._training = self._bar.add_task(title, total=None, now="", visible=False)

    def decoding(self, done: int, total: int) -> None:
        self._bar.update(self._decoding, completed=done, total=total)

    def step(self, at: Step) -> None:
        parts = [f"{short} {at.values[name]:.3f}" for name, short in SHOWN if name in at.values]
        now = " ".join([f"{at.samples_per_s:,.0f}/s", *parts])
        self._bar.update(self._decoding, visible=False)
        self._bar.update(self._training, completed=at.step, total=at.steps, now=now, visible=True)
        tenth = at.step * 10 // at.steps
        if self._plain and tenth > self._tenth:
            console.print(f"{self._title}: step {at.step} of {at.steps}, {now}", soft_wrap=True)
        self._tenth = tenth

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._bar.stop()
