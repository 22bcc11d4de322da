"""What human clips bring the demo's small policies, over several trainings, amounts of data and settings.

python benchmarks/demo_worth.py OUT --robot-recovery 8 20 --seeds 0 1 2 --rollouts 50 --budget-minutes 9
python benchmarks/demo_worth.py OUT2 --work OUT --only robot_recovery_effector --set augmentation.state_noise 0.3

The demo trains each policy once, and two trainings of one small policy differ by 6 to 15 of 50 rollouts. Its data and
lengths are chosen by this table, on validation starts. Run again, it goes on.
"""

from dataclasses import dataclass, field, replace

import tyro

from egorecovery.demo.plan import METHODS, DemoPlan, demo_protocol
from egorecovery.experiments import Suite, plan_suite
from egorecovery.policy.config_json import changed
from transfer import Running, run


@dataclass(frozen=True)
class Options(Running):
    robot_recovery: tuple[int, ...] = (20,)
    human_recovery: int = 200
    steps: int = 2400
    only: tuple[str, ...] = METHODS
    """Methods."""
    set: dict[str, str] = field(default_factory=dict)
    """Settings of the recipe of all methods."""
    seeds: tuple[int, ...] = (0, 1, 2)
    rollouts: int = 50
    starts_seed: str = "validation"


def main(options: Options) -> None:
    shortest = DemoPlan(human_recovery=options.human_recovery, steps=options.steps)
    plans = [replace(shortest, robot_recovery=count) for count in options.robot_recovery]
    conditions = {str(row): row for demo in plans for row in demo.suite().conditions if row.method in options.only}
    plan = plan_suite(
        Suite(name="demo", conditions=tuple(conditions.values()), tasks=(shortest.task,)),
        tasks=(shortest.task,),
        seeds=options.seeds,
        recipe=lambda task: changed(shortest.recipe(task), options.set),
        protocol=demo_protocol,
        rollouts=options.rollouts,
        starts_seed=options.starts_seed,
    )
    run(plan, options)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
