"""A condition: what is compared. A method on a budget, data collected in one way, perhaps an intervention at test time.

Suites list conditions, cells run them, reports compare them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from egorecovery.episodes import PAPER_TASKS
from egorecovery.policy.action_source import Intervention
from egorecovery.training import Budget

# Where recoveries begin: the robot's at a lab's few failures or at any; with near misses, half of all at those.
RobotFailures = Literal["staged", "anywhere", "near_misses"]
Humans = Literal["people", "stand_ins"]  # who gives human demonstrations: people, or the robot in their place
METHOD_TITLES = {  # in the paper's order, then ours, then ablations
    "robot_success": "Robot success",
    "robot_success_human_success": "Robot + human success",
    "robot_success_human_recovery": "Robot success + human recovery",
    "robot_recovery": "Robot recovery",
    "human_success_mix": "Human success mix",
    "direct_human_recovery_mix": "Direct human recovery mix",
    "egorecovery": "EgoRecovery",
    "robot_recovery_effector": "Robot recovery, effector space",
    "direct_mix_effector": "Direct mix, effector space",
    "shared_decoder": "Shared decoder (ours)",
    "shared_egorecovery": "Shared decoder, gate and intent (ours)",
    "without_intent_loss": "without intent loss",
    "without_segment_mask": "without segment mask",
    "without_intent_modulation": "without intent modulation",
    "always_on_modulation": "always-on modulation",
    "raw_future_trajectory": "raw future trajectory as intent",
    "future_trajectory_latent": "trajectory latent as intent",
    "observation_latent": "observation latent as intent",
}
SOURCE_LETTERS = {  # the paper's: robot and human, success and recovery
    "robot_success": "Rsuc",
    "robot_recovery": "Rrec",
    "human_success": "Hsuc",
    "human_recovery": "Hrec",
}


def episodes(robot_success: int, robot_recovery: int = 0, *, human_success: int = 0, human_recovery: int = 0) -> Budget:
    """A budget that is 0 wherever nothing is said."""
    return Budget(
        robot_success=robot_success,
        robot_recovery=robot_recovery,
        human_success=human_success,
        human_recovery=human_recovery,
    )


def episode_counts(budget: Budget) -> tuple[int, int, int, int]:
    return budget.robot_success, budget.robot_recovery, budget.human_success, budget.human_recovery


def human_episodes(budget: Budget) -> int:
    return budget.human_success + budget.human_recovery


def budget_words(budget: Budget) -> str:
    """In the paper's notation: Rsuc 50 + Hrec 300."""
    named = zip(SOURCE_LETTERS.values(), episode_counts(budget), strict=True)
    return " + ".join(f"{letters} {count}" for letters, count in named if count)


FULL = episodes(50, 50, human_recovery=300)  # the paper's main budget


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One row of a table."""

    method: str
    budget: Budget = FULL
    intervention: Intervention = field(default_factory=Intervention)  # at test time
    variant: str | None = None  # the paper's name for it, where that is not the method's
    robot_failures: RobotFailures = "staged"
    humans: Humans = "people"
    hidden_embodiment: bool = False  # pictures without arms and hands, in training and at test time
    off_centre_grips: bool = False  # handles are gripped off their middle, by robot and people alike
    turned_hands: bool = False  # the robot's hand arrives turned in demonstrations, then aligns
    settings: tuple[tuple[str, str], ...] = ()  # of the recipe, by dotted name; `variant` names them

    @classmethod
    def of_card(cls, card: Mapping[str, Any]) -> "Condition":
        """Of a finished cell; older cards lack the younger fields."""
        settings = _known(cls, card) | {
            "budget": episodes(**{"robot_success": 0, **card["budget"]}),
            "intervention": Intervention(**_known(Intervention, card.get("intervention") or {})),
            "settings": tuple(sorted(card.get("settings", {}).items())),
        }
        return cls(**settings)

    def fits_card(self, card: Mapping[str, Any]) -> bool:
        """Whether a finished cell is of this condition."""
        return Condition.of_card(card) == replace(self, settings=tuple(sorted(self.settings)))

    @property
    def name(self) -> str:
        return self.variant or self.method

    @property
    def intervened(self) -> bool:
        return self.intervention != Intervention()

    @property
    def role(self) -> tuple[Any, ...]:
        """The part it plays in a comparison, whatever the size of its data."""
        return (self.method, self.intervention, self.robot_failures, self.humans)

    @property
    def trained_as(self) -> "Condition":
        """What was trained; conditions that share it differ only in what is done at test time."""
        return replace(self, intervention=Intervention(), variant=None, settings=tuple(sorted(self.settings)))

    @property
    def collection(self) -> str:
        """How its data was collected, where that is not as usual."""
        ways = [f"robot failures {self.robot_failures}"] * (self.robot_failures != "staged")
        return ", ".join(ways + ["robots in people's place"] * (self.humans == "stand_ins"))

    @property
    def label(self) -> str:
        parts = [method_title(self.method)] + [self.collection] * bool(self.collection)
        parts += ["intent 0 at test time"] * self.intervention.zero_intent
        parts += [f"gate {self.intervention.gate}"] * (self.intervention.gate != "learned")
        return ", ".join(parts)

    @property
    def full_label(self) -> str:
        return f"{self.label} ({budget_words(self.budget)})"

    @property
    def order(self) -> tuple[Any, ...]:
        """In tables: the paper's methods as it orders them, then the others."""
        titles = list(METHOD_TITLES)
        return (
            self.robot_failures != "staged",
            self.humans != "people",
            titles.index(self.method) if self.method in titles else len(titles),
            self.method,
            self.intervention.zero_intent,
            self.intervention.gate != "learned",
            self.intervention.gate,
            episode_counts(self.budget),
            self.variant or "",
            self.hidden_embodiment,
            self.off_centre_grips,
            self.turned_hands,
            self.settings,
        )


def _known(kind: type, record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of the fields of a dataclass."""
    return {entry.name: record[entry.name] for entry in fields(kind) if entry.name in record}


def method_title(method: str) -> str:
    return METHOD_TITLES.get(method, method.replace("_", " "))


def task_title(task: str) -> str:
    return task.replace("_", " ").capitalize()


def task_order(task: str) -> tuple[int, str]:
    """The paper's tasks first, as it orders them."""
    tasks = list(PAPER_TASKS)
    return (tasks.index(task) if task in tasks else len(tasks), task)
