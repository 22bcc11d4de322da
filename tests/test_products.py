"""Matrix products in bfloat16 on a CPU: inside a training step, and nowhere else."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402 - torch is an extra

from egorecovery.policy.policy import Policy  # noqa: E402
from egorecovery.training.products import bfloat16_products, has_bfloat16_products  # noqa: E402
from egorecovery.training.recipe import Batch, demo  # noqa: E402
from egorecovery.training.runtime import Runtime, seed_initialisation, start  # noqa: E402
from egorecovery.training.throughput import training_step  # noqa: E402

STEPS = 3


def setting() -> str:
    return torch.backends.mkldnn.matmul.fp32_precision


def trained(runtime: Runtime) -> tuple[float, Tensor]:
    """The mean loss of a few steps, and the weights after them."""
    seed_initialisation(0)
    recipe = replace(demo("cube_stack"), batch=Batch(robot=4, human=2))
    torch.manual_seed(0)  # the made-up pictures
    policy = Policy(recipe.policy).on(runtime.device)
    step, plans = training_step(recipe, policy, runtime)
    for index in range(STEPS):
        step.run(plans(index))
    return step.means()["loss"], torch.cat([weight.detach().flatten() for weight in policy.parameters()])


def test_the_setting_holds_inside_only_even_when_a_step_fails():
    before = setting()
    with bfloat16_products(True):
        assert setting() == "bf16"
    assert setting() == before
    with pytest.raises(ZeroDivisionError), bfloat16_products(True):
        _ = 1 / 0
    assert setting() == before
    with bfloat16_products(False):
        assert setting() == before


def test_a_cpu_multiplies_in_bfloat16_unless_float32_is_asked_for():
    assert start("cpu").bfloat16_products == has_bfloat16_products()
    assert not start("cpu", "fp32").bfloat16_products
    assert start("cpu", "fp32").words["precision"] == "float32"


@pytest.mark.skipif(not has_bfloat16_products(), reason="this CPU has no products in bfloat16")
def test_training_with_products_in_bfloat16_is_repeatable_and_close_to_float32():
    exact = Runtime(device=torch.device("cpu"))
    rounded = replace(exact, bfloat16_products=True)
    (loss, weights_W), (again, weights_again_W), (exact_loss, exact_W) = map(trained, (rounded, rounded, exact))
    assert loss == again
    assert torch.equal(weights_W, weights_again_W)
    assert not torch.equal(weights_W, exact_W)
    assert loss == pytest.approx(exact_loss, rel=0.01)
