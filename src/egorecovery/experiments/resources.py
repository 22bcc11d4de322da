"""What a suite is run with."""

from dataclasses import dataclass

from egorecovery.executors import Executor, cores


@dataclass(frozen=True, kw_only=True)
class Resources:
    """None of it is meant to change results."""

    executor: Executor  # of data and rollouts
    workers: int
    device: str
    trainings_at_once: int
    schedule: dict[str, int]  # of trainings: how often they log, score and save

    @property
    def evaluation_device(self) -> str:
        """Ray lends its workers no GPU."""
        from egorecovery.policy.device import pick_device

        return "cpu" if self.executor == "ray" and self.device == "auto" else str(pick_device(self.device))

    @property
    def training_apart(self) -> bool:
        from egorecovery.policy.device import pick_device

        return self.trainings_at_once > 1 or pick_device(self.device).type == "cuda"

    @property
    def threads(self) -> int | None:
        """Of each training process; only a limit where they share cores."""
        return max(1, cores() // self.trainings_at_once) if self.trainings_at_once > 1 else None

    @property
    def batch_rows(self) -> int:
        """Of every inference: a processor gains little from batches and would pay for the padding."""
        return 16 if self.evaluation_device.startswith("cuda") else 1
