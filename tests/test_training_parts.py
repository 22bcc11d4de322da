"""What a training run is made of, part by part: plans, schedules, clipping, pools, methods, scores."""

from dataclasses import fields, replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

torch = pytest.importorskip("torch")

from sklearn.metrics import roc_auc_score  # noqa: E402 - torch is an extra

from egorecovery.episodes import EpisodeStore, Source  # noqa: E402
from egorecovery.errors import RecipeError  # noqa: E402
from egorecovery.intent import label_store  # noqa: E402
from egorecovery.policy.config_json import differences  # noqa: E402
from egorecovery.recovery import Annotation, AnnotationJournal  # noqa: E402
from egorecovery.training import distributed_stop  # noqa: E402
from egorecovery.training.batch_sampler import ALIGNMENT, InputRow, StepPlan, colours, learning_rate, plan_step  # noqa: E402
from egorecovery.training.clipping import REMEMBERED, MadClip  # noqa: E402
from egorecovery.training.distributed_stop import Agreement  # noqa: E402
from egorecovery.training.frame_table import FrameTable  # noqa: E402
from egorecovery.training.methods import ABLATIONS, MAIN, METHODS, SHARED, TARGETS, egorecovery  # noqa: E402
from egorecovery.training.recipe import (  # noqa: E402
    RECIPES,
    Augmentation,
    Batch,
    Budget,
    Optimisation,
    Recipe,
    demo,
    paper,
)
from egorecovery.training.runtime import Runtime  # noqa: E402
from egorecovery.training.splits import select  # noqa: E402
from egorecovery.training.validation import action_errors, auc, mean_of_episode, thinned  # noqa: E402
from making import make_episode  # noqa: E402

ROBOT_FRAMES, HUMAN_FRAMES = 40, 25


def arrays(plan: StepPlan) -> dict[str, np.ndarray]:
    return {each.name: np.asarray(getattr(plan, each.name)) for each in fields(plan)}


def plan_of(step: int, **changes) -> StepPlan:
    recipe = replace(demo("cube_stack"), **changes)
    return plan_step(recipe, ROBOT_FRAMES, HUMAN_FRAMES, step)


NOISY = Augmentation(state_noise=0.1, state_dropout=0.3)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), step=st.integers(0, 10**6))
def test_a_plan_is_a_pure_function_of_seed_and_step(seed, step):
    first = arrays(plan_of(step, seed=seed, augmentation=NOISY))
    plan_of(step + 3, seed=seed, augmentation=NOISY)
    second = arrays(plan_of(step, seed=seed, augmentation=NOISY))
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 2), step=st.integers(0, 10**6))
def test_other_steps_and_other_seeds_have_other_plans(seed, step):
    plan = arrays(plan_of(step, seed=seed, augmentation=NOISY))
    for other in (plan_of(step + 1, seed=seed, augmentation=NOISY), plan_of(step, seed=seed + 1, augmentation=NOISY)):
        for name in ("frame_B", "colour_B34", "noise_BA"):
            assert not np.array_equal(plan[name], getattr(other, name)), name


def test_robots_come_first_and_every_frame_is_of_its_own_pool():
    batch = demo("cube_stack").batch
    for step in range(20):
        frame_B = plan_of(step).frame_B
        assert len(frame_B) == batch.size
        assert (frame_B[: batch.robot] < ROBOT_FRAMES).all()
        assert (frame_B[batch.robot :] >= ROBOT_FRAMES).all()
        assert (frame_B < ROBOT_FRAMES + HUMAN_FRAMES).all()


def test_frames_are_drawn_uniformly_within_each_pool():
    robots = demo("cube_stack").batch.robot
    drawn = np.stack([plan_of(step).frame_B for step in range(400)])
    for part, first, count in (
        (drawn[:, :robots], 0, ROBOT_FRAMES),
        (drawn[:, robots:], ROBOT_FRAMES, HUMAN_FRAMES),
    ):
        assert chisquare(np.bincount(part.ravel() - first, minlength=count)).pvalue > 0.001


def test_a_plan_without_human_data_has_robots_alone():
    recipe = METHODS["robot_recovery"](demo("cube_stack"))
    plan = plan_step(recipe, ROBOT_FRAMES, 0, 3)
    assert len(plan.frame_B) == recipe.batch.robot == demo("cube_stack").batch.robot
    assert plan.frame_B.max() < ROBOT_FRAMES


def test_shares_of_two_processes_cover_the_batch_once_and_both_have_both_embodiments():
    whole, batch = plan_of(5, augmentation=NOISY), demo("cube_stack").batch
    robots = batch.robot
    shares = [whole.shard(rank, 2, robots) for rank in range(2)]
    for name in ("frame_B", "colour_B34", "crop_BV5", "noise_BA", "state_keep_B"):
        halves = [np.split(getattr(share, name), [robots // 2]) for share in shares]
        joined = np.concatenate([halves[0][0], halves[1][0], halves[0][1], halves[1][1]])
        np.testing.assert_array_equal(joined, getattr(whole, name), err_msg=name)
    for share in shares:
        assert (share.frame_B < ROBOT_FRAMES).sum() == robots // 2
        assert (share.frame_B >= ROBOT_FRAMES).sum() == batch.human // 2
        assert (share.step, share.learning_rate) == (whole.step, whole.learning_rate)
    half = robots // 2
    keep = [share.keep_KB for share in shares]
    np.testing.assert_array_equal(
        np.hstack([keep[0][:, :half], keep[1][:, :half], keep[0][:, half:], keep[1][:, half:]]), whole.keep_KB
    )


def test_one_process_keeps_the_whole_plan():
    whole = plan_of(5)
    for name, values in arrays(whole.shard(0, 1, demo("cube_stack").batch.robot)).items():
        np.testing.assert_array_equal(values, getattr(whole, name), err_msg=name)


INPUTS = st.lists(
    st.tuples(
        st.sampled_from([torch.int64, torch.float32, torch.int32, torch.bfloat16, torch.uint8]),
        st.lists(st.integers(0, 5), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


def made_up_inputs(parts, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        f"part_{index}": torch.randint(0, 100, shape, generator=generator).to(dtype)
        for index, (dtype, shape) in enumerate(parts)
    }


@settings(max_examples=50, deadline=None)
@given(parts=INPUTS)
def test_inputs_sent_in_one_row_are_read_as_they_were(parts):
    row = InputRow(made_up_inputs(parts, seed=0), torch.device("cpu"))
    places = {name: view.data_ptr() for name, view in row.views.items()}
    for seed in (0, 1):
        sent = made_up_inputs(parts, seed)
        row.send(sent)
        for name, value in sent.items():
            assert row.views[name].dtype == value.dtype
            assert torch.equal(row.views[name], value), name
            assert row.views[name].data_ptr() == places[name], "a graph reads where it was"


@settings(max_examples=50, deadline=None)
@given(parts=INPUTS)
def test_inputs_in_one_row_are_aligned_and_do_not_overlap(parts):
    views = InputRow(made_up_inputs(parts, seed=0), torch.device("cpu")).views.values()
    spans = [(each.storage_offset() * each.itemsize, each.nbytes) for each in views]
    assert len({each.untyped_storage().data_ptr() for each in views}) == 1
    assert all(start % ALIGNMENT == 0 for start, _ in spans)
    assert all(start + size <= following for (start, size), (following, _) in pairwise(spans))


def test_drop_path_keeps_each_branch_with_its_rate_and_keeps_the_mean():
    policy = replace(demo("cube_stack").policy, drop_path=0.4)
    keep_KN = np.hstack([plan_of(step, policy=policy).keep_KB for step in range(200)])
    for rate, keep_N in zip(policy.drop_path_rates, keep_KN, strict=True):
        assert np.isin(keep_N, np.float32([0, 1 / (1 - rate)])).all()
        assert (keep_N == 0).mean() == pytest.approx(rate, abs=0.02)
        assert keep_N.mean() == pytest.approx(1, abs=0.03)


def test_shifts_reach_their_share_of_the_picture_and_no_further():
    shifts = np.concatenate(
        [plan_of(step, augmentation=Augmentation(shift=0.05)).crop_BV5[..., :2] for step in range(50)]
    )
    assert set(np.unique(shifts)) == set(range(-3, 4))  # 0.05 of 64 pixels


def test_each_view_has_a_square_hidden_of_any_size_up_to_its_share():
    augmentation = Augmentation(hide=0.25)
    crops = np.concatenate([plan_of(step, augmentation=augmentation).crop_BV5 for step in range(50)])
    assert set(np.unique(crops[..., 4])) == set(range(17))  # a quarter of 64 pixels
    assert (crops[:, 0, 2:] != crops[:, 1, 2:]).any(axis=-1).mean() > 0.99
    assert (crops[..., 2:4] < 64).all()


def test_proprioception_is_dropped_for_its_share_of_samples():
    kept = np.concatenate([plan_of(step, augmentation=NOISY).state_keep_B for step in range(100)])
    assert kept.mean() == pytest.approx(0.7, abs=0.03)


def test_no_augmentation_is_the_identity():
    nothing = Augmentation(brightness=0.0, contrast=0.0, saturation=0.0, hue_turns=0.0, shift=0.0)
    plan = plan_of(2, augmentation=nothing)
    identity = np.hstack([np.eye(3), np.zeros((3, 1))])
    np.testing.assert_allclose(plan.colour_B34, np.broadcast_to(identity, plan.colour_B34.shape), atol=1e-6)
    assert not plan.crop_BV5[..., [0, 1, 4]].any()
    assert not plan.noise_BA.any()
    assert (plan.state_keep_B == 1).all()


@settings(max_examples=30, deadline=None)
@given(saturation=st.floats(0, 1), hue=st.floats(0, 0.5), grey=st.floats(0, 1), seed=st.integers(0, 1000))
def test_hue_and_saturation_keep_grey_grey(saturation, hue, grey, seed):
    chosen = Augmentation(brightness=0.0, contrast=0.0, saturation=saturation, hue_turns=hue)
    colour_B34 = colours(np.random.default_rng(seed), chosen, 5)
    np.testing.assert_allclose(colour_B34 @ np.array([grey, grey, grey, 1.0]), grey, atol=1e-5)


def test_contrast_turns_about_middle_grey_and_brightness_about_black():
    rng = np.random.default_rng
    contrast = colours(rng(0), Augmentation(brightness=0.0, contrast=0.5, saturation=0.0, hue_turns=0.0), 9)
    np.testing.assert_allclose(contrast @ np.array([0.5, 0.5, 0.5, 1]), 0.5, atol=1e-6)
    bright = colours(rng(0), Augmentation(brightness=0.5, contrast=0.0, saturation=0.0, hue_turns=0.0), 9)
    np.testing.assert_allclose(bright @ np.array([0, 0, 0, 1.0]), 0, atol=1e-6)
    assert np.ptp(bright[:, 0, 0]) > 0.1


def test_the_learning_rate_warms_up_linearly_and_falls_as_a_cosine_to_the_least():
    chosen = Optimisation(steps=1000, learning_rate=1e-3, least_learning_rate=1e-5, warmup_steps=100)
    rates = np.array([learning_rate(chosen, step) for step in range(1100)])
    np.testing.assert_allclose(rates[:100], 1e-3 * np.arange(1, 101) / 100)
    assert rates[100] == pytest.approx(1e-3)
    assert (np.diff(rates[100:1001]) < 0).all()
    assert rates[550] == pytest.approx((1e-3 + 1e-5) / 2)
    assert rates[1000:] == pytest.approx(1e-5)


def test_the_papers_learning_rate_starts_at_its_peak():
    chosen = paper("cube_stack").optimisation
    assert learning_rate(chosen, 0) == pytest.approx(1e-4)
    assert learning_rate(chosen, chosen.steps) == pytest.approx(2e-6)


def factor_of_next(clip: MadClip, norm: float) -> float:
    factor = clip.factor(torch.tensor(float(norm)), clip.limit()).item()
    clip.remember(torch.tensor(float(norm)))
    return factor


def clipped(norms, after=20, deviations=5.0) -> tuple[MadClip, np.ndarray]:
    clip = MadClip(after, deviations, torch.device("cpu"))
    return clip, np.array([factor_of_next(clip, norm) for norm in norms])


def usual(rng, count, level=1.0):
    return level * (1 + 0.1 * rng.standard_normal(count))


def test_nothing_is_clipped_before_enough_norms_were_seen(rng):
    norms = usual(rng, 20)
    norms[[3, 19]] = 1e6
    _, factors = clipped(norms)
    assert (factors == 1).all()


def test_an_outlier_is_clipped_to_the_limit_of_the_norms_before_it(rng):
    norms = usual(rng, 100)
    clip, _ = clipped(norms)
    median = np.sort(norms.astype(np.float32))[49]
    spread = 1.4826 * np.sort(np.abs(norms.astype(np.float32) - median))[49]
    limit = clip.limit().item()
    assert limit == pytest.approx(median + 5 * spread, rel=1e-5)
    assert factor_of_next(clip, 50.0) * 50 == pytest.approx(limit, rel=1e-5)
    assert clip.state()["norms"][100].item() == 50  # remembered as it was


def test_any_norm_is_allowed_until_enough_were_seen(rng):
    norms = usual(rng, 20)
    assert clipped(norms[:19])[0].limit().item() == np.inf
    assert clipped(norms)[0].limit().item() < 2


def test_usual_norms_pass(rng):
    _, factors = clipped(usual(rng, 400))
    assert (factors == 1).mean() > 0.99


def test_after_a_sustained_shift_the_limit_follows_and_clipping_ends(rng):
    norms = np.concatenate([usual(rng, 300), usual(rng, 400, level=10)])
    _, factors = clipped(norms)
    assert (factors[300:340] < 0.5).all()
    assert (factors[300 + REMEMBERED // 2 + 10 :] == 1).mean() > 0.99


def test_a_single_outlier_does_not_move_the_limit(rng):
    clip, _ = clipped(usual(rng, 150))
    before = clip.limit().item()
    clip.remember(torch.tensor(1e9))
    assert clip.limit().item() == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_norms_that_are_not_finite_are_not_remembered(rng, bad):
    clip, _ = clipped(usual(rng, 50))
    before = {name: value.clone() for name, value in clip.state().items()}
    assert factor_of_next(clip, bad) == pytest.approx(0.0 if bad > 0 else 1.0)
    for name, value in clip.state().items():
        torch.testing.assert_close(value, before[name], equal_nan=True)


def test_clipping_goes_on_from_its_saved_state_as_if_never_stopped(rng):
    norms = usual(rng, 300)
    norms[::17] *= 4
    whole = clipped(norms)[1]
    first, _ = clipped(norms[:130])
    second = MadClip(20, 5.0, torch.device("cpu"))
    second.load({name: value.clone() for name, value in first.state().items()})
    rest = [factor_of_next(second, norm) for norm in norms[130:]]
    np.testing.assert_array_equal(rest, whole[130:])


PER_SOURCE = 6


@pytest.fixture(scope="module")
def labelled(tmp_path_factory) -> EpisodeStore:
    """Six episodes of each source, all annotated and labelled."""
    store = EpisodeStore.create(tmp_path_factory.mktemp("pools") / "store")
    with store.writing() as writer:
        for source in Source:
            for index in range(PER_SOURCE):
                writer.add(make_episode(f"{source}-{index}", source=source, cameras={}))
    annotate(store, [name for name in store.ids() if "recovery" in name])
    label_store(store)
    return store


def annotate(store, names, seen=0, **changes):
    journal = AnnotationJournal(store.annotations_path)
    for name in names:
        annotation = Annotation(**{"episode": name, "boundary": 20, "annotator": "ada", **changes})
        journal.save(annotation, n_frames=40, seen_revision=seen)


def recipe_of(budget: Budget, held_out: int = 2, seed: int = 0) -> Recipe:
    return replace(demo("cube_stack"), held_out=held_out, seed=seed).with_budget(budget)


def budgets(most: int):
    counts = st.tuples(st.integers(1, most), *[st.integers(0, most)] * 3)
    return counts.map(lambda each: Budget(**dict(zip(map(str, Source), each, strict=True))))


@settings(max_examples=25, deadline=None)
@given(budget=budgets(4), held_out=st.integers(0, 2), seed=st.integers(0, 10**6))
def test_a_pool_has_its_budget_of_each_source_and_never_a_held_out_episode(labelled, budget, held_out, seed):
    pools = select(labelled, recipe_of(budget, held_out, seed))
    for source in Source:
        chosen, kept = pools.training[source], pools.held_out[source]
        assert len(set(chosen)) == len(chosen) == budget.of(source)
        assert len(kept) == held_out
        assert not set(chosen) & set(kept)
        assert all(episode.startswith(f"{source}-") for episode in (*chosen, *kept))


@settings(max_examples=15, deadline=None)
@given(first=budgets(4), second=budgets(4), seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_the_same_episodes_are_held_out_for_every_budget_and_seed(labelled, first, second, seeds):
    pools = [select(labelled, recipe_of(*each)) for each in ((first, 2, seeds[0]), (second, 2, seeds[1]))]
    assert pools[0].held_out == pools[1].held_out


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_larger_budget_contains_the_smaller_one_of_its_seed(labelled, seed):
    pools = [
        select(labelled, recipe_of(Budget(robot_success=n, robot_recovery=n, human_recovery=n), seed=seed))
        for n in range(1, 5)
    ]
    for smaller, larger in pairwise(pools):
        for source in Source:
            assert set(smaller.training[source]) <= set(larger.training[source])


def test_a_seed_always_chooses_the_same_episodes_and_seeds_differ(labelled):
    budget = Budget(robot_success=2, robot_recovery=2, human_recovery=2)
    chosen = [tuple(select(labelled, recipe_of(budget, seed=seed)).episodes) for seed in (0, 0, 1, 2, 3)]
    assert chosen[0] == chosen[1]
    assert len(set(chosen)) > 2


def test_robots_come_first_in_the_list_of_episodes(labelled):
    budget = Budget(robot_success=2, robot_recovery=1, human_success=1, human_recovery=1)
    sources = [source for source, _ in select(labelled, recipe_of(budget)).episodes]
    assert [source.is_human for source in sources] == [False] * 3 + [True] * 2


def test_a_budget_that_the_store_cannot_meet_is_refused_with_the_counts(labelled):
    with pytest.raises(RecipeError) as refusal:
        select(labelled, recipe_of(Budget(robot_success=2, robot_recovery=5, human_recovery=0)))
    message = str(refusal.value)
    assert (
        "asks for 5 robot_recovery episodes of cube_stack, but 4 can be used (6 labelled, 2 of them held out)"
        in message
    )
    assert "left out" not in message
    assert str(labelled.root) in message


def test_another_task_has_no_episodes_to_offer(labelled):
    recipe = replace(recipe_of(Budget(robot_success=1, robot_recovery=0, human_recovery=0)), task="round_disk")
    with pytest.raises(RecipeError, match=r"no episode of task 'round_disk'; it has cube_stack"):
        select(labelled, recipe)


def test_a_refusal_counts_what_was_discarded_unannotated_and_stale(tmp_path):
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        for index in range(7):
            writer.add(make_episode(f"r-{index}", source=Source.ROBOT_RECOVERY, cameras={}))
    annotate(store, ["r-0", "r-1", "r-2", "r-3"])
    annotate(store, ["r-4"], discard=True)
    label_store(store)
    annotate(store, ["r-2", "r-3"], seen=1, boundary=25)  # labels are now older than these
    with pytest.raises(RecipeError) as refusal:
        select(store, recipe_of(Budget(robot_success=0, robot_recovery=3, human_recovery=0), held_out=1))
    assert "but 1 can be used (2 labelled, 1 of them held out" in str(refusal.value)
    assert "left out: 1 discarded by their annotation, 2 not annotated, 2 without current labels" in str(refusal.value)
    found = select(store, recipe_of(Budget(robot_success=0, robot_recovery=1, human_recovery=0), held_out=1))
    (held,), (trained,) = found.held_out[Source.ROBOT_RECOVERY], found.training[Source.ROBOT_RECOVERY]
    assert {held, trained} == {"r-0", "r-1"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Budget(robot_success=-1), "budget.robot_success must not be negative"),
        (lambda: Budget(robot_success=0, robot_recovery=0), "without robot episodes"),
        (lambda: Batch(robot=0), "a batch needs robot samples"),
        (lambda: Optimisation(steps=0), "steps must be positive"),
        (lambda: Optimisation(learning_rate=1e-7), "least_learning_rate <= learning_rate"),
        (lambda: Optimisation(average_decay=1.0), "average_decay must lie in 0..1"),
        (lambda: Optimisation(warmup_steps=-1), "warmup_steps must not be negative"),
        (lambda: Optimisation(weight_decay=-1.0), "weight_decay must not be negative"),
        (lambda: Augmentation(shift=-0.1), "augmentation.shift"),
        (lambda: Augmentation(state_dropout=1.5), "augmentation.state_dropout"),
        (lambda: replace(demo("cube_stack"), held_out=-1), "held_out must not be negative"),
        (lambda: replace(demo("cube_stack"), batch=Batch(robot=8, human=0)), "disagree on whether human data is used"),
    ],
)
def test_settings_of_training_that_make_no_sense_are_refused(make, message):
    with pytest.raises(RecipeError, match=message):
        make()


EFFECTOR = {"policy.action_space": "effector", "policy.action_dim": 20, "policy.near_m": 0.03}
INTENDED = {
    "robot_success": {
        "budget.robot_recovery": 0,
        "budget.human_recovery": 0,
        "batch.human": 0,
        "policy.human_decoder": False,
        "policy.correction": None,
    },
    "robot_success_human_success": {
        "budget.robot_recovery": 0,
        "budget.human_success": 300,
        "budget.human_recovery": 0,
        "policy.correction": None,
    },
    "robot_success_human_recovery": {"budget.robot_recovery": 0, "policy.correction": None},
    "robot_recovery": {
        "budget.human_recovery": 0,
        "batch.human": 0,
        "policy.human_decoder": False,
        "policy.correction": None,
    },
    "human_success_mix": {"budget.human_success": 300, "budget.human_recovery": 0, "policy.correction": None},
    "direct_human_recovery_mix": {"policy.correction": None},
    "egorecovery": {},
    "without_intent_loss": {"losses.intent": 0.0},
    "without_segment_mask": {"segment_mask": False},
    "without_intent_modulation": {"policy.correction.modulation": "none"},
    "always_on_modulation": {"policy.correction.modulation": "always_on"},
    "raw_future_trajectory": {"intent_target": "raw_trajectory", "policy.correction.intent_dim": 45},
    "robot_success_effector": {
        "budget.robot_recovery": 0,
        "budget.human_recovery": 0,
        "batch.human": 0,
        "policy.human_decoder": False,
        "policy.correction": None,
        **EFFECTOR,
    },
    "robot_recovery_effector": {
        "budget.human_recovery": 0,
        "batch.human": 0,
        "policy.human_decoder": False,
        "policy.correction": None,
        **EFFECTOR,
    },
    "direct_mix_effector": {"policy.correction": None, **EFFECTOR},
    "shared_decoder": {"policy.correction": None, "policy.decoders": "shared", **EFFECTOR},
    "shared_egorecovery": {"policy.correction.film_on_human": True, "policy.decoders": "shared", **EFFECTOR},
}


def test_every_method_and_ablation_has_its_intention_written_down():
    assert METHODS.keys() == MAIN.keys() | ABLATIONS.keys() | TARGETS.keys() | SHARED.keys() == INTENDED.keys()


@pytest.mark.parametrize("name", INTENDED)
def test_a_method_differs_from_egorecovery_in_the_intended_fields_alone(name):
    lines = differences(egorecovery(paper("cube_stack")), METHODS[name](paper("cube_stack")))
    found = dict(line.split(": ", 1) for line in lines)
    if "policy.correction" in found:  # taken out whole: its fields are then absent
        found = {field: text for field, text in found.items() if not field.startswith("policy.correction.")}
    assert {field: text.split(" against ")[1] for field, text in found.items()} == {
        field: str(value) for field, value in INTENDED[name].items()
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_egorecovery_is_the_recipe_itself(recipe):
    assert differences(RECIPES[recipe]("cube_stack"), egorecovery(RECIPES[recipe]("cube_stack"))) == []


@pytest.mark.parametrize("name", METHODS)
def test_every_method_sees_as_many_robot_samples_per_step(name):
    full = paper("cube_stack")
    recipe = METHODS[name](full)
    assert recipe.batch.robot == full.batch.robot
    assert recipe.batch.human in (0, recipe.batch.robot)
    assert recipe.budget.robot_success == full.budget.robot_success


def test_methods_do_not_depend_on_what_was_applied_before():
    once = paper("cube_stack")
    for method in METHODS.values():
        assert method(method(once)) == method(once)


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.25, 3.0]), min_size=2, max_size=40),
    data=st.data(),
)
def test_auc_is_scikit_learns_also_with_ties(scores, data):
    positive = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    if all(positive) or not any(positive):
        positive[0] = not positive[0]
    wanted = roc_auc_score(positive, scores)
    assert auc(np.array(scores), np.array(positive)) == pytest.approx(wanted, abs=1e-12)


def frame_table(lengths, rng) -> FrameTable:
    total = sum(lengths)
    return FrameTable(
        samples=[("episode", frame) for frame in range(total)],
        source_F=np.repeat(np.arange(len(lengths)), lengths).astype(np.int64),
        robot_frames=sum(lengths[:2]),
        state_FA=np.zeros((total, 14), np.float32),
        action_FA=rng.normal(size=(total, 14)).astype(np.float32),
        anchor_FA=np.zeros((total, 14), np.float32),
        last_F=np.repeat(np.cumsum(lengths) - 1, lengths).astype(np.int64),
        intent_FC=np.zeros((total, 4), np.float32),
        intent_mask_F=np.zeros(total, bool),
        in_recovery_F=np.zeros(total, bool),
    )


def test_the_action_error_of_a_frame_is_the_mean_over_what_is_left_of_its_episode(rng):
    frames = frame_table([6, 4], rng)
    action_BHA = rng.normal(size=(3, 5, 14))
    rows = np.array([0, 4, 9])
    found = mean_of_episode(action_errors(action_BHA, frames, rows).mean(axis=-1), frames, rows)
    for each, row, left in zip(range(3), rows, (5, 2, 1), strict=True):
        wanted = np.abs(action_BHA[each, :left] - frames.action_FA[row : row + left]).mean()
        assert found[each] == pytest.approx(wanted)


def test_frames_to_score_are_spread_over_every_source_there_is(rng):
    frames = frame_table([100, 30, 0, 250], rng)
    rows = thinned(frames, most=40)
    counts = np.bincount(frames.source_F[rows], minlength=4)
    assert counts.tolist() == [40, 30, 0, 40]
    assert rows == sorted(set(rows))
    last = np.array(rows)[frames.source_F[rows] == 3]
    assert (last[0], last[-1]) == (130, 379)
    assert np.ptp(np.diff(last)) <= 1


TWO = Runtime(device=torch.device("cpu"), ranks=2)


@pytest.fixture
def agreed_at(monkeypatch):
    """When two processes agree on stopping, in seconds, if their steps take so long; a slower one's wait included."""

    def run(step_times_s: list[float], slower: float = 1.0) -> list[float]:
        now_s, times_s = 0.0, []

        def all_reduce(told, op):
            times_s.append(now_s)
            told[1] *= slower

        monkeypatch.setattr(distributed_stop, "time", SimpleNamespace(monotonic=lambda: now_s))
        monkeypatch.setattr(distributed_stop.dist, "all_reduce", all_reduce)
        agreeing = Agreement(TWO)
        for step_s in step_times_s:
            now_s += step_s
            assert not agreeing.stopping(lambda: False)
        return times_s

    return run


@pytest.mark.parametrize("step_s", [0.002, 0.035, 0.3, 2.0])
def test_processes_agree_on_stopping_about_twice_a_second_however_fast_they_are(agreed_at, step_s):
    times_s = agreed_at([step_s] * 4000)
    assert times_s[0] == step_s
    gaps_s = np.diff(times_s)
    assert gaps_s.max() <= max(0.5, step_s) + 1e-6
    assert gaps_s[8:].min() > 0.29  # by then the interval has doubled up to its size


def test_agreement_comes_as_often_when_steps_grow_slow(agreed_at):
    times_s = np.array(agreed_at([0.002] * 1000 + [0.05] * 200))
    slow_s = times_s[times_s > 2.0]
    late_s = np.diff(slow_s)
    assert late_s.max() < 0.5 / 0.002 * 0.05 + 1  # once, since nobody knew
    assert np.sort(late_s)[-2] < 0.6


def test_the_slowest_process_sets_the_interval(agreed_at):
    quick, slow = (len(agreed_at([0.01] * 1000, slower)) for slower in (1.0, 5.0))
    assert slow == pytest.approx(5 * quick, rel=0.2)


def test_a_request_to_another_process_is_ones_own(monkeypatch):
    monkeypatch.setattr(distributed_stop.dist, "all_reduce", lambda told, op: told.copy_(torch.tensor([1.0, 0.1])))
    assert Agreement(TWO).stopping(lambda: False)


def test_a_process_alone_answers_after_every_step():
    alone = Agreement(Runtime(device=torch.device("cpu")))
    answers = iter([False, False, True])
    assert [alone.stopping(lambda: next(answers)) for _ in range(3)] == [False, False, True]
