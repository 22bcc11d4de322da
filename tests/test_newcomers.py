"""What people stumbled over who had never seen the program, each as they would meet it."""

import errno
import os
import re
import shlex
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from egorecovery import cli
from egorecovery.cli.console import InertConsole, fitted
from egorecovery.cli.control import Control
from egorecovery.cli.diagnose import MEANING
from egorecovery.cli.evaluate import Evaluate
from egorecovery.cli.inspect import Inspect
from egorecovery.cli.label import expected, tally_table
from egorecovery.cli.main import main
from egorecovery.cli.system_errors import words_of
from egorecovery.cli.training_progress import described
from egorecovery.cli.words import command
from egorecovery.episodes import Source
from egorecovery.episodes.attempt_log import AttemptLog
from egorecovery.errors import RobotError
from egorecovery.evaluation import ResultFile
from egorecovery.experiments import diagnostic_rows
from egorecovery.intent import SourceTally, Verdict
from egorecovery.policy.checkpoint import latest
from egorecovery.serving.metadata import ServerMetadata
from egorecovery.training import METHODS, RECIPES
from egorecovery.training.splits import why_no_scores, with_budget_of_store
from filmed_runs import rollout
from paper_log import write_paper_log
from scripted_server import metadata
from tiny_checkpoint import save_tiny
from training_store import TASK, TINY, training_arguments

GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"


def test_the_first_line_of_a_training_names_method_task_recipe_and_steps():
    for method in METHODS:
        first, on = described(METHODS[method](RECIPES["paper"]("cube_stack"))).splitlines()
        assert first.startswith("Training: ")
        assert first.endswith("; cube stack; recipe paper, 20,000 steps")
        assert len(first) <= 88  # the longest of all breaks once, between words
        assert on.endswith("10 of each held out; pictures 224 x 224")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_progress_line_fits_and_never_ends_within_a_number(width):
    figures = ["loss robot 12.39", "human 10.39", "intent 123.45"]
    line = fitted("Training", "19,950 of 20,000", "steps", ", 59 min left", figures, width)
    assert len(line) <= width
    assert "19,950 of 20,000" in line
    kept = [figure for figure in figures if re.search(rf"{re.escape(figure)}(,|$)", line)]
    assert kept == figures[: len(kept)]
    assert line.count("loss") + line.count("human") + line.count("intent") == len(kept)


def test_at_80_columns_the_worst_progress_line_keeps_the_time_and_two_losses():
    figures = ["loss robot 0.39", "human 0.39", "intent 0.39"]
    line = fitted("Training", "19,950 of 20,000", "steps", ", 59 min left", figures, 80)
    assert line == "Training 19,950 of 20,000, 59 min; loss robot 0.39, human 0.39, intent 0.39"


def test_a_long_name_gives_way_to_the_count():
    line = fitted("Evaluating on a_task_with_a_very_long_name", "12 of 40", "rollouts", "", [], 30)
    assert line == "Evaluating on a_task\N{HORIZONTAL ELLIPSIS} 12 of 40"


def test_evaluate_takes_the_task_from_the_run(tmp_path):
    save_tiny(tmp_path / "run")
    assert Evaluate(checkpoint=tmp_path / "run")._trained_task() == "cube_stack"


def test_evaluate_asks_for_a_task_where_nothing_was_trained(capsys):
    assert main(["evaluate", "hold_still"]) == 2
    assert "hold_still has no task of its own: name one, as in --task cube_stack" in capsys.readouterr().err


def test_control_takes_the_task_from_the_server(tmp_path):
    asked = Control(server="ws://x", limits=tmp_path)
    assert asked._task_of(metadata(task="cup_brush")) == "cup_brush"
    with pytest.raises(RobotError, match="name the task with --task"):
        asked._task_of(metadata())


def test_metadata_of_a_server_that_says_no_task_are_still_understood():
    message = metadata(task="cup_brush").to_message()
    del message["task"]
    assert ServerMetadata.from_message(message).task is None


def test_results_keep_the_name_that_a_policy_has_in_them(tmp_path):
    """A newer version may call it otherwise: its rollouts are not run again for that."""
    save_tiny(tmp_path / "run")
    asked = Evaluate(checkpoint=tmp_path / "run", task="cube_stack", rollouts=1, regime="initial", device="cpu")
    _, subject, _, _ = asked._trained()
    assert subject.policy == "EgoRecovery; cube stack; step 20"
    record = rollout(0, False, policy="", subject=replace(subject, policy="demo cube_stack step 20"))
    ResultFile(tmp_path / "run" / "results.jsonl").append(record)
    assert asked._trained()[1].policy == "demo cube_stack step 20"


def test_a_run_is_shown_in_the_words_of_its_recipe(tmp_path, capsys):
    save_tiny(tmp_path / "my run", step=1200)
    assert main(["inspect", str(tmp_path / "my run")]) == 0
    said = capsys.readouterr().out
    assert "EgoRecovery; cube stack; step 1,200" in said
    assert "trained on 32 robot successes, 24 robot recoveries, 60 human recoveries" in said
    assert "checkpoints: 1,200" in said
    assert f"next: egorecovery evaluate '{tmp_path / 'my run'}'" in said


def test_a_run_with_a_copy_of_a_checkpoint_is_shown_without_the_copy(tmp_path, capsys):
    save_tiny(tmp_path / "run", step=1200)
    checkpoints = tmp_path / "run" / "checkpoints"
    shutil.copytree(checkpoints / "step_00001200", checkpoints / "step_00001200_backup")
    assert latest(checkpoints) == checkpoints / "step_00001200"
    assert main(["inspect", str(tmp_path / "run")]) == 0
    assert "checkpoints: 1,200\n" in capsys.readouterr().out


def test_the_table_of_labels_says_which_counts_are_expected():
    success = SourceTally(labelled=2, frames=Counter({Verdict.OUTSIDE_PHASE: 90}))
    recovery = SourceTally(labelled=2, frames=Counter({Verdict.VALID: 20, Verdict.PADDED: 5}))
    tallies = {Source.ROBOT_SUCCESS: success, Source.ROBOT_RECOVERY: recovery}
    table = tally_table(tallies)
    rows = dict(zip(table.columns[0].cells, zip(*(each.cells for each in table.columns[1:]), strict=True), strict=True))
    assert rows["  none expected"] == ("90", "-")
    assert rows["  with a target"] == ("-", "20")
    assert rows["not annotated"] == ("-", "0")
    said = list(expected(tallies))
    assert said[0].startswith("Expected: successes have no targets")
    assert said[-1].startswith("5 frames of recoveries have no target")
    none = {Source.ROBOT_RECOVERY: SourceTally(labelled=1, frames=Counter({Verdict.STATIONARY: 9}))}
    assert any(words.startswith("Not expected: recoveries, and no target at all") for words in expected(none))


@pytest.mark.parametrize(
    ("given", "trained_on"),
    [
        (["--robot-success", "4"], {"robot_success": 4, "robot_recovery": 4, "human_recovery": 4, "held_out": 0}),
        (["--robot-success", "1"], {"robot_success": 1, "robot_recovery": 3, "human_recovery": 3, "held_out": 1}),
        (["--set", "held_out", "2"], {"robot_success": 2, "robot_recovery": 2, "human_recovery": 2, "held_out": 2}),
    ],
)
def test_an_amount_that_is_given_changes_that_amount_alone(given, trained_on, made_up, tmp_path):
    tiny = {name: value for name, value in TINY.items() if name != "held_out"}
    settings = ["--set", *(text for pair in tiny.items() for text in pair)]
    how = ["train", str(made_up.root), "--task", TASK, "--run", str(tmp_path / "run"), "--device", "cpu"]
    assert main([*how, "--steps", "1", *settings, *given]) == 0
    from egorecovery.policy.checkpoint import open_checkpoint

    recipe = open_checkpoint(tmp_path / "run").recipe
    assert {**recipe["budget"], "held_out": recipe["held_out"]} == {**trained_on, "human_success": 0}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"robot_success": 4},
            "nothing is held out from any source, because --robot-success 4 takes all 4: there will be no held-out "
            "scores; --robot-success 3 leaves 1 for them",
        ),
        ({"robot_success": 3}, None),
        ({"robot_success": 4, "held_out": 0}, None),
        ({}, None),
    ],
)
def test_an_amount_that_leaves_no_episode_for_scores_is_named_with_one_that_does(given, said, made_up):
    asked = METHODS["robot_recovery"](RECIPES["demo"](TASK))
    held_out = given.get("held_out", asked.held_out)
    budget = replace(asked.budget, **{name: count for name, count in given.items() if name != "held_out"})
    assert why_no_scores(replace(asked, held_out=held_out, budget=budget), made_up, list(given)) == said


def test_without_amounts_a_training_takes_all_episodes_also_more_than_its_recipe_has(made_up):
    asked = METHODS["robot_recovery"](RECIPES["demo"](TASK))
    few = replace(asked, held_out=1, budget=replace(asked.budget, robot_success=1, robot_recovery=2))
    fitted = with_budget_of_store(few, made_up)
    assert (fitted.budget.robot_success, fitted.budget.robot_recovery, fitted.held_out) == (3, 3, 1)
    assert with_budget_of_store(few, made_up, ["robot_success"]).budget.robot_success == 1


def test_a_job_goes_on_without_output_when_its_reader_has_seen_enough():
    """As in `train ... | head`, which otherwise would end before its first checkpoint."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as closed:
        on = InertConsole(file=closed)
        on.print("one line")
        on.print("and another")
        assert on.quiet


def test_a_training_says_before_its_first_step_that_there_will_be_no_scores(made_up, tmp_path, capsys):
    tiny = {name: value for name, value in TINY.items() if name != "held_out"}
    settings = ["--set", *(text for pair in tiny.items() for text in pair)]
    how = ["train", str(made_up.root), "--task", TASK, "--run", str(tmp_path / "run"), "--device", "cpu"]
    assert main([*how, "--steps", "1", *settings, "--robot-success", "4"]) == 0
    assert "note: nothing is held out" in capsys.readouterr().err


def test_more_than_there_is_stays_refused(made_up, tmp_path, capsys):
    how = training_arguments(made_up, tmp_path / "run", steps=1)
    assert main([*how, "--robot-success", "5"]) == 2
    assert "asks for 5 robot_success episodes" in capsys.readouterr().err


def test_every_group_of_a_diagnosis_begins_with_a_plain_sentence():
    source = Path(diagnostic_rows.__file__).read_text()
    for group, words in MEANING.items():
        assert f'"{group}' in source
        assert "?" in words


@pytest.mark.parametrize("term", ["AUC", "KS distance", "chance", "hull", "IQR", "rho", "shrink", "W2", "R2", "probe"])
def test_the_terms_of_a_diagnosis_are_in_the_glossary(term):
    assert re.search(rf"^\| [^|]*\b{term}\b", GLOSSARY.read_text(), re.MULTILINE)


def test_an_audit_of_one_task_has_no_average(tmp_path, capsys):
    for folder in ("all", "one"):
        (tmp_path / folder).mkdir()
    write_paper_log(tmp_path / "all" / "collection.jsonl")
    assert main(["audit", str(tmp_path / "all")]) == 0
    assert "average" in capsys.readouterr().out
    log = AttemptLog(tmp_path / "one" / "collection.jsonl")
    for attempt in AttemptLog(tmp_path / "all" / "collection.jsonl").attempts():
        if attempt.task == "cup_brush":
            log.add(attempt)
            break
    assert main(["audit", str(tmp_path / "one")]) == 0
    said = capsys.readouterr().out
    assert "cup_brush" in said
    assert "average" not in said


def test_a_command_that_is_proposed_can_be_copied_whatever_the_path():
    paths = ["my runs/a*", "it's", "-x", "$HOME", "plain"]
    assert shlex.split(command("score", *paths)) == ["egorecovery", "score", *paths]


def test_no_verb_proposes_a_path_without_quoting_it():
    for path in Path(cli.__file__).parent.glob("*.py"):
        raw = re.findall(r"egorecovery [a-z]+ (?:--[a-z]+ )?\{(?!shlex|kind)[^}]*\}", path.read_text())
        assert not raw, f"{path.name}: {raw[0]}: use words.command"


def test_data_of_an_own_task_are_not_proposed_to_be_simulated(tmp_path):
    row = {"source": "human_success", "boundary": None, "discard": False, "labels": "current", "task": "fold_towel"}
    assert Inspect(store=tmp_path)._next([row]).startswith("egorecovery import FOLDER --task fold_towel")
    assert Inspect(store=tmp_path)._next([row | {"task": "cube_stack"}]).startswith("egorecovery simulate")


@pytest.fixture
def there(store, tmp_path):
    """A store and a run side by side, as most have them."""
    save_tiny(tmp_path / "run")
    (tmp_path / "run" / "recipe.json").write_text("{}")
    (tmp_path / "run" / "log.jsonl").write_text('{"step": 1}\n')
    (tmp_path / "empty").mkdir()
    return store.root.rename(tmp_path / "cubes") if store.root != tmp_path / "cubes" else store.root


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["label", "run"], "name the store that it was trained on; beside it is the store cubes"),
        (["label", "empty"], "empty is not an episode store but an empty folder"),
        (["inspect", "cubes/episodes"], "it is part of the store cubes"),
        (
            ["inspect", "run/log.jsonl"],
            "is no result file: 'evaluate' writes those; it is part of the run run",
        ),
        (["inspect", "cubes/store.json"], "cubes/store.json is no result file"),
        (["inspect", "cubes", "--episode", "robot_success-9"], "such as robot_success-0"),
        (["evaluate", "cubes"], "is a store of episodes, not a training run: name the run"),
        (["evaluate", "run/checkpoints/nope"], "run/checkpoints/nope does not exist"),
        (["evaluate", "run/checkpoints"], "it is part of the run run"),
        (["verify", "nowhere"], "nowhere does not exist"),
        (["push", "nowhere", "me/x"], "nowhere does not exist"),
        (["train", "cubes", "--task", "t", "--run", "r", "--set", "zzz", "3"], "a run's recipe.json has all"),
    ],
)
def test_what_was_named_by_mistake_is_recognised(words, said, there, monkeypatch, capsys):
    monkeypatch.chdir(there.parent)
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_what_the_system_refuses_is_said_in_words():
    assert words_of(PermissionError(errno.EACCES, "Permission denied", "out/run")).startswith(
        "out/run: you may not read or write here; choose another folder"
    )
    assert words_of(OSError(errno.ENOSPC, "No space left on device")).startswith("the disk is full; free space")
    assert words_of(OSError(errno.ENOSPC, "in/a.hdf5 cannot grow")).startswith("in/a.hdf5 cannot grow: the disk is")
    assert words_of(OSError(errno.EIO, "Input/output error", "f")) == "f: Input/output error"
    assert words_of(OSError("anything")) == "anything"


def test_an_error_that_names_its_file_in_its_text_alone_keeps_the_text():
    """As h5py's do. Advice on an unnamed file would send the reader to another one."""
    text = "Unable to synchronously open file (unable to open file: name = 'in/a.hdf5', errno = 13)"
    assert words_of(PermissionError(errno.EACCES, text)) == text
    assert words_of(FileNotFoundError(errno.ENOENT, text)) == text
