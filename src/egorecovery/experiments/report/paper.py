"""The paper's figures in the shape of ours: counts of an arm, per task and pooled."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.statistics import Rate
from egorecovery.experiments import paper
from egorecovery.experiments.report.arms import TASKS, Arm, Sources

ROLLOUTS = 20  # per task and regime
MAIN = Sources(robot_success=50, robot_recovery=50, human_recovery=300)
SUITES = ("main", "ablation", "gate_intervention", "scaling", "cost_matched", "low_robot_grounding", "intent_target")
GATES = {"learned": "learned", "p=0": "0", "p=0.5": "0.5", "p=1": "1", "shuffled": "shuffled"}


@dataclass(frozen=True, kw_only=True)
class Published:
    """A row of one of the paper's tables."""

    arm: Arm
    per_task: Mapping[tuple[Regime, str], Rate]
    pooled: Mapping[Regime, Rate]  # over all tasks it was run on

    def rate(self, regime: Regime, task: str | None = None) -> Rate | None:
        return self.pooled.get(regime) if task is None else self.per_task.get((regime, task))

    def over(self, regime: Regime, tasks: tuple[str, ...]) -> Rate | None:
        """Pooled over these tasks; where the paper gives only the pool of all, that or nothing."""
        known = [self.per_task.get((regime, task)) for task in tasks]
        found = [rate for rate in known if rate is not None]
        if found and len(found) == len(tasks):
            return pool(found)
        return self.pooled.get(regime) if not self.per_task and set(tasks) == set(TASKS) else None

    @property
    def tasks(self) -> tuple[str, ...]:
        named = {task for _, task in self.per_task}
        return tuple(task for task in TASKS if task in named) or tuple(TASKS)


@cache
def published(suite: str) -> tuple[Published, ...]:
    """The paper's rows of a suite, in its order; none for suites that are no table of the paper."""
    if suite not in SUITES:
        return ()
    groups: dict[Arm, list[paper.PaperRow]] = {}
    for row in paper.rows():
        if row.suite == suite:
            groups.setdefault(_arm(row), []).append(row)
    return tuple(_published(arm, rows) for arm, rows in groups.items())


def _arm(row: paper.PaperRow) -> Arm:
    budget = Sources(*row.budget) if row.budget else MAIN
    if row.suite == "gate_intervention":
        return Arm(method="egorecovery", budget=budget, gate=GATES[row.name])
    zero = row.name == "zero_intent_at_test"
    full = zero or row.name in ("full", "dct_magnitude_4d")
    return Arm(method="egorecovery" if full else row.name, budget=budget, zero_intent=zero)


def _published(arm: Arm, rows: list[paper.PaperRow]) -> Published:
    per_task: dict[tuple[Regime, str], Rate] = {}
    pooled: dict[Regime, Rate] = {}
    for row in rows:
        for regime in REGIMES:
            percent = row.rate(regime)
            if percent is None:
                continue
            if row.task:
                per_task[regime, row.task] = Rate(paper.successes(percent, ROLLOUTS), ROLLOUTS)
            else:
                rollouts = ROLLOUTS * paper.POOLED_TASKS
                pooled[regime] = Rate(paper.successes(percent, rollouts), rollouts)
    for regime in REGIMES:
        counted = [rate for (of, _), rate in per_task.items() if of == regime]
        if counted:
            pooled.setdefault(regime, pool(counted))
    return Published(arm=arm, per_task=per_task, pooled=pooled)


def pool(rates: list[Rate]) -> Rate:
    return Rate(sum(rate.successes for rate in rates), sum(rate.rollouts for rate in rates))
