"""`egorecovery verify`."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check every byte of a store against its checksums and name what has changed."""

    store: Positional[Path]
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> int:
        from egorecovery.cli.console import console, print_json, progress_bar
        from egorecovery.episodes import EpisodeStore
        from egorecovery.executors import cores
        from egorecovery.intent import LabelStore
        from egorecovery.recovery import AnnotationJournal
        from egorecovery.storage.manifest import Damage

        store = EpisodeStore(self.store, trusting=True)
        identifiers = store.folders()
        damages: list[Damage] = []
        # Hashing releases the interpreter lock, so threads use all cores.
        with progress_bar("verifying") as advance, ThreadPoolExecutor(cores()) as pool:
            for done, found in enumerate(pool.map(store.damages, identifiers), start=1):
                damages += found
                advance(done, len(identifiers))
        annotations = AnnotationJournal(store.annotations_path)
        damages += store.damages_beside_episodes()
        damages += [Damage(annotations.journal.path, problem) for problem in annotations.problems()]
        damages += LabelStore(store.labels_path).damages()
        if self.json:
            print_json({"episodes": len(identifiers), "damages": [asdict_damage(damage) for damage in damages]})
        else:
            for damage in damages:
                console.print(str(damage), soft_wrap=True)
            console.print(f"{len(identifiers)} episodes checked, {len(damages)} damaged files")
        return 1 if damages else 0


def asdict_damage(damage: object) -> dict[str, str]:
    return {name: str(value) for name, value in vars(damage).items()}
