"""The paper's experiments and some of our own. A new suite is a file here, and a line in the list below."""

from egorecovery.errors import RecipeError
from egorecovery.experiments.suites import (
    ablation,
    cost_matched,
    coverage,
    gate_intervention,
    intent_target,
    low_robot_grounding,
    main,
    scaling,
    scarce_robot,
    stand_ins,
)
from egorecovery.experiments.suites.suite import Suite

_OF_PAPER = (main, scaling, cost_matched, low_robot_grounding, ablation, gate_intervention, intent_target)
_OURS = (coverage, stand_ins, scarce_robot)
SUITES: dict[str, Suite] = {module.SUITE.name: module.SUITE for module in (*_OF_PAPER, *_OURS)}
NOT_BUILT = {
    "boundary_noise": "boundaries would have to be shifted in a copy of the annotations",
    "two_failure_modes": "rollouts record their failure mode already, but no data is ordered by mode yet",
    "clutter_ood": "the workcell evaluates with clutter, but does not collect with it yet",
    "diffusion_head": "the policy has no diffusion head yet",
}


def suite_named(name: str) -> Suite:
    if name in NOT_BUILT:
        raise RecipeError(f"suite {name} is known but not built: {NOT_BUILT[name]}")
    if name not in SUITES:
        raise RecipeError(f"there is no suite {name!r}; there are {', '.join(SUITES)}")
    return SUITES[name]
