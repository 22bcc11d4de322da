"""Scales and normalisation of a pool of labelled episodes."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from egorecovery.episodes import Embodiment, Source
from egorecovery.intent.frame_labels import FrameLabels
from egorecovery.intent.scale import IntentNormaliser, embodiment_scale


@dataclass(frozen=True, kw_only=True)
class PoolStatistics:
    """What a training run stores beside its weights."""

    scale_m: dict[Embodiment, float]  # s_d
    normaliser: IntentNormaliser
    windows: dict[Embodiment, int]  # how many valid recovery windows each scale rests on


def pool_statistics(pool: Iterable[tuple[Source, FrameLabels]]) -> PoolStatistics:
    """From the valid recovery windows of the pool, and nothing else."""
    moved_m: dict[Embodiment, list[np.ndarray]] = defaultdict(list)
    intent_m: dict[Embodiment, list[np.ndarray]] = defaultdict(list)
    for source, labels in pool:
        if source.is_recovery:
            moved_m[source.embodiment].append(labels.peak_to_peak_m[labels.intent_mask])
            intent_m[source.embodiment].append(labels.intent_m[labels.intent_mask])
    scale_m = {who: embodiment_scale(np.concatenate(moved), str(who)) for who, moved in moved_m.items()}
    scaled = [np.concatenate(intent_m[who]) / scale for who, scale in scale_m.items()]
    return PoolStatistics(
        scale_m=scale_m,
        normaliser=IntentNormaliser.fit(np.concatenate(scaled) if scaled else np.zeros((0, 1))),
        windows={who: len(values) for who, values in zip(scale_m, scaled, strict=True)},
    )
