"""Labels by the paper's authors: kept in an episode's details and compared with this project's labels."""

# T frames of ours, N frames of theirs, K numbers of an intent

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from egorecovery.episodes import RATE_HZ, EpisodeStore
from egorecovery.errors import EgoRecoveryError, RecordingError
from egorecovery.intent import FrameLabels, labels_of

DETAIL = "their_labels"
MASKS = ("sr_label", "gt_intent_valid", "recovery_intent_valid")


def packed(labels: Mapping[str, ndarray], rate_hz: float) -> dict[str, object]:
    """The labels as JSON. Masks are text of 0 and 1, one character per frame."""
    record: dict[str, object] = {"rate_hz": rate_hz}
    for name, values in labels.items():
        if name in MASKS:
            flat = values.reshape(len(values), -1)
            if flat.shape[1] != 1:
                raise RecordingError(f"{name} has {flat.shape[1]} numbers per frame, one is wanted")
            record[name] = "".join("1" if flag else "0" for flag in flat[:, 0])
        elif not np.isfinite(values).all():
            record[name] = None  # JSON has no NaN; the values are in the original files
        else:
            record[name] = np.round(values.reshape(len(values), -1).astype(np.float64), 6).tolist()
    return record


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Agreement of their labels with ours in one episode, at our frames."""

    episode: str
    recovery_agreement: float | None  # share of frames in which sr_label equals our in_recovery
    boundary_difference_s: float | None  # theirs minus ours
    intent_valid_agreement: float | None  # of gt_intent_valid
    window_agreement: float | None  # of recovery_intent_valid
    intent_correlation: float | None  # of gt_intent_raw with ours, where both are valid; scales may differ


def compared(store: EpisodeStore) -> Iterator[Comparison]:
    """Compares every episode that has both their labels and ours."""
    for name in store.ids():
        record = store.read(name).provenance.details.get(DETAIL)
        if not isinstance(record, Mapping):
            continue
        try:
            ours = labels_of(store, name)
        except EgoRecoveryError:
            continue  # not labelled yet, or annotated since
        yield compare(name, record, ours)


def compare(episode: str, record: Mapping[str, Any], ours: FrameLabels) -> Comparison:
    theirs = {name: _at_our_frames(_flags(record[name]), record, len(ours.in_recovery)) for name in _masks(record)}
    mine = {
        "sr_label": ours.in_recovery,
        "gt_intent_valid": ours.gt_intent_valid,
        "recovery_intent_valid": ours.recovery_intent_valid,
    }
    agreement = {name: float(np.mean(flags == mine[name])) for name, flags in theirs.items()}
    return Comparison(
        episode=episode,
        recovery_agreement=agreement.get("sr_label"),
        boundary_difference_s=_boundary_difference_s(theirs.get("sr_label"), ours.in_recovery),
        intent_valid_agreement=agreement.get("gt_intent_valid"),
        window_agreement=agreement.get("recovery_intent_valid"),
        intent_correlation=_correlation(record, theirs.get("gt_intent_valid"), ours),
    )


def _masks(record: Mapping[str, Any]) -> list[str]:
    return [name for name in MASKS if isinstance(record.get(name), str)]


def _flags(text: str) -> Bool[ndarray, " N"]:
    return np.frombuffer(text.encode(), np.uint8) == ord("1")


def _at_our_frames(values: ndarray, record: Mapping[str, Any], frames: int) -> ndarray:
    theirs = np.rint(np.arange(frames) / RATE_HZ * float(record["rate_hz"])).astype(int)
    return values[np.minimum(theirs, len(values) - 1)]


def _boundary_difference_s(theirs: Bool[ndarray, " T"] | None, ours: Bool[ndarray, " T"]) -> float | None:
    """Time between the last recovery frames; None if either has no recovery."""
    if theirs is None or not theirs.any() or not ours.any():
        return None
    return (int(np.flatnonzero(theirs)[-1]) - int(np.flatnonzero(ours)[-1])) / RATE_HZ


def _correlation(record: Mapping[str, Any], their_valid: Bool[ndarray, " T"] | None, ours: FrameLabels) -> float | None:
    raw = record.get("gt_intent_raw")
    if not isinstance(raw, list) or not raw:
        return None
    theirs: Float[ndarray, "T K"] = _at_our_frames(np.array(raw, np.float64), record, len(ours.intent_m))
    if theirs.ndim != 2 or theirs.shape[1] != ours.intent_m.shape[1]:
        return None  # another number of arms or of coefficients
    both = ours.gt_intent_valid if their_valid is None else ours.gt_intent_valid & their_valid
    if both.sum() < 3 or np.std(theirs[both]) == 0 or np.std(ours.intent_m[both]) == 0:
        return None
    return float(np.corrcoef(theirs[both].ravel(), ours.intent_m[both].ravel())[0, 1])
