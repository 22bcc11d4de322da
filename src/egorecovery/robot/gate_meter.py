"""The robot's state as one line of a terminal, rewritten as it changes."""

from egorecovery.robot.controller import Status

WIDTH = 79
_BAR = 12


def meter_line(status: Status) -> str:
    """One line with phase, gate bar, delay of the last answer, speed and number of clamps."""
    numbers = f"delay {status.delay_s * 1000:4.0f} ms  speed {status.speed:4.0%}  clamps {status.clamps}"
    gate = "  - " if status.gate is None else f"{status.gate:.2f}"
    room = WIDTH - len(f"{status.phase:8} gate [] {gate}  {numbers}")
    bar = max(0, min(_BAR, room))  # no digit is ever cut
    filled = round(min(max(status.gate or 0.0, 0.0), 1.0) * bar)
    shown = f"{'#' * filled}{('-' if status.gate is not None else ' ') * (bar - filled)}"
    return f"{status.phase:8} gate [{shown}] {gate}  {numbers}".ljust(WIDTH)
