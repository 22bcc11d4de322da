"""What a suite is run with."""

from dataclasses import dataclass, field

from egorecovery.errors import RecipeError
from egorecovery.evaluation import default_workers
from egorecovery.evaluation.batched_policy import usual_batch_rows
from egorecovery.executors import Executor, cores


@dataclass(frozen=True, kw_only=True)
class Resources:
    """None of it is meant to change results."""

    executor: Executor = "local"  # of data and rollouts
    workers: int = 0  # for data and rollouts; 0 for as many as suit each
    device: str = "auto"
    trainings_at_once: int = 0  # processes; on a GPU all but one wait for their turn; 0: two on a GPU, else one
    schedule: dict[str, int] = field(default_factory=dict)  # of trainings: how often they log, score and save

    def __post_init__(self) -> None:
        if self.trainings_at_once < 0:
            raise RecipeError(f"trainings_at_once must not be negative, got {self.trainings_at_once}")

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
        from egorecovery.policy.device import pick_device

        return pick_device(self.device).type == "cuda"

    @property
    def training_processes(self) -> int:
        """On a GPU one trains while the next gets ready."""
        return self.trainings_at_once or (2 if self.on_gpu else 1)

    @property
    def training_apart(self) -> bool:
        return self.training_processes > 1 or self.on_gpu

    @property
    def threads(self) -> int | None:
        """Of each training process; only a limit where they share cores."""
        return max(1, cores() // self.training_processes) if self.training_processes > 1 else None

    @property
    def batch_rows(self) -> int:
        """Of every inference."""
        return usual_batch_rows(self.evaluation_device)
