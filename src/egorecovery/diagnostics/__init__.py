"""Why it works or not: alignment of targets, of the bottleneck and of the gate; coverage; what the trunk knows."""

from egorecovery.diagnostics.bottleneck_alignment import (
    BottleneckAlignment,
    HeadFrames,
    SpaceAlignment,
    bottleneck_alignment,
    diagnosed_frames,
)
from egorecovery.diagnostics.bottleneck_figure import bottleneck_figure
from egorecovery.diagnostics.coverage import ModeCoverage, PoolCoverage, coverage_figure, mode_coverage
from egorecovery.diagnostics.episode_bootstrap import DiagnosticError, chosen_episodes
from egorecovery.diagnostics.figures import png, write_figure
from egorecovery.diagnostics.gate_alignment import GateAlignment, GateTrace, gate_alignment, gate_auc, gate_figure
from egorecovery.diagnostics.ks_alignment import KsAlignment, comparable_windows, ks_alignment, ks_figure
from egorecovery.diagnostics.sliced_wasserstein import random_frames, sliced_w2
from egorecovery.diagnostics.transfer_probe import ProbedPool, ProbeGain, probe_figure, probe_gain, transfer_probe

__all__ = [
    "BottleneckAlignment",
    "DiagnosticError",
    "GateAlignment",
    "GateTrace",
    "HeadFrames",
    "KsAlignment",
    "ModeCoverage",
    "PoolCoverage",
    "ProbeGain",
    "ProbedPool",
    "SpaceAlignment",
    "bottleneck_alignment",
    "bottleneck_figure",
    "chosen_episodes",
    "comparable_windows",
    "coverage_figure",
    "diagnosed_frames",
    "gate_alignment",
    "gate_auc",
    "gate_figure",
    "ks_alignment",
    "ks_figure",
    "mode_coverage",
    "png",
    "probe_figure",
    "probe_gain",
    "random_frames",
    "sliced_w2",
    "transfer_probe",
    "write_figure",
]
