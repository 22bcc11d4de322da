"""Acceleration, bfloat16 and CUDA graphs must not change what is learnt."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import pytest
import torch
from torch import Tensor

from egorecovery.accelerator import Mode
from egorecovery.policy import PolicyConfig, VisionConfig
from egorecovery.policy.policy import Policy
from egorecovery.training import RECIPES, Batch, Recipe
from egorecovery.training.backend import PLAIN, Backend
from egorecovery.training.batch_sampler import StepPlan
from egorecovery.training.recipe import Optimisation
from egorecovery.training.runtime import Precision, Runtime, seed_initialisation, start
from egorecovery.training.throughput import training_step
from step_arms import Arm, assert_every_step_agrees, bits, off_by, unequal
from tiny_policy import tiny_config

CLIPPING = {"optimisation": Optimisation(clip_after=5, average_decay=0.9)}  # within twenty steps
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def recipe(**changes: object) -> Recipe:
    """The paper's widths, with fewer layers: rounding adds up over depth, and depth is not what is tested."""
    full = RECIPES["paper"]("cube_stack")
    policy = PolicyConfig(image_size=96, vision=VisionConfig(), blocks=4, decoder_layers=2)
    return replace(full, policy=policy, batch=Batch(robot=16, human=16), **changes)


def gradients_and_loss(
    runtime: Runtime, chosen: Recipe
) -> tuple[torch.Tensor, dict[str, float], dict[str, torch.Tensor]]:
    seed_initialisation(3)
    policy = Policy(chosen.policy).on(runtime.device)
    torch.manual_seed(5)  # the made-up pictures
    step, plans = training_step(chosen, policy, runtime)
    terms = step.rehearse(plans(0))
    gradients = {name: weight.grad for name, weight in step.network_parameters()}
    flat = torch.cat([gradient.float().flatten() for gradient in gradients.values()])
    return flat, {name: float(value) for name, value in terms.items()}, gradients


@CUDA
@pytest.mark.gpu
def test_fused_bfloat16_gives_the_losses_and_gradients_of_plain_float32() -> None:
    device = torch.device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    exact, exact_terms, _ = gradients_and_loss(Runtime(device=device), recipe())
    half_runtime = Runtime(device=device, precision=torch.bfloat16)
    fast, fast_terms, _ = gradients_and_loss(replace(half_runtime, accelerated=True), recipe())
    half, _, _ = gradients_and_loss(half_runtime, recipe())
    for name, value in exact_terms.items():
        assert fast_terms[name] == pytest.approx(value, rel=2e-2, abs=2e-2), name
    error, error_of_plain_half = (float((each - exact).norm() / exact.norm()) for each in (fast, half))
    print(f"gradient error of fused bf16 {error:.4f}, of plain bf16 {error_of_plain_half:.4f}")
    assert error < 0.1
    assert error < 1.3 * error_of_plain_half  # fusing loses nothing that bfloat16 had kept


@CUDA
@pytest.mark.gpu
def test_a_float32_step_on_a_gpu_gives_the_gradients_of_plain_float32() -> None:
    device = torch.device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    exact, _, _ = gradients_and_loss(Runtime(device=device), recipe())
    quick, _, _ = gradients_and_loss(Runtime(device=device, accelerated=True), recipe())
    assert float((quick - exact).norm() / exact.norm()) < 2e-3


@CUDA
@pytest.mark.gpu
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("accelerated", [False, True], ids=["plain", "accelerated"])
def test_captured_steps_change_every_parameter_as_uncaptured_ones_do(precision: torch.dtype, accelerated: bool) -> None:
    runtime = Runtime(device=torch.device("cuda"), precision=precision, accelerated=accelerated)
    arms = Arm(recipe(**CLIPPING), runtime), Arm(recipe(**CLIPPING), replace(runtime, graph=True))
    assert_every_step_agrees(*arms)


@CUDA
@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("acceleration", ["off", "on"])
def test_captured_steps_leave_the_bits_of_uncaptured_ones_in_deterministic_mode(
    precision: Precision, acceleration: Mode
) -> None:
    """In a process of its own: the mode is for good."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        assert process.submit(unequal_when_deterministic, precision, acceleration).result() == []


def unequal_when_deterministic(precision: Precision, acceleration: Mode) -> list[str]:
    runtime = start("cuda", precision, deterministic=True, acceleration=acceleration)
    return unequal(*(Arm(recipe(**CLIPPING), replace(runtime, graph=graph)) for graph in (False, True)))


def arm_on_cpu(precision: torch.dtype = torch.float32, backend: Backend = PLAIN) -> Arm:
    chosen = replace(recipe(**CLIPPING), policy=tiny_config(), batch=Batch(robot=3, human=2))
    return Arm(chosen, Runtime(device=torch.device("cpu"), precision=precision), backend)


def tamper(arm: Arm, parameter: str, at: int, with_update: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Update number `at` leaves in this parameter what `with_update` makes of the values before and after it."""
    update, weight = arm.step.optimiser.update, dict(zip(arm.names, arm.weights.trained, strict=True))[parameter]

    @torch.no_grad()
    def tampered(*given: Tensor) -> None:
        before = weight.clone()
        update(*given)
        if arm.step.optimiser.step == at:
            weight.copy_(with_update(before, weight))

    arm.step.optimiser.update = tampered


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_two_arms_of_the_same_training_agree(precision: torch.dtype) -> None:
    assert_every_step_agrees(arm_on_cpu(precision), arm_on_cpu(precision))
    assert unequal(arm_on_cpu(precision), arm_on_cpu(precision), steps=2) == []


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_a_step_is_given_its_plan(precision: torch.dtype) -> None:
    arm = arm_on_cpu(precision)
    for index in range(2):
        plan = arm._plans(index)
        arm.run(index)
        given = arm.step._inputs
        for name in ("frame_B", "colour_B34", "crop_BV5", "noise_BA", "state_keep_B"):
            assert torch.equal(given[name], torch.from_numpy(getattr(plan, name))), name
        assert torch.equal(given["keep_KB"], torch.from_numpy(plan.keep_KB).to(precision))
        assert torch.equal(given["rows_B"], given["frame_B"])
        assert int(given["step"]) == index
        assert float(given["learning_rate"]) == pytest.approx(plan.learning_rate)


def test_what_is_launched_apart_may_be_done_at_any_time_until_it_is_asked_for() -> None:
    """On a GPU nobody knows when: nothing may change in between what it reads, nor read what it changes."""
    at_once = arm_on_cpu()
    for index in range(8):
        at_once.run(index)
    at_last = arm_on_cpu(backend=Backend(launch=lambda purpose, work, *given: partial(work, *given)))
    for index in range(8):
        at_last.run(index)
    found, wanted = (arm.tensors() | arm.step.state() for arm in (at_last, at_once))
    assert [name for name, value in wanted.items() if not torch.equal(bits(found[name]), bits(value))] == []


def test_half_a_mean_goes_on_whatever_the_order_of_its_terms_in_the_checkpoint() -> None:
    ours, theirs = arm_on_cpu(), arm_on_cpu()
    for index in range(2):
        ours.run(index)
    theirs.take_over(ours)
    theirs.step.load(dict(reversed(ours.step.state().items())))
    ours.run(2)
    theirs.run(2)
    assert theirs.step.means() == ours.step.means()


def test_half_a_mean_of_other_terms_is_dropped() -> None:
    ours, theirs = arm_on_cpu(), arm_on_cpu()
    ours.run(0)
    theirs.run(0)
    state = theirs.step.state()
    theirs.step.load({name: value for name, value in state.items() if name != "sums.gate"})
    ours.step.means()
    ours.run(1)
    theirs.run(1)
    assert theirs.step.means() == ours.step.means()


@pytest.mark.parametrize(
    "with_update",
    [lambda before, after: before, lambda before, after: after + (after - before)],
    ids=["skipped", "doubled"],
)
def test_one_update_of_one_parameter_skipped_or_doubled_is_seen(
    with_update: Callable[[Tensor, Tensor], Tensor],
) -> None:
    ours, theirs = arm_on_cpu(), arm_on_cpu()
    tamper(theirs, "trunk.final_norm.bias", 3, with_update)
    with pytest.raises(AssertionError, match=r"step 2: .*\{'master trunk.final_norm.bias': 1.0\}"):
        assert_every_step_agrees(ours, theirs)
    theirs = arm_on_cpu()
    tamper(theirs, "trunk.final_norm.bias", 3, with_update)
    assert unequal(arm_on_cpu(), theirs, steps=3) == ["master trunk.final_norm.bias"]


def test_a_skipped_or_doubled_change_of_any_tensor_is_seen() -> None:
    """Also of every moment and average."""
    arm = arm_on_cpu()
    arm.run(0)
    before = arm.tensors()
    arm.run(1)
    after = arm.tensors()
    for wrong in (before, {name: 2 * value - before[name] for name, value in after.items()}):
        apart = off_by(before, after, wrong)
        assert set(apart) == set(after)
        assert list(apart.values()) == pytest.approx([1.0] * len(apart), abs=1e-3)


@pytest.mark.parametrize(
    ("lost", "told"), [("norms", "not close"), ("sums", "counts differ"), ("one term", "gradient_norm")]
)
def test_a_step_that_is_not_remembered_or_not_logged_is_seen(lost: str, told: str) -> None:
    ours, theirs = arm_on_cpu(), arm_on_cpu()
    run = theirs.step.run

    def forgetful(plan: StepPlan) -> None:
        kept = {name: value.clone() for name, value in theirs.step.state().items()}
        run(plan)
        if plan.step == 7:
            if lost == "norms":
                theirs.step.clip.load({"norms": kept["clip.norms"], "seen": theirs.step.clip.seen})
            elif lost == "sums":
                theirs.step._summed -= 1
            else:
                theirs.step._sums["gradient_norm"].copy_(kept["sums.gradient_norm"])

    theirs.step.run = forgetful
    with pytest.raises(AssertionError, match=told):
        assert_every_step_agrees(ours, theirs, steps=9)
