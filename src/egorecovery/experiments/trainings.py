"""One training of an experiment: what it is to do, and its run from wherever an earlier try got to."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import RecipeError, StoreDamaged, StoreLocked
from egorecovery.experiments.cell_card import TrainingCard
from egorecovery.experiments.machine import hardware
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.checksummed_json import read_checksummed, with_checksum
from egorecovery.storage.containment import exists, inside, is_folder, names_in, remove
from egorecovery.storage.typed_json import from_json, to_json
from egorecovery.training import Recipe
from egorecovery.training.logs import read_log, run_lock

ORPHAN_S = 60.0  # a training whose parent was killed may still be saving for so long


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    recipe: Recipe
    store: Path
    run: Path
    device: str = "auto"
    schedule: dict[str, int] = field(default_factory=dict)  # changes to `training.loop.Schedule`
    turn_file: Path | None = None  # shared by trainings that step one after another

    def write(self) -> None:
        record = {
            "recipe": to_json(self.recipe),
            "store": str(self.store.absolute()),
            "device": self.device,
            "schedule": self.schedule,
            "turn_file": self.turn_file and str(self.turn_file.absolute()),
        }
        self.run.mkdir(parents=True, exist_ok=True)
        write_file(self.run / "job.json", with_checksum(record))

    @classmethod
    def read(cls, run: Path) -> "TrainingJob":
        path = inside(run, "job.json")
        record = read_checksummed(path)
        try:
            return cls(
                recipe=from_json(Recipe, record["recipe"], "recipe", RecipeError),
                store=Path(record["store"]),
                run=run,
                device=record["device"],
                schedule=record["schedule"],
                turn_file=record["turn_file"] and Path(record["turn_file"]),
            )
        except (KeyError, TypeError) as error:
            raise StoreDamaged(f"{path} is not the job of a training ({error!r}); remove it") from None


def training_card(run: Path) -> dict[str, Any] | None:
    """What a finished training says of itself; None of one that is not, or whose checkpoint is gone."""
    path = inside(run, "training.json")
    if not exists(path) or not any(exists(checkpoint / "checkpoint.json") for checkpoint in _checkpoints(run)):
        return None
    advice = "remove the file, and the training is looked at again"
    return from_json(TrainingCard, read_checksummed(path), f"{path}: ", StoreDamaged, advice)


def _checkpoints(run: Path) -> list[Path]:
    home = inside(run, "checkpoints")
    return [home / name for name in names_in(home) if name.startswith("step_") and is_folder(home / name)]


def run_training(
    job: TrainingJob,
    watch: Callable[[int, int], None] = lambda step, steps: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Trains to the end from wherever an earlier try got to, and says so in `training.json`."""
    from egorecovery.training.loop import Schedule, train
    from egorecovery.training.runtime import start

    resumed = bool(_checkpoints(job.run))
    started_s = time.monotonic()
    job.run.mkdir(parents=True, exist_ok=True)
    with _locked(job.run):
        runtime = start(job.device)
        outcome = train(
            locked=True,
            recipe=job.recipe,
            store=EpisodeStore(job.store),
            run=job.run,
            runtime=runtime,
            resume=True,
            schedule=Schedule(**job.schedule),
            turn_file=job.turn_file,
            watch=lambda at: watch(at.step, at.steps),
            stop=stop,
        )
        wall_s = time.monotonic() - started_s - outcome.waited_s
        for checkpoint in _checkpoints(job.run):  # they are large, and the last one is what counts
            if checkpoint != outcome.checkpoint:
                remove(checkpoint)
        card = _card(job, outcome.checkpoint, None if resumed else wall_s)
        write_file(job.run / "training.json", with_checksum(card))


def _card(job: TrainingJob, checkpoint: Path, wall_s: float | None) -> dict[str, Any]:
    """Wall time of an unbroken training; of a broken one the log knows how long its steps took."""
    from egorecovery.policy.checkpoint import open_checkpoint

    rows = read_log(job.run / "log.jsonl", "train")
    steps, done, in_steps_s = job.recipe.optimisation.steps, 0, 0.0
    for row in rows:
        in_steps_s += (row["step"] - done) * job.recipe.batch.size / row["samples_per_s"]
        done = row["step"]
    scores = [row for row in read_log(job.run / "log.jsonl", "held_out") if row["step"] == steps]
    saved = open_checkpoint(checkpoint)
    return {
        "seconds": round(in_steps_s if wall_s is None else wall_s, 1),
        "steps": steps,
        "samples_per_s": round(steps * job.recipe.batch.size / in_steps_s, 1) if in_steps_s else 0.0,
        "scores": {name: value for name, value in scores[-1].items() if name not in ("step", "kind")} if scores else {},
        "data_hash": saved.data,
        "revision": saved.revision,
        "hardware": hardware(job.device),
    }


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """One training at a time in a run's folder; waits for an orphan to save and leave."""
    give_up_s = time.monotonic() + ORPHAN_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(run_lock(run))
                break
            except StoreLocked:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.5)
        yield
