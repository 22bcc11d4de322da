"""Differences between annotators' boundaries, also as a table of noise for robustness experiments."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from egorecovery.recovery import Annotation

CLOSE = (1, 3, 6, 12)  # frames: 0.04 to 0.5 s at 25 Hz


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Boundaries of two annotators of one clip, in frames; differences are `second - first`."""

    clip: str
    first_boundary: int
    second_boundary: int
    independent: bool  # neither annotator saw the candidate

    @property
    def frames(self) -> int:
        return self.second_boundary - self.first_boundary

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "frames": self.frames}


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Two annotators, in name order."""

    first: str
    second: str
    differences: tuple[Difference, ...]

    def summary(self) -> dict[str, Any]:
        frames = np.array([difference.frames for difference in self.differences])
        return {
            "clips": len(frames),
            "independent": sum(difference.independent for difference in self.differences),
            "median_abs_frames": float(np.median(np.abs(frames))),
            "mean_frames": float(frames.mean()),
            "std_frames": float(frames.std(ddof=1)) if len(frames) > 1 else None,
            "within": {str(close): float(np.mean(np.abs(frames) <= close)) for close in CLOSE},
        }


def latest_annotations(history: Iterable[Annotation]) -> dict[str, dict[str, Annotation]]:
    """Each annotator's latest boundary per clip. Discarded and withdrawn ones are left out."""
    latest: defaultdict[str, dict[str, Annotation]] = defaultdict(dict)
    for annotation in history:
        if annotation.discard or annotation.boundary is None:
            latest[annotation.annotator].pop(annotation.episode, None)
        else:
            latest[annotation.annotator][annotation.episode] = annotation
    return {name: clips for name, clips in sorted(latest.items()) if clips}


def agreements(history: Iterable[Annotation]) -> list[Agreement]:
    """Every pair of annotators with clips in common."""
    latest = latest_annotations(history)
    pairs = []
    for first, second in combinations(latest, 2):
        differences = _differences(latest[first], latest[second])
        if differences:
            pairs.append(Agreement(first=first, second=second, differences=differences))
    return pairs


def _differences(first: Mapping[str, Annotation], second: Mapping[str, Annotation]) -> tuple[Difference, ...]:
    """Differences, sorted by clip."""
    differences = []
    for clip in sorted(first.keys() & second.keys()):
        ours, theirs = first[clip], second[clip]
        assert ours.boundary is not None
        assert theirs.boundary is not None
        differences.append(
            Difference(
                clip=clip,
                first_boundary=ours.boundary,
                second_boundary=theirs.boundary,
                independent=ours.candidate is None and theirs.candidate is None,
            )
        )
    return tuple(differences)


def boundary_noise(history: Iterable[Annotation]) -> dict[str, Any]:
    """All differences in frames as JSON, from which boundary shifts can be drawn.

    With independent errors of equal size, the difference of two people has sqrt(2) times one person's spread.
    """
    pairs = agreements(history)
    frames = np.array([difference.frames for pair in pairs for difference in pair.differences])
    return {
        "format": "egorecovery-boundary-noise",
        "schema": 1,
        "unit": "frames at 25 Hz",
        "one_annotator_std_frames": float(np.sqrt(np.mean(frames**2.0) / 2)) if len(frames) else None,
        "differences": [
            {"first": pair.first, "second": pair.second, **difference.record()}
            for pair in pairs
            for difference in pair.differences
        ],
    }
