"""Human clips and the robot in one action space: what people supervise, on which scale, at which pace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from egorecovery.episodes import Embodiment, EpisodeStore, Source  # noqa: E402
from egorecovery.errors import RecipeError  # noqa: E402
from egorecovery.evaluation.protocol import bench_protocol, draw_start  # noqa: E402
from egorecovery.intent import label_store  # noqa: E402
from egorecovery.kinematics.bindings import mujoco  # noqa: E402
from egorecovery.kinematics.effector_space import APPROACH_AXIS, OPENING, OPENING_AXIS, POSITION  # noqa: E402
from egorecovery.policy.config_json import changed  # noqa: E402
from egorecovery.policy.near_and_far import output_dims  # noqa: E402
from egorecovery.policy.objective import Targets, objective  # noqa: E402
from egorecovery.policy.policy import Policy, Prediction  # noqa: E402
from egorecovery.training import METHODS, frame_table  # noqa: E402
from egorecovery.training.batch_sampler import plan_step  # noqa: E402
from egorecovery.training.frame_table import chunk_frames  # noqa: E402
from egorecovery.training.human_supervision import HumanSupervision, speed_ratio  # noqa: E402
from egorecovery.training.image_source import ResidentImages, decode  # noqa: E402
from egorecovery.training.recipe import Recipe, demo  # noqa: E402
from egorecovery.training.runtime import start  # noqa: E402
from egorecovery.training.splits import select  # noqa: E402
from egorecovery.training.step import TrainingStep  # noqa: E402
from egorecovery.training.weights import Weights  # noqa: E402
from egorecovery.workcell.collection import Order, collect  # noqa: E402
from egorecovery.workcell.tasks import scene_named  # noqa: E402
from egorecovery.workcell.workcell import Workcell  # noqa: E402
from training_store import TINY  # noqa: E402

BUDGET = {"robot_success": 1, "robot_recovery": 1, "human_recovery": 2}


def recipe_of(method: str, **changes: str) -> Recipe:
    base = changed(demo("cube_stack"), {**TINY, **{f"budget.{name}": str(count) for name, count in BUDGET.items()}})
    return changed(METHODS[method](base), {name.replace("__", "."): text for name, text in changes.items()})


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> EpisodeStore:
    made = EpisodeStore.create(tmp_path_factory.mktemp("stores") / "cubes")
    sources = [Source.ROBOT_SUCCESS, Source.ROBOT_RECOVERY, Source.HUMAN_RECOVERY]
    collect(
        [
            Order(task="cube_stack", source=source, episodes=2 + source.is_human, seed=3, image_size=32)
            for source in sources
        ],
        made,
    )
    label_store(made)
    return made


def table_of(store: EpisodeStore, recipe: Recipe):
    recorded = frame_table.read(store, select(store, recipe).episodes, recipe)
    statistics = frame_table.fit(recorded, recipe)
    return recorded, statistics, frame_table.table(recorded, statistics, recipe)


@given(ratio=st.floats(1.0, 4.0), steps=st.integers(1, 30), seed=st.integers(0, 99))
@settings(deadline=None)
def test_stretched_chunks_are_linear_interpolation_of_the_recorded_actions(ratio, steps, seed):
    actions = np.random.default_rng(seed).normal(size=60)
    whole, part = chunk_frames(steps, ratio)
    stretched = actions[whole] + (actions[whole + 1] - actions[whole]) * part
    # An action says where the effector is one frame later, so action k belongs to time k + 1.
    wanted = np.interp((np.arange(steps) + 1) / ratio, np.arange(60) + 1, actions)
    np.testing.assert_allclose(stretched, wanted, atol=1e-5)


def test_the_speed_ratio_is_that_of_the_mean_lengths_of_corrections(store):
    recorded, statistics, _ = table_of(store, recipe_of("shared_decoder"))
    lengths = {source: [] for source in Source}
    for each in recorded:
        lengths[each.source].append(int(each.labels.in_recovery.sum()))
    by_hand = np.mean(lengths[Source.ROBOT_RECOVERY]) / np.mean(lengths[Source.HUMAN_RECOVERY])
    assert statistics.speed_ratio == pytest.approx(by_hand)
    assert statistics.speed_ratio > 1  # people are faster
    assert speed_ratio([]) == 1.0


def test_people_supervise_positions_and_openings_unless_more_is_asked_for():
    arm = HumanSupervision().dims("effector")[:10]
    assert arm[POSITION].all()
    assert arm[OPENING]
    assert not arm[OPENING_AXIS].any()
    assert not arm[APPROACH_AXIS].any()
    assert HumanSupervision(opening_axis=True, opening="none").dims("effector")[:10].sum() == 6
    assert HumanSupervision().dims("joint").all()


def test_numbers_with_one_meaning_have_one_scale_and_openings_have_their_own(store):
    _, statistics, _ = table_of(store, recipe_of("shared_decoder"))
    robot, human = (statistics.action[embodiment] for embodiment in (Embodiment.ROBOT, Embodiment.HUMAN))
    np.testing.assert_array_equal(robot.centre_A[POSITION], human.centre_A[POSITION])
    np.testing.assert_array_equal(robot.spread_A[10:13], human.spread_A[10:13])
    assert robot.centre_A[10 + OPENING] != human.centre_A[10 + OPENING]


@pytest.mark.parametrize("segment_mask", [True, False])
def test_the_frame_table_is_what_a_loop_over_episodes_and_frames_gives(store, segment_mask):
    recipe = recipe_of("shared_egorecovery", segment_mask=str(segment_mask).lower())
    recorded, statistics, frames = table_of(store, recipe)
    row = 0
    for each in sorted(recorded, key=lambda episode: episode.source.is_human):  # robots first
        own_state = statistics.state[each.source.embodiment]
        own_action = statistics.action[each.source.embodiment]
        labels = each.labels
        for frame, (state_A, action_A) in enumerate(zip(each.state_TA, each.action_TA, strict=True)):
            assert frames.samples[row] == (each.episode, frame)
            np.testing.assert_allclose(
                frames.state_FA[row], (state_A - own_state.centre_A) / own_state.spread_A, atol=1e-4
            )
            np.testing.assert_allclose(
                frames.action_FA[row], (action_A - own_action.centre_A) / own_action.spread_A, atol=1e-4
            )
            inside = labels.intent_mask if segment_mask else labels.gt_intent_valid
            assert frames.intent_mask_F[row] == inside[frame]
            row += 1
    assert row == len(frames)
    masks = [(each.labels.intent_mask, each.labels.gt_intent_valid) for each in recorded]
    assert any((inside != valid).any() for inside, valid in masks)  # or the two masks would be told apart nowhere


def test_targets_of_a_batch_are_what_a_loop_over_its_samples_gives(store):

    recipe = recipe_of("shared_egorecovery", segment_mask="true")
    recorded, statistics, frames = table_of(store, recipe)
    by_episode = {each.episode: each for each in recorded}
    runtime = start("cpu", "fp32", False)
    plan = plan_step(recipe, frames.robot_frames, frames.human_frames, 0)
    horizon, ratio = recipe.policy.horizon, statistics.speed_ratio
    step = TrainingStep(
        recipe, frames, _pictures(store, frames, recipe), Weights(Policy(recipe.policy), torch.float32, None), runtime
    )
    step._load(plan)
    targets = step._targets()
    for row, frame_row in enumerate(plan.frame_B):
        episode, frame = frames.samples[frame_row]
        each = by_episode[episode]
        human = each.source.is_human
        normaliser = statistics.action[each.source.embodiment]
        actions = normaliser.normalise(each.action_TA)
        last = len(actions) - 1
        for ahead in range(horizon):
            # Time within the episode at which this step of the chunk is found.
            at = frame + (max((ahead + 1) / ratio - 1, 0.0) if human else float(ahead))
            below = int(np.floor(at + 1e-9))
            low, high = actions[min(below, last)], actions[min(below + 1, last)]
            action = targets.action_BHA[row, ahead, : recipe.policy.action_dim].numpy()
            np.testing.assert_allclose(action, low + (high - low) * (at - below), atol=1e-4)
            assert bool(targets.action_mask_BH[row, ahead]) == (below <= last + recipe.stay_steps)
        assert bool(targets.in_recovery_B[row]) == bool(each.labels.in_recovery[frame])
        assert bool(targets.intent_mask_B[row]) == bool(each.labels.intent_mask[frame])


def test_with_both_predictions_a_step_wants_positions_and_ways_from_the_hand(store):
    recipe = recipe_of("shared_decoder", policy__near_m="0.06")
    _, statistics, frames = table_of(store, recipe)
    pictures, weights = _pictures(store, frames, recipe), Weights(Policy(recipe.policy), torch.float32, None)
    step = TrainingStep(recipe, frames, pictures, weights, start("cpu", "fp32", False))
    plan = plan_step(recipe, frames.robot_frames, frames.human_frames, 0)
    step._load(plan)
    action = step._targets().action_BHA.numpy()
    positions = [0, 1, 2, 10, 11, 12]
    assert action.shape[-1] == recipe.policy.output_dim == 26
    hands = frames.state_FA[plan.frame_B]  # normalised as states
    for row, frame in enumerate(plan.frame_B):
        embodiment = Embodiment.ROBOT if frame < frames.robot_frames else Embodiment.HUMAN
        here = statistics.action[embodiment].normalise(statistics.state[embodiment].restore(hands[row]))
        np.testing.assert_allclose(action[row, :, 20:] + here[positions], action[row, :, :20][:, positions], atol=1e-4)


def _pictures(store, frames, recipe):

    config = recipe.policy
    return ResidentImages(decode(store, frames.samples, config.cameras, config.image_size, torch.device("cpu")))


def _gradients(method: str, **changes: str) -> dict[str, bool]:
    """Which parameters the human imitation loss alone reaches."""
    recipe = recipe_of(method, **changes)
    policy = Policy(recipe.policy)
    config, human = recipe.policy, 3
    prediction = policy(
        torch.randn(len(config.cameras), human, 3, config.image_size, config.image_size),
        torch.randn(human, config.action_dim),
        robots=0,
    )
    dims = output_dims(recipe.human_supervision.dims(config.action_space), config)
    targets = Targets(
        action_BHA=torch.randn(human, config.horizon, config.output_dim),
        action_mask_BH=torch.ones(human, config.horizon),
        intent_BC=torch.zeros(human, 4),
        intent_mask_B=torch.zeros(human),
        in_recovery_B=torch.zeros(human),
        human_dims_A=torch.from_numpy(dims.astype(np.float32)),
    )
    objective(prediction, targets, recipe.losses)["imitation_human"].backward()
    return {name: each.grad is not None and bool(each.grad.abs().sum() > 0) for name, each in policy.named_parameters()}


def test_human_actions_train_the_robots_decoder_where_it_is_shared_and_never_where_it_is_not():
    shared, separate = _gradients("shared_decoder"), _gradients("direct_mix_effector")
    assert shared["robot.projection.weight"]
    assert not any(name.startswith("human.") for name in shared)
    assert separate["human.projection.weight"]
    assert not any(reached for name, reached in separate.items() if name.startswith("robot."))


def test_numbers_that_people_do_not_supervise_get_no_gradient_from_them():
    recipe = recipe_of("shared_decoder")
    config = recipe.policy
    action = torch.randn(2, config.horizon, 20, requires_grad=True)

    prediction = Prediction(
        pooled_BD=torch.zeros(2, 1),
        robot_action_RHA=None,
        human_action_MHA=action,
        intent_BC=None,
        gate_logit_B=None,
        film_scale_RD=None,
        film_shift_RD=None,
    )
    dims_A = recipe.human_supervision.dims("effector")
    targets = Targets(
        action_BHA=torch.zeros(2, config.horizon, 20),
        action_mask_BH=torch.ones(2, config.horizon),
        intent_BC=torch.zeros(2, 4),
        intent_mask_B=torch.zeros(2),
        in_recovery_B=torch.zeros(2),
        human_dims_A=torch.from_numpy(dims_A.astype(np.float32)),
    )
    objective(prediction, targets, recipe.losses)["loss"].backward()
    reached = action.grad.abs().sum(dim=(0, 1)).numpy() > 0
    np.testing.assert_array_equal(reached, dims_A)


def test_a_shared_decoder_in_joint_space_is_refused():
    with pytest.raises(RecipeError, match="effector"):
        recipe_of("direct_human_recovery_mix", policy__decoders='"shared"')


def test_a_store_with_arms_in_its_pictures_is_refused_where_the_recipe_wants_none(store):
    recipe = recipe_of("shared_decoder", policy__hidden_embodiment="true")
    with pytest.raises(RecipeError, match="pictures with"):
        frame_table.read(store, select(store, recipe).episodes, recipe)


def test_the_robots_arm_is_not_in_hidden_pictures_but_its_fingertips_are():

    pictures = {}
    for hidden in (False, True):
        with Workcell(scene_named("cube_stack"), image_size=96, hidden_embodiment=hidden) as workcell:
            workcell.reset(draw_start(bench_protocol("cube_stack"), workcell.scene, "initial", 0))
            before = workcell.observe().images["head"].astype(int)
            workcell.robot.data.qpos[workcell.robot.model.joint("right/joint1").qposadr[0]] += 0.25

            mujoco.mj_forward(workcell.robot.model, workcell.robot.data)
            after = workcell.observe().images["head"].astype(int)
            pictures[hidden] = (np.abs(after - before).max(axis=-1) > 12).mean()
    assert pictures[False] > 0.02  # a moving arm changes much of the picture
    assert 0 < pictures[True] < pictures[False] / 4  # only two dots move
