"""How chunks of actions become one action a step: the newest chunk, or a weighted mean of all that overlap."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.evaluation.protocol import EvaluationProtocol


class ChunkExecution:
    """Knows when the policy must be asked again, and what to do until then."""

    def __init__(self, protocol: EvaluationProtocol) -> None:
        self._protocol = protocol
        self._chunks: list[tuple[int, ndarray]] = []  # (first step, actions), oldest first
        self.step = 0

    @property
    def wants_chunk(self) -> bool:
        """At the replan interval, or earlier where a chunk is shorter than that."""
        if not self._chunks:
            return True
        begun, actions = self._chunks[-1]
        return self.step - begun >= min(self._protocol.replan_steps, len(actions))

    def add(self, actions: Float[ndarray, "H 14"]) -> None:
        """A chunk that begins with the current step."""
        kept = self._chunks if self._protocol.ensemble else []
        self._chunks = [(begun, chunk) for begun, chunk in kept if self.step < begun + len(chunk)]
        self._chunks.append((self.step, np.asarray(actions, float)))

    def next_action(self) -> Float[ndarray, "14"]:
        """The action of this step; moves on to the next."""
        if self._protocol.ensemble:
            action = ensemble(
                [chunk[self.step - begun] for begun, chunk in self._chunks if self.step < begun + len(chunk)],
                self._protocol.ensemble_decay,
            )
        else:
            begun, chunk = self._chunks[-1]
            action = chunk[self.step - begun]
        self.step += 1
        return action


def ensemble(predictions: list[ndarray], decay: float) -> Float[ndarray, "14"]:
    """ACT, algorithm 2: predictions of one step, oldest first, weighted by exp(-decay i)."""
    weights = np.exp(-decay * np.arange(len(predictions)))
    return weights @ np.stack(predictions) / weights.sum()
