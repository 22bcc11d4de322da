"""Asking a policy: questions of many rollouts in one batch, answers checked before a robot may see them.

A batch always has the same number of rows. Kernels, and with them the last bits of an action, depend on the size of a
batch; with one size, a rollout does not depend on who else was waiting, nor on the number of workers. This holds for
every source that treats the rows of a batch independently, which `ActionSource.decide` must.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, UInt8
from numpy import ndarray

from egorecovery.episodes.vocabulary import STATE_DIM
from egorecovery.errors import EgoRecoveryError, RecipeError
from egorecovery.policy.decision import ActionSource

SourceFactory = Callable[[], ActionSource]  # picklable where rollouts run on other machines, each with its own policy


class PolicyCrashed(EgoRecoveryError):
    """The policy raised: a broken installation or a bug, not a failed rollout."""


@dataclass(frozen=True, eq=False)
class Question:
    """What the robot sees and feels."""

    images: UInt8[ndarray, "V H W 3"]
    state: Float32[ndarray, "14"]


@dataclass(frozen=True, eq=False)
class Answer:
    """A chunk of actions that may be executed, and what the policy thought."""

    actions: Float[ndarray, "H 14"]
    gate: float | None
    intent: tuple[float, ...] | None


@dataclass(frozen=True)
class Refused:
    """An answer that must not reach the robot, and why."""

    reason: str


class Inquiry:
    """A source of actions, asked in batches of one size."""

    def __init__(self, source: ActionSource, batch_rows: int = 1) -> None:
        if batch_rows < 1:
            raise RecipeError(f"batch_rows must be at least 1, got {batch_rows}")
        self.source = source
        self.batch_rows = batch_rows

    def ask(self, questions: Sequence[Question]) -> list[Answer | Refused]:
        waiting = iter(questions)
        answers: list[Answer | Refused] = []
        while batch := list(islice(waiting, self.batch_rows)):
            answers += self._ask_batch(batch)
        return answers

    def _ask_batch(self, batch: Sequence[Question]) -> list[Answer | Refused]:
        padded = [*batch, *[batch[-1]] * (self.batch_rows - len(batch))]
        images = np.stack([question.images for question in padded])
        state = np.stack([question.state for question in padded])
        try:
            decision = self.source.decide(images, state)
        except Exception as error:
            raise PolicyCrashed(f"policy {self.source.name!r} raised {type(error).__name__}: {error}") from error
        wrong = _wrong_shape(decision, self.batch_rows)
        if wrong is not None:
            return [wrong] * len(batch)
        gates, intents = (_rows(values, len(batch)) for values in (decision.gate_B, decision.intent_BC))
        return [
            _checked(actions, gate, None if intent is None else tuple(intent))
            for actions, gate, intent in zip(decision.action_BHA, gates, intents, strict=False)
        ]


def _wrong_shape(decision: Any, rows: int) -> Refused | None:
    """Why what a policy said is no `Decision`."""
    actions, gate, intent = (np.asarray(v) for v in (decision.action_BHA, decision.gate_B, decision.intent_BC))
    if (
        actions.ndim != 3
        or actions.shape[::2] != (rows, STATE_DIM)
        or actions.shape[1] < 1
        or actions.dtype.kind != "f"
    ):
        found, wanted = f"actions {actions.dtype}{list(actions.shape)}", f"floats [{rows}, steps, {STATE_DIM}]"
    elif decision.gate_B is not None and gate.shape != (rows,):
        found, wanted = f"a gate {list(gate.shape)}", f"[{rows}]"
    elif decision.intent_BC is not None and (intent.ndim != 2 or len(intent) != rows):
        found, wanted = f"an intent {list(intent.shape)}", f"[{rows}, coefficients]"
    else:
        return None
    return Refused(f"policy: {found}, wanted {wanted}")


def _checked(actions: Float[ndarray, "H 14"], gate: float | None, intent: tuple[float, ...] | None) -> Answer | Refused:
    finite = np.isfinite(actions)
    if not finite.all():
        step = int(np.argmin(finite.all(axis=1)))
        return Refused(f"policy: {(~finite).sum()} of {finite.size} numbers not finite, the first in step {step}")
    if not np.isfinite([gate or 0.0, *(intent or ())]).all():
        return Refused("policy: its gate or intent is not finite")
    return Answer(actions=actions.astype(float), gate=gate, intent=intent)


def _rows(values: ndarray | None, rows: int) -> list:
    """The rows that were asked for, without the padding."""
    return [None] * rows if values is None else np.asarray(values).tolist()[:rows]
