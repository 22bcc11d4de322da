"""Each loss trains the part that its data can speak for: Eq. 2 and Eq. 3 on the real model, at a tiny size."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402 - torch is an extra
from hypothesis import strategies as st  # noqa: E402
from torch import Tensor  # noqa: E402

from egorecovery.policy import CorrectionConfig, LossWeights  # noqa: E402
from egorecovery.policy.modulation import GatedModulation  # noqa: E402
from egorecovery.policy.objective import Targets, intent_loss, nominal_loss, objective  # noqa: E402
from egorecovery.policy.policy import Policy, Prediction  # noqa: E402
from tiny_policy import HUMANS, ROBOTS, observations, tiny_policy  # noqa: E402

BATCH = ROBOTS + HUMANS
HORIZON, ACTIONS, INTENTS, WIDTH = 5, 14, 4, 32


def make_targets(seed: int = 1, **changes: Tensor) -> Targets:
    """Robots first. Chunks of rows 1 and 4 run past their episodes; recovery and its mask are mixed."""
    generator = torch.Generator().manual_seed(seed)
    mask_BH = torch.ones(BATCH, HORIZON)
    mask_BH[1, 2:] = 0
    mask_BH[4, 4:] = 0
    whole = {
        "action_BHA": torch.randn(BATCH, HORIZON, ACTIONS, generator=generator),
        "action_mask_BH": mask_BH,
        "intent_BC": torch.rand(BATCH, INTENTS, generator=generator),
        "intent_mask_B": torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0]),
        "in_recovery_B": torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0]),
    }
    return Targets(**{**whole, **changes})


def make_prediction(seed: int = 2, modulated: bool = True) -> Prediction:
    """Any numbers: the objective is a function of them, whoever made them."""
    generator = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).requires_grad_()

    return Prediction(
        pooled_BD=leaf(BATCH, WIDTH),
        robot_action_RHA=leaf(ROBOTS, HORIZON, ACTIONS),
        human_action_MHA=leaf(HUMANS, HORIZON, ACTIONS),
        intent_BC=leaf(BATCH, INTENTS),
        gate_logit_B=leaf(BATCH),
        film_scale_RD=leaf(ROBOTS, WIDTH) if modulated else None,
        film_shift_RD=leaf(ROBOTS, WIDTH) if modulated else None,
    )


def gradients_of(term: str, policy: Policy, gate_B: Tensor | None = None) -> dict[str, Tensor]:
    """Gradients of one term by parameter; parameters that it does not reach are left out. `gate_B` takes the gate's
    place where given."""
    policy.zero_grad(set_to_none=True)
    tokens_BND = policy.tokens(*observations(policy.config), ROBOTS)
    pooled_BD, intent_BC, logit_B = policy.correction(tokens_BND)
    gate_B = logit_B.sigmoid() if gate_B is None and logit_B is not None else gate_B
    prediction = policy.act(tokens_BND, pooled_BD, intent_BC, logit_B, gate_B, ROBOTS)
    objective(prediction, make_targets(), LossWeights())[term].backward()
    return {name: weight.grad for name, weight in policy.named_parameters() if touched(weight)}


def touched(weight: torch.nn.Parameter) -> bool:
    return weight.grad is not None and bool(weight.grad.any())


def reached(gradients: dict[str, Tensor]) -> set[str]:
    """The parts of the policy that a loss trains."""
    return {name.split(".")[0] for name in gradients}


def gate_of(policy: Policy) -> Tensor:
    """What the gate says, as plain numbers."""
    with torch.no_grad():
        logit_B = policy(*observations(policy.config), ROBOTS).gate_logit_B
    return logit_B.sigmoid()


def features(policy: Policy, gate: float, intent_BC: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What the robot decoder gave and what its projection got, with a gate (and an intent) put in."""
    seen: list[Tensor] = []
    hooks = [
        policy.robot.decoder.register_forward_hook(lambda module, given, out: seen.append(out)),
        policy.robot.projection.register_forward_pre_hook(lambda module, given: seen.append(given[0])),
    ]
    with torch.no_grad():
        tokens_BND = policy.tokens(*observations(policy.config), ROBOTS)
        pooled_BD, own_intent_BC, logit_B = policy.correction(tokens_BND)
        intent_BC = own_intent_BC if intent_BC is None else intent_BC
        policy.act(tokens_BND, pooled_BD, intent_BC, logit_B, torch.full((BATCH,), gate), ROBOTS)
    for hook in hooks:
        hook.remove()
    before, after = seen
    return before, after


def test_imitation_loss_sends_no_gradient_into_the_gate_head():
    policy = tiny_policy()
    for term in ("imitation_robot", "imitation_human"):
        assert "gate" not in reached(gradients_of(term, policy)), term


def test_imitation_loss_sends_no_gradient_through_the_gate_into_anything():
    policy = tiny_policy()
    through_the_model = gradients_of("imitation_robot", policy)
    with_a_constant = gradients_of("imitation_robot", policy, gate_B=gate_of(policy))
    assert through_the_model.keys() == with_a_constant.keys()
    for name, gradient in through_the_model.items():
        assert torch.equal(gradient, with_a_constant[name]), name


def test_the_whole_imitation_of_a_policy_without_modulation_knows_neither_head():
    policy = tiny_policy(CorrectionConfig(modulation="none"))
    assert policy.modulation is None
    assert not {"gate", "intent", "pooling"} & reached(gradients_of("imitation_robot", policy))


def test_robot_action_loss_reaches_the_intent_head_through_the_modulation():
    policy = tiny_policy()
    assert {"intent", "pooling", "modulation", "trunk", "views", "robot"} <= reached(
        gradients_of("imitation_robot", policy)
    )


def test_robot_action_loss_reaches_the_intent_head_only_as_far_as_the_gate_is_open():
    policy = tiny_policy()
    closed = gradients_of("imitation_robot", policy, gate_B=torch.zeros(BATCH))
    assert not {"intent", "pooling", "modulation"} & reached(closed)
    assert "robot" in reached(closed)


def test_human_action_loss_touches_no_robot_decoder_parameter_and_no_film_parameter():
    parts = reached(gradients_of("imitation_human", tiny_policy()))
    assert not {"robot", "robot_state", "modulation", "intent", "gate", "pooling"} & parts
    assert {"human", "human_state", "trunk", "views", "stems", "action_tokens"} <= parts


def test_robot_action_loss_touches_no_human_parameter():
    assert not {"human", "human_state"} & reached(gradients_of("imitation_robot", tiny_policy()))


def test_film_on_the_human_decoder_is_an_option_that_human_actions_then_train():
    parts = reached(gradients_of("imitation_human", tiny_policy(CorrectionConfig(film_std=0.5, film_on_human=True))))
    assert {"modulation", "intent", "human"} <= parts
    assert not {"robot", "gate"} & parts


def test_intent_and_gate_losses_train_their_own_heads_and_what_both_embodiments_share():
    policy = tiny_policy()
    shared = {"pooling", "trunk", "views", "stems", "action_tokens", "robot_state", "human_state", "place_ND"}
    assert reached(gradients_of("intent", policy)) == shared | {"intent"}
    assert reached(gradients_of("gate", policy)) == shared | {"gate"}


def test_the_nominal_loss_trains_no_decoder():
    parts = reached(gradients_of("nominal", tiny_policy()))
    assert {"modulation", "intent"} <= parts
    assert not {"robot", "human"} & parts


def test_every_parameter_is_trained_by_the_whole_objective():
    policy = tiny_policy()
    found = gradients_of("loss", policy)
    assert [name for name, _ in policy.named_parameters() if name not in found] == []


def test_gate_at_zero_leaves_decoder_features_bitwise_unchanged():
    before, after = features(tiny_policy(), gate=0.0)
    assert torch.equal(before, after)


@pytest.mark.parametrize("modulation", ["gated", "always_on"])
def test_intent_zero_leaves_decoder_features_bitwise_unchanged_whatever_the_gate(modulation):
    policy = tiny_policy(CorrectionConfig(film_std=0.5, modulation=modulation))
    before, after = features(policy, gate=0.7, intent_BC=torch.zeros(BATCH, INTENTS))
    assert torch.equal(before, after)


def test_an_open_gate_changes_decoder_features():
    before, after = features(tiny_policy(), gate=1.0)
    assert not torch.allclose(before, after, atol=1e-3)


@settings(max_examples=20, deadline=None)
@given(gate=st.floats(0, 1, width=32), floor=st.sampled_from([0.0, 0.1, 0.5]))
def test_modulation_is_the_papers_residual_form_and_linear_in_alpha(gate, floor):
    policy = tiny_policy(CorrectionConfig(film_std=0.5, gate_floor=floor))
    _, intent_BC, _ = policy.correction(policy.tokens(*observations(policy.config), ROBOTS))
    before, after = features(policy, gate=gate)
    scale_RD, shift_RD = policy.modulation.terms(intent_BC[:ROBOTS].detach())
    alpha = floor + (1 - floor) * gate
    wanted = before + alpha * (before * scale_RD[:, None] + shift_RD[:, None])
    torch.testing.assert_close(after, wanted, rtol=1e-5, atol=1e-5)


def test_a_gate_floor_never_lets_the_gate_close():
    before, after = features(tiny_policy(CorrectionConfig(film_std=0.5, gate_floor=0.1)), gate=0.0)
    assert not torch.equal(before, after)


def test_always_on_modulation_ignores_the_gate():
    policy = tiny_policy(CorrectionConfig(film_std=0.5, modulation="always_on"))
    closed, open_ = (features(policy, gate)[1] for gate in (0.0, 1.0))
    assert torch.equal(closed, open_)
    gated = tiny_policy()
    gated.load_state_dict(policy.state_dict())
    assert torch.equal(open_, features(gated, gate=1.0)[1])


def test_without_modulation_features_pass_and_neither_gate_nor_intent_matters():
    policy = tiny_policy(CorrectionConfig(modulation="none"))
    for gate, intent in ((0.0, 0.0), (1.0, 5.0)):
        before, after = features(policy, gate, torch.full((BATCH, INTENTS), intent))
        assert torch.equal(before, after)


def test_modulation_has_no_bias_and_starts_small_but_not_at_zero():
    modulation = GatedModulation(CorrectionConfig(), 256)
    assert not [name for name, _ in modulation.named_parameters() if "bias" in name]
    assert float(modulation.film.weight.detach().std()) == pytest.approx(0.02, rel=0.05)


def numpy_objective(prediction: Prediction, targets: Targets, weights: LossWeights) -> dict[str, float]:
    """Eq. 3 once more, frame by frame, by hand."""
    given = {
        name: None if value is None else value.detach().double().numpy()
        for source in (prediction, targets)
        for name, value in vars(source).items()
    }

    def mean(values: list[float]) -> float:
        return float(np.sum(values)) / max(len(values), 1)

    def smooth(error: np.ndarray, beta: float) -> np.ndarray:
        size = np.abs(error)
        return np.where(size < beta, size**2 / (2 * beta), size - beta / 2)

    def imitation(predicted: np.ndarray, first: int) -> float:
        frames = []
        for row, chunk in enumerate(predicted, start=first):
            for step in range(HORIZON):
                if targets.action_mask_BH[row, step]:
                    frames.append(smooth(chunk[step] - wanted[row, step], weights.imitation_beta).mean())
        return mean(frames)

    wanted, gate = targets.action_BHA.double().numpy(), 1 / (1 + np.exp(-given["gate_logit_B"]))
    recovering, robots = targets.in_recovery_B.numpy() == 1, range(ROBOTS)
    terms = {
        "imitation_robot": imitation(given["robot_action_RHA"], 0),
        "imitation_human": imitation(given["human_action_MHA"], ROBOTS),
        "gate": mean([-np.log(gate[i] if recovering[i] else 1 - gate[i]) for i in range(BATCH)]),
    }
    asked = [i for i in range(BATCH) if targets.intent_mask_B[i]]
    apart = prediction.intent_BC.detach().double().numpy() - targets.intent_BC.double().numpy()
    if weights.intent_form == "l1":
        terms["intent"] = mean([np.abs(apart[i]).sum() for i in asked])
    else:
        terms["intent"] = mean([smooth(apart[i], 1.0).mean() for i in asked])
    scale, shift = given["film_scale_RD"], given["film_shift_RD"]
    intent = prediction.intent_BC.detach().double().numpy()
    if weights.nominal_form == "film":
        strength = [gate[i] * ((scale[i] ** 2).sum() + (shift[i] ** 2).sum()) for i in robots if not recovering[i]]
    else:
        strength = [(gate[i] * np.linalg.norm(intent[i])) ** 2 for i in robots]
    terms["nominal"] = mean(strength)
    weighted = weights.intent * terms["intent"] + weights.gate * terms["gate"] + weights.nominal * terms["nominal"]
    return {"loss": terms["imitation_robot"] + terms["imitation_human"] + weighted, **terms}


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    intent_form=st.sampled_from(["l1", "smooth_l1"]),
    nominal_form=st.sampled_from(["film", "intent"]),
    weights=st.tuples(*[st.floats(0, 2)] * 3),
    masks=st.lists(st.booleans(), min_size=3 * BATCH, max_size=3 * BATCH),
)
def test_all_terms_are_those_of_an_independent_formula(seed, intent_form, nominal_form, weights, masks):
    intent_mask_B, in_recovery_B, short_B = torch.tensor(masks).float().reshape(3, BATCH)
    mask_BH = torch.ones(BATCH, HORIZON)
    mask_BH[short_B.bool(), 2:] = 0
    prediction = make_prediction(seed)
    targets = make_targets(seed + 1, action_mask_BH=mask_BH, intent_mask_B=intent_mask_B, in_recovery_B=in_recovery_B)
    chosen = LossWeights(
        intent=weights[0], gate=weights[1], nominal=weights[2], intent_form=intent_form, nominal_form=nominal_form
    )
    found = objective(prediction, targets, chosen)
    wanted = numpy_objective(prediction, targets, chosen)
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert value.item() == pytest.approx(wanted[name], rel=1e-4, abs=1e-6), name


def test_the_nominal_regulariser_is_zero_on_recovery_frames():
    prediction = make_prediction()
    everywhere = make_targets(in_recovery_B=torch.ones(BATCH))
    assert nominal_loss(prediction, everywhere, "film").item() == 0
    somewhere = make_targets(in_recovery_B=torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]))
    nominal_loss(prediction, somewhere, "film").backward()
    for film in (prediction.film_scale_RD, prediction.film_shift_RD):
        assert not film.grad[[0, 2]].any()
        assert film.grad[1].any()
    assert prediction.gate_logit_B.grad.nonzero().flatten().tolist() == [1]


def test_the_nominal_regulariser_never_looks_at_human_frames():
    targets = make_targets()
    nominal = make_targets(in_recovery_B=torch.cat([targets.in_recovery_B[:ROBOTS], torch.zeros(HUMANS)]))
    first, second = (nominal_loss(make_prediction(), each, "film") for each in (targets, nominal))
    assert torch.equal(first, second)


@pytest.mark.parametrize("form", ["l1", "smooth_l1"])
def test_masked_frames_contribute_nothing_to_the_intent_loss(form):
    prediction, targets = make_prediction(), make_targets()
    masked = targets.intent_mask_B == 0
    loss = intent_loss(prediction.intent_BC, targets, form)
    loss.backward()
    assert not prediction.intent_BC.grad[masked].any()
    assert prediction.intent_BC.grad[~masked].any()
    elsewhere_BC = prediction.intent_BC.detach().clone()
    elsewhere_BC[masked] += 100
    assert torch.equal(intent_loss(elsewhere_BC, targets, form), loss)
    other = replace(targets, intent_BC=torch.where(masked[:, None], 1e3, targets.intent_BC))
    assert torch.equal(intent_loss(prediction.intent_BC, other, form), loss)


def test_actions_past_the_end_of_an_episode_change_no_loss_and_get_no_gradient():
    prediction, targets = make_prediction(), make_targets()
    past_BH1 = targets.action_mask_BH[..., None] == 0
    other = replace(targets, action_BHA=torch.where(past_BH1, 1e3, targets.action_BHA))
    first, second = (objective(prediction, each, LossWeights()) for each in (targets, other))
    for name in first:
        assert torch.equal(first[name], second[name]), name
    first["loss"].backward()
    got_BHA = torch.cat([prediction.robot_action_RHA.grad, prediction.human_action_MHA.grad])
    assert not got_BHA[past_BH1.expand_as(got_BHA)].any()
    assert (got_BHA != 0).any(dim=-1).equal(~past_BH1[..., 0])


def test_empty_masks_give_zero_and_not_nan():
    prediction = make_prediction()
    nothing = make_targets(
        action_mask_BH=torch.zeros(BATCH, HORIZON), intent_mask_B=torch.zeros(BATCH), in_recovery_B=torch.ones(BATCH)
    )
    terms = objective(prediction, nothing, LossWeights())
    for name in ("imitation_robot", "imitation_human", "intent", "nominal"):
        assert terms[name].item() == 0, name
    terms["loss"].backward()
    for value in vars(prediction).values():
        assert value.grad is None or value.grad.isfinite().all()


def test_a_policy_without_correction_has_imitation_terms_alone():
    policy = Policy(replace(tiny_policy().config, correction=None))
    terms = objective(policy(*observations(policy.config), ROBOTS), make_targets(), LossWeights())
    assert set(terms) == {"loss", "imitation_robot", "imitation_human"}
    assert terms["loss"].item() == pytest.approx((terms["imitation_robot"] + terms["imitation_human"]).item())


def test_without_modulation_there_is_no_nominal_term():
    assert "nominal" not in objective(make_prediction(modulated=False), make_targets(), LossWeights())


def test_shares_of_a_batch_add_up_to_the_whole_when_they_know_the_total_counts():
    """Two processes, each with some rows, divide by what both have."""
    prediction, targets, weights = make_prediction(), make_targets(), LossWeights()
    whole = objective(prediction, targets, weights)
    rows_of = {0: [0, 3], 1: [1, 2, 4]}  # robots 0..2, humans 3..4

    def part(rank: int, total: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        rows = rows_of[rank]
        robots = [row for row in rows if row < ROBOTS]
        own = Prediction(
            pooled_BD=prediction.pooled_BD[rows],
            robot_action_RHA=prediction.robot_action_RHA[robots],
            human_action_MHA=prediction.human_action_MHA[[row - ROBOTS for row in rows if row >= ROBOTS]],
            intent_BC=prediction.intent_BC[rows],
            gate_logit_B=prediction.gate_logit_B[rows],
            film_scale_RD=prediction.film_scale_RD[robots],
            film_shift_RD=prediction.film_shift_RD[robots],
        )
        return objective(
            own,
            Targets(**{name: value[rows] for name, value in vars(targets).items() if value is not None}),
            weights,
            total,
        )

    counts: dict[int, list[Tensor]] = {0: [], 1: []}
    for rank, seen in counts.items():
        part(rank, lambda count, seen=seen: seen.append(count) or count)
    totals = [sum(each) for each in zip(*counts.values(), strict=True)]

    def in_turn() -> Callable[[Tensor], Tensor]:
        left = iter(totals)
        return lambda count: next(left)

    shares = [part(rank, in_turn()) for rank in counts]
    for name, value in whole.items():
        assert sum(share[name] for share in shares).item() == pytest.approx(value.item(), rel=1e-5), name
