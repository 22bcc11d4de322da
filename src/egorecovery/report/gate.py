"""What the gate did in the rollouts: does it open on failures, and close when they are corrected?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from egorecovery.episodes import RATE_HZ
from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.experiments.condition import Condition
from egorecovery.report.analysis import Analysis

Ending = tuple[Regime, bool]  # where rollouts started, and whether they succeeded
FEWEST = 5  # rollouts under way; a mean of fewer is not drawn
SHARE = 0.2  # nor of a smaller part of them


@dataclass(frozen=True, kw_only=True)
class GateInRollouts:
    """Of EgoRecovery's own rollouts on one task, all seeds together."""

    task: str
    first: Mapping[Regime, Sequence[float]]  # the gate of each rollout's first decision
    curves: Mapping[Ending, Sequence[float]]  # mean gate, decision by decision
    counts: Mapping[Ending, int]
    decision_s: float

    @property
    def auc(self) -> float:
        """The chance that a failure's first gate is above that of a nominal start."""
        from sklearn.metrics import roc_auc_score

        failures, nominal = self.first["recovery"], self.first["initial"]
        return float(roc_auc_score([1] * len(failures) + [0] * len(nominal), [*failures, *nominal]))

    def opened(self, regime: Regime) -> float:
        """The share of rollouts that begin with a gate above one half."""
        return sum(gate > 0.5 for gate in self.first[regime]) / len(self.first[regime])

    def record(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "first_decision_auc": self.auc,
            "first_decision_open": {regime: self.opened(regime) for regime in REGIMES},
            "decision_s": self.decision_s,
            "mean_gate": [
                {"regime": regime, "succeeded": succeeded, "rollouts": self.counts[regime, succeeded], "gate": [*means]}
                for (regime, succeeded), means in self.curves.items()
            ],
        }


def gates(analysis: Analysis) -> list[GateInRollouts]:
    """Of tasks with rollouts from both kinds of starts that say what the gate did."""
    full = analysis.find("egorecovery")
    return [gate for task in analysis.tasks if full and (gate := _gate(analysis, full, task))]


def _gate(analysis: Analysis, condition: Condition, task: str) -> GateInRollouts | None:
    rollouts = {
        regime: [record for record in analysis.results.rollouts(condition, regime, task) if record.gate_trace]
        for regime in REGIMES
    }
    if not all(rollouts.values()):
        return None
    parts: dict[Ending, list[RolloutRecord]] = {
        (regime, succeeded): part
        for regime in reversed(REGIMES)
        for succeeded in (True, False)
        if len(part := [record for record in rollouts[regime] if record.succeeded == succeeded]) >= FEWEST
    }
    return GateInRollouts(
        task=task,
        first={regime: [record.gate_trace[0] for record in rollouts[regime]] for regime in REGIMES},
        curves={ending: _means(part) for ending, part in parts.items()},
        counts={ending: len(part) for ending, part in parts.items()},
        decision_s=rollouts["initial"][0].protocol["replan_steps"] / RATE_HZ,
    )


def _means(rollouts: Sequence[RolloutRecord]) -> list[float]:
    means = []
    for decision in zip_longest(*(record.gate_trace for record in rollouts)):
        under_way = [gate for gate in decision if gate is not None]
        if len(under_way) < max(FEWEST, SHARE * len(rollouts)):
            break
        means.append(sum(under_way) / len(under_way))
    return means
