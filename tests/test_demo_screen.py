"""What the demo says while it works, and how long it says it still takes."""

import io

import numpy as np
import pytest
from rich.console import Console

from egorecovery.cli.demo_screen import DemoScreen, duration, said
from egorecovery.cli.live_region import PLAIN_LINES_S
from egorecovery.demo import HUMAN_CLIPS, METHODS, ROBOT_RECOVERY, DemoPlan
from egorecovery.demo.time_left import TimeLeft, Work
from egorecovery.experiments import Event


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def training(method: str, done: int, total: int = 2400) -> Event:
    return Event(kind="progress", what=f"a-{method}", label=method, stage="training", done=done, total=total)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (training(ROBOT_RECOVERY, 20), "Training 2 of 3, with robot recoveries: 20 of 2,400 steps"),
        (
            Event(kind="progress", what="cube_stack human_recovery", stage="data", done=7, total=202),
            "Collecting 3 of 3, human clips: 7 of 202 episodes",
        ),
        (Event(kind="done", what="a-cell", label=HUMAN_CLIPS), "Policy 3 of 3, with human clips: done"),
    ],
)
def test_the_screen_speaks_of_people_s_things(event, words):
    assert said(event) == words


def test_without_a_terminal_a_line_that_fits_80_columns_appears_now_and_then():
    clock, shown = Clock(), io.StringIO()
    with DemoScreen(DemoPlan(), Console(file=shown, width=80, markup=False), clock=clock) as screen:
        for second in range(100):
            clock.now_s = second
            screen(training(ROBOT_RECOVERY, 20 * second // 2, 2400))
    lines = shown.getvalue().splitlines()
    assert len(lines) == pytest.approx(100 / PLAIN_LINES_S, abs=1)
    assert lines[0].startswith("Training 2 of 3, with robot recoveries: 0 of 2,400 steps, about ")
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("slower", [0.7, 1.0, 4.0])
def test_the_time_left_comes_down_to_nothing_and_does_not_jump_about(slower):
    clock, plan = Clock(), DemoPlan()
    left, shown, ended_s = TimeLeft(Work.full(plan), clock), [], 0.0
    rng = np.random.default_rng(0)
    for event, part in every_event(plan):
        clock.now_s += slower * part * rng.uniform(0.5, 1.5) / 2  # two cores
        shown.append((clock.now_s, left.after(event)))
    ended_s = clock.now_s
    ends = np.array([now_s + left_s for now_s, left_s in shown])
    assert np.abs(ends[len(ends) // 2 :] - ended_s).max() < 0.15 * ended_s
    assert np.abs(np.diff(ends)).max() < 0.05 * ended_s
    assert shown[-1][1] < 0.03 * ended_s


def every_event(plan: DemoPlan):
    """A demo from beginning to end, one thing after another, with the work in seconds of one core before each."""
    for part in Work.full(plan).parts:
        count = 40
        for done in range(count + 1):
            what = f"{plan.task} {part.method}" if part.stage == "data" else f"a-{part.method}"
            event = Event(kind="progress", what=what, label=part.method, stage=part.stage, done=done, total=count)
            yield event, (part.seconds / count if done else 0.0)


def test_a_resumed_demo_counts_what_was_done_before():
    clock, plan = Clock(), DemoPlan()
    fresh, resumed = (TimeLeft(Work.full(plan), clock) for _ in range(2))
    assert resumed.after(training(METHODS[0], 1000)) < fresh.after(training(METHODS[0], 0))


@pytest.mark.parametrize(
    ("seconds", "words"), [(4.0, "about 10 s"), (40.0, "about 40 s"), (61.0, "about 1 min"), (700.0, "about 12 min")]
)
def test_durations_are_rounded_as_they_are_known(seconds, words):
    assert duration(seconds) == words
