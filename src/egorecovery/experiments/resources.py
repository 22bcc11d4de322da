"""What a suite is run with."""

from dataclasses import dataclass

from egorecovery.evaluation import default_workers
from egorecovery.executors import Executor, cores


@dataclass(frozen=True, kw_only=True)
class Resources:
    """None of it is meant to change results."""

    executor: Executor  # of data and rollouts
    workers: int  # for data and rollouts; 0 for as many as suit each
    device: str
    trainings_at_once: int  # processes; on a GPU all but one of them get ready and wait for their turn
    schedule: dict[str, int]  # of trainings: how often they log, score and save

    @property
    def evaluation_device(self) -> str:
        """Ray lends its workers no GPU."""
        from egorecovery.policy.device import pick_device

        return "cpu" if self.executor == "ray" and self.device == "auto" else str(pick_device(self.device))

    @property
    def data_workers(self) -> int:
        return self.workers or cores()

    @property
    def rollout_workers(self) -> int:
        return self.workers or default_workers(self.evaluation_device)

    @property
    def on_gpu(self) -> bool:
        return _is_gpu(self.device)

    @property
    def training_apart(self) -> bool:
        return self.trainings_at_once > 1 or self.on_gpu

    @property
    def side_by_side(self) -> int:
        """Trainings that make progress at the same time."""
        return 1 if self.on_gpu else self.trainings_at_once

    @property
    def threads(self) -> int | None:
        """Of each training process; only a limit where they share cores."""
        return max(1, cores() // self.trainings_at_once) if self.trainings_at_once > 1 else None

    @property
    def batch_rows(self) -> int:
        """Of every inference: a processor gains little from batches and would pay for the padding."""
        return 16 if self.evaluation_device.startswith("cuda") else 1


def default_trainings(device: str) -> int:
    """On a GPU one trains while the next gets ready."""
    return 2 if _is_gpu(device) else 1


def _is_gpu(device: str) -> bool:
    from egorecovery.policy.device import pick_device

    return pick_device(device).type == "cuda"
