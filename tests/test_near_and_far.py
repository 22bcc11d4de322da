"""Positions predicted twice: in the workspace and from where the hand is, blended by how far there is to go."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from egorecovery.errors import RecipeError  # noqa: E402
from egorecovery.kinematics.action_space import anchored_dims  # noqa: E402
from egorecovery.policy.near_and_far import FLOOR, blended, output_dims  # noqa: E402
from egorecovery.training.human_supervision import HumanSupervision  # noqa: E402
from egorecovery.training.methods import METHODS  # noqa: E402
from egorecovery.training.recipe import demo  # noqa: E402

NEAR_M = 0.06
ANCHORED = np.flatnonzero(anchored_dims("effector"))
CONFIG = replace(METHODS["shared_decoder"](demo("cube_stack")).policy, near_m=None)
BOTH = replace(CONFIG, near_m=NEAR_M)
SPREAD = np.full(20, 0.05, np.float32)


def outputs(seed: int, way_m: float) -> tuple[np.ndarray, np.ndarray]:
    """Two chunks of three steps, each hand some way from where it is, and a normalised state."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(2, 3, 2, 3))
    direction *= way_m / np.linalg.norm(direction, axis=-1, keepdims=True)
    far = rng.normal(size=(2, 3, 20))
    out = np.concatenate([far, direction.reshape(2, 3, 6) / 0.05], axis=-1)
    return out.astype(np.float32), rng.normal(size=(2, 20)).astype(np.float32)


@given(seed=st.integers(0, 99), way_m=st.floats(0, 1))
@settings(deadline=None)
def test_a_position_lies_between_its_two_predictions_with_the_share_of_inverse_variances(seed, way_m):
    out, here = outputs(seed, way_m)
    action = blended(out, here, SPREAD, BOTH)
    near = here[:, None, ANCHORED] + out[..., 20:]
    share = 1 / (1 + FLOOR**2 + (way_m / NEAR_M) ** 2)
    wanted = share * near + (1 - share) * out[..., ANCHORED]
    np.testing.assert_allclose(action[..., ANCHORED], wanted, atol=1e-5)


def test_a_resting_hand_does_not_drift_when_the_way_is_always_a_little_wrong():
    """Only the position in the workspace leads back; the two settle where they balance."""
    out, _ = outputs(0, 0.0)
    out[...] = 0.0
    out[..., 20:] = 0.001 / SPREAD[0]  # a millimetre, at every decision
    here = np.zeros((2, 20), np.float32)
    for _ in range(200):
        here = blended(out, here, SPREAD, BOTH)[:, -1]
    assert np.abs(here * SPREAD).max() < 0.007


@given(seed=st.integers(0, 99), way_m=st.floats(0, 1))
@settings(deadline=None)
def test_orientation_and_opening_are_left_as_predicted(seed, way_m):
    out, here = outputs(seed, way_m)
    others = np.setdiff1d(np.arange(20), ANCHORED)
    np.testing.assert_array_equal(blended(out, here, SPREAD, BOTH)[..., others], out[..., others])


def test_without_a_state_the_position_in_the_workspace_is_all_there_is():
    out, here = outputs(1, 0.01)
    here[0] = np.nan
    action = blended(out, here, SPREAD, BOTH)
    np.testing.assert_array_equal(action[0], out[0, :, :20])
    assert not np.array_equal(action[1], out[1, :, :20])


def test_a_policy_without_it_is_untouched():
    out, here = outputs(2, 0.01)
    assert blended(out[..., :20], here, SPREAD, CONFIG) is not None
    np.testing.assert_array_equal(blended(out[..., :20], here, SPREAD, CONFIG), out[..., :20])


def test_people_supervise_the_same_numbers_in_both_predictions():
    dims = HumanSupervision(opening="none").dims("effector")
    np.testing.assert_array_equal(output_dims(dims, CONFIG), dims)
    np.testing.assert_array_equal(output_dims(dims, BOTH), [*dims, *dims[ANCHORED]])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"near_m": -0.1}, "positive number of metres"),
        ({"near_m": float("nan")}, "positive number of metres"),
        ({"near_m": NEAR_M, "relative_actions": True}, "leave relative_actions false"),
        ({"near_m": NEAR_M, "action_space": "joint", "action_dim": 14, "decoders": "separate"}, "effector"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, said):
    with pytest.raises(RecipeError, match=said):
        replace(CONFIG, **changes)
