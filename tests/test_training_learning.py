"""Training learns: what it was shown by heart, and what the gate and the intent head need on episodes never seen."""

from pathlib import Path

import numpy as np
import pytest
import torch

from egorecovery.episodes import Embodiment, EpisodeStore, Source
from egorecovery.errors import RecipeError
from egorecovery.policy.checkpoint import load_into, open_checkpoint
from egorecovery.policy.inference import TrainedPolicy
from egorecovery.policy.policy import Policy
from egorecovery.training import Recipe, frame_table
from egorecovery.training.image_source import decode
from egorecovery.training.logs import read_log
from egorecovery.training.loop import Schedule, train
from egorecovery.training.runtime import Runtime, seed_initialisation
from egorecovery.training.splits import select
from egorecovery.training.validation import HeldOut, score
from training_store import FRAMES, simulated_recipe, tiny_recipe

CPU = Runtime(device=torch.device("cpu"))
PLAIN_PICTURES = {
    f"augmentation.{name}": "0" for name in ("brightness", "contrast", "saturation", "hue_turns", "shift")
}

BY_HEART = {
    "optimisation.learning_rate": "0.001",
    "policy.width": "64",
    "policy.horizon": "4",
    "batch.robot": "16",
    "batch.human": "16",
}


def on_training_frames(policy: Policy, store: EpisodeStore, recipe: Recipe) -> dict[str, float]:
    recorded = frame_table.read(store, select(store, recipe).episodes, recipe)
    frames = frame_table.table(recorded, frame_table.fit(recorded, recipe), recipe)
    cameras, size = recipe.policy.cameras, recipe.policy.image_size
    pictures = decode(store, frames.samples, cameras, size, CPU.device)
    mean_C = frames.intent_FC[frames.intent_mask_F].mean(axis=0)
    held = HeldOut(frames=frames, pictures_FVSS3=pictures, mean_intent_C=mean_C)
    return score(policy, held, list(range(len(frames))), recipe).values


def trained_policy(run: Path) -> Policy:
    found = open_checkpoint(run)
    policy = Policy(found.config)
    load_into(policy, found.weights(), found.path)
    return policy.eval()


@pytest.mark.slow
@pytest.mark.parametrize("relative", ["false", "true"])
def test_tiny_policy_overfits_a_tiny_store(made_up, tmp_path, relative):
    changes = {**PLAIN_PICTURES, **BY_HEART, "policy.relative_actions": relative}
    recipe = tiny_recipe(600, changes, robot_success=1, robot_recovery=1, human_recovery=1)
    seed_initialisation(recipe.seed)
    before = on_training_frames(Policy(recipe.policy).eval(), made_up, recipe)
    train(recipe, made_up, tmp_path / "run", CPU)
    after = on_training_frames(trained_policy(tmp_path / "run"), made_up, recipe)
    for sources in ((Source.ROBOT_SUCCESS, Source.ROBOT_RECOVERY), (Source.HUMAN_RECOVERY,)):
        names = [f"action_error/{source}" for source in sources]  # episodes are equally long: a mean over frames
        assert sum(after[name] for name in names) < sum(before[name] for name in names) / 10
    assert after["gate_auc/robot"] == after["gate_auc/human"] == 1.0


def test_a_policy_learns_where_the_hand_goes_if_that_is_its_intent(made_up, tmp_path):
    changes = {**PLAIN_PICTURES, **BY_HEART, "intent_target": "raw_trajectory", "policy.correction.intent_dim": "45"}
    recipe = tiny_recipe(300, changes, robot_success=1, robot_recovery=1, human_recovery=1)
    recorded = frame_table.read(made_up, select(made_up, recipe).episodes, recipe)
    for each in recorded:
        path_m, ahead = made_up.stream(each.episode, "effector_m")[:, 0], each.labels.intent_m[0, -3:]
        window_frames = 15 * (FRAMES - 1) / 199  # from the first to the last point of a window, in frames
        whole, part = int(window_frames), window_frames % 1
        there_m = (1 - part) * path_m[whole] + part * path_m[whole + 1]
        np.testing.assert_allclose(ahead, there_m - path_m[0], atol=1e-6)
    train(recipe, made_up, tmp_path / "run", CPU)
    scores = on_training_frames(trained_policy(tmp_path / "run"), made_up, recipe)
    for who in ("robot", "human"):
        assert scores[f"intent_error/{who}"] < scores[f"intent_error_of_mean/{who}"] / 2


def test_intent_of_another_size_than_the_policys_is_refused(made_up, tmp_path):
    recipe = tiny_recipe(1, {"intent_target": "raw_trajectory"})
    with pytest.raises(RecipeError, match="intent_dim is 4, but the labels of cube_stack have 45"):
        train(recipe, made_up, tmp_path / "run", CPU)


def test_a_relative_policy_is_scored_by_what_it_would_do(made_up):
    recipe = tiny_recipe(1, {"policy.relative_actions": "true"}, robot_success=1, robot_recovery=1, human_recovery=1)
    recorded = frame_table.read(made_up, select(made_up, recipe).episodes, recipe)
    statistics = frame_table.fit(recorded, recipe)
    policy = Policy(recipe.policy).eval()
    score_of = on_training_frames(policy, made_up, recipe)
    source = TrainedPolicy(policy, statistics, name="made up", device=CPU.device)
    for each in recorded:
        if each.source.embodiment is Embodiment.ROBOT:
            frames = [(each.episode, frame) for frame in range(len(each.state_TA))]
            pictures = decode(made_up, frames, source.cameras, source.image_size, CPU.device).numpy()
            chunk_THA = source.infer(pictures, each.state_TA).action_BHA
            spread_A = statistics.action[Embodiment.ROBOT].spread_A
            errors = [
                np.abs((chunk_HA[: len(ahead)] - ahead) / spread_A).mean()
                for chunk_HA, ahead in zip(
                    chunk_THA, (each.action_TA[t : t + chunk_THA.shape[1]] for t in range(len(frames))), strict=True
                )
            ]
            assert score_of[f"action_error/{each.source}"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_streamed_pictures_give_the_same_losses_and_weights_bit_for_bit(made_up, tmp_path):
    recipe = tiny_recipe(8, {"augmentation.state_noise": "0.1", "policy.drop_path": "0.2"})
    for name, stream in (("resident", False), ("streamed", True)):
        train(recipe, made_up, tmp_path / name, CPU, schedule=Schedule(log=1, score=4), stream=stream)
    resident, streamed = (losses(tmp_path / name) for name in ("resident", "streamed"))
    assert len(resident) == 8 + 2
    assert resident == streamed
    left, right = (open_checkpoint(tmp_path / name).weights() for name in ("resident", "streamed"))
    assert all(torch.equal(left[name], right[name]) for name in left)


def losses(run: Path) -> list[dict]:
    return [
        {name: value for name, value in row.items() if name != "samples_per_s"} for row in read_log(run / "log.jsonl")
    ]


def test_average_of_weights_is_what_is_shipped_and_leaves_training_alone(made_up, tmp_path):
    plain, averaged = tiny_recipe(8), tiny_recipe(8, {"optimisation.average_decay": "0.9"})
    for recipe, name in ((plain, "plain"), (averaged, "averaged")):
        train(recipe, made_up, tmp_path / name, CPU, schedule=Schedule(log=1, score=8))
    rows = [losses(tmp_path / name) for name in ("plain", "averaged")]
    assert [row for row in rows[0] if row["kind"] == "train"] == [row for row in rows[1] if row["kind"] == "train"]
    assert rows[0][-1] != rows[1][-1], "the average is what is scored"
    found, wanted = open_checkpoint(tmp_path / "averaged"), open_checkpoint(tmp_path / "plain")
    shipped, master, without = found.weights(), found.training_state(), wanted.weights()
    trained = [name for name in shipped if not torch.equal(shipped[name], without[name])]
    assert len(trained) > len(shipped) / 2
    assert all(torch.equal(master[f"master.{name}"], without[name]) for name in shipped)


def test_held_out_scores_are_logged_per_source_and_embodiment(made_up, tmp_path):
    train(tiny_recipe(6), made_up, tmp_path / "run", CPU, schedule=Schedule(log=2, score=3))
    held_out = read_log(tmp_path / "run" / "log.jsonl", "held_out")
    assert [row["step"] for row in held_out] == [3, 6]
    names = {f"action_error/{source}" for source in Source}
    for who in ("robot", "human"):
        gate = ("gate_accuracy", "gate_auc", "gate_auc_in_recoveries")
        names |= {f"{what}/{who}" for what in (*gate, "intent_error", "intent_error_of_mean")}
    assert all(set(row) == {"step", "kind", *names} for row in held_out)


def test_every_term_and_the_speed_are_logged(made_up, tmp_path):
    train(tiny_recipe(4), made_up, tmp_path / "run", CPU, schedule=Schedule(log=2))
    rows = read_log(tmp_path / "run" / "log.jsonl", "train")
    terms = {"loss", "imitation_robot", "imitation_human", "intent", "gate", "nominal", "gate_accuracy"}
    measured = {"gradient_norm", "clipped", "learning_rate", "samples_per_s"}
    assert [row["step"] for row in rows] == [2, 4]
    assert all(set(row) == {"step", "kind"} | terms | measured for row in rows)
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_a_run_of_robot_data_alone_scores_robots_alone(made_up, tmp_path):
    recipe = tiny_recipe(2, {"batch.human": "0"}, human_recovery=0)
    outcome = train(recipe, made_up, tmp_path / "run", CPU)
    assert {"action_error/robot_success", "action_error/robot_recovery", "gate_auc/robot"} <= set(outcome.scores)
    assert not [name for name in outcome.scores if "human" in name]


@pytest.fixture(scope="module")
def held_out_scores(simulated, tmp_path_factory) -> dict[str, float]:
    torch.set_num_threads(1)
    return train(simulated_recipe(), simulated, tmp_path_factory.mktemp("learned") / "run", CPU).scores


@pytest.mark.slow
@pytest.mark.timeout(1200)  # making the store is part of it
@pytest.mark.parametrize("who", ["robot", "human"])
def test_gate_is_learned_for_simulated_episodes_never_seen(held_out_scores, who):
    assert held_out_scores[f"gate_auc/{who}"] > 0.95


@pytest.mark.slow
def test_intent_beats_the_mean_on_simulated_episodes_never_seen(held_out_scores):
    """Over both embodiments, with the norm of Eq. 3: 0.596 against 0.607 when this was written, a thin margin.

    On cube stacking it is wide for robots only, and so small a policy does not find that task's gate (docs/log.md).
    """
    error, of_mean = (
        sum(held_out_scores[f"{name}/{who}"] for who in ("robot", "human"))
        for name in ("intent_error", "intent_error_of_mean")
    )
    assert error < of_mean
