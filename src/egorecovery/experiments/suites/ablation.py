"""One part of the method left out at a time."""

from egorecovery.experiments.suites.suite import Claim, Suite, side
from egorecovery.policy.action_source import Intervention

ZERO = Intervention(zero_intent=True)
full = side("egorecovery", variant="full")
direct = side("direct_human_recovery_mix", variant="direct_human_recovery_mix")
no_loss = side("without_intent_loss", variant="without_intent_loss")
no_mask = side("without_segment_mask", variant="without_segment_mask")
no_modulation = side("without_intent_modulation", variant="without_intent_modulation")
zero = side("egorecovery", intervention=ZERO, variant="zero_intent_at_test")
always_on = side("always_on_modulation", variant="always_on_modulation")
paper = full + direct + no_loss + no_mask + no_modulation + zero + always_on
# Ours.
shared_full = side("shared_egorecovery", variant="shared_full")
shared = side("shared_decoder", variant="shared_without_gate_and_intent")
shared_zero = side("shared_egorecovery", intervention=ZERO, variant="shared_zero_intent_at_test")
ours = shared_full + shared + shared_zero
PROTECT = "Gate and intent protect nominal execution once the decoder is shared."
SHARED_ZERO_HURTS = "Setting the intent to 0 at test time hurts, with a shared decoder."

SUITE = Suite(
    name="ablation",
    title="Mechanism ablation",
    layout="variants",
    of_paper=True,
    conditions=paper + ours,
    claims=(
        Claim("ablation_intent_loss", "The intent loss matters.", no_loss, full),
        Claim("ablation_segment_mask", "The corrective segment mask matters.", no_mask, full),
        Claim("ablation_modulation", "Intent must modulate the action decoder.", no_modulation, full),
        Claim("ablation_zero_intent", "Setting the intent to 0 at test time hurts.", zero, full),
        Claim("ablation_always_on", "Always-on modulation costs Recovery SR.", always_on, full),
        Claim("ablation_always_on_initial", "The gate protects nominal execution.", always_on, full, "initial"),
        Claim("ablation_direct_mix", "The same data without the pathway does worse.", direct, full),
        # Ours.
        Claim("ablation_shared", "Gate and intent matter once the decoder is shared.", shared, shared_full),
        Claim("ablation_shared_initial", PROTECT, shared, shared_full, "initial"),
        Claim("ablation_shared_zero_intent", SHARED_ZERO_HURTS, shared_zero, shared_full),
    ),
)
