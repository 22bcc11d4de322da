"""One part of the method left out at a time."""

from egorecovery.experiments.claims import claim, side
from egorecovery.experiments.condition import Condition
from egorecovery.experiments.suites.suite import Suite
from egorecovery.policy.action_source import Intervention

ZERO = Intervention(zero_intent=True)
RETRAINED = ("direct_human_recovery_mix", "without_intent_loss", "without_segment_mask", "without_intent_modulation")
full, always_on = side("egorecovery"), side("always_on_modulation")
shared, shared_full = side("shared_decoder"), side("shared_egorecovery")

SUITE = Suite(
    name="ablation",
    title="Mechanism ablation",
    layout="variants",
    of_paper=True,
    conditions=(
        Condition(method="egorecovery", variant="full"),
        *(Condition(method=method, variant=method) for method in RETRAINED),
        Condition(method="egorecovery", intervention=ZERO, variant="zero_intent_at_test"),
        Condition(method="always_on_modulation", variant="always_on_modulation"),
        # Ours.
        Condition(method="shared_egorecovery", variant="shared_full"),
        Condition(method="shared_decoder", variant="shared_without_gate_and_intent"),
        Condition(method="shared_egorecovery", intervention=ZERO, variant="shared_zero_intent_at_test"),
    ),
    claims=(
        claim("ablation_intent_loss", "The intent loss matters.", side("without_intent_loss"), full),
        claim("ablation_segment_mask", "The corrective segment mask matters.", side("without_segment_mask"), full),
        claim(
            "ablation_modulation",
            "Intent must modulate the action decoder.",
            side("without_intent_modulation"),
            full,
        ),
        claim(
            "ablation_zero_intent",
            "Setting the intent to 0 at test time hurts.",
            side("egorecovery", intervention=ZERO),
            full,
        ),
        claim("ablation_always_on", "Always-on modulation costs Recovery SR.", always_on, full),
        claim("ablation_always_on_initial", "The gate protects nominal execution.", always_on, full, "initial"),
        claim(
            "ablation_direct_mix",
            "The same data without the pathway does worse.",
            side("direct_human_recovery_mix"),
            full,
        ),
        # Ours.
        claim("ablation_shared", "Gate and intent matter once the decoder is shared.", shared, shared_full),
        claim(
            "ablation_shared_initial",
            "Gate and intent protect nominal execution once the decoder is shared.",
            shared,
            shared_full,
            "initial",
        ),
        claim(
            "ablation_shared_zero_intent",
            "Setting the intent to 0 at test time hurts, with a shared decoder.",
            side("shared_egorecovery", intervention=ZERO),
            shared_full,
        ),
    ),
)
