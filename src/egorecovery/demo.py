"""The data path from raw recordings to intent targets, on recordings it makes itself."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from egorecovery.capture import find_recordings, import_recording, save_recording
from egorecovery.capture.synthetic import synthetic_recording
from egorecovery.episodes import PAPER_TASKS, EpisodeStore, Source
from egorecovery.errors import StoreError
from egorecovery.intent import LabelStore, PoolStatistics, SourceTally, label_store, pool_statistics
from egorecovery.recovery import confirm_candidates

MARK = ".egorecovery-demo"  # says that a directory may be replaced


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    store: Path
    accepted: int
    discarded: dict[str, tuple[str, ...]]
    tallies: dict[Source, SourceTally]
    statistics: PoolStatistics


def run_demo(out: Path, episodes: int, seed: int) -> DemoResult:
    """Record, import, annotate, label: each step as a user would, through the same functions."""
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise StoreError(f"{out} is not empty and not an earlier demo; name another directory with --out")
    shutil.rmtree(out, ignore_errors=True)
    (out / "recordings").mkdir(parents=True)
    (out / MARK).touch()
    _record(out / "recordings", episodes, seed)
    store = EpisodeStore.create(out / "store")
    with store.writing() as writer:
        outcomes = [import_recording(writer, directory) for directory in find_recordings([out / "recordings"])]
    confirm_candidates(store, annotator="demo")
    tallies = label_store(store)
    labels = LabelStore(store.labels_path)
    return DemoResult(
        store=store.root,
        accepted=sum(outcome.accepted for outcome in outcomes),
        discarded={outcome.name: outcome.reasons for outcome in outcomes if not outcome.accepted},
        tallies=tallies,
        statistics=pool_statistics((store.card(name).source, labels.read(name)) for name in labels.episodes()),
    )


def _record(directory: Path, episodes: int, seed: int) -> None:
    """All four sources of cube stacking."""
    for kind, source in enumerate(Source):
        for number in range(episodes):
            rng = np.random.default_rng([seed, kind, number])
            recording, _ = synthetic_recording(f"{source}-{number:03d}", PAPER_TASKS["cube_stack"], source, rng)
            save_recording(recording, directory / recording.id)
