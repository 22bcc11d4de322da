"""What is compared: a method on a budget, perhaps with an intervention at test time; and how it is called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

TASKS = {  # in the paper's order
    "cup_brush": "Cup brush",
    "table_sweep": "Table sweep",
    "round_disk": "Round disk",
    "cube_stack": "Cube stack",
}
METHODS = {  # in the paper's order, then ours, then ablations
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
NOTATION = ("Rsuc", "Rrec", "Hsuc", "Hrec")  # robot and human, success and recovery


class Sources(NamedTuple):
    """Episodes per source."""

    robot_success: int = 0
    robot_recovery: int = 0
    human_success: int = 0
    human_recovery: int = 0

    @classmethod
    def of(cls, budget: Mapping[str, int]) -> "Sources":
        return cls(*(int(budget.get(name, 0)) for name in cls._fields))

    @property
    def human(self) -> int:
        return self.human_success + self.human_recovery

    @property
    def words(self) -> str:
        """In the paper's notation: Rsuc 50 + Hrec 300."""
        return " + ".join(f"{name} {count}" for name, count in zip(NOTATION, self, strict=True) if count) or "no data"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One row of a table."""

    method: str
    budget: Sources
    zero_intent: bool = False
    gate: str = "learned"
    variant: str | None = None
    robot_failures: str = "staged"
    humans: str = "people"

    @property
    def intervened(self) -> bool:
        return self.zero_intent or self.gate != "learned"

    @property
    def collected(self) -> str:
        """How its data was, where that is not as usual."""
        ways = [f"robot failures {self.robot_failures}"] * (self.robot_failures != "staged")
        return ", ".join(ways + ["robots in people's place"] * (self.humans == "stand_ins"))

    @property
    def plays(self) -> tuple[str, bool, str, str, str]:
        """The part it plays in a comparison, whatever the size of its data."""
        return (self.method, self.zero_intent, self.gate, self.robot_failures, self.humans)

    @property
    def training(self) -> tuple[str, Sources, str, str]:
        """What was trained; arms that share it differ only in what is done at test time."""
        return (self.method, self.budget, self.robot_failures, self.humans)

    @property
    def label(self) -> str:
        name = METHODS.get(self.method, self.method.replace("_", " "))
        acts = [self.collected] * bool(self.collected)
        acts += ["intent 0 at test time"] * self.zero_intent
        acts += [f"gate {self.gate}"] * (self.gate != "learned")
        return ", ".join([name, *acts])

    @property
    def full_label(self) -> str:
        return f"{self.label} ({self.budget.words})"

    def record(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "budget": self.budget._asdict(),
            "intervention": {"zero_intent": self.zero_intent, "gate": self.gate},
            "variant": self.variant,
            "robot_failures": self.robot_failures,
            "humans": self.humans,
            "label": self.label,
        }


Side = tuple[Arm, ...]  # of a comparison: an arm, or a curve, one method at several amounts of data


def task_title(task: str) -> str:
    return TASKS.get(task, task.replace("_", " ").capitalize())


def task_order(task: str) -> tuple[int, str]:
    return (list(TASKS).index(task) if task in TASKS else len(TASKS), task)


def arm_order(arm: Arm) -> tuple[Any, ...]:
    place = list(METHODS).index(arm.method) if arm.method in METHODS else len(METHODS)
    return (
        arm.robot_failures != "staged",
        arm.humans != "people",
        place,
        arm.method,
        arm.zero_intent,
        arm.gate != "learned",
        arm.gate,
        arm.budget,
        arm.variant or "",
    )
