"""A trained policy as something to act with: physical units, each observation for itself, interventions."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from egorecovery.episodes import Embodiment  # noqa: E402 - torch is an extra
from egorecovery.errors import RecipeError  # noqa: E402
from egorecovery.policy import ActionSource, CorrectionConfig, Intervention  # noqa: E402
from egorecovery.policy.inference import TrainedPolicy, plain_images  # noqa: E402
from egorecovery.policy.policy import Policy  # noqa: E402
from tiny_policy import pictures_and_states, statistics, tiny_config, tiny_policy  # noqa: E402

GATES = np.array([0.05, 0.25, 0.45, 0.65, 0.85], np.float32)


def trained(
    intervention: Intervention | None = None, policy: Policy | None = None, gates: np.ndarray | None = GATES, **units
) -> TrainedPolicy:
    return TrainedPolicy(
        policy or tiny_policy(),
        statistics(**units),
        name="tiny",
        device=torch.device("cpu"),
        intervention=intervention,
        gate_sample=gates,
    )


def observed(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return pictures_and_states(tiny_config(), count, seed)


def test_a_trained_policy_is_an_action_source():
    source = trained()
    assert isinstance(source, ActionSource)
    assert (source.name, source.cameras, source.image_size) == ("tiny", tiny_config().cameras, 16)


def test_a_decision_has_a_chunk_a_gate_and_an_intent_per_observation():
    decision = trained().infer(*observed(3))
    assert decision.action_BHA.shape == (3, 5, 14)
    assert decision.gate_B.shape == (3,)
    assert decision.intent_BC.shape == (3, 4)
    assert ((decision.gate_B > 0) & (decision.gate_B < 1)).all()


def test_actions_come_in_physical_units():
    plain = trained().infer(*observed(2)).action_BHA
    physical = trained(centre=0.3, spread=0.05).infer(*observed(2)).action_BHA
    np.testing.assert_allclose(physical, plain * 0.05 + 0.3 * np.arange(1, 15, dtype=np.float32), atol=1e-5)


def test_a_relative_policy_that_predicts_nothing_stays_where_it_is_and_leaves_grippers_to_their_mean():
    policy = tiny_policy(relative_actions=True)
    for parameter in policy.robot.projection.parameters():
        parameter.data.zero_()
    images, state = observed(3)
    chunk_BHA = trained(policy=policy, centre=0.3, spread=0.05).infer(images, state).action_BHA
    wanted_BA = np.where(np.arange(14) % 7 == 6, 0.3 * np.arange(1, 15), state)
    np.testing.assert_allclose(chunk_BHA, np.repeat(wanted_BA[:, None], 5, axis=1), atol=1e-6)


def test_states_are_normalised_by_the_robots_statistics():
    images, state = observed(2)
    known = statistics()
    for each in known.state.values():
        each.centre_A[:] = 2.0
        each.spread_A[:] = 4.0
    shifted = TrainedPolicy(tiny_policy(), known, name="tiny", device=torch.device("cpu"))
    np.testing.assert_allclose(
        shifted.infer(images, state * 4 + 2).action_BHA, trained().infer(images, state).action_BHA, atol=1e-5
    )


def test_pictures_are_centred_as_imagenet_wants_them():
    black = plain_images(torch.zeros(1, 2, 4, 4, 3, dtype=torch.uint8), torch.float32)
    white = plain_images(torch.full((1, 2, 4, 4, 3), 255, dtype=torch.uint8), torch.float32)
    assert black.shape == (2, 1, 3, 4, 4)
    expected = torch.tensor([-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225])
    torch.testing.assert_close(black[0, 0, :, 0, 0], expected)
    torch.testing.assert_close((white - black)[1, 0, :, 3, 3], 1 / torch.tensor([0.229, 0.224, 0.225]))


@pytest.mark.parametrize("count", [2, 4, 5, 17, 65])
def test_an_observation_gets_the_same_answer_alone_and_in_a_batch_of_any_size(count):
    source = trained()
    images, state = observed(count)
    together = source.infer(images, state)
    for index in {0, count // 2, count - 1}:
        alone = source.infer(images[index : index + 1], state[index : index + 1])
        np.testing.assert_allclose(together.action_BHA[index], alone.action_BHA[0], atol=1e-5)
        np.testing.assert_allclose(together.gate_B[index], alone.gate_B[0], atol=1e-5)
        np.testing.assert_allclose(together.intent_BC[index], alone.intent_BC[0], atol=1e-5)


@pytest.mark.parametrize(
    ("images_shape", "state_shape"),
    [
        ((1, 3, 16, 16, 3), (1, 14)),  # a camera too many
        ((1, 2, 32, 32, 3), (1, 14)),
        ((1, 2, 16, 16, 3), (1, 7)),
    ],
)
def test_observations_of_another_shape_are_refused_saying_what_is_wanted(images_shape, state_shape):
    with pytest.raises(RecipeError, match=r"tiny wants pictures of shape \(1, 2, 16, 16, 3\) \(head, left_wrist\)"):
        trained().infer(np.zeros(images_shape, np.uint8), np.zeros(state_shape, np.float32))


def test_no_observation_at_all_is_refused():
    with pytest.raises(RecipeError, match="at least one observation"):
        trained().infer(*(part[:0] for part in observed(1)))


def test_pictures_of_numbers_between_0_and_1_are_refused_and_not_taken_for_black():
    """Through `_check`: the suite's own check of dtypes would refuse it in `infer` already."""
    images, state = observed(1)
    with pytest.raises(RecipeError, match="pictures of bytes"):
        trained()._check(images.astype(np.float32) / 255, state)


def test_zero_intent_acts_as_the_gate_at_zero_does():
    """Both are the identity: the modulation has no bias."""
    zero_intent = trained(Intervention(zero_intent=True)).infer(*observed(3))
    closed = trained(Intervention(gate="0")).infer(*observed(3))
    np.testing.assert_array_equal(zero_intent.action_BHA, closed.action_BHA)
    assert not zero_intent.intent_BC.any()
    assert zero_intent.gate_B.any()
    assert not closed.gate_B.any()
    assert closed.intent_BC.any()


def test_a_gate_forced_open_changes_actions_more_than_one_forced_half_open():
    closed, half, whole = (trained(Intervention(gate=gate)).infer(*observed(3)) for gate in ("0", "0.5", "1"))
    np.testing.assert_array_equal(half.gate_B, np.full(3, 0.5, np.float32))
    assert np.abs(whole.action_BHA - closed.action_BHA).max() > 1e-2
    np.testing.assert_allclose(  # actions are linear in the gate
        half.action_BHA, (closed.action_BHA + whole.action_BHA) / 2, atol=1e-4
    )


def test_no_intervention_is_the_learned_gate():
    source, asked = trained(), trained(Intervention(gate="learned"))
    np.testing.assert_array_equal(source.infer(*observed(2)).action_BHA, asked.infer(*observed(2)).action_BHA)


def test_shuffled_gates_are_drawn_from_the_saved_sample_by_the_observation_itself():
    source = trained(Intervention(gate="shuffled"))
    images, state = observed(40)
    gates = source.infer(images, state).gate_B
    assert set(gates) == set(GATES)  # forty observations meet all five
    np.testing.assert_array_equal(source.infer(images[::-1], state[::-1]).gate_B[::-1], gates)
    for index in (0, 7, 39):
        np.testing.assert_array_equal(
            source.infer(images[index : index + 1], state[index : index + 1]).gate_B, gates[index : index + 1]
        )


def test_shuffled_gates_need_a_saved_sample():
    with pytest.raises(RecipeError, match="without a sample of its gates"):
        trained(Intervention(gate="shuffled"), gates=None)


@pytest.mark.parametrize("intervention", [Intervention(zero_intent=True), Intervention(gate="0.5")])
def test_an_intervention_on_a_policy_without_correction_is_refused(intervention):
    plain = Policy(replace(tiny_config(), correction=None))
    with pytest.raises(RecipeError, match=f"tiny has neither gate nor intent: '{intervention.words}'"):
        trained(intervention, plain)


def test_a_policy_without_correction_decides_without_gate_and_intent():
    decision = trained(policy=Policy(replace(tiny_config(), correction=None))).infer(*observed(2))
    assert decision.gate_B is None
    assert decision.intent_BC is None
    assert decision.action_BHA.shape == (2, 5, 14)


@pytest.mark.parametrize(
    ("modulation", "intervention"),
    [
        ("none", Intervention(zero_intent=True)),
        ("none", Intervention(gate="1")),
        ("always_on", Intervention(gate="0")),
    ],
)
def test_an_intervention_that_could_change_nothing_is_refused(modulation, intervention):
    policy = tiny_policy(CorrectionConfig(modulation=modulation))
    with pytest.raises(RecipeError, match=f"what '{intervention.words}' acts on: it would change nothing"):
        trained(intervention, policy)


def test_zero_intent_can_be_done_to_modulation_that_is_always_on():
    policy = tiny_policy(CorrectionConfig(modulation="always_on", film_std=0.5))
    decisions = [trained(each, policy).infer(*observed(2)) for each in (None, Intervention(zero_intent=True))]
    assert np.abs(decisions[0].action_BHA - decisions[1].action_BHA).max() > 1e-2


def test_interventions_say_themselves_in_words():
    assert Intervention().words == "as trained"
    assert Intervention(zero_intent=True, gate="0.5").words == "intent 0, gate 0.5"


def test_a_state_that_is_not_known_acts_like_one_that_training_dropped():
    policy = trained()
    images, states = observed(2)
    centre_A = statistics().state[Embodiment.ROBOT].centre_A  # normalises to zero, as dropped states are
    dropped = policy.infer(images, np.stack([centre_A, centre_A]))
    unknown = policy.infer(images, np.full_like(states, np.nan))
    np.testing.assert_array_equal(unknown.action_BHA, dropped.action_BHA)
    assert (policy.infer(images, states).action_BHA != unknown.action_BHA).any()


def test_a_relative_policy_refuses_to_act_without_its_state():
    images, states = observed(1)
    with pytest.raises(RecipeError, match="where the arms are"):
        trained(policy=Policy(tiny_config(relative_actions=True))).infer(images, np.full_like(states, np.nan))
