"""A start: the initial state of a demonstration or rollout, as numbers that can be saved and staged again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["initial", "recovery"]


@dataclass(frozen=True, kw_only=True)
class Start:
    """A start. Staging it always gives the same scene, with any embodiment."""

    task: str
    kind: Kind
    mode: str  # "nominal", or the failure mode
    parameters: Mapping[str, float] = field(default_factory=dict)  # metres and radians, named by the task
    appearance: int = 0  # seed of light, colours and camera jitter; 0 is the plain room

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "parameters": dict(self.parameters)}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Start":
        return cls(**record)
