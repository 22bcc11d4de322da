"""What human clips bring the demo's small policies, over several trainings, by how many robot recoveries there are.

python benchmarks/demo_worth.py OUT --robot-recovery 8 20 --seeds 0 1 2 --rollouts 50 --budget-minutes 9

The demo trains each policy once, and two trainings of one small policy differ by 6 to 15 of 50 rollouts. Its data and
lengths are chosen by this table, on validation starts. Run again, it goes on.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from tyro.conf import Positional

from egorecovery.demo.plan import DemoPlan, demo_protocol
from egorecovery.experiments import ExperimentFolder, Resources, Suite, plan_suite, run_suite
from transfer import report, show


@dataclass(frozen=True)
class Options:
    out: Positional[Path]
    work: Path | None = None
    """Where data and trainings lie, if not in OUT."""
    robot_recovery: tuple[int, ...] = (20,)
    human_recovery: int = 200
    steps: int = 2400
    seeds: tuple[int, ...] = (0, 1, 2)
    rollouts: int = 50
    starts_seed: str = "validation"
    budget_minutes: float | None = None
    workers: int = 0


def main(options: Options) -> None:
    shortest = DemoPlan(human_recovery=options.human_recovery, steps=options.steps)
    plans = [replace(shortest, robot_recovery=count) for count in options.robot_recovery]
    conditions = {str(row): row for demo in plans for row in demo.suite().conditions}
    plan = plan_suite(
        Suite(name="demo", conditions=tuple(conditions.values()), tasks=(shortest.task,)),
        tasks=(shortest.task,),
        seeds=options.seeds,
        recipe=shortest.recipe,
        protocol=demo_protocol,
        rollouts=options.rollouts,
        starts_seed=options.starts_seed,
    )
    run_suite(
        plan,
        options.out,
        work=options.work,
        resources=Resources(workers=options.workers),
        budget_minutes=options.budget_minutes,
        on_event=show,
    )
    report(ExperimentFolder(options.out, options.work))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
