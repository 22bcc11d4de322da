"""What the intent head should predict. The paper's two latents are not built."""

from egorecovery.experiments.claims import claim, side
from egorecovery.experiments.condition import Condition
from egorecovery.experiments.suites.suite import TWO_TASKS, Suite

OTHERS = {
    "raw_future_trajectory": "the raw future trajectory",
    "future_trajectory_latent": "a latent of it",
    "observation_latent": "a latent of observations",
}

SUITE = Suite(
    name="intent_target",
    title="Intent targets",
    layout="variants",
    of_paper=True,
    tasks=TWO_TASKS,
    conditions=(
        Condition(method="egorecovery", variant="dct_magnitude_4d"),
        Condition(method="raw_future_trajectory", variant="raw_future_trajectory"),
    ),
    claims=tuple(
        claim(
            f"target_{method}",
            f"Four magnitudes are a better intent than {words}.",
            side(method),
            side("egorecovery"),
        )
        for method, words in OTHERS.items()
    ),
)
