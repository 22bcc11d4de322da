"""Whether to accelerate, and the only way into the `acceleration` package, which may be missing.

Plain torch is what the method is written in. Acceleration computes the same faster, on CUDA, and is used where it is
known to be right: on a kind of GPU on which a parity check has passed.
"""

import sys
from collections.abc import Callable, Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

from egorecovery.errors import RecipeError
from egorecovery.policy.action_source import Intervention
from egorecovery.policy.inference import TrainedPolicy, load_action_source
from egorecovery.policy.policy import Policy

Mode = Literal["auto", "on", "off"]
PACKAGE = "egorecovery.acceleration"


def to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def chosen(mode: Mode, device: torch.device, precision: torch.dtype, say: Callable[[str], None] = to_stderr) -> bool:
    """Whether to accelerate on this device. `auto` may take a while the first time on a kind of GPU.

    "auto" never accelerates a CPU; on CUDA it does where the parity check passes, and says so where it does not.
    "on" skips the check, and is refused where acceleration cannot run.
    """
    if mode == "off" or (mode == "auto" and device.type != "cuda"):
        return False
    reason = why_not(device)
    if mode == "on":
        if reason:
            raise RecipeError(f"acceleration 'on' cannot be had: {reason}; use 'auto' or 'off'")
        return True
    if reason:
        say(f"acceleration is off: {reason}; plain torch computes")
        return False
    from egorecovery.acceleration.verdicts import passes_parity_check

    return passes_parity_check(device, precision, say)


def why_not(device: torch.device) -> str | None:
    """What acceleration lacks here, in words."""
    if not _installed():
        return f"the package {PACKAGE} is not there"
    from egorecovery.acceleration.kernels.dispatch import INTERPRETED, triton

    if triton is None:
        return "Triton is not installed (pip install triton)"
    if device.type != "cuda" and not INTERPRETED:
        return f"it needs a CUDA device, not '{device.type}'"
    return None


def accelerate(policy: Policy) -> None:
    """In place: every module computes as before, faster; parameters and their names stay."""
    from egorecovery.acceleration.modules import accelerate as swap

    swap(policy)


def replacements(device: torch.device, parts: Collection[str] | None = None) -> dict[str, Any]:
    """Accelerated operations of one training, by the name they have in `training.backend`; all parts, or some."""
    from egorecovery.acceleration import replacements as accelerated

    return accelerated.replacements(device, accelerated.chosen_parts(parts))


def load_policy(
    checkpoint: Path, device: str = "auto", intervention: Intervention | None = None, mode: Mode = "auto"
) -> TrainedPolicy:
    """`load_action_source`, accelerated where that is known to be right."""
    source = load_action_source(checkpoint, device, intervention)
    if chosen(mode, source.device, source.precision):
        accelerate(source.policy)
    return source


def _installed() -> bool:
    try:
        return find_spec(PACKAGE) is not None
    except ModuleNotFoundError:
        return False
