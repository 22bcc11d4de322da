"""`egorecovery verify`."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from egorecovery.cli.words import CLIENT_RATES
from egorecovery.errors import EgoRecoveryError, StoreDamaged, StoreError

if TYPE_CHECKING:
    from egorecovery.storage.manifest import Damage

Found = tuple[list["Damage"], list[str], str]  # damage, notes, and what was checked


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check every byte of a store, run, checkpoint, experiment or result file, and say what to do about damage.

    Exit code 1 means that something is damaged; all of it is listed.
    """

    EXAMPLE: ClassVar = "verify runs/cubes"

    store: Positional[Annotated[Path, arg(metavar="PATH")]]
    """Any of these; an archive of published results is unpacked first."""
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> int:
        from egorecovery.cli.console import console, messages, print_json

        # A link to the folder itself is the reader's own choice; links below it are refused.
        folder = self.store.resolve() if self.store.is_symlink() else self.store
        damages, notes, checked = _checker(folder)(folder)
        if self.json:
            listed = [{name: str(value) for name, value in vars(damage).items()} for damage in damages]
            print_json({"checked": checked, "damages": listed, "notes": notes})
            return 1 if damages else 0
        for damage in damages:
            console.print(str(damage), soft_wrap=True)
        for note in notes:
            messages.print(note, soft_wrap=True)
        console.print(f"{checked} checked, {len(damages)} damaged files")
        if damages:
            console.print(
                f"next: mend what is named above, then egorecovery verify {shlex.quote(str(self.store))}",
                soft_wrap=True,
            )
        else:
            following = _used(checked, self.store)
            if "--client-hz" in following:
                console.print(CLIENT_RATES, soft_wrap=True)
            console.print(f"next: {following}", soft_wrap=True)
        return 1 if damages else 0


def _used(checked: str, path: Path) -> str:
    """What one does with what is whole."""
    if checked == "run" and not any(path.glob("checkpoints/step_*")):
        return f"egorecovery train STORE --run {shlex.quote(str(path))} --resume"
    verb = {"run": "serve", "checkpoint": "serve"}.get(checked, "inspect")
    rate = " --client-hz 25" if verb == "serve" else ""  # of the workcell, which `control` moves
    quoted = shlex.quote(str(path))
    return "nothing; it may be used" if checked.endswith("cells") else f"egorecovery {verb} {quoted}{rate}"


def require_undamaged(folder: Path) -> None:
    """Before something is given to others, or taken from them."""
    damages, _, _ = _checker(folder)(folder)
    if damages:
        more = f", and {len(damages) - 1} more" if len(damages) > 1 else ""
        raise StoreDamaged(f"{folder} is damaged: {damages[0]}{more}")


def _checker(path: Path) -> Callable[[Path], Found]:
    """By what lies there, damaged or not."""
    from egorecovery.storage.containment import exists

    if not path.exists():
        raise StoreError(f"{path} does not exist; name a store, run, checkpoint, experiment or result file")
    if path.is_file():
        return _results
    for names, check in (
        (("store.json", "episodes"), _store),
        (("checkpoint.json",), _checkpoint),
        (("suite.json", "cells"), _experiment),
        (("checkpoints", "recipe.json"), _run),
    ):
        if any(exists(path / name) for name in names):
            return check
    raise StoreError(
        f"{path} is no store, run, checkpoint, experiment or result file: none of store.json, recipe.json, "
        "checkpoint.json, suite.json is there; name one of its folders, and unpack published results first"
    )


def _store(path: Path) -> Found:
    from egorecovery.cli.console import progress_bar
    from egorecovery.episodes import EpisodeStore
    from egorecovery.intent.store_damage import store_damages, store_notes

    store = EpisodeStore(path, trusting=True)
    with progress_bar("Verifying", "episodes") as advance:
        damages = store_damages(store, advance)
    try:
        episodes = len(store.folders())
    except EgoRecoveryError:
        episodes = 0
    return damages, store_notes(store), f"{episodes} episodes"


def _run(path: Path) -> Found:
    from egorecovery.training.run_manifest import run_damages, run_notes

    return run_damages(path), run_notes(path), "run"


def _checkpoint(path: Path) -> Found:
    from egorecovery.policy.checkpoint_damage import checkpoint_damages

    return checkpoint_damages(path), [], "checkpoint"


def _experiment(path: Path) -> Found:
    from egorecovery.experiments.damage import experiment_damages, experiment_notes
    from egorecovery.storage.containment import names_in

    cells = len(names_in(path / "cells"))
    return experiment_damages(path), experiment_notes(path), f"{cells} cells"


def _results(path: Path) -> Found:
    from egorecovery.evaluation import ResultFile
    from egorecovery.storage.journal import Journal
    from egorecovery.storage.manifest import Damage

    if path.suffix != ".jsonl":
        raise StoreError(f"{path} is no result file: those end in .jsonl; name one, or the folder it is part of")
    problems = Journal(path, chained=False).problems()
    rollouts = []
    try:
        rollouts = [] if problems else ResultFile(path).records()
    except EgoRecoveryError as error:
        problems = [str(error)]
    advice = "restore it from a copy, or remove the line and evaluate again"
    notes = ["note: missing lines cannot be noticed in a result file"]
    return [Damage(path, problem, advice) for problem in problems], notes, f"{len(rollouts)} rollouts"
