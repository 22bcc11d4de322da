"""Accelerated against plain torch on made-up data: forward pass, losses, gradients, augmentation and update.

python -m egorecovery.acceleration.parity cuda:0 bfloat16

Prints one line of JSON: whether it passed, and the largest errors beside what is allowed. The policy has the paper's
widths and fewer layers. Tolerances are those that the fast path was held to on an H200 (tests/test_fast_path.py).
"""

# B batch, V views, S picture side, F frames, H horizon, A action dimensions, W weights in a row

import json
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from egorecovery.acceleration import kernels
from egorecovery.acceleration.kernels.adamw import adamw_
from egorecovery.acceleration.modules import PARTS, Part
from egorecovery.acceleration.replacements import replacements
from egorecovery.policy.augmentation import augmented
from egorecovery.policy.config import LossWeights, PolicyConfig, VisionConfig
from egorecovery.policy.objective import Targets, objective
from egorecovery.policy.pixels import PIXEL_DEVIATION, PIXEL_MEAN
from egorecovery.policy.policy import Policy

OF_TERM = {torch.bfloat16: 2e-2, torch.float32: 2e-3}  # relative and absolute
OF_OUTPUT = {torch.bfloat16: 5e-2, torch.float32: 2e-3}
OF_GRADIENTS = {torch.bfloat16: 0.1, torch.float32: 2e-3}  # of all weights in one row
# Fusing loses nothing that the precision had kept: no more than these times plain torch's own error in it.
TIMES_PLAIN = 1.3
# One tensor's gradient may be small and mostly rounding. Left out, or added twice, it is off by 1.
OF_ONE_GRADIENT = 0.5
SEEN = 1e-4  # share of the whole gradient below which a tensor's is not looked at
OF_PICTURES = 1e-4
OF_UPDATE = 1e-5


@dataclass(frozen=True, kw_only=True)
class Finding:
    name: str
    error: float
    allowed: float

    @property
    def passed(self) -> bool:
        return self.error <= self.allowed  # NaN does not pass


@dataclass(frozen=True, kw_only=True, eq=False)
class Pass:
    """What one forward and backward pass gave."""

    terms: dict[str, float]
    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]


def config_of_check() -> PolicyConfig:
    return PolicyConfig(image_size=96, vision=VisionConfig(), blocks=4, decoder_layers=2)


def check(
    device: torch.device,
    precision: torch.dtype,
    config: PolicyConfig | None = None,
    samples: int = 32,
    parts: Collection[Part] = PARTS,
) -> list[Finding]:
    config = config or config_of_check()
    exact = one_pass(config, device, torch.float32, samples, {})
    plain = exact if precision == torch.float32 else one_pass(config, device, precision, samples, {})
    fast = one_pass(config, device, precision, samples, replacements(device, parts))
    findings = [
        Finding(name=f"loss {name}", error=abs(fast.terms[name] - value), allowed=OF_TERM[precision] * (1 + abs(value)))
        for name, value in exact.terms.items()
    ]
    for name, value in exact.outputs.items():
        allowed = max(OF_OUTPUT[precision], 2 * relative_error(plain.outputs[name], value))
        findings.append(
            Finding(name=f"output {name}", error=relative_error(fast.outputs[name], value), allowed=allowed)
        )
    whole, whole_plain, whole_fast = (
        torch.cat([gradient.flatten() for gradient in result.gradients.values()]) for result in (exact, plain, fast)
    )
    of_plain = relative_error(whole_plain, whole)
    allowed = OF_GRADIENTS[precision] if of_plain == 0 else min(OF_GRADIENTS[precision], TIMES_PLAIN * of_plain)
    findings.append(Finding(name="gradients", error=relative_error(whole_fast, whole), allowed=allowed))
    for name, value in exact.gradients.items():
        if value.norm() > SEEN * whole.norm():
            allowed = max(OF_ONE_GRADIENT, 2 * relative_error(plain.gradients[name], value))
            error = relative_error(fast.gradients[name], value)
            findings.append(Finding(name=f"gradient of {name}", error=error, allowed=allowed))
    if "augmentation" in parts:
        findings.append(Finding(name="augmentation", error=error_of_pictures(config, device), allowed=OF_PICTURES))
    if "optimiser" in parts:
        findings.append(Finding(name="optimiser", error=error_of_update(device), allowed=OF_UPDATE))
    return findings


def one_pass(
    config: PolicyConfig, device: torch.device, precision: torch.dtype, samples: int, replaced: dict[str, Any]
) -> Pass:
    """The same weights and data every time; with the replaced operations, or plain torch."""
    generator = torch.Generator().manual_seed(11)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        policy = Policy(config).on(device).to(precision)
    replaced.get("prepare", lambda policy: None)(policy)
    weights = dict(policy.named_parameters())
    destinations = {id(weight): torch.empty_like(weight) for weight in weights.values()}
    robots = samples // 2 if config.human_decoder else samples
    given = pictures(config, samples, generator, device)
    gather: Callable[..., Tensor] = replaced.get("augmented", augmented)
    images = gather(*given, precision)
    state_BA = torch.randn(samples, config.action_dim, generator=generator).to(device, precision)
    rates_K1 = torch.tensor(config.drop_path_rates)[:, None]
    keep_KB = (torch.rand(len(rates_K1), samples, generator=generator) >= rates_K1) / (1 - rates_K1)
    prediction = policy(images, state_BA, robots, keep_KB.to(device, precision))
    targets = made_up_targets(config, samples, generator, device)
    terms = replaced.get("objective", objective)(prediction, targets, LossWeights())
    backward: Callable[..., None] = replaced.get("backward", lambda loss, _: loss.backward())
    backward(terms["loss"], destinations)
    outputs = {
        name: value.detach().float()
        for name, value in vars(prediction).items()
        if isinstance(value, Tensor) and name != "pooled_BD"
    }
    return Pass(
        terms={name: float(value.detach()) for name, value in terms.items()},
        outputs=outputs,
        gradients={name: weight.grad.float() for name, weight in weights.items() if weight.grad is not None},
    )


def pictures(config: PolicyConfig, samples: int, generator: torch.Generator, device: torch.device) -> list[Tensor]:
    """Frames, and how they are gathered and changed."""
    views, side = len(config.cameras), config.image_size
    frames = torch.randint(0, 256, (2 * samples, views, side, side, 3), generator=generator, dtype=torch.uint8)
    given = [
        frames,
        torch.randint(0, len(frames), (samples,), generator=generator),
        torch.eye(3, 4) + 0.1 * torch.randn(samples, 3, 4, generator=generator),
        torch.randint(-4, 5, (samples, views, 5), generator=generator, dtype=torch.int32),
        torch.from_numpy(PIXEL_MEAN),
        torch.from_numpy(PIXEL_DEVIATION),
    ]
    return [tensor.to(device) for tensor in given]


def made_up_targets(config: PolicyConfig, samples: int, generator: torch.Generator, device: torch.device) -> Targets:
    intent_dim = config.correction.intent_dim if config.correction else 4
    wide, long = config.output_dim, config.horizon
    return Targets(
        action_BHA=torch.randn(samples, long, wide, generator=generator).to(device),
        action_mask_BH=(torch.rand(samples, long, generator=generator) < 0.9).float().to(device),
        intent_BC=torch.randn(samples, intent_dim, generator=generator).abs().to(device),
        intent_mask_B=(torch.rand(samples, generator=generator) < 0.5).float().to(device),
        in_recovery_B=(torch.rand(samples, generator=generator) < 0.5).float().to(device),
    )


def error_of_pictures(config: PolicyConfig, device: torch.device, samples: int = 8) -> float:
    """The largest, of normalised pixels, cut into cells or not."""
    given = pictures(config, samples, torch.Generator().manual_seed(5), device)
    plain: Callable[..., Tensor] = augmented
    wanted = plain(*given, torch.float32)
    pairs = [
        (kernels.gather_augmented(*given, dtype=torch.float32), wanted),
        (kernels.gather_augmented(*given, dtype=torch.float32, space_to_depth=True), kernels.in_cells(wanted)),
    ]
    return max(float((found - expected).abs().max()) for found, expected in pairs)


def error_of_update(device: torch.device, steps: int = 5, size: int = 3000) -> float:
    """The largest, of weights after some steps beside `torch.optim.AdamW` in float64."""
    betas, epsilon, decay, rate = (0.9, 0.999), 1e-8, 0.1, 1e-2
    generator = torch.Generator().manual_seed(7)
    master_W = torch.randn(size, generator=generator).to(device)
    weight_W = master_W.double().requires_grad_()
    optimiser = torch.optim.AdamW([weight_W], lr=rate, betas=betas, eps=epsilon, weight_decay=decay)
    first_W, second_W = torch.zeros_like(master_W), torch.zeros_like(master_W)
    one, none = torch.ones((), device=device), torch.zeros((), device=device)
    step = none.clone()
    for count in range(1, steps + 1):
        gradient_W = torch.randn(size, generator=generator).to(device)
        weight_W.grad = gradient_W.double()
        optimiser.step()
        adamw_(
            master_W, gradient_W, first_W, second_W, step,
            rate=rate * one, factor=one, stopped=none,
            pace=rate / (1 - betas[0] ** count) * one, spread=(1 - betas[1] ** count) ** 0.5 * one,
            betas=betas, epsilon=epsilon, weight_decay=decay,
        )  # fmt: skip
    if int(step) != steps:
        return float("inf")
    return float((master_W.double() - weight_W.detach()).abs().max())


def relative_error(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm().clamp(min=1e-30))


def verdict_of(findings: list[Finding]) -> dict[str, Any]:
    """As the cache keeps it: all that failed, or the narrowest of what passed."""
    ranked = sorted(findings, key=lambda part: -part.error / part.allowed if part.error == part.error else -torch.inf)
    failed = [part for part in ranked if not part.passed]
    words = "; ".join(
        f"{part.name} off by {part.error:.2g}, {part.allowed:.2g} allowed" for part in (failed or ranked)[:3]
    )
    return {"passed": not failed, "words": words}


def main(device: str, precision: str) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    dtypes = {str(dtype).removeprefix("torch."): dtype for dtype in OF_TERM}
    print(json.dumps(verdict_of(check(torch.device(device), dtypes[precision]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
