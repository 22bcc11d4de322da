"""What a terminal of 80 columns shows while an experiment runs."""

import io

from rich.console import Console

from egorecovery.cli.experiment_screen import ExperimentScreen, ended, under_way
from egorecovery.experiments import Event

LONGEST = Event(
    kind="progress",
    what="table_sweep-shared_egorecovery-b50.50.0.300-s2",
    stage="training",
    label="shared_egorecovery",
    task="table_sweep",
    number=10,
    of=36,
    done=6_000,
    total=20_000,
)


def test_names_are_those_of_people_and_fit_beside_nothing_else():
    assert under_way(LONGEST) == "Training 10 of 36: Shared decoder, gate and intent (ours), table sweep, seed 2"
    collecting = Event(kind="progress", what="cube_stack human_recovery", stage="data", task="cube_stack")
    assert under_way(collecting) == "Collecting: cube stack, human recoveries"
    labels = Event(kind="progress", what="cube_stack labels", stage="data", task="cube_stack")
    assert under_way(labels) == "Labelling: cube stack"
    filming = Event(kind="progress", what="a_cell", stage="videos")
    assert under_way(filming) == "Filming: a_cell"


def test_bars_and_counts_fit_into_80_columns_and_end_when_the_work_does():
    terminal = io.StringIO()
    screen = ExperimentScreen(
        Console(file=terminal, force_terminal=True, width=80, height=20), clock=iter(range(100)).__next__
    )
    screen(LONGEST)
    screen(Event(**{**vars(LONGEST), "done": 7_000}))
    drawn = Console(width=80, file=io.StringIO())
    drawn.print(screen._drawn())
    lines = drawn.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith("7,000 of 20,000 steps, 15 s left")
    screen(Event(**{**vars(LONGEST), "done": 20_000}))
    assert not screen._shown


def test_a_failed_cell_says_where_its_error_is():
    failed = Event(kind="failed", what="a-s0", label="egorecovery", task="cube_stack", message="no space", cells_left=1)
    assert ended(failed) == "failed: EgoRecovery, cube stack: no space; a-s0/error.json says more (1 cell left)"


def test_where_lines_cannot_be_redrawn_there_is_one_now_and_then():
    log = io.StringIO()
    times = [0.0]
    screen = ExperimentScreen(Console(file=log, width=80), clock=lambda: times[-1])
    for now_s, done in ((0.0, 0), (1.0, 1_000), (20.0, 2_000)):
        times.append(now_s)
        screen(Event(**{**vars(LONGEST), "done": done}))
    assert len(log.getvalue().splitlines()) == 2
    assert "2,000 of 20,000 steps, 3 min left" in log.getvalue()


def test_films_of_the_next_cell_take_the_place_of_the_last_ones():
    screen = ExperimentScreen(Console(file=io.StringIO(), width=80))
    for cell in ("one", "two"):
        screen(Event(kind="progress", what=cell, stage="videos", done=1, total=2))
    assert list(screen._shown) == ["Filming: two"]
