"""The update of all weights at once: what AdamW says, in one row of memory that the parameters are views of."""

import copy
import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402 - torch is an extra
from torch import Tensor  # noqa: E402

from egorecovery.training import adamw  # noqa: E402
from egorecovery.training.adamw import pace_and_spread  # noqa: E402
from egorecovery.training.weights import AdamW, Weights, norm_of_row  # noqa: E402
from tiny_policy import tiny_policy  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def adamw_(*row: Tensor, kernel: bool = False, ahead: tuple[Tensor, Tensor] | None = None, **arguments: Any) -> None:
    """Plain, or by the kernel."""
    update = pytest.importorskip("egorecovery.acceleration.kernels.adamw").adamw_ if kernel else adamw.adamw_
    pace, spread = ahead or pace_and_spread(row[4], arguments["rate"])
    betas = (adamw.BETA_1, adamw.BETA_2)
    update(*row, pace=pace, spread=spread, betas=betas, epsilon=adamw.EPSILON, **arguments)


def has_kernel() -> bool:
    dispatch = pytest.importorskip("egorecovery.acceleration.kernels.dispatch")
    return dispatch.triton is not None and (INTERPRETED or DEVICE == "cuda")


STEPS, SIZE = 50, 3000
SKIPPED = (0, 1, 17, 33)  # steps that found `stopped` set


def scalar(value: float) -> Tensor:
    return torch.tensor(float(value), device=DEVICE)


def rates() -> list[float]:
    return [1e-2 * (0.2 + (step * 7 % 11) / 11) for step in range(STEPS)]


def factors(clipping: bool) -> list[float]:
    return [0.3 if clipping and step % 3 == 0 else 1.0 for step in range(STEPS)]


def gradients(dtype: torch.dtype) -> list[Tensor]:
    """Of magnitudes from 1e-9, where epsilon counts, to 1."""
    generator = torch.Generator().manual_seed(5)
    scale = 10 ** (-9 * torch.rand(SIZE, generator=generator))
    return [(torch.randn(SIZE, generator=generator) * scale).to(DEVICE, dtype) for _ in range(STEPS)]


def start() -> Tensor:
    return torch.randn(SIZE, generator=torch.Generator().manual_seed(6)).to(DEVICE)


def by_torch(clipping: bool, dtype: torch.dtype, weight_decay: float) -> list[Tensor]:
    """The weights after each update, by torch in float64."""
    weight = start().double().requires_grad_()
    optimiser = torch.optim.AdamW([weight], weight_decay=weight_decay)
    after = []
    plan = zip(rates(), factors(clipping), gradients(dtype), strict=True)
    for step, (rate, factor, gradient) in enumerate(plan):
        if step not in SKIPPED:
            weight.grad = gradient.double() * factor
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
        after.append(weight.detach().clone())
    return after


def check_cast(working: Tensor, master: Tensor) -> None:
    """Equal to the bit, except that Triton's interpreter cuts bfloat16 off instead of rounding."""
    tolerance = 2**-7 if INTERPRETED else 0.0
    torch.testing.assert_close(working.detach(), master.detach().to(working.dtype), rtol=tolerance, atol=0)


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=pytest.mark.gpu)], ids=["plain", "kernel"])
@pytest.mark.parametrize("clipping", [False, True], ids=["whole", "clipped"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_fifty_steps_equal_torch_adamw_with_its_average_and_working_copy(dtype, clipping, kernel):
    if kernel and not has_kernel():
        pytest.skip("needs CUDA, or TRITON_INTERPRET=1")
    master, first, second = start(), torch.zeros(SIZE, device=DEVICE), torch.zeros(SIZE, device=DEVICE)
    working, average, step = master.to(torch.bfloat16), master.clone(), scalar(0)
    wanted_average = start().double()
    wanted = by_torch(clipping, dtype, weight_decay=0.1)
    for index, (rate, factor, gradient) in enumerate(zip(rates(), factors(clipping), gradients(dtype), strict=True)):
        stopped = index in SKIPPED
        arguments = {
            "rate": scalar(rate),
            "factor": scalar(factor),
            "stopped": scalar(stopped),
            "weight_decay": 0.1,
            "working_W": working,
            "average_W": average,
            "average_decay": 0.95,
        }
        gradient = torch.full_like(gradient, float("nan")) if stopped else gradient
        adamw_(master, gradient, first, second, step, kernel=kernel, **arguments)
        torch.testing.assert_close(master.double(), wanted[index], rtol=1e-6, atol=1e-6)
        check_cast(working, master)
        if not stopped:
            wanted_average.lerp_(wanted[index], 0.05)
        torch.testing.assert_close(average.double(), wanted_average, rtol=1e-6, atol=1e-6)
    assert step.item() == STEPS - len(SKIPPED)


def test_an_update_follows_what_was_said_ahead_of_it():
    """Said of another rate, so that one who computes it anew is found out."""
    rows = [[start(), torch.zeros(SIZE, device=DEVICE), torch.zeros(SIZE, device=DEVICE), scalar(0)] for _ in range(2)]
    for (master, first, second, step), early in zip(rows, (False, True), strict=True):
        for index, gradient in enumerate(gradients(torch.float32)[:4]):
            slow, fast = scalar(rates()[index]), scalar(3 * rates()[index])
            ahead = pace_and_spread(step, fast) if early else None
            adamw_(
                master, gradient, first, second, step,
                rate=slow if early else fast, factor=scalar(1), stopped=scalar(index == 2), weight_decay=0.0,
                ahead=ahead,
            )  # fmt: skip
    assert [step.item() for *_, step in rows] == [3, 3]
    assert all(torch.equal(one, other) for one, other in zip(*rows, strict=True))


def test_bias_correction_is_exact_to_rounding_from_the_first_step_to_the_last():
    for count in (1, 2, 10, 1000, 20_000):
        master, first, second = scalar(0)[None], scalar(0.1)[None], scalar(0.001)[None]
        adamw_(
            master,
            scalar(1)[None],
            first,
            second,
            scalar(count - 1),
            rate=scalar(1),
            factor=scalar(1),
            stopped=scalar(0),
            weight_decay=0.0,
        )
        wanted = -(first.double() / (1 - 0.9**count)) / ((second.double() / (1 - 0.999**count)).sqrt() + 1e-8)
        torch.testing.assert_close(master.double(), wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("done", [0, 7])
def test_stopped_update_changes_no_bit_whatever_the_gradient(done):
    rows = [torch.randn(SIZE, device=DEVICE).abs() for _ in range(5)]
    master, first, second, working, average = rows
    step, before = scalar(done), [row.clone() for row in rows]
    adamw_(
        master,
        torch.full((SIZE,), float("nan"), device=DEVICE),
        first,
        second,
        step,
        rate=scalar(1e-2),
        factor=scalar(float("nan")),
        stopped=scalar(1),
        weight_decay=0.1,
        working_W=working,
        average_W=average,
        average_decay=0.9,
    )
    assert all(torch.equal(row, kept) for row, kept in zip(rows, before, strict=True))
    assert step.item() == done


def test_weight_decay_of_the_paper_is_not_lost_to_rounding():
    # 1e-4 x 1e-4 a step is below float32's resolution of 1, so a separate decay would never change a weight.
    rows = torch.full((SIZE,), 0.75, device=DEVICE), torch.ones(SIZE, device=DEVICE)
    after = {}
    for weight_decay in (0.0, 1e-4):
        master, first, second, step = rows[0].clone(), rows[1] * 0, rows[1] * 0, scalar(0)
        generator = torch.Generator().manual_seed(1)
        for _ in range(300):
            gradient = torch.randn(SIZE, generator=generator).to(DEVICE)
            adamw_(
                master,
                gradient,
                first,
                second,
                step,
                rate=scalar(1e-4),
                factor=scalar(1),
                stopped=scalar(0),
                weight_decay=weight_decay,
            )
        after[weight_decay] = master.double().mean().item()
    assert after[0.0] - after[1e-4] == pytest.approx(300 * 1e-8 * 0.75, rel=0.1)


def channels_last_policy():
    return tiny_policy().to(DEVICE, memory_format=torch.channels_last)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_laying_weights_in_one_row_keeps_values_and_strides(precision):
    policy = channels_last_policy()
    before = copy.deepcopy(policy)
    weights = Weights(policy, precision, None)
    assert any(not weight.is_contiguous() for weight in before.parameters()), "no channels-last weight to look at"
    for module, row in ((weights.master, weights.master_W), (weights.working, weights.working_W)):
        row = weights.master_W if row is None else row
        for weight, old in zip(module.parameters(), before.parameters(), strict=True):
            assert weight.stride() == old.stride()
            assert torch.equal(weight, old.to(weight.dtype))
            assert weight.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()
            assert weight.data_ptr() % 64 == 0


def test_copies_of_the_master_are_independent_of_the_row():
    weights = Weights(channels_last_policy(), torch.bfloat16, 0.5)
    copied, averaged = copy.deepcopy(weights.master), weights.averaged()
    kept = [weight.clone() for weight in copied.parameters()]
    weights.master_W.fill_(1)
    for module in (copied, averaged):
        for weight, value in zip(module.parameters(), kept, strict=True):
            assert torch.equal(weight, value)


def test_gradients_in_one_row_have_the_norm_of_all_of_them():
    weights = Weights(channels_last_policy(), torch.bfloat16, None)
    for index, weight in enumerate(weights.working.parameters()):
        weight.grad = torch.randn_like(weight) * (index % 5)
    wanted = torch.stack([weight.grad.double().norm() for weight in weights.working.parameters()]).norm()
    torch.testing.assert_close(norm_of_row(weights.collect_gradients()).double(), wanted, rtol=1e-6, atol=0)


def test_norm_of_a_long_row_loses_no_digits():
    row = torch.randn(2**20, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(norm_of_row(row).double(), row.double().norm(), rtol=1e-6, atol=0)


def updated(weights: Weights, optimiser: AdamW, steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for weight in weights.working.parameters():
            weight.grad = torch.empty_like(weight).copy_(torch.randn(weight.shape, generator=generator))
        weights.collect_gradients()
        optimiser.update(scalar(1e-3 * (step + 1)), scalar(0.5), scalar(0))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_every_parameter_is_updated_as_torch_would(precision):
    policy = channels_last_policy()
    reference = copy.deepcopy(policy).double()
    weights = Weights(policy, precision, 0.5)
    updated(weights, AdamW(weights, 0.1), range(5))
    optimiser = torch.optim.AdamW(reference.parameters(), weight_decay=0.1)
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        for weight in reference.parameters():
            weight.grad = 0.5 * torch.randn(weight.shape, generator=generator).to(DEVICE, precision).double()
        optimiser.param_groups[0]["lr"] = 1e-3 * (step + 1)
        optimiser.step()
    for weight, wanted in zip(weights.master.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(weight.double(), wanted, rtol=1e-6, atol=1e-6)
    for weight, master in zip(weights.working.parameters(), weights.master.parameters(), strict=True):
        check_cast(weight, master)


def test_saved_and_loaded_optimiser_goes_on_to_the_same_bits(tmp_path):
    whole = Weights(channels_last_policy(), torch.float32, None)
    optimiser = AdamW(whole, 0.1)
    updated(whole, optimiser, range(3))
    saved = {f"master.{name}": value.contiguous() for name, value in whole.master.state_dict().items()}
    save_file(saved | optimiser.state(), tmp_path / "state")
    updated(whole, optimiser, range(3, 6))

    loaded = load_file(tmp_path / "state")
    resumed = Weights(channels_last_policy(), torch.float32, None)
    resumed.master.load_state_dict({name.removeprefix("master."): loaded[name] for name in saved})
    again = AdamW(resumed, 0.1)
    again.load(loaded)
    updated(resumed, again, range(3, 6))
    assert torch.equal(resumed.master_W, whole.master_W)
    assert all(torch.equal(value, optimiser.state()[name]) for name, value in again.state().items())
