"""A start: the initial state of a demonstration or rollout, as numbers that can be saved and staged again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from egorecovery.errors import EpisodeError
from egorecovery.storage.typed_json import from_json, to_json

Kind = Literal["initial", "recovery"]


@dataclass(frozen=True, kw_only=True)
class Start:
    """A start. Staging it always gives the same scene, with any embodiment."""

    task: str
    kind: Kind
    mode: str  # "nominal", or the failure mode
    parameters: Mapping[str, int | float] = field(default_factory=dict)  # metres and radians, named by the task
    appearance: int = 0  # seed of light, colours and camera jitter; 0 is the plain room

    def record(self) -> dict[str, Any]:
        return to_json(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Start":
        return from_json(cls, record, "start", EpisodeError)
