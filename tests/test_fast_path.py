"""The fast path against the plain one: fused kernels, bfloat16 and CUDA graphs must not change what is learnt."""

from dataclasses import replace

import pytest
import torch

from egorecovery.policy import PolicyConfig, VisionConfig
from egorecovery.policy.kernels import fused, plain_kernels
from egorecovery.policy.policy import Policy
from egorecovery.training import RECIPES, Batch, Recipe
from egorecovery.training.runtime import Runtime, seed_initialisation
from egorecovery.training.speed import training_step

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def recipe(**changes: object) -> Recipe:
    """The paper's widths, with fewer layers: rounding adds up over depth, and depth is not what is tested."""
    full = RECIPES["paper"]("cube_stack")
    policy = PolicyConfig(image_size=96, vision=VisionConfig(), blocks=4, decoder_layers=2)
    return replace(full, policy=policy, batch=Batch(robot=16, human=16), **changes)


def gradients_and_loss(
    runtime: Runtime, chosen: Recipe, plain: bool = False
) -> tuple[torch.Tensor, dict[str, float], dict[str, torch.Tensor]]:
    seed_initialisation(3)
    policy = Policy(chosen.policy).on(runtime.device)
    torch.manual_seed(5)  # the made-up pictures
    step, plans = training_step(chosen, policy, runtime)
    if plain:
        with plain_kernels():
            terms = step.rehearse(plans(0))
    else:
        terms = step.rehearse(plans(0))
    gradients = {name: weight.grad for name, weight in step.network_parameters()}
    flat = torch.cat([gradient.float().flatten() for gradient in gradients.values()])
    return flat, {name: float(value) for name, value in terms.items()}, gradients


@CUDA
@pytest.mark.gpu
def test_fused_bfloat16_gives_the_losses_and_gradients_of_plain_float32() -> None:
    device = torch.device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    exact, exact_terms, _ = gradients_and_loss(Runtime(device=device), recipe(), plain=True)
    fast, fast_terms, _ = gradients_and_loss(Runtime(device=device, precision=torch.bfloat16), recipe())
    half, _, _ = gradients_and_loss(Runtime(device=device, precision=torch.bfloat16), recipe(), plain=True)
    for name, value in exact_terms.items():
        assert fast_terms[name] == pytest.approx(value, rel=2e-2, abs=2e-2), name
    error, error_of_plain_half = (float((each - exact).norm() / exact.norm()) for each in (fast, half))
    print(f"gradient error of fused bf16 {error:.4f}, of plain bf16 {error_of_plain_half:.4f}")
    assert error < 0.1
    assert error < 1.3 * error_of_plain_half  # fusing loses nothing that bfloat16 had kept


@CUDA
@pytest.mark.gpu
def test_fused_float32_gives_the_gradients_of_plain_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "networks_in_float32", True)  # what is needed before that can be the default
    device = torch.device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    exact, _, _ = gradients_and_loss(Runtime(device=device), recipe(), plain=True)
    quick, _, _ = gradients_and_loss(Runtime(device=device), recipe())
    assert float((quick - exact).norm() / exact.norm()) < 2e-3


@CUDA
@pytest.mark.gpu
def test_a_captured_step_trains_as_an_uncaptured_one() -> None:
    means = []
    for graph in (False, True):
        runtime = Runtime(device=torch.device("cuda"), precision=torch.bfloat16, graph=graph)
        seed_initialisation(3)
        policy = Policy(recipe().policy).on(runtime.device)
        torch.manual_seed(5)
        step, plans = training_step(recipe(), policy, runtime)
        for index in range(20):
            step.run(plans(index))
        means.append(step.means())
    for name, value in means[0].items():
        assert means[1][name] == pytest.approx(value, rel=2e-2, abs=5e-3), name
