"""What the operator sees while recording, in 80 columns."""

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from egorecovery.capture.operator_loop import KeyMap, State
from egorecovery.capture.recorder import Recorder, Snapshot

WIDTH = 78
PREVIEW_COLUMNS, PREVIEW_ROWS = 25, 9  # characters; each shows two pixels, one above the other
STYLES = {
    State.RECORDING: "bold white on red",
    State.JUDGING: "bold black on yellow",
    State.STAGING: "bold white on blue",
    State.PAUSED: "bold white on magenta",
}
SLOW = 0.9  # of the wanted rate; below it the number turns red
SKEWED_S = 0.04  # one frame at 25 Hz


def screen(recorder: Recorder, keys: KeyMap, *, preview: bool = False) -> RenderableType:
    seen = recorder.snapshot()
    parts: list[RenderableType] = [head(recorder, seen), streams(recorder, seen), foot(seen)]
    if preview:
        parts.append(Columns([picture(recorder, name) for name in seen.streams if name != "robot"], padding=(0, 1)))
    parts += [Text(seen.last[: 2 * WIDTH], style="italic"), offered(keys, seen.state)]
    return Group(*parts)


def head(recorder: Recorder, seen: Snapshot) -> RenderableType:
    plan = recorder.plan
    line = Table.grid(expand=False, padding=0)
    line.add_column(width=WIDTH - 28, no_wrap=True, overflow="ellipsis")
    line.add_column(width=28, justify="right", no_wrap=True)
    state = Text(f" {seen.state.upper()} {clock_words(seen.state_s)} ", style=STYLES.get(seen.state, "bold reverse"))
    line.add_row(Text(f"{plan.task.name}  {plan.source}  {plan.operator}"), state)
    return line


def streams(recorder: Recorder, seen: Snapshot) -> RenderableType:
    table = Table(box=None, padding=(0, 1), pad_edge=False, width=WIDTH)
    table.add_column("stream", no_wrap=True, width=11)
    for name, width in (("fps", 5), ("wanted", 6), ("frames", 7), ("dropped", 7)):
        table.add_column(name, justify="right", width=width, no_wrap=True)
    table.add_column("from", no_wrap=True, overflow="ellipsis")
    for name, facts in seen.streams.items():
        items = facts.items if seen.clip is None else seen.clip.items[name]
        dropped = facts.dropped if seen.clip is None else seen.clip.dropped[name]
        slow = facts.rate_hz < SLOW * facts.wanted_hz
        table.add_row(
            name,
            Text(f"{facts.rate_hz:.1f}", style="red" if slow else "green"),
            f"{facts.wanted_hz:.1f}",
            str(items),
            Text(str(dropped), style="red" if dropped else ""),
            Text(seen.lost[name], style="red") if name in seen.lost else recorder.workers[name].sensor.described,
        )
    return table


def foot(seen: Snapshot) -> RenderableType:
    rate = sum(facts.bytes_per_s for facts in seen.streams.values())
    left = f"{seen.free_bytes / 1e9:.0f} GB free" + (f" ({seen.free_bytes / rate / 3600:.0f} h)" if rate > 0 else "")
    skew = "skew -" if seen.skew_s is None else f"skew {seen.skew_s * 1000:.0f} ms"
    hourly = f"{3600 * seen.accepted / seen.worked_s:.0f} an hour" if seen.worked_s > 0 else "-"
    style = "red" if seen.skew_s is not None and seen.skew_s > SKEWED_S else ""
    counted = f"   {seen.accepted} accepted, {seen.discarded} discarded, {hourly}"
    return Text.assemble((skew, style), f"   {left}", counted)


def offered(keys: KeyMap, state: State) -> RenderableType:
    line = Text()
    for key, action in keys.offered(state):
        line.append(f"[{key}]", style="bold").append(f" {action}  ")
    return line


def picture(recorder: Recorder, name: str) -> RenderableType:
    """The newest frame as half blocks: enough to see where a camera points, over any connection."""
    import numpy as np
    import simplejpeg

    from egorecovery.capture.sensor import CameraFrame

    latest = recorder.workers[name].latest
    if not isinstance(latest, CameraFrame):
        return Text(f"{name}: no picture")
    try:
        image = simplejpeg.decode_jpeg(latest.jpeg, min_height=2 * PREVIEW_ROWS, min_width=PREVIEW_COLUMNS)
    except ValueError:
        return Text(f"{name}: no JPEG")
    rows = np.linspace(0, image.shape[0] - 1, 2 * PREVIEW_ROWS).astype(int)
    columns = np.linspace(0, image.shape[1] - 1, PREVIEW_COLUMNS).astype(int)
    small = image[np.ix_(rows, columns)]
    text = Text(no_wrap=True)
    for upper, lower in zip(small[0::2], small[1::2], strict=True):
        for above, below in zip(upper, lower, strict=True):
            text.append("\u2580", style=f"rgb({','.join(map(str, above))}) on rgb({','.join(map(str, below))})")
        text.append("\n")
    return text.append(name)


def clock_words(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{seconds % 60:04.1f}"
