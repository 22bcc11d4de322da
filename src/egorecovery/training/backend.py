"""The operations of a training step that `acceleration` may replace; by default plain torch, one after another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from egorecovery import accelerator
from egorecovery.policy.augmentation import augmented
from egorecovery.policy.objective import objective
from egorecovery.policy.policy import Policy
from egorecovery.training.adamw import adamw_


def as_it_is(policy: Policy) -> None:
    pass


def at_once(purpose: str, work: Callable[..., Any], *given: Any) -> Callable[[], Any]:
    """Does the work; what it returns gives the result."""
    done = work(*given)
    return lambda: done


def backward(loss: Tensor, destinations: Mapping[int, Tensor]) -> None:
    """Gradients into `.grad` of the weights; `destinations`, by a weight's id, is where they are copied later."""
    loss.backward()


@dataclass(frozen=True, kw_only=True)
class Backend:
    prepare: Callable[[Policy], None] = as_it_is  # before its weights are laid out
    augmented: Callable[..., Tensor] = augmented
    objective: Callable[..., dict[str, Tensor]] = objective  # of a batch that one process holds
    backward: Callable[[Tensor, Mapping[int, Tensor]], None] = backward
    adamw_: Callable[..., None] = adamw_
    # Until its result is asked for nothing may change what the work reads, nor read what it changes.
    launch: Callable[..., Callable[[], Any]] = at_once
    stream_priority: int = 0  # of the stream that a CUDA graph is captured on


PLAIN = Backend()


def backend_on(device: torch.device, accelerated: bool) -> Backend:
    """One for each training: an accelerated one keeps state between steps."""
    return Backend(**accelerator.replacements(device)) if accelerated else PLAIN
