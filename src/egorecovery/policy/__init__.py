"""The policy: one trunk for two embodiments, corrective intent, a recovery gate, gated modulation.

Only what needs no torch is imported here; `policy.policy`, `policy.inference` and the modules of the network do.
"""

from egorecovery.policy.action_source import ActionSource, Intervention, PolicyOutput
from egorecovery.policy.config import (
    CorrectionConfig,
    LossWeights,
    PolicyConfig,
    VisionConfig,
)

__all__ = [
    "ActionSource",
    "CorrectionConfig",
    "Intervention",
    "LossWeights",
    "PolicyConfig",
    "PolicyOutput",
    "VisionConfig",
]
