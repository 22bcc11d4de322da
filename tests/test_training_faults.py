"""Training that cannot go on, or cannot begin, says why and spoils nothing."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore, Source
from egorecovery.errors import RecipeError, TrainingStopped
from egorecovery.policy.checkpoint import open_checkpoint
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.training import frame_table, run_setup
from egorecovery.training.batch_sampler import StepPlan, plan_step
from egorecovery.training.frame_table import FrameTable
from egorecovery.training.logs import read_log
from egorecovery.training.loop import Schedule, train
from egorecovery.training.runtime import Runtime
from egorecovery.training.splits import select
from egorecovery.training.step import TrainingStep
from training_store import FRAMES, PER_SOURCE, PIXELS, make_made_up_store, tiny_recipe, training_arguments

CPU = Runtime(device=torch.device("cpu"))
STEPS = 12
POISONED = "robot_recovery-2", 30


@pytest.fixture
def weights_after(monkeypatch: pytest.MonkeyPatch) -> dict[int, dict[str, torch.Tensor]]:
    """The weights after so many steps of the last run, the optimiser's and the clip's state with them."""
    seen: dict[int, dict[str, torch.Tensor]] = {}

    class Watched(TrainingStep):
        def run(self, plan: StepPlan) -> None:
            super().run(plan)
            state = {**self._weights.master.state_dict(), **self.optimiser.state()}
            seen[plan.step + 1] = {name: value.clone() for name, value in state.items()}

    monkeypatch.setattr(run_setup, "TrainingStep", Watched)
    return seen


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> list[FrameTable]:
    """One frame's action is not a number; the store's own check would have refused it, a bug of ours might not."""
    real, tables = frame_table.table, []

    def with_nan(recorded, statistics, recipe):
        made = real(recorded, statistics, recipe)
        if POISONED in made.samples:
            action_FA = made.action_FA.copy()
            action_FA[made.samples.index(POISONED), 3] = np.nan
            made = replace(made, action_FA=action_FA)
            tables.append(made)
        return made

    monkeypatch.setattr(frame_table, "table", with_nan)
    return tables


def first_bad_step(recipe, frames: FrameTable) -> int:
    """Chunks reach ahead: any sample less than a horizon before the poisoned frame is spoilt."""
    row = frames.samples.index(POISONED)
    for step in range(STEPS):
        ahead_B = row - plan_step(recipe, frames.robot_frames, frames.human_frames, step).frame_B
        if ((ahead_B >= 0) & (ahead_B < recipe.policy.horizon)).any():
            return step
    raise AssertionError("the poison is never sampled")


def test_nan_in_an_action_stops_before_the_update_and_names_the_samples(made_up, tmp_path, poisoned):
    recipe, run = tiny_recipe(STEPS), tmp_path / "run"
    with pytest.raises(TrainingStopped, match="no update was made with it") as stopped:
        train(recipe, made_up, run, CPU, schedule=Schedule(log=3))
    (frames,) = poisoned
    bad = first_bad_step(recipe, frames)
    assert f"step {bad} is not finite" in str(stopped.value)
    dumped = json.loads((run / f"not_finite_step_{bad:08d}.json").read_text())
    assert str(run / f"not_finite_step_{bad:08d}.json") in str(stopped.value)
    assert dumped["step"] == bad
    plan = plan_step(recipe, frames.robot_frames, frames.human_frames, bad)
    wanted = [frames.samples[row] for row in plan.frame_B]
    assert [(each["episode"], each["frame"]) for each in dumped["samples"]] == wanted


def test_nan_leaves_the_weights_of_the_step_before(made_up, tmp_path, weights_after, request):
    recipe = tiny_recipe(STEPS)
    train(recipe, made_up, tmp_path / "clean", CPU)
    clean = dict(weights_after)
    weights_after.clear()
    tables = request.getfixturevalue("poisoned")
    with pytest.raises(TrainingStopped):
        train(recipe, made_up, tmp_path / "run", CPU, schedule=Schedule(log=6))
    bad = first_bad_step(recipe, tables[0])
    assert 0 < bad < max(weights_after), "the host looks later than the step: updates in between must be skipped too"
    for step, weights in weights_after.items():
        for name, value in weights.items():
            assert torch.equal(value, clean[min(step, bad)][name]), (step, name)


def test_nothing_not_finite_is_logged_or_saved_and_the_command_fails(made_up, tmp_path, poisoned, capsys):
    run = tmp_path / "run"
    assert main(training_arguments(made_up, run, steps=STEPS, log_every=4, save_every=1)) == 2
    bad = first_bad_step(tiny_recipe(STEPS), poisoned[0])
    said = capsys.readouterr().err
    assert f"egorecovery: the loss or a gradient of step {bad} is not finite" in said
    assert "--resume" in said
    assert open_checkpoint(run).step == bad
    assert all(
        np.isfinite(value) for row in read_log(run / "log.jsonl") for value in row.values() if value != row["kind"]
    )


def test_a_step_logged_between_two_looks_is_finite_or_not_logged(made_up, tmp_path, poisoned):
    with pytest.raises(TrainingStopped):
        train(tiny_recipe(STEPS), made_up, tmp_path / "run", CPU, schedule=Schedule(log=5, look=7))
    for row in read_log(tmp_path / "run" / "log.jsonl", "train"):
        assert np.isfinite(row["loss"])


def test_a_pool_that_filtering_has_emptied_is_refused_with_the_reason(tmp_path, capsys):
    store = make_made_up_store(tmp_path / "store")
    journal = AnnotationJournal(store.annotations_path)
    for number in range(PER_SOURCE):
        discarded = Annotation(episode=f"robot_recovery-{number}", boundary=None, annotator="ada", discard=True)
        journal.save(discarded, n_frames=FRAMES, seen_revision=1)
    assert main(training_arguments(store, tmp_path / "run", steps=STEPS)) == 2
    said = capsys.readouterr().err
    assert "asks for 2 robot_recovery episodes of cube_stack, but 0 can be used" in said
    assert f"{PER_SOURCE} discarded by their annotation" in said
    assert not (tmp_path / "run").exists()


def test_a_store_of_another_task_is_refused(made_up, tmp_path, capsys):
    assert main(training_arguments(made_up, tmp_path / "run", steps=STEPS, task="cup_brush")) == 2
    assert "has no episode of task 'cup_brush'; it has cube_stack" in capsys.readouterr().err


def test_a_batch_that_processes_cannot_share_is_refused(made_up, tmp_path):
    three = Runtime(device=torch.device("cpu"), ranks=3)
    with pytest.raises(RecipeError, match=r"robot=8, human=8.* cannot be shared equally by 3 processes"):
        train(tiny_recipe(STEPS), made_up, tmp_path / "run", three)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("stream", [False, True])
def test_pictures_of_another_size_are_refused_by_both_sizes(made_up, tmp_path, capsys, stream):
    arguments = training_arguments(made_up, tmp_path / "run", {"policy.image_size": "64"}, steps=2, stream=stream)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    sizes = f"head pictures of {PIXELS} x {PIXELS}, the recipe wants 64 x 64"
    assert f"{sizes}; train with --set policy.image_size {PIXELS}" in said


def test_a_camera_that_was_not_recorded_is_refused_by_name(made_up, tmp_path, capsys):
    arguments = training_arguments(made_up, tmp_path / "run", {"policy.cameras": '["left_wrist"]'}, steps=2)
    assert main(arguments) == 2
    assert "left_wrist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("optimisation.learning_rat", "1", "did you mean 'optimisation.learning_rate'?"),
        ("policy.vision.with", "1", "there is no setting 'policy.vision.with'"),
        ("optimisation.steps", "many", "optimisation.steps must be a whole number, got 'many'"),
        ("policy.width", "33", "width 33 is not a multiple of 2 heads"),
        ("policy.correction.intent_dim", "5", "labels of cube_stack have 4 intent dimensions"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_a_hint(made_up, tmp_path, capsys, name, value, message):
    assert main(training_arguments(made_up, tmp_path / "run", {name: value}, steps=2)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("device", "message"),
    [
        pytest.param(
            "cuda",
            "no CUDA device is available here; use --device cpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one"),
        ),
        ("gpu", "there is no device 'gpu'; use cpu, cuda or cuda:0"),
        ("mps", "there is no device 'mps'; use cpu, cuda or cuda:0"),
    ],
)
def test_a_device_that_is_not_here_is_refused_with_what_to_use(made_up, tmp_path, capsys, device, message):
    assert main(training_arguments(made_up, tmp_path / "run", steps=2, device=device)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_episode_whose_bytes_have_changed_is_set_aside_aloud_and_the_rest_goes_on(made_up, tmp_path, capsys):
    """Zeroed bytes would be trained on without a word: manifests alone do not show them."""
    store = EpisodeStore(shutil.copytree(made_up.root, tmp_path / "store"))
    recipe = tiny_recipe(1)
    before = select(store, recipe, checked=False)
    damaged = before.training[Source.HUMAN_RECOVERY][0]
    chunk = next(path for path in (store.path(damaged) / "episode.zarr" / "action" / "c").rglob("*") if path.is_file())
    payload = bytearray(chunk.read_bytes())
    payload[100:400] = bytes(300)
    chunk.write_bytes(payload)
    after = select(EpisodeStore(store.root), recipe, checked=False)
    assert f"{damaged} is skipped" in capsys.readouterr().err
    for pool in (after.training, after.held_out):
        assert all(damaged not in episodes for episodes in pool.values())
    assert after.training[Source.ROBOT_SUCCESS] == before.training[Source.ROBOT_SUCCESS]
