"""What a checkpoint's card says, as JSON: its fields and their types, and a pool's statistics in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np

from egorecovery.episodes import Embodiment
from egorecovery.intent import IntentNormaliser, PoolStatistics
from egorecovery.policy.normaliser import Normaliser, Statistics
from egorecovery.storage.checksummed_json import file_sha256
from egorecovery.storage.typed_json import Must, between, to_json

FORMAT = "egorecovery checkpoint 1"
FILES = ("policy.safetensors", "training.safetensors")
Gate = Annotated[float, between(0, 1)]


class NormaliserRecord(TypedDict):
    centre: list[float]
    spread: list[float]


PerDimension = Must("with as many spreads as centres", lambda record: len(record["centre"]) == len(record["spread"]))
Normalisers = Mapping[Embodiment, Annotated[NormaliserRecord, PerDimension]]


class IntentRecord(TypedDict):
    """Of a pool with recovery episodes."""

    scale_m: Mapping[Embodiment, float]
    divisor: list[float]
    windows: Mapping[Embodiment, int]


class StatisticsRecord(TypedDict):
    state: Normalisers
    action: Normalisers
    speed_ratio: NotRequired[float]  # older ones have none
    intent: IntentRecord | None


class CheckpointCard(TypedDict):
    """What `policy.checkpoint.Checkpoint` has, in JSON."""

    format: Literal["egorecovery checkpoint 1"]
    step: int
    recipe: Mapping[str, Any]
    statistics: StatisticsRecord
    data: str
    revision: str | None
    gate_sample: list[Gate]
    computed: NotRequired[Mapping[str, str]]  # older ones do not say
    files: Mapping[str, str]


def statistics_to_json(statistics: Statistics) -> StatisticsRecord:
    intent = statistics.intent
    return to_json(
        {
            "state": {who: _normaliser_record(normaliser) for who, normaliser in statistics.state.items()},
            "action": {who: _normaliser_record(normaliser) for who, normaliser in statistics.action.items()},
            "speed_ratio": statistics.speed_ratio,
            "intent": intent
            and {"scale_m": intent.scale_m, "divisor": intent.normaliser.divisor, "windows": intent.windows},
        }
    )


def statistics_from_json(record: StatisticsRecord) -> Statistics:
    """Of a record whose types are checked."""
    intent = record["intent"]
    return Statistics(
        state={Embodiment(who): _normaliser(normaliser) for who, normaliser in record["state"].items()},
        action={Embodiment(who): _normaliser(normaliser) for who, normaliser in record["action"].items()},
        intent=intent
        and PoolStatistics(
            scale_m={Embodiment(who): scale for who, scale in intent["scale_m"].items()},
            normaliser=IntentNormaliser(np.asarray(intent["divisor"], np.float64)),
            windows={Embodiment(who): count for who, count in intent["windows"].items()},
        ),
        speed_ratio=float(record.get("speed_ratio", 1.0)),
    )


def _normaliser_record(normaliser: Normaliser) -> dict[str, Any]:
    return {"centre": normaliser.centre_A, "spread": normaliser.spread_A}


def _normaliser(record: NormaliserRecord) -> Normaliser:
    return Normaliser(np.asarray(record["centre"], np.float32), np.asarray(record["spread"], np.float32))


def policy_hash(checkpoint: Path) -> str:
    """Which policy this is, by its weights. Results, films, diagnoses and cards of a hub name it so."""
    return file_sha256(checkpoint / FILES[0])
