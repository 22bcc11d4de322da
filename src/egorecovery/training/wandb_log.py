"""A run's log in Weights & Biases, beside log.jsonl and TensorBoard, where a user asks for it."""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egorecovery.errors import RecipeError
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.bounded_json import parse_json
from egorecovery.storage.containment import exists, inside, read_bytes

PROJECT = "egorecovery"
ID = "wandb_id.txt"  # so that a resumed run goes on in the same place


class WandbLog:
    """Where it goes is the environment's to say, as with any program that uses it: WANDB_PROJECT, WANDB_MODE ..."""

    def __init__(self) -> None:
        import wandb  # pyright: ignore[reportMissingImports] - an extra: refused before a run begins

        self._wandb = wandb
        self._run: Any = None

    def begin(self, run: Path, done: int) -> None:
        try:
            self._run = self._wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=os.environ.get("WANDB_NAME", run.name),
                id=_identity(run),
                resume="allow",
                dir=str(run.absolute().parent),  # beside the run: it makes links, which no folder of ours may hold
                config=parse_json(read_bytes(inside(run, "recipe.json"))),
                settings=self._wandb.Settings(console="off", silent=True),
            )
        except (self._wandb.Error, OSError) as error:
            said = str(error).rstrip(". ")
            raise RecipeError(
                f"--wandb: {said}; log in with 'wandb login', set WANDB_MODE=offline, or leave --wandb out"
            ) from None

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        if self._run is None:
            return
        folder = Path(self._run.dir).parent
        where = f"wandb: 'wandb sync {folder}' uploads it" if self._run.offline else f"wandb: {self._run.url}"
        self._run.finish()
        print(where)


def _identity(run: Path) -> str:
    path = inside(run, ID)
    if exists(path):
        return read_bytes(path, 64).decode("ascii", "replace").strip()
    made = uuid.uuid4().hex[:12]
    write_file(path, f"{made}\n".encode())
    return made
