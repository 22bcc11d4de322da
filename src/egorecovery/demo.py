"""The whole system on one task, small enough for two CPU cores: collect, train two policies, evaluate, report."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation import REGIMES, EvaluationProtocol, Regime, bench_protocol, rate
from egorecovery.evaluation.statistics import Rate
from egorecovery.executors import cores
from egorecovery.experiments import Event, ExperimentFolder, Resources, Row, Suite, plan_suite, run_suite
from egorecovery.experiments.report import write_report
from egorecovery.storage.atomic_io import write_file
from egorecovery.training import RECIPES, Budget

SUCCESS_ONLY, EGORECOVERY = "robot_success", "egorecovery"


@dataclass(frozen=True, kw_only=True)
class DemoPlan:
    """What the demo does; the command's defaults take some twelve minutes on two cores."""

    task: str
    robot_success: int
    robot_recovery: int
    human_recovery: int
    steps: int
    rollouts: int  # per regime and policy
    films: int  # per regime and policy, for the report


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    report: Path
    summary: Path
    rates: dict[str, dict[Regime, Rate]]  # by method
    filmed: dict[str, str]  # by cell, what became of its films


def run_demo(out: Path, plan: DemoPlan, on_event: Callable[[Event], None] = lambda event: None) -> DemoResult:
    """An interrupted demo goes on; one that is done is only reported. Other settings want another `out`."""
    suite = demo_suite(plan)
    cells = plan_suite(
        suite,
        recipe=lambda task: replace(
            RECIPES["demo"](task), optimisation=replace(RECIPES["demo"](task).optimisation, steps=plan.steps)
        ),
        protocol=demo_protocol,
        rollouts=plan.rollouts,
    )
    resources = Resources(
        device="cpu",
        trainings_at_once=min(2, cores()),  # two processes of one thread: small tensors do not share cores well
        schedule={"log": 20, "score": 400, "save": 200},
    )
    outcome = run_suite(cells, out, resources=resources, films=plan.films, on_event=on_event)
    if outcome.failed:
        raise EgoRecoveryError("; ".join(f"{cell}: {why}" for cell, why in outcome.failed.items()))
    rates = _rates(ExperimentFolder(out), suite)
    summary = {
        "task": plan.task,
        "rates": {
            method: {
                str(regime): {
                    "successes": found.successes,
                    "rollouts": found.rollouts,
                    "interval": [found.wilson.low, found.wilson.high],
                }
                for regime, found in by_regime.items()
            }
            for method, by_regime in rates.items()
        },
    }
    write_file(out / "summary.json", (json.dumps(summary, indent=1) + "\n").encode())
    report = write_report(out).html
    return DemoResult(report=report, summary=out / "summary.json", rates=rates, filmed=outcome.filmed)


def demo_suite(plan: DemoPlan) -> Suite:
    """Robot successes alone, against everything the paper proposes."""
    alone = Budget(robot_success=plan.robot_success, robot_recovery=0, human_recovery=0)
    full = replace(alone, robot_recovery=plan.robot_recovery, human_recovery=plan.human_recovery)
    rows = (Row(method=SUCCESS_ONLY, budget=alone), Row(method=EGORECOVERY, budget=full))
    return Suite(name="demo", rows=rows, tasks=(plan.task,))


def demo_protocol(task: str) -> EvaluationProtocol:
    """Always the same room: a policy this small has seen too little to look through changes of light and colour."""
    protocol = bench_protocol(task, RECIPES["demo"](task).policy.horizon)
    return replace(protocol, name="demo", varied_appearance=False)


def _rates(folder: ExperimentFolder, suite: Suite) -> dict[str, dict[Regime, Rate]]:
    found: dict[str, dict[Regime, Rate]] = {}
    for cell in folder.done():
        card = folder.card(cell)
        records = folder.rollouts(cell).records()
        if card and any(row.made(card) for row in suite.rows):
            found[card["method"]] = {
                regime: rate([record for record in records if record.regime == regime]) for regime in REGIMES
            }
    return found
