"""A recipe: everything that decides what a training run computes, in one frozen value that is saved as JSON."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from egorecovery.episodes import Embodiment, Source
from egorecovery.errors import RecipeError
from egorecovery.intent import IntentSpec, IntentTarget
from egorecovery.policy import LossWeights, PolicyConfig, VisionConfig
from egorecovery.policy.normaliser import Normalisation
from egorecovery.training.human_supervision import HumanSupervision


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Episodes per source. The defaults are the paper's main comparison."""

    robot_success: int = 50
    robot_recovery: int = 50
    human_success: int = 0
    human_recovery: int = 300

    def __post_init__(self) -> None:
        for source in Source:
            if self.of(source) < 0:
                raise RecipeError(f"budget.{source} must not be negative, got {self.of(source)}")
        if not self.robot_success + self.robot_recovery:
            raise RecipeError("a budget without robot episodes trains no robot policy: set robot_success or more")

    def of(self, source: Source) -> int:
        return getattr(self, str(source))

    def uses(self, embodiment: Embodiment) -> bool:
        return any(self.of(source) for source in Source if source.embodiment is embodiment)


MOST_SEEDS = 2**32  # what numpy's legacy generator takes


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Samples per step. The robot's share is the same with and without human data, so robot data is seen as often."""

    robot: int = 96
    human: int = 96

    def __post_init__(self) -> None:
        if self.robot < 1 or self.human < 0:
            raise RecipeError(f"a batch needs robot samples, got robot {self.robot}, human {self.human}")

    @property
    def size(self) -> int:
        return self.robot + self.human


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """AdamW with the paper's constants."""

    steps: int = 20_000
    learning_rate: float = 1e-4
    least_learning_rate: float = 2e-6  # the cosine ends here
    warmup_steps: int = 0  # linear, before the cosine; the paper has none
    weight_decay: float = 1e-4
    clip_after: int = 100  # steps of gradient norms to see before clipping by median absolute deviation
    clip_deviations: float = 5.0  # allowed above the median, in (scaled) median absolute deviations
    average_decay: float | None = None  # exponential average of weights, used for scoring and inference

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise RecipeError(f"steps must be positive, got {self.steps}")
        if not 0 <= self.least_learning_rate <= self.learning_rate:
            raise RecipeError("learning rates must satisfy 0 <= least_learning_rate <= learning_rate")
        for name in ("warmup_steps", "weight_decay", "clip_after", "clip_deviations"):
            if not getattr(self, name) >= 0:
                raise RecipeError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.average_decay is not None and not 0 < self.average_decay < 1:
            raise RecipeError(f"average_decay must lie in 0..1, got {self.average_decay}")


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """The same for every method. Amounts are half-widths of uniform draws."""

    brightness: float = 0.2
    contrast: float = 0.2
    saturation: float = 0.2
    hue_turns: float = 0.03
    shift: float = 0.0  # of the picture's side, each view on its own, edges repeated; the paper has none
    hide: float = 0.0  # of the picture's side: the largest square hidden in each view; the paper has none
    state_noise: float = 0.0  # standard deviation, in normalised units
    state_dropout: float = 0.0  # share of samples that see no proprioception: policies that lean on it ignore pictures

    def __post_init__(self) -> None:
        most = {"state_noise": float("inf"), "hue_turns": 0.5}
        for name, amount in vars(self).items():
            if not 0 <= amount <= most.get(name, 1.0):
                raise RecipeError(f"augmentation.{name} must lie in 0..{most.get(name, 1.0):g}, got {amount}")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    name: str
    task: str
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    budget: Budget = field(default_factory=Budget)
    batch: Batch = field(default_factory=Batch)
    losses: LossWeights = field(default_factory=LossWeights)
    optimisation: Optimisation = field(default_factory=Optimisation)
    augmentation: Augmentation = field(default_factory=Augmentation)
    intent: IntentSpec = field(default_factory=IntentSpec)
    intent_target: IntentTarget = "dct_magnitude"  # policy.correction.intent_dim must fit
    human_supervision: HumanSupervision = field(default_factory=HumanSupervision)  # of actions in effector space
    segment_mask: bool = True  # False asks for intent on every frame with a target, also after the correction
    normalisation: Normalisation = "zscore"
    stay_steps: int = 25  # past an episode's end that are supervised as "stay": what is finished is to be left alone
    held_out: int = 10  # episodes per source that no budget may touch
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < MOST_SEEDS:
            raise RecipeError(f"seed must lie in 0..{MOST_SEEDS - 1}, got {self.seed}")
        human = self.budget.uses(Embodiment.HUMAN)
        if human != bool(self.batch.human) or human != self.policy.human_decoder:
            raise RecipeError(
                f"recipe {self.name}: budget, batch.human ({self.batch.human}) and policy.human_decoder "
                f"({self.policy.human_decoder}) disagree on whether human data is used"
            )
        if self.stay_steps < 0:
            raise RecipeError(f"stay_steps must not be negative, got {self.stay_steps}")
        if self.held_out < 0:
            raise RecipeError(f"held_out must not be negative, got {self.held_out}")

    def with_budget(self, budget: Budget) -> "Recipe":
        """The same recipe on other data; the human half comes and goes with the human episodes."""
        human = budget.uses(Embodiment.HUMAN)
        return replace(
            self,
            budget=budget,
            batch=replace(self.batch, human=(self.batch.human or self.batch.robot) if human else 0),
            policy=replace(self.policy, human_decoder=human),
        )


# Without noise and dropout of proprioception policies replay joint paths and hardly look: robot recovery 41% against
# 68% with them, on validation starts of cube stacking (docs/log.md).
SIMULATED = Augmentation(shift=0.08, state_noise=0.05, state_dropout=0.3)
# The paper's weight of 0.05 belongs to the scale of the authors' release. On the norm of Eq. 3 it makes intent count as
# much as the robot's own actions, and costs success. So does human imitation at full weight: in short trainings what is
# left of it is tremor, and its gradients keep the shared trunk from the millimetres a grasp needs (docs/log.md).
SIMULATED_LOSSES = LossWeights(intent_form="smooth_l1", human=0.2)


def paper(task: str) -> Recipe:
    """The paper's sizes and constants."""
    return Recipe(name="paper", task=task)


def bench(task: str) -> Recipe:
    """What the simulated experiments use: the paper's trunk, heads and losses on pictures of 96 pixels.

    Three vision stages instead of four: the fourth would leave 3 x 3 cells of a picture of 96 pixels.
    """
    return Recipe(
        name="bench",
        task=task,
        policy=PolicyConfig(
            image_size=96,
            vision=VisionConfig(widths=(64, 128, 256), depths=(2, 2, 2)),
            blocks=8,
            decoder_layers=4,
        ),
        optimisation=Optimisation(steps=2_000, learning_rate=3e-4, warmup_steps=100),
        losses=SIMULATED_LOSSES,
        augmentation=SIMULATED,
    )


def demo(task: str) -> Recipe:
    """Minutes on two CPU cores."""
    return Recipe(
        name="demo",
        task=task,
        policy=PolicyConfig(
            image_size=64,
            vision=VisionConfig(stem_width=16, widths=(16, 32, 64), depths=(1, 1, 1)),
            width=96,
            heads=4,
            mlp_ratio=2,
            stem_tokens=8,
            action_tokens=16,
            blocks=3,
            drop_path=0.0,
            decoder_layers=2,
            horizon=40,
        ),
        budget=Budget(robot_success=32, robot_recovery=24, human_recovery=60),
        batch=Batch(robot=40, human=16),
        optimisation=Optimisation(steps=2_000, learning_rate=1e-3, warmup_steps=30),
        losses=SIMULATED_LOSSES,
        augmentation=SIMULATED,
        held_out=2,
    )


RECIPES: dict[str, Callable[[str], Recipe]] = {"paper": paper, "bench": bench, "demo": demo}
