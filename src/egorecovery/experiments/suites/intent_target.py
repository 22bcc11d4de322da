"""What the intent head should predict. The paper's two latents are not built."""

from egorecovery.experiments.suites.suite import TWO_TASKS, Claim, Suite, side

BETTER = "Four magnitudes are a better intent than {}."
magnitudes = side("egorecovery", variant="dct_magnitude_4d")
raw = side("raw_future_trajectory", variant="raw_future_trajectory")
latent, observation = side("future_trajectory_latent"), side("observation_latent")

SUITE = Suite(
    name="intent_target",
    title="Intent targets",
    layout="variants",
    of_paper=True,
    tasks=TWO_TASKS,
    conditions=magnitudes + raw,
    claims=(
        Claim("target_raw_future_trajectory", BETTER.format("the raw future trajectory"), raw, magnitudes),
        Claim("target_future_trajectory_latent", BETTER.format("a latent of it"), latent, magnitudes),
        Claim("target_observation_latent", BETTER.format("a latent of observations"), observation, magnitudes),
    ),
)
