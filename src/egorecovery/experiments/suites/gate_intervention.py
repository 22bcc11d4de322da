"""The same checkpoint with other gates."""

from egorecovery.evaluation.protocol import REGIMES
from egorecovery.experiments.claims import claim, side
from egorecovery.experiments.condition import Condition
from egorecovery.experiments.suites.suite import TWO_TASKS, Suite
from egorecovery.policy.action_source import GateUse, Intervention

FORCED: dict[GateUse, tuple[str, str]] = {  # the paper's name, and ours in a sentence
    "0": ("p=0", "shut"),
    "0.5": ("p=0.5", "half open"),
    "1": ("p=1", "open"),
    "shuffled": ("shuffled", "to shuffled values"),
}

SUITE = Suite(
    name="gate_intervention",
    title="Gate interventions",
    layout="variants",
    of_paper=True,
    tasks=TWO_TASKS,
    conditions=(
        Condition(method="egorecovery", variant="learned"),
        *(
            Condition(method="egorecovery", intervention=Intervention(gate=gate), variant=variant)
            for gate, (variant, _) in FORCED.items()
        ),
        # Ours.
        Condition(method="shared_egorecovery", variant="shared_learned"),
        *(
            Condition(method="shared_egorecovery", intervention=Intervention(gate=gate), variant=f"shared_{variant}")
            for gate, (variant, _) in FORCED.items()
        ),
    ),
    claims=tuple(
        claim(
            f"{prefix}_{gate}_{regime}",
            f"A gate forced {words} does worse than the learned one{where}: {regime.capitalize()} SR.",
            side(method, intervention=Intervention(gate=gate)),
            side(method),
            regime,
        )
        for method, prefix, where in (
            ("egorecovery", "gate", ""),
            ("shared_egorecovery", "shared_gate", ", with a shared decoder"),
        )
        for gate, (_, words) in FORCED.items()
        for regime in reversed(REGIMES)
    ),
)
