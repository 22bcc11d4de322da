"""Asking a policy: questions of many rollouts in one batch, answers checked before a robot may see them.

A batch always has the same number of rows. Kernels, and with them the last bits of an action, depend on the size of a
batch; with one size, a rollout does not depend on who else was waiting, nor on the number of workers. This holds for
every source that treats the rows of a batch independently, which `ActionSource.infer` must.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, UInt8
from numpy import ndarray

from egorecovery.errors import EgoRecoveryError, RecipeError
from egorecovery.kinematics import action_dim
from egorecovery.policy.action_source import ActionSource, action_space_of

LARGEST_TARGET = 100.0  # rad; more is no joint angle, and clipping it would only hide that the policy is broken

SourceFactory = Callable[[], ActionSource]  # picklable where rollouts run on other machines, each with its own policy


class PolicyCrashed(EgoRecoveryError):
    """The policy raised: a broken installation or a bug, not a failed rollout."""


@dataclass(frozen=True, eq=False)
class Observation:
    """What the robot sees and feels."""

    images: UInt8[ndarray, "V H W 3"]
    state: Float32[ndarray, " A"]  # in the policy's action space


@dataclass(frozen=True, eq=False)
class ActionChunk:
    """A chunk of actions that may be executed, and what the policy thought."""

    actions: Float[ndarray, "H A"]  # in the policy's action space
    gate: float | None
    intent: tuple[float, ...] | None


@dataclass(frozen=True)
class RejectedAction:
    """An answer that must not reach the robot, and why."""

    reason: str


def usual_batch_rows(device: str) -> int:
    """Of every inference: a processor gains little from batches and would lose time to the padding."""
    return 16 if device.startswith("cuda") else 1


class BatchedPolicy:
    """A source of actions, asked in batches of one size."""

    def __init__(self, source: ActionSource, batch_rows: int = 1) -> None:
        if batch_rows < 1:
            raise RecipeError(f"batch_rows must be at least 1, got {batch_rows}")
        self.source = source
        self.batch_rows = batch_rows

    def ask(self, questions: Sequence[Observation]) -> list[ActionChunk | RejectedAction]:
        waiting = iter(questions)
        answers: list[ActionChunk | RejectedAction] = []
        while batch := list(islice(waiting, self.batch_rows)):
            answers += self._ask_batch(batch)
        return answers

    def _ask_batch(self, batch: Sequence[Observation]) -> list[ActionChunk | RejectedAction]:
        padded = [*batch, *[batch[-1]] * (self.batch_rows - len(batch))]
        images = np.stack([question.images for question in padded])
        state = np.stack([question.state for question in padded])
        try:
            decision = self.source.infer(images, state)
        except Exception as error:
            raise PolicyCrashed(f"policy {self.source.name!r} raised {type(error).__name__}: {error}") from error
        parts = _parts(decision, self.batch_rows, action_dim(action_space_of(self.source)))
        if isinstance(parts, RejectedAction):
            return [parts] * len(batch)
        actions_BHA, gate_B, intent_BC = parts
        gates, intents = (_rows(values, len(batch)) for values in (gate_B, intent_BC))
        return [
            _checked(actions, gate, None if intent is None else tuple(intent))
            for actions, gate, intent in zip(actions_BHA, gates, intents, strict=False)
        ]


def _parts(
    decision: Any, rows: int, dimensions: int
) -> tuple[ndarray, ndarray | None, ndarray | None] | RejectedAction:
    """Actions, gate and intent; or why what a policy said, which may be anything, is no `PolicyOutput`."""
    try:
        said = decision.action_BHA, decision.gate_B, decision.intent_BC
    except AttributeError:
        return RejectedAction(
            f"policy: a {type(decision).__name__}, wanted a PolicyOutput with actions, gate and intent"
        )
    actions, gate, intent = (_floats(values) for values in said)
    if actions is None or actions.ndim != 3 or actions.shape[::2] != (rows, dimensions) or actions.shape[1] < 1:
        return _unwanted("actions", said[0], f"[{rows}, steps, {dimensions}]")
    if said[1] is not None and (gate is None or gate.shape != (rows,)):
        return _unwanted("gate", said[1], f"[{rows}]")
    if said[2] is not None and (intent is None or intent.ndim != 2 or len(intent) != rows):
        return _unwanted("intent", said[2], f"[{rows}, coefficients]")
    return actions, gate, intent


def _floats(values: Any) -> ndarray | None:
    """None for what is no array of floats."""
    try:
        array = np.asarray(values)
    except Exception:  # ragged lists, tensors on a GPU: each library has an error of its own
        return None
    return array if array.dtype.kind == "f" else None


def _unwanted(what: str, values: Any, wanted: str) -> RejectedAction:
    found = f"{values.dtype}{list(values.shape)}" if isinstance(values, ndarray) else type(values).__name__
    return RejectedAction(f"policy: {what} {found}, wanted floats {wanted}")


def _checked(
    actions: Float[ndarray, "H A"], gate: float | None, intent: tuple[float, ...] | None
) -> ActionChunk | RejectedAction:
    finite = np.isfinite(actions)
    if not finite.all():
        step = int(np.argmin(finite.all(axis=1)))
        return RejectedAction(
            f"policy: {(~finite).sum()} of {finite.size} numbers not finite, the first in step {step}"
        )
    sizes = np.abs(actions)
    if sizes.max() > LARGEST_TARGET:
        step = int(np.argmax((sizes > LARGEST_TARGET).any(axis=1)))
        return RejectedAction(
            f"policy: a target of {sizes[step].max():.3g} in step {step}, wanted {LARGEST_TARGET:g} at most"
        )
    if not np.isfinite([gate or 0.0, *(intent or ())]).all():
        return RejectedAction("policy: its gate or intent is not finite")
    return ActionChunk(actions=actions.astype(float), gate=gate, intent=intent)


def _rows(values: ndarray | None, rows: int) -> list:
    """The rows that were asked for, without the padding."""
    return [None] * rows if values is None else values.tolist()[:rows]
