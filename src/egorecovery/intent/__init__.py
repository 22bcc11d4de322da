"""Corrective intent: the DCT target of Eq. 1, its masks, scale and statistics."""

from egorecovery.intent.current_labels import data_hash, labels_of
from egorecovery.intent.frame_labels import FrameLabels, Verdict, frame_labels
from egorecovery.intent.label_store import LabelStore
from egorecovery.intent.labelling import SourceTally, label_store
from egorecovery.intent.scale import IntentNormaliser, embodiment_scale
from egorecovery.intent.statistics import PoolStatistics, pool_statistics
from egorecovery.intent.target import IntentSpec, IntentTarget, corrective_intent, dct_basis, targets

__all__ = [
    "FrameLabels",
    "IntentNormaliser",
    "IntentSpec",
    "IntentTarget",
    "LabelStore",
    "PoolStatistics",
    "SourceTally",
    "Verdict",
    "corrective_intent",
    "data_hash",
    "dct_basis",
    "embodiment_scale",
    "frame_labels",
    "label_store",
    "labels_of",
    "pool_statistics",
    "targets",
]
