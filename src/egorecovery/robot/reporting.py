"""Text printed before a robot moves and after it has stopped."""

from collections.abc import Iterator

from egorecovery.robot.limits import Limits
from egorecovery.robot.running import Report


def stop_times(limits: Limits, rate_hz: float) -> Iterator[str]:
    """How long the robot takes to rest after each kind of fault, by its limits."""
    rest_s = limits.stop_s(rate_hz) + 1.0 / rate_hz  # a fault is noticed at most one cycle later
    yield f"any fault: at rest within {rest_s:.2f} s"
    yield f"server silent: noticed after {limits.answer_s:g} s, at rest within {limits.answer_s + rest_s:.2f} s"
    yield f"no next action: held for {limits.hold_s:g} s, at rest within {limits.hold_s + rest_s:.2f} s"
    yield "this is not a safety-rated stop: keep the emergency stop in reach"


def report_lines(report: Report) -> Iterator[str]:
    """How a run ended, and the joints that were clamped most."""
    status = report.status
    why = "" if report.fault is None else f"; stopped ({report.fault.cause}): {report.fault.reason}"
    yield f"{status.chunks} chunks, {status.cycles} commands{why}"
    for (joint, rule), count in sorted(report.clamped.items(), key=lambda clamped: -clamped[1])[:5]:
        yield f"{count:6d} commands of {joint} clamped by {rule}"
