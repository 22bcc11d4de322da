"""The same checkpoint with other gates."""

from itertools import chain

from egorecovery.evaluation.protocol import REGIMES
from egorecovery.experiments.suites.suite import TWO_TASKS, Claim, Side, Suite, side
from egorecovery.policy.action_source import GateUse, Intervention

FORCED: dict[GateUse, str] = {"0": "shut", "0.5": "half open", "1": "open", "shuffled": "to shuffled values"}
HURTS = "A gate forced {} does worse than the learned one{}: {} SR."


def _gates(method: str, prefix: str) -> dict[GateUse, Side]:
    """Each under the paper's name for it."""
    names: dict[GateUse, str] = {"learned": "learned", "0": "p=0", "0.5": "p=0.5", "1": "p=1", "shuffled": "shuffled"}
    return {
        gate: side(method, intervention=Intervention(gate=gate), variant=f"{prefix}{name}")
        for gate, name in names.items()
    }


separate, shared = _gates("egorecovery", ""), _gates("shared_egorecovery", "shared_")  # the latter is ours

SUITE = Suite(
    name="gate_intervention",
    title="Gate interventions",
    layout="variants",
    of_paper=True,
    tasks=TWO_TASKS,
    conditions=tuple(chain(*separate.values(), *shared.values())),
    claims=tuple(
        Claim(
            f"{prefix}_{gate}_{regime}",
            HURTS.format(words, where, regime.capitalize()),
            gates[gate],
            gates["learned"],
            regime,
        )
        for gates, prefix, where in ((separate, "gate", ""), (shared, "shared_gate", ", with a shared decoder"))
        for gate, words in FORCED.items()
        for regime in reversed(REGIMES)
    ),
)
