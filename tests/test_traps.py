"""Plausible mistakes: each message says what is wrong and what to do, and what it suggests works as it is written."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from egorecovery.cli.extras import EXTRAS
from egorecovery.cli.main import main, parse
from egorecovery.episodes import PAPER_TASKS, EpisodeStore, Source
from egorecovery.intent import label_store
from egorecovery.policy.checkpoint import open_checkpoint
from making import make_episode
from tiny_checkpoint import save_tiny
from training_store import PIXELS, TASK, TINY, annotate, made_up_episode, training_arguments

HERE = Path(__file__).parent
TINY_OF_ANY_SIZE = {name: value for name, value in TINY.items() if name not in ("policy.image_size", "held_out")}


def settings(values) -> list[str]:
    return ["--set", *(text for pair in values.items() for text in pair)]


def train(store, run, *more) -> list[str]:
    return ["train", str(store.root), "--run", str(run), "--device", "cpu", "--steps", "2", *more]


def recipe_of(run: Path) -> dict:
    return json.loads((run / "recipe.json").read_text())


def test_a_policy_takes_pictures_of_the_size_that_the_store_has(made_up, tmp_path, capsys):
    assert main(train(made_up, tmp_path / "run", "--task", TASK, *settings(TINY_OF_ANY_SIZE))) == 0
    assert recipe_of(tmp_path / "run")["policy"]["image_size"] == PIXELS
    assert f"pictures {PIXELS} x {PIXELS}" in capsys.readouterr().out


def test_without_a_word_on_budgets_a_small_store_is_used_whole_and_that_is_said(made_up, tmp_path, capsys):
    assert main(train(made_up, tmp_path / "run", "--task", TASK, *settings(TINY_OF_ANY_SIZE))) == 0
    assert "on 3 robot successes, 3 robot recoveries, 3 human recoveries; 1 of each" in capsys.readouterr().out
    assert recipe_of(tmp_path / "run")["held_out"] == 1


def test_a_budget_that_was_asked_for_is_refused_with_options_that_work(made_up, tmp_path, capsys):
    asked = train(made_up, tmp_path / "run", "--task", TASK, "--recipe", "demo")
    assert main([*asked, *settings(TINY_OF_ANY_SIZE)]) == 2
    said = capsys.readouterr().err
    better = shlex.split(re.search(r"train on fewer with (--[^\n]*)", said)[1])
    assert main([*asked, *settings(TINY_OF_ANY_SIZE), *better]) == 0


def test_resuming_needs_neither_task_nor_recipe_nor_settings(made_up, tmp_path):
    run = tmp_path / "run"
    assert main(training_arguments(made_up, run, {"policy.width": "16"}, steps=3, method="shared_decoder")) == 2
    assert main(training_arguments(made_up, run, {"policy.width": "16"}, steps=3, save_every=2)) == 0
    before = open_checkpoint(run).recipe
    assert main(["train", str(made_up.root), "--run", str(run), "--device", "cpu", "--resume"]) == 0
    assert open_checkpoint(run).recipe == before


def test_resuming_what_was_never_begun_says_so(made_up, tmp_path, capsys):
    assert main(["train", str(made_up.root), "--run", str(tmp_path / "rum"), "--resume"]) == 2
    assert "rum is no training run to go on with: check --run" in capsys.readouterr().err
    assert not (tmp_path / "rum").exists()


def test_resuming_with_an_option_that_contradicts_the_run_is_refused(made_up, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(training_arguments(made_up, run, steps=2)) == 0
    resumed = ["train", str(made_up.root), "--run", str(run), "--device", "cpu", "--resume"]
    assert main([*resumed, "--steps", "4"]) == 2
    assert "leave these options out" in capsys.readouterr().err
    assert main([*resumed, "--method", "robot_recovery"]) == 2
    assert main([*resumed, "--task", "cup_brush"]) == 2


@pytest.mark.parametrize(
    "refused",
    [
        ["--task", "cube_stak"],
        ["--task", TASK, "--recipe", "bench"],
        ["--task", TASK, "--set", "policy.image_size", "64"],
        ["--task", TASK, "--set", "policy.vision.norm", "frozen_batch", "policy.vision.pretrained", "/nowhere"],
        ["--task", TASK, "--probe", "nowhere"],
        [],
    ],
)
def test_a_refused_training_leaves_no_folder(refused, made_up, tmp_path):
    assert main(train(made_up, tmp_path / "run", *refused)) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_mistyped_task_is_not_taken_for_an_empty_budget(made_up, tmp_path, capsys):
    assert main(train(made_up, tmp_path / "run", "--task", "cube_stak")) == 2
    assert f"did you mean --task {TASK}?" in capsys.readouterr().err


def test_what_is_not_labelled_is_labelled_first_not_collected(tmp_path, capsys):
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        for source in Source:
            writer.add(made_up_episode(source, 0))
    assert main(train(store, tmp_path / "run", "--task", TASK)) == 2
    assert f"run 'egorecovery annotate {store.root}' and 'egorecovery label {store.root}'" in capsys.readouterr().err
    annotate(store, 25)
    assert main(train(store, tmp_path / "run", "--task", TASK)) == 2
    assert f"run 'egorecovery label {store.root}' first" in capsys.readouterr().err


def test_a_store_takes_pictures_of_one_size_per_task(tmp_path, capsys):
    out = ["--out", str(tmp_path / "store"), "--workers", "1", "--episodes", "1"]
    simulate = ["simulate", "--task", "cube_stack", "--source", "human_recovery", *out]
    assert main([*simulate, "--image-size", "32"]) == 0
    assert main([*simulate, "--image-size", "48", "--seed", "1"]) == 2
    assert "make it with --image-size 32, or name another store with --out" in capsys.readouterr().err
    assert main([*simulate, "--image-size", "48"]) == 2  # nothing is left to make, but not what is asked for
    assert "has 1 episode of cube_stack with pictures of 32 x 32, not 48 x 48" in capsys.readouterr().err
    assert main([*simulate, "--image-size", "32", "--seed", "1"]) == 0
    assert len(EpisodeStore(tmp_path / "store")) == 2


def test_one_damaged_episode_hides_no_other_from_inspect(store, capsys):
    damaged, *others = store.ids()
    header = store.root / "episodes" / damaged / "episode.zarr" / "cameras" / "head" / "offsets" / "zarr.json"
    header.write_bytes(header.read_bytes()[:-50])
    assert main(["inspect", str(store.root)]) == 1
    output = capsys.readouterr()
    assert damaged in output.err
    assert all(other in output.out for other in others)


def test_a_damaged_episode_keeps_nobody_from_adding_others(store):
    damaged = store.root / "episodes" / store.ids()[0] / "episode.zarr" / "zarr.json"
    damaged.write_bytes(damaged.read_bytes()[:-50])
    with store.writing() as writer:
        writer.add(make_episode("later"))
    assert "later" in store


def test_another_task_may_have_pictures_of_another_size(tmp_path):
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        writer.add(make_episode("one", task=PAPER_TASKS["cup_brush"]))
        writer.add(made_up_episode(Source.ROBOT_SUCCESS, 0))
    assert len(store) == 2


def test_an_option_with_several_values_may_be_repeated():
    once = parse(["train", "s", "--run", "r", "--set", "held_out", "2", "seed", "3"])
    twice = parse(["train", "s", "--set", "held_out", "2", "--run", "r", "--set", "seed", "3"])
    assert once == twice
    assert once.set == {"held_out": "2", "seed": "3"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["label", "nowhere"], "does not exist"),
        (["label", "run"], "but a training run: name the store that it was trained on; beside it is the store store"),
        (["inspect", "run"], "'egorecovery train STORE --run run --resume' trains on"),
        (["label", "."], "is not an episode store: name one; in that folder: the store store"),
        (
            ["evaluate", "store", "--task", "cube_stack"],
            "is a store of episodes, not a training run: name the run",
        ),
        (["evaluate", "nowhere", "--task", "cube_stack"], "nowhere does not exist"),
        (["import", "nowhere", "--out", "x"], "nowhere does not exist"),
        (["import", "store", "--out", "x"], "it is a store already"),
        (["import", "aloha", "--out", "x"], "add --format aloha"),
        (["inspect", "store", "--rerun", "x.rrd"], "name it with --episode"),
        (["inspect", "store", "--rollout", "0"], "--rollout shows one of a file of results"),
        (["push", "nowhere", "me/x"], "nowhere does not exist"),
        (["push", "store", "cubes"], "write NAME/REPOSITORY"),
        (["pull", "me/cubes/main", "--out", "x"], "write NAME/REPOSITORY"),
        (["train", "store", "--run", "x"], "as in --task cube_stack"),
        (["train", "store", "--task", "cube_stack", "--run", "store"], "--run store is a store of episodes"),
        (["watch", "store"], "is a store of episodes: 'egorecovery annotate store'"),
        (["score", "store"], "is a store of episodes; name a run that was evaluated"),
        (["evaluate", "hold_still", "--task", "cube_stack", "--out", "run"], "such as run/results.jsonl"),
        (["diagnose", "store", "--task", "cube_stack", "--out", "store/store.json"], "store/store.json is a file"),
        (["control", "--server", "ws://x", "--task", "cube_stack", "--limits", "run"], "--limits names a file"),
        (["helpme"], "there is no verb 'helpme'; one of demo"),
    ],
)
def test_what_lies_there_instead_is_named(arguments, said, store, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text("{}")
    (tmp_path / "aloha").mkdir()
    (tmp_path / "aloha" / "episode_0.hdf5").touch()
    assert main(arguments) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_an_empty_store_says_how_to_fill_it(tmp_path, capsys):
    EpisodeStore.create(tmp_path / "store")
    assert main(["inspect", str(tmp_path / "store")]) == 0
    following = capsys.readouterr().out.partition("next: egorecovery ")[2]
    parse(shlex.split(following))  # understood as it is written


def test_what_inspect_suggests_next_is_what_the_store_lacks(tmp_path, capsys):
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        for source in Source:
            writer.add(made_up_episode(source, 0))
    for wanted, done in (
        ("annotate", lambda: annotate(store, 25)),
        ("label", lambda: label_store(store)),
        ("train", None),
    ):
        assert main(["inspect", str(store.root)]) == 0
        following = capsys.readouterr().out.partition("next: egorecovery ")[2]
        assert following.startswith(wanted)
        parse(shlex.split(following))
        if done:
            done()


def test_results_go_into_the_run_that_is_evaluated():
    where = {
        "run": "run/results.jsonl",
        "run/checkpoints/step_00000020": "run/results.jsonl",
        "hold_still": "hold_still/results.jsonl",
    }
    for evaluated, results in where.items():
        assert parse(["evaluate", evaluated, "--task", TASK]).results == Path(results)


def test_results_never_go_into_a_checkpoint_where_they_would_be_damage(tmp_path, monkeypatch):
    step = save_tiny(tmp_path / "run", step=20)
    monkeypatch.chdir(step.parent)
    assert parse(["evaluate", step.name, "--task", TASK]).results == tmp_path / "run" / "results.jsonl"
    alone = shutil.copytree(step, tmp_path / "policy")
    monkeypatch.chdir(tmp_path)
    assert parse(["evaluate", "policy", "--task", TASK]).results == Path("policy_results.jsonl")
    monkeypatch.chdir(alone)
    assert parse(["evaluate", ".", "--task", TASK]).results == tmp_path / "policy_results.jsonl"


def test_an_extra_that_is_not_installed_is_named_by_every_verb_that_needs_it(made_up, tmp_path):
    made, needed = str(made_up.root), {"policy", "formats", "studio", "serving", "onnx", "hub", "wandb", "rerun"}
    episode = made_up.ids()[0]
    verbs = {
        ("train", made, "--task", TASK, "--run", "x"): "policy",
        ("bench",): "policy",
        ("demo", "--out", "x"): "policy",
        ("demo", "--quick", "--out", "x"): "policy",
        ("evaluate", "run", "--task", TASK): "policy",
        ("diagnose", made, "--task", TASK): "policy",
        ("experiment", "main", "--out", "x"): "policy",
        ("verify", "run"): "policy",
        ("export", "lerobot", made, "--out", "x"): "formats",
        ("export", "onnx", "run", "--out", "x"): "onnx",
        ("import", "x", "--format", "lerobot", "--task", TASK, "--source", "robot_success"): "formats",
        ("annotate", made, "--no-browser"): "studio",
        ("watch", made, "--no-browser"): "studio",
        ("serve", "run"): "serving",
        ("push", made, "me/x"): "hub",
        ("pull", "me/x", "--out", "x"): "hub",
        ("inspect", made, "--episode", episode, "--rerun", "x.rrd"): "rerun",
    }
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, str(HERE / "without_extras.py")],
        input=json.dumps(list(verbs)),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    for (verb, extra), (code, said) in zip(verbs.items(), json.loads(done.stdout), strict=True):
        assert code == 2, (verb, said)
        assert re.search(rf"pip install '?egorecovery\[[a-z,]*{extra}", said), (verb, said)
        assert "Traceback" not in said
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
    assert needed <= set(EXTRAS)


def test_the_metadata_of_the_package_has_every_extra_that_messages_name():
    import tomllib

    extras = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) <= set(extras)
