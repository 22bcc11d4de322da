"""The policy: one trunk for two embodiments, corrective intent, a recovery gate, gated modulation.

Only what needs no torch is imported here; `policy.policy`, `policy.inference` and the modules of the network do.
"""

from egorecovery.policy.config import (
    CorrectionConfig,
    LossWeights,
    PolicyConfig,
    VisionConfig,
)
from egorecovery.policy.decision import ActionSource, Decision, Intervention

__all__ = [
    "ActionSource",
    "CorrectionConfig",
    "Decision",
    "Intervention",
    "LossWeights",
    "PolicyConfig",
    "VisionConfig",
]
