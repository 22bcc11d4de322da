"""What is told of the time left while an experiment goes on; clocks are made up."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from egorecovery.cli.experiment import PLAIN_LINES_S, Watcher  # noqa: E402 - torch is an extra
from egorecovery.demo import DemoPlan, demo_protocol, demo_suite, usual_timing  # noqa: E402
from egorecovery.experiments import Event, plan_suite, suite_named  # noqa: E402
from egorecovery.experiments.plan import trainings  # noqa: E402
from egorecovery.experiments.resources import Resources  # noqa: E402
from egorecovery.experiments.time_left import Backlog, TimeLeft  # noqa: E402
from egorecovery.experiments.timing import Timing, rollouts, samples  # noqa: E402
from egorecovery.training import RECIPES  # noqa: E402
from tiny_experiment import run_tiny  # noqa: E402

PLAN = plan_suite(suite_named("main"), tasks=["cube_stack"], only=["*-egorecovery-*"], seeds=(0, 1), rollouts=50)
FIRST, SECOND = trainings(PLAN.cells)
RECIPE, TASK = FIRST.recipe, FIRST.recipe.task
STEPS = RECIPE.optimisation.steps


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def watched(clock: Clock, timing: Timing | None = None, elsewhere: Timing | None = None, at_once: int = 1) -> TimeLeft:
    resources = Resources(executor="local", workers=2, device="cpu", trainings_at_once=at_once, schedule={})
    return TimeLeft(timing or Timing(), resources, elsewhere, clock)


def known(data_s: float = 1.0, training_s: float = 100.0, evaluation_s: float = 30.0) -> Timing:
    """Per episode, training and evaluation."""
    timing = Timing()
    timing.took("data", TASK, 10, 10 * data_s)
    timing.took("training", TASK, samples(RECIPE), training_s)
    timing.took("evaluation", TASK, rollouts(PLAN.cells[0]), evaluation_s)
    return timing


def left_s(time_left: TimeLeft, work: Backlog) -> float | None:
    return time_left.outlook(work).left_s


def untrained(*left: tuple) -> Backlog:
    return Backlog(trainings=[(training, int(share * samples(training.recipe))) for training, share in left])


def test_nothing_is_said_before_every_stage_was_begun(clock):
    time_left = watched(clock)
    assert left_s(time_left, untrained((FIRST, 1.0))) is None
    time_left.timing.took("training", TASK, 100, 1.0)
    assert left_s(time_left, untrained((FIRST, 1.0))) is None
    time_left.timing.took("evaluation", TASK, 1, 1.0)
    assert left_s(time_left, untrained((FIRST, 1.0))) is not None
    assert left_s(time_left, Backlog(episodes={"cube_stack": 3})) is None


def test_of_a_first_training_it_is_said_how_long_itself_still_takes(clock):
    time_left = watched(clock)
    for step in range(0, STEPS // 2 + 1, 50):
        here_s = time_left.at_step(FIRST, step)
        clock.now_s += 7.0
    assert here_s == pytest.approx(7.0 * (STEPS // 2) / 50)


def half_a_training(time_left: TimeLeft, clock: Clock, whole_s: float) -> None:
    clock.now_s += 25.0  # to decode pictures
    for step in range(50, STEPS // 2 + 1, 50):
        time_left.at_step(FIRST, step)
        clock.now_s += whole_s * 50 / STEPS


@pytest.mark.parametrize("whole_s", [50.0, 300.0])
def test_halfway_through_a_stage_of_constant_pace_the_time_left_is_right(clock, whole_s):
    timing = Timing()
    timing.took("evaluation", TASK, rollouts(PLAN.cells[0]), 30.0)
    elsewhere = Timing()
    elsewhere.took("training", TASK, samples(RECIPE) // 20, 100.0 / 20)
    time_left = watched(clock, timing, elsewhere)
    half_a_training(time_left, clock, whole_s)
    assert left_s(time_left, untrained((FIRST, 0.5))) == pytest.approx(whole_s / 2 + 30.0, rel=0.05)


def test_where_trainings_are_slower_than_elsewhere_so_will_evaluations_be(clock):
    time_left = watched(clock, elsewhere=known(training_s=100.0, evaluation_s=30.0))
    half_a_training(time_left, clock, 300.0)
    cells = [(FIRST.cells[0], rollouts(FIRST.cells[0]))]
    assert 30.0 < left_s(time_left, Backlog(evaluations=cells)) < 90.0


def test_the_time_left_shrinks_by_what_goes_by_where_all_goes_as_usual(clock):
    time_left = watched(clock, elsewhere=known(data_s=2.0))
    told = []
    for made in range(41):
        time_left.at("data", TASK, made, 40, where=TASK, warm=2)
        work = Backlog(episodes={TASK: 40 - made}, trainings=untrained((FIRST, 1.0)).trainings)
        told.append(left_s(time_left, work) + clock.now_s)
        clock.now_s += 2.0
    assert told == pytest.approx([1000.0 + 80.0 + 100.0 + 30.0] * 41)


def test_what_takes_longer_than_elsewhere_is_seen_before_it_is_done(clock):
    time_left = watched(clock, elsewhere=known())
    for made in range(21):
        time_left.at("data", TASK, made, 40, where=TASK, warm=2)
        clock.now_s += 3.0
    work = Backlog(episodes={TASK: 20})
    assert 20 * 2.0 < left_s(time_left, work) < 20 * 3.0


def test_a_pool_that_starts_slowly_does_not_make_rollouts_look_slow(clock):
    time_left = watched(clock)
    time_left.at("evaluation", "cell", 0, 50, where=TASK, warm=2)
    clock.now_s += 60.0
    for done in range(1, 26):
        here_s = time_left.at("evaluation", "cell", done, 50, where=TASK, warm=2)
        clock.now_s += 1.0
    assert here_s == pytest.approx(25.0)


def test_a_training_that_goes_on_from_its_checkpoint_is_measured_from_there(clock):
    time_left = watched(clock)
    for step in (950, 900, 950, 1000, 1050):  # the log of the last try, then what was saved of it
        here_s = time_left.at_step(FIRST, step)
        clock.now_s += 10.0
    assert here_s == pytest.approx(10.0 * (STEPS - 1050) / 50)


@pytest.mark.parametrize(("at_once", "wanted_s"), [(1, 2 * 100 + 2 * 30), (2, 100 + 2 * 30)])
def test_trainings_side_by_side_take_the_time_of_one_and_evaluations_follow_one_another(clock, at_once, wanted_s):
    time_left = watched(clock, known(), at_once=at_once)
    assert left_s(time_left, untrained((FIRST, 1.0), (SECOND, 1.0))) == pytest.approx(wanted_s)


def test_data_and_films_count(clock):
    time_left = watched(clock, known())
    work = untrained((FIRST, 1.0))
    without_s = left_s(time_left, work)
    assert left_s(time_left, replace(work, episodes={TASK: 20})) == pytest.approx(without_s + 20.0)
    time_left.after_cells("films", 4)
    filming_s = left_s(time_left, work) - without_s
    assert filming_s > 4 * 30.0 / rollouts(PLAN.cells[0])
    time_left.timing.took("films", "", 1, 5.0)
    assert left_s(time_left, work) == pytest.approx(without_s + 4 * 5.0)


def test_diagnostics_are_named_until_it_is_seen_how_long_they_take(clock):
    time_left = watched(clock, known())
    time_left.after_cells("diagnostics", 2)
    ahead = time_left.outlook(untrained((FIRST, 1.0)))
    assert (ahead.left_s, ahead.then) == (pytest.approx(130.0), ("diagnostics",))
    time_left.at("diagnostics", "", 0, 2, where="")
    assert left_s(time_left, Backlog()) is None
    clock.now_s += 40.0
    time_left.at("diagnostics", "", 1, 2, where="")
    time_left.after_cells("diagnostics", 1)
    ahead = time_left.outlook(Backlog())
    assert (ahead.left_s, ahead.then) == (pytest.approx(40.0), ())


def test_the_demo_says_some_twelve_minutes_before_it_begins(clock):
    plan = DemoPlan(
        task="cup_brush", robot_success=32, robot_recovery=24, human_recovery=60, steps=2000, rollouts=30, films=1
    )
    cells = plan_suite(demo_suite(plan), recipe=RECIPES["demo"], protocol=demo_protocol, rollouts=30).cells
    time_left = watched(clock, elsewhere=usual_timing("cup_brush"), at_once=2)
    time_left.after_cells("films", 4)
    work = Backlog(episodes={"cup_brush": 122}, trainings=[(each, samples(each.recipe)) for each in trainings(cells)])
    found_s = left_s(time_left, work)
    assert found_s
    assert 9 * 60 < found_s < 14 * 60


def test_an_experiment_on_a_new_machine_says_how_long_it_takes_from_its_first_evaluation_on(tmp_path):
    told: list[Event] = []
    run_tiny(tmp_path, only=["*robot_success*"], rollouts=4, films=1, on_event=told.append)
    first = next(number for number, event in enumerate(told) if event.left_s is not None)
    assert told[first].stage == "evaluation"
    assert all(event.left_s is not None for event in told[first:])
    assert any(event.here_s for event in told[:first] if event.stage == "training")


def test_without_a_terminal_a_line_appears_now_and_then(clock, capsys):
    with Watcher(clock) as watch:
        for step in range(100):
            watch(Event(kind="progress", what="a-cell", stage="training", done=step, total=99, left_s=400.0 - step))
            clock.now_s += 1.0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == pytest.approx(100 / PLAIN_LINES_S, abs=1)
    assert lines[1] == "about 6 min left: training a-cell, 15 of 99"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"cells_left": 2, "left_s": 33.0}, "about 35 s left, 2 cells: data a-cell, 1 of 2"),
        ({"cells_left": 1, "here_s": 200.0}, "1 cell left: data a-cell, 1 of 2, about 3 min for this"),
        ({"left_s": 9000.0, "then": ("diagnostics",)}, "about 2.5 h left and then diagnostics: data a-cell, 1 of 2"),
    ],
)
def test_a_line_says_what_is_known(clock, capsys, event, line):
    Watcher(clock)(Event(kind="progress", what="a-cell", stage="data", done=1, total=2, **event))
    assert capsys.readouterr().err == f"{line}\n"
