"""The robot's state as one line of a terminal, rewritten as it changes."""

from egorecovery.robot.controller import Status

WIDTH = 79
_BAR = 20


def meter_line(status: Status) -> str:
    """One line with phase, gate bar, delay of the last answer, speed and number of clamps."""
    if status.gate is None:
        gate = f"gate [{'':{_BAR}}]  -  "
    else:
        filled = round(min(max(status.gate, 0.0), 1.0) * _BAR)
        gate = f"gate [{'#' * filled:-<{_BAR}}] {status.gate:.2f}"
    numbers = f"delay {status.delay_s * 1000:4.0f} ms  speed {status.speed:4.0%}  clamps {status.clamps}"
    return f"{status.phase:8} {gate}  {numbers}"[:WIDTH].ljust(WIDTH)
