"""A whole experiment, tiny but real: data, trainings, evaluations, kills, merges, failures."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import av
import pytest

torch = pytest.importorskip("torch")

from attacks import reseal  # noqa: E402
from egorecovery.cli import experiment as experiment_cli  # noqa: E402 - torch is an extra
from egorecovery.cli.main import main  # noqa: E402
from egorecovery.episodes import EpisodeStore, Source  # noqa: E402
from egorecovery.errors import StoreLocked  # noqa: E402
from egorecovery.evaluation import video  # noqa: E402
from egorecovery.experiments import (  # noqa: E402
    Condition,
    ExperimentFolder,
    FolderError,
    Suite,
    merge,
    plan_suite,
    scheduler,
    suites,
    videos,
)
from egorecovery.experiments import data as experiment_data  # noqa: E402
from egorecovery.experiments.cell_card import bound_files  # noqa: E402
from egorecovery.experiments.condition import episodes  # noqa: E402
from egorecovery.experiments.folder import COMPUTED_BY  # noqa: E402
from egorecovery.experiments.training_process import TrainingFailed, TrainingProcess  # noqa: E402
from egorecovery.report import write_report  # noqa: E402
from egorecovery.storage.checksummed_json import read_checksummed  # noqa: E402
from tiny_experiment import CELLS, STEPS, SUITE, protocol, recipe, run_tiny, with_steps  # noqa: E402

TESTS = Path(__file__).parent
OUTCOME = ("outcome", "reason", "start", "duration_s", "gate_trace", "decisions", "subject")


def without_held_out(task):
    return replace(recipe(task), held_out=0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """An experiment that nothing happened to."""
    out = tmp_path_factory.mktemp("whole") / "out"
    outcome = run_tiny(out)
    assert (outcome.failed, sorted(outcome.done)) == ({}, sorted(CELLS.values()))
    return out


@pytest.fixture
def out(whole, tmp_path) -> Path:
    """A copy of the whole one, to do things to."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


@pytest.fixture
def with_data(whole, tmp_path) -> Path:
    """An experiment that has its data and nothing else."""
    shutil.copytree(whole / "data", tmp_path / "fresh" / "data")
    return tmp_path / "fresh"


def results(out: Path, cell: str) -> list[dict]:
    found = ExperimentFolder(out).rollouts(cell).records()
    rows = [record.record() for record in sorted(found, key=lambda record: (record.regime, record.index))]
    return [{name: row[name] for name in OUTCOME} for row in rows]


def files(out: Path) -> dict[str, tuple[int, bytes]]:
    there = [path for path in out.rglob("*") if path.is_file() and path.name != "writer.lock"]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in there}


def test_a_finished_cell_says_what_it_is_and_where_it_came_from(whole):
    folder = ExperimentFolder(whole)
    assert json.loads((whole / "suite.json").read_text()) == {"suite": "tiny", "schema": 1, "computed_by": COMPUTED_BY}
    assert folder.done() == sorted(CELLS.values())
    card = read_checksummed(whole / "cells" / CELLS["closed"] / "cell.json")
    assert card["variant"] == "closed"
    assert card["intervention"] == {"zero_intent": False, "gate": "0"}
    assert card["budget"] == {"robot_success": 1, "robot_recovery": 1, "human_success": 0, "human_recovery": 1}
    assert card["training"]["steps"] == STEPS
    assert "action_error/robot_recovery" in card["training"]["scores"]
    assert card["protocol"]["rollouts"] == 2
    wanted = {"suite", "task", "method", "seed", "recipe", "recipe_hash", "data_hash", "evaluation", "hardware"}
    assert wanted | {"revision", "finished_at", "schema"} <= card.keys()
    assert len(results(whole, CELLS["closed"])) == 4
    assert (whole / "cells" / CELLS["full"] / "log.jsonl").read_text().count("\n") >= STEPS


def test_cells_that_share_a_training_train_once(whole):
    assert len(list((whole / "trainings").iterdir())) == 2
    first, second = (results(whole, CELLS[name])[0]["subject"] for name in ("full", "closed"))
    assert first["policy_hash"] == second["policy_hash"]
    assert results(whole, CELLS["closed"])[0]["gate_trace"][0] == 0
    assert results(whole, CELLS["full"])[0]["gate_trace"][0] != 0


def test_finished_cells_are_left_alone(out):
    before = files(out)
    outcome = run_tiny(out)
    assert (sorted(outcome.there), outcome.done) == (sorted(CELLS.values()), [])
    assert files(out) == before


def test_finished_cells_need_neither_data_nor_checkpoints(out):
    shutil.rmtree(out / "data")
    shutil.rmtree(out / "trainings")
    assert len(run_tiny(out).there) == 3
    assert not (out / "data").exists()


def test_only_chosen_cells_are_run_and_on_the_same_data(with_data, whole):
    outcome = run_tiny(with_data, only=["*robot_success*"])
    assert outcome.done == [CELLS["plain"]]
    assert results(with_data, CELLS["plain"]) == results(whole, CELLS["plain"])


def test_recoveries_from_anywhere_have_a_store_of_their_own_and_staged_cells_do_not_change(tmp_path, whole):
    rows = [
        Condition(method="egorecovery", budget=episodes(1, 1, human_recovery=1), variant="full"),
        Condition(method="robot_recovery", budget=episodes(1, 1), robot_failures="anywhere"),
    ]
    outcome = run_tiny(tmp_path, suite=Suite(name="wide", conditions=tuple(rows), tasks=("cube_stack",)))
    anywhere = "cube_stack-robot_recovery-b1.1.0.0-anywhere-s0"
    assert (sorted(outcome.done), outcome.failed) == (sorted([CELLS["full"], anywhere]), {})
    stored = {store.name: EpisodeStore(store).ids() for store in (tmp_path / "data").iterdir()}
    assert set(stored) == {"cube_stack", "cube_stack-anywhere"}
    assert sum("-wide-" in episode for episode in stored["cube_stack-anywhere"]) == 2  # one to train on, one held out
    assert not any("-wide-" in episode for episode in stored["cube_stack"])
    assert results(tmp_path, CELLS["full"]) == results(whole, CELLS["full"])
    card = ExperimentFolder(tmp_path).card(anywhere)
    assert card
    assert rows[1].fits_card(card)
    assert not rows[0].fits_card(card)


def test_stand_ins_are_trained_on_in_peoples_place(tmp_path):
    row = Condition(method="egorecovery", budget=episodes(1, 1, human_recovery=1), humans="stand_ins")
    outcome = run_tiny(tmp_path, suite=Suite(name="robots", conditions=(row,), tasks=("cube_stack",)))
    [cell] = outcome.done
    assert cell == "cube_stack-egorecovery-b1.1.0.1-stand_ins-s0"
    stored = EpisodeStore(tmp_path / "data" / "cube_stack-stand_ins")
    humans = [name for name in stored.ids() if stored.card(name).source.is_human]
    assert len(humans) == 2  # one to train on, one held out
    assert all("-stand_in-" in name for name in humans)


def test_cards_from_before_there_were_other_ways_to_collect_are_of_the_usual_rows(whole):
    card = ExperimentFolder(whole).card(CELLS["full"])
    assert card
    for name in ("humans", "robot_failures"):
        del card[name]
    assert any(row.fits_card(card) for row in SUITE.conditions)
    assert not any(replace(row, humans="stand_ins").fits_card(card) for row in SUITE.conditions)


def test_cells_make_only_the_data_they_need_and_get_the_same_result(tmp_path, whole):
    run_tiny(tmp_path / "out", only=["*robot_success*"])
    assert results(tmp_path / "out", CELLS["plain"]) == results(whole, CELLS["plain"])
    [store] = (tmp_path / "out" / "data").iterdir()
    assert {EpisodeStore(store).card(name).source for name in EpisodeStore(store).ids()} == {Source.ROBOT_SUCCESS}


def test_more_rollouts_are_added_to_those_there_are(out, whole):
    trained = files(out / "trainings")
    outcome = run_tiny(out, rollouts=3, only=[CELLS["full"]])
    assert outcome.done == [CELLS["full"]]
    more = ExperimentFolder(out).rollouts(CELLS["full"]).records()
    assert len(more) == 6
    assert [row for row in results(out, CELLS["full"]) if row in results(whole, CELLS["full"])] == results(
        whole, CELLS["full"]
    )
    assert files(out / "trainings") == trained
    assert run_tiny(out, rollouts=2).done == []


def test_a_result_of_other_settings_is_refused_not_replaced(out):
    before = files(out)
    with pytest.raises(FolderError, match=r"optimisation.steps: 4 against 9.*'To repeat it'\), or another --out$"):
        run_tiny(out, recipe=with_steps(9))
    with pytest.raises(FolderError, match=r"starts_seed: tests against others"):
        run_tiny(out, starts_seed="others")
    with pytest.raises(FolderError, match="holds the suite 'tiny'"):
        run_tiny(out, suite=Suite(name="other", conditions=SUITE.conditions, tasks=SUITE.tasks))
    assert files(out) == before


def test_a_store_with_more_episodes_than_were_ordered_is_refused(with_data):
    smaller = Suite(name="tiny", conditions=(Condition(method="robot_success", budget=episodes(1)),), tasks=SUITE.tasks)
    [message] = run_tiny(with_data, suite=smaller, recipe=without_held_out).failed.values()
    assert "1 episodes that this experiment did not order" in message  # of its source; the others are not drawn from


def test_a_store_with_episodes_of_sources_that_nobody_asks_for_will_do(with_data, whole):
    alone = Suite(name="alone", conditions=(Condition(method="robot_success", budget=episodes(1)),), tasks=SUITE.tasks)
    outcome = run_tiny(with_data, suite=alone)
    assert (outcome.done, outcome.failed) == ([CELLS["plain"]], {})
    assert results(with_data, CELLS["plain"]) == results(whole, CELLS["plain"])


def test_a_store_of_other_rooms_is_refused(with_data):
    def in_a_plain_room(task):
        return replace(protocol(task), varied_appearance=False)

    messages = run_tiny(with_data, protocol=in_a_plain_room).failed.values()
    assert len(messages) == len(CELLS)
    assert all("collected in rooms that change, this experiment wants a plain room" in each for each in messages)


def test_work_of_an_older_version_or_of_an_experiment_under_way_is_refused(with_data, tmp_path):
    (with_data / "work.json").write_text('{"computed_by": 1}')
    with pytest.raises(FolderError, match=r"made by version 1 .*use another --work"):
        run_tiny(tmp_path / "out", work=with_data)
    (with_data / "work.json").unlink()
    other = ExperimentFolder.create(tmp_path / "other", "other", with_data)
    with other.lock(), pytest.raises(StoreLocked):
        run_tiny(tmp_path / "second", work=with_data)


def test_suites_share_data_and_trainings_and_the_second_trains_only_what_is_new(with_data, tmp_path, whole):
    work = with_data.rename(tmp_path / "work")
    run_tiny(tmp_path / "first", work=work, only=[CELLS["full"]])
    trained = files(work / "trainings")
    rows = (*SUITE.conditions, Condition(method="robot_recovery", budget=episodes(1, 1)))
    outcome = run_tiny(tmp_path / "second", work=work, suite=Suite(name="second", conditions=rows, tasks=SUITE.tasks))
    assert (len(outcome.done), outcome.failed) == (4, {})
    assert {path: data for path, data in files(work / "trainings").items() if path in trained} == trained
    assert len(list((work / "trainings").iterdir())) == 3
    for out in (tmp_path / "first", tmp_path / "second"):
        assert results(out, CELLS["full"]) == results(whole, CELLS["full"])
        assert not (out / "data").exists()


@pytest.mark.slow
@pytest.mark.fault
def test_an_experiment_killed_at_every_stage_ends_in_the_same_results(tmp_path, whole):
    out = tmp_path / "out"
    paths = os.pathsep.join([str(TESTS), *sys.path])  # of the project that this test is of
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    for stage, progress in (("data", 1), ("training", 3), ("evaluation", 1)):
        command = [sys.executable, str(TESTS / "tiny_experiment.py"), str(out), stage, str(progress)]
        killed = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert ExperimentFolder(out).done() == []
    assert len(ExperimentFolder(out).rollouts(CELLS["full"]).records()) == 1
    outcome = run_tiny(out)
    assert sorted(outcome.done) == sorted(CELLS.values())
    for cell in CELLS.values():
        assert results(out, cell) == results(whole, cell)


def test_a_failing_cell_is_recorded_and_the_others_go_on(with_data, monkeypatch, whole):
    really = scheduler.run_training

    def training(job, *watched, **asked):
        if job.recipe.policy.correction is not None:
            raise ZeroDivisionError("the loss fell into a hole")
        really(job, *watched, **asked)

    monkeypatch.setattr(scheduler, "run_training", training)
    outcome = run_tiny(with_data)
    assert outcome.exit_code == 1
    assert outcome.done == [CELLS["plain"]]
    assert sorted(outcome.failed) == sorted([CELLS["full"], CELLS["closed"]])
    record = json.loads((with_data / "cells" / CELLS["full"] / "error.json").read_text())
    assert record["stage"] == "training"
    assert record["error"] == "ZeroDivisionError: the loss fell into a hole"
    monkeypatch.undo()
    assert sorted(run_tiny(with_data).done) == sorted([CELLS["full"], CELLS["closed"]])
    assert not (with_data / "cells" / CELLS["full"] / "error.json").exists()
    assert results(with_data, CELLS["full"]) == results(whole, CELLS["full"])


def test_data_that_cannot_be_made_fails_its_cells_once(tmp_path, monkeypatch):
    tries = []

    def provide(*_, **__):
        tries.append(1)
        raise OSError("no space")

    monkeypatch.setattr(experiment_data, "provide", provide)
    outcome = run_tiny(tmp_path / "out")
    assert len(outcome.failed) == 3
    assert len(tries) == 1


class Endless(TrainingProcess):
    """Trains until it is stopped; no process is behind it."""

    stopped = False

    def __init__(self, *_):
        pass

    def step(self):
        return 0

    def ended(self):
        return False

    def stop(self):
        pass


def test_the_next_tasks_data_is_made_while_trainings_are_under_way(tmp_path, monkeypatch):
    made = []

    class Patient(Endless):
        """Trains until there is data of both tasks, and fails."""

        def ended(self):
            return len(made) == 2

        def require_success(self):
            raise TrainingFailed("seen enough")

    monkeypatch.setattr(experiment_data, "provide", lambda root, *_, **__: made.append(root.name))
    monkeypatch.setattr(scheduler, "TrainingProcess", Patient)
    outcome = run_tiny(tmp_path / "out", tasks=("cube_stack", "cup_brush"), trainings_at_once=2, budget_minutes=0.5)
    assert made == ["cube_stack", "cup_brush"]
    assert (len(outcome.failed), outcome.left) == (6, [])


def test_data_that_fails_while_others_train_fails_its_cells_though_time_runs_out(tmp_path, monkeypatch):
    def provide(root, *_, **__):
        if root.name == "cup_brush":
            raise OSError("no space")

    monkeypatch.setattr(experiment_data, "provide", provide)
    monkeypatch.setattr(scheduler, "TrainingProcess", Endless)
    outcome = run_tiny(tmp_path / "out", tasks=("cube_stack", "cup_brush"), trainings_at_once=2, budget_minutes=0.03)
    assert sorted(outcome.left) == sorted(CELLS.values())
    assert {cell.split("-")[0] for cell in outcome.failed} == {"cup_brush"}
    assert len(outcome.failed) == 3
    assert outcome.exit_code == 1


def test_trainings_in_processes_of_their_own_give_the_same_results_and_one_may_fail(with_data, whole):
    [plain] = plan_suite(SUITE, recipe=recipe, only=["*robot_success*"]).cells
    (with_data / "trainings" / plain.training_id).mkdir(parents=True)
    (with_data / "trainings" / plain.training_id / "checkpoints").write_text("in the way")
    outcome = run_tiny(with_data, trainings_at_once=2)
    assert "is a file, wanted a folder" in outcome.failed[CELLS["plain"]]
    assert sorted(outcome.done) == sorted([CELLS["full"], CELLS["closed"]])
    for cell in outcome.done:
        assert results(with_data, cell) == results(whole, cell)


@pytest.mark.fault
def test_a_training_process_is_told_to_save_and_stop_when_its_parent_is_gone():
    module = "egorecovery.experiments.training_process"
    code = f"import signal; from {module} import _stop_with_parent; _stop_with_parent(); signal.pause()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    child.stdin.close()  # as the system does for a process that was killed
    assert child.wait(60) == -signal.SIGTERM  # which a training takes note of, saves and stops


def test_no_cell_is_started_without_time_and_nothing_is_lost(with_data, whole):
    outcome = run_tiny(with_data, budget_minutes=0.0)
    assert sorted(outcome.left) == sorted(CELLS.values())
    assert outcome.exit_code == 0


def test_time_that_runs_out_stops_a_training_which_then_goes_on(with_data, whole, monkeypatch):
    clock, late_s = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock() + late_s[0])

    def watch(event):
        if event.stage == "training" and event.done == 2:
            late_s[0] = 1e6

    outcome = run_tiny(with_data, budget_minutes=1.0, on_event=watch)
    assert sorted(outcome.left) == sorted(CELLS.values())
    monkeypatch.undo()
    run_tiny(with_data)
    assert results(with_data, CELLS["full"]) == results(whole, CELLS["full"])


def test_two_runs_at_once_in_one_folder_are_refused(out):
    with ExperimentFolder(out).lock(), pytest.raises(Exception, match="is being written by"):
        run_tiny(out)


def test_folders_of_two_machines_merge(out, tmp_path):
    other = Path(shutil.copytree(out, tmp_path / "other"))
    shutil.rmtree(out / "cells" / CELLS["plain"])
    shutil.rmtree(other / "cells" / CELLS["full"])
    for folder, files in ((out, ("gate.png",)), (other, ("gate.png", "diagnostics.json"))):  # one is not finished
        (folder / "diagnostics" / "cube_stack").mkdir(parents=True)
        for name in files:
            (folder / "diagnostics" / "cube_stack" / name).write_text(folder.name)
    (other / "diagnostics" / "cube_stack" / "diagnostics.json").write_text('{"figures": {"gate": "gate.png"}}')
    assert merge([out, other], tmp_path / "merged") == sorted(CELLS.values())
    assert (tmp_path / "merged" / "diagnostics" / "cube_stack" / "gate.png").read_text() == "other"
    shutil.rmtree(tmp_path / "merged" / "diagnostics")
    assert merge([out, other], tmp_path / "merged") == []
    assert len(run_tiny(tmp_path / "merged").there) == 3


def test_cells_copied_by_hand_are_a_merge_too(out, tmp_path):
    shutil.copytree(out / "cells", tmp_path / "copied" / "cells")
    assert len(run_tiny(tmp_path / "copied").there) == 3


def test_a_merge_of_different_results_is_refused(out, tmp_path):
    other = Path(shutil.copytree(out, tmp_path / "other"))
    rollouts = other / "cells" / CELLS["full"] / "rollouts.jsonl"
    rollouts.write_bytes(b"".join(rollouts.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(FolderError, match="has different results"):
        merge([other], out)
    (other / "suite.json").write_text(json.dumps({"suite": "other", "schema": 1, "computed_by": COMPUTED_BY}))
    with pytest.raises(FolderError, match="holds the suite"):
        merge([other], out)


def test_a_damaged_card_is_named(out):
    path = out / "cells" / CELLS["full"] / "cell.json"
    path.write_bytes(path.read_bytes().replace(b'"seed":0', b'"seed":1', 1))
    with pytest.raises(FolderError, match="is damaged"):
        run_tiny(out)


@pytest.fixture
def tiny_verb(monkeypatch):
    """`egorecovery experiment main` with the tiny suite and recipe in the paper's place."""
    monkeypatch.setitem(suites.SUITES, "main", Suite(name="tiny", conditions=SUITE.conditions, tasks=SUITE.tasks))
    choices = {"recipe": recipe, "protocol": protocol}
    really = experiment_cli.Experiment._chosen
    monkeypatch.setattr(experiment_cli.Experiment, "_chosen", lambda self: {**really(self), **choices})


def test_the_verb_runs_a_suite_and_shows_it_beside_the_papers(out, tiny_verb, capsys):
    shutil.rmtree(out / "cells" / CELLS["plain"])
    command = ["experiment", "main", "--out", str(out), "--rollouts", "2", "--starts-seed", "tests", "--device", "cpu"]
    assert main([*command, "--list"]) == 0
    listed = capsys.readouterr().out
    assert f"to do  {CELLS['plain']}" in listed
    assert f"done   {CELLS['full']}" in listed
    assert "2 of 3 cells done; 2 trainings" in listed
    assert f"next: egorecovery {' '.join(command)}" in listed
    assert main([*command[:-3], "others", "--list"]) == 0
    listed = capsys.readouterr().out
    assert f"done, with other settings {CELLS['full']}" in listed
    assert "0 of 3 cells done" in listed
    assert f"next: give the options that it was made with ({out / 'report.md'}, 'To repeat it'), or another" in listed
    assert main([*command, "--workers", "1", "--films", "1"]) == 0
    shown = capsys.readouterr()
    assert "cells: 1 done, 2 were there, 0 failed" in shown.out
    assert f"next: open {out / 'report.html'} in a browser" in shown.out
    assert "tiny: success from failures, percent" in shown.out
    assert re.search(r"Robot success +0\.0 +0 to 66", shown.out)
    assert "done: Robot success, cube stack (0 cells left)" in shown.err
    assert f"report: {out / 'report.html'}" in shown.out
    assert f"films of {CELLS['plain']}: 2 made, 0 there already: " in shown.out


def test_the_verb_merges_folders_into_a_report_and_runs_nothing(out, tmp_path, tiny_verb, capsys):
    shutil.rmtree(out / "cells" / CELLS["plain"])
    merged = tmp_path / "merged"
    assert main(["experiment", "main", "--out", str(merged), "--merge", str(out)]) == 0
    said = capsys.readouterr().out
    assert "2 cells copied" in said
    assert f"next: open {merged / 'report.html'} in a browser" in said
    assert sorted(ExperimentFolder(merged).done()) == sorted([CELLS["full"], CELLS["closed"]])
    assert not (merged / "data").exists()


def test_a_merge_of_nothing_names_no_report(out, tmp_path, tiny_verb, capsys):
    shutil.rmtree(out / "cells")
    merged = tmp_path / "merged"
    assert main(["experiment", "main", "--out", str(merged), "--merge", str(out)]) == 0
    said = capsys.readouterr().out
    assert "0 cells copied" in said
    assert f"next: egorecovery experiment main --out {merged}\n" in said


def test_cells_of_another_suite_or_version_are_not_merged(out, tmp_path, tiny_verb, capsys):
    assert main(["experiment", "ablation", "--out", str(tmp_path / "merged"), "--merge", str(out)]) == 2
    assert "holds the suite 'tiny', not 'ablation'" in capsys.readouterr().err
    card = json.loads((out / "suite.json").read_text())
    (out / "suite.json").write_text(json.dumps({**card, "computed_by": 1}))
    assert main(["experiment", "main", "--out", str(tmp_path / "merged"), "--merge", str(out)]) == 2
    assert "was made by version 1 of workcell and policy" in capsys.readouterr().err
    assert not (tmp_path / "merged").exists()


def test_the_verb_says_that_a_suite_is_not_built(tmp_path, capsys):
    assert main(["experiment", "clutter_ood", "--out", str(tmp_path / "out")]) == 2
    assert "known but not built" in capsys.readouterr().err


# Films


def films(out: Path, cell: str) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "cells" / CELLS[cell] / "films").iterdir()}


def film_one(out: Path) -> str:
    """Of each regime, of one cell; what is said of it."""
    return run_tiny(out, only=[CELLS["plain"]], films=1).filmed[CELLS["plain"]]


def rewrite(out: Path, cell: str, **changes) -> None:
    """Rollouts that are on record as something else."""
    results = ExperimentFolder(out).rollouts(CELLS[cell])
    records = results.records()
    results.path.unlink()
    results.append_all([replace(record, **changes) for record in records])
    card = ExperimentFolder(out).cell(CELLS[cell]) / "cell.json"
    reseal(card, lambda record: record.update(files=bound_files(card.parent)))


def test_every_row_is_filmed_once_as_it_is_on_record_and_the_report_shows_it(out):
    stages = []
    outcome = run_tiny(out, films=1, on_event=lambda event: stages.append((event.stage, event.done, event.total)))
    assert stages == [("videos", 0, 2), ("videos", 1, 2)] * 3
    for name, cell in CELLS.items():
        home = out / "cells" / cell / "films"
        assert outcome.filmed[cell] == f"2 made, 0 there already: {home}"
        [initial, recovery] = sorted(home.iterdir())
        record = next(
            record
            for record in ExperimentFolder(out).rollouts(cell).records()
            if (record.regime, record.index) == ("recovery", 0)
        )
        assert initial.name == "initial_000_failure.mp4"
        assert recovery.name == f"recovery_000_{record.mode}_failure.mp4"
        with av.open(str(recovery)) as container:
            pictures = sum(1 for _ in container.decode(video=0))
        assert pictures == round(25 * record.duration_s) + 38, name  # the last one stays for a moment
        assert not (home.parent / ".filming").exists()
    html = write_report(out).html.read_text()
    assert html.count("<video") == 6
    assert f"recovery start 0, {record.mode}: failure<" in html
    before = [films(out, name) for name in CELLS]
    again = run_tiny(out, films=1)
    assert [films(out, name) for name in CELLS] == before
    assert all(words.startswith("0 made, 2 there already") for words in again.filmed.values())


def test_one_start_of_every_failure_mode_is_filmed_before_a_second_of_any(whole):
    [record, *_] = ExperimentFolder(whole).rollouts(CELLS["full"]).records()
    modes = ["fallen", "fallen", "held", "fallen", "held"]
    records = [replace(record, index=index, start={"mode": mode}) for index, mode in enumerate(modes)]
    assert [record.index for record in videos.chosen(records[::-1], 9)] == [0, 2, 1, 4, 3]
    assert [record.index for record in videos.chosen(records, 1)] == [0]


def test_of_several_seeds_the_first_that_is_done_is_filmed(whole):
    cells = plan_suite(SUITE, seeds=(1, 0), recipe=recipe, protocol=protocol, rollouts=2, starts_seed="tests").cells
    assert sorted(plan.id for plan in videos.one_seed(cells, ExperimentFolder(whole))) == sorted(CELLS.values())


def test_a_film_that_does_not_go_as_its_rollout_did_says_so(out):
    rewrite(out, "plain", outcome="success")
    unlike = "initial_000_failure.mp4 is not as on record"
    assert f"{unlike}: failure after 1.0 s, on record success after 1.0 s" in film_one(out)
    assert f"{unlike}, which says success" in film_one(out)
    assert "initial start 0: failure, but on record success" in write_report(out).html.read_text()


def test_a_film_is_whole_or_not_there(out, monkeypatch):
    really, home = video.frames, out / "cells" / CELLS["plain"] / "films"

    def interrupted(*told):
        yield next(really(*told))
        raise KeyboardInterrupt

    monkeypatch.setattr(video, "frames", interrupted)
    with pytest.raises(KeyboardInterrupt):
        film_one(out)
    assert not home.exists()
    monkeypatch.undo()
    (home.parent / ".filming").mkdir()
    (home.parent / ".filming" / "draft.mp4").write_bytes(b"what a kill leaves")
    assert film_one(out).startswith("2 made")
    assert not (home.parent / ".filming").exists()


def test_a_film_that_fails_costs_neither_the_others_nor_the_results(out, monkeypatch):
    really = videos.render_video

    def failing(job, *told, **more):
        if job.regime == "initial":
            raise OSError("no space")
        return really(job, *told, **more)

    monkeypatch.setattr(videos, "render_video", failing)
    words = film_one(out)
    assert words.startswith("1 made, 0 there already")
    assert words.endswith("initial_000 not made: OSError: no space")


def test_without_an_encoder_films_are_left_out_and_it_is_said_why(out, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    outcome = run_tiny(out, films=1)
    assert outcome.exit_code == 0
    assert len(outcome.there) == 3
    assert all("not made: filming needs PyAV and Pillow" in words for words in outcome.filmed.values())


def test_films_are_left_for_want_of_time(out):
    outcome = run_tiny(out, only=[CELLS["plain"]], films=1, budget_minutes=0.0)
    assert outcome.filmed[CELLS["plain"]].endswith("2 left for want of time")


def test_a_policy_that_is_not_there_or_is_another_is_not_filmed(out):
    rewrite(
        out,
        "full",
        subject=replace(ExperimentFolder(out).rollouts(CELLS["full"]).records()[0].subject, policy_hash="0"),
    )
    assert "is not the policy that was evaluated" in run_tiny(out, films=1, only=[CELLS["full"]]).filmed[CELLS["full"]]
    shutil.rmtree(out / "trainings")
    assert "has no checkpoint" in film_one(out)


def test_films_are_put_aside_with_the_rollouts_that_they_show(out):
    film_one(out)
    folder = ExperimentFolder(out)
    [plan] = plan_suite(SUITE, recipe=recipe, protocol=protocol, starts_seed="tests", only=[CELLS["plain"]]).cells
    [record, *_] = folder.rollouts(plan.id).records()
    folder.begin_rollouts(plan, replace(record.subject, policy_hash="of another training"))
    assert not (folder.cell(plan.id) / "films").exists()
    assert len(list((folder.cell(plan.id) / f"films.{record.subject.policy_hash[:8]}").iterdir())) == 2
