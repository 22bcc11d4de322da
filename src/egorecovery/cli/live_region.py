"""The lines of a terminal that show what is under way."""

import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live

PLAIN_LINES_S = 15.0  # between lines where lines cannot be redrawn


class LiveRegion:
    """Redrawn in a terminal; elsewhere a plain line now and then."""

    def __init__(
        self, on: Console, *, shown: bool = True, at_once: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`at_once`: the first plain line does not wait."""
        redraws = on.is_terminal and not on.is_dumb_terminal
        self._on, self._clock, self._shown = on, clock, shown
        self._live = Live(console=on, transient=True, refresh_per_second=4) if shown and redraws else None
        self._printed_s = float("-inf") if at_once else clock()

    def draw(self, drawn: Callable[[], RenderableType], plain: str) -> None:
        """`plain` is the line where nothing can be redrawn; none where it is empty."""
        if self._live:
            self._live.update(drawn())
        elif self._shown and plain and self._clock() - self._printed_s >= PLAIN_LINES_S:
            self._printed_s = self._clock()
            self._on.print(plain, soft_wrap=True)

    def __enter__(self) -> "LiveRegion":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
