"""Labels one hour of 25 Hz episodes, low-dimensional part only, then finds that nothing is left to do.

python benchmarks/label.py [--hours 1] [--workers 2] [--json PATH]
"""

import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.random import Generator
from rich.console import Console
from rich.table import Table

from egorecovery.episodes import PAPER_TASKS, RATE_HZ, Episode, EpisodeStore, Provenance, Source, episode_id
from egorecovery.episodes.store_writer import StagedEpisode, stage
from egorecovery.intent import label_store
from egorecovery.recovery import Annotation, AnnotationJournal


@dataclass(frozen=True, kw_only=True)
class Options:
    """How much is labelled, and by how many."""

    hours: float = 1.0
    workers: int = 2
    repeats: int = 3
    """The labels are deleted and derived again this often."""
    shortest: int = 100
    longest: int = 400
    """Frames of an episode."""
    seed: int = 0
    json: Path | None = None
    """Also write all numbers there."""


def lengths(options: Options) -> list[int]:
    """Episode lengths that add up to the wanted hours; only the last may fall short of the range."""
    rng = np.random.default_rng(options.seed)
    left, chosen = round(options.hours * 3600 * RATE_HZ), []
    while left > 0:
        chosen.append(min(int(rng.integers(options.shortest, options.longest + 1)), left))
        left -= chosen[-1]
    return chosen


def build(root: Path, options: Options) -> EpisodeStore:
    """Sources and tasks in turn; every recovery episode annotated."""
    store = EpisodeStore.create(root)
    kinds = cycle(product(PAPER_TASKS, Source))
    planned = [
        (options.seed, number, frames, source, task)
        for number, (frames, (task, source)) in enumerate(zip(lengths(options), kinds, strict=False))
    ]
    spawn = multiprocessing.get_context("spawn")
    with store.writing() as writer, ProcessPoolExecutor(max(options.workers, 1), mp_context=spawn) as pool:
        for staged in pool.map(stage_one, [root] * len(planned), planned, chunksize=8):
            writer.commit(staged)
    journal = AnnotationJournal(store.annotations_path)
    for _, number, frames, source, _ in planned:
        if source.is_recovery:
            boundary = round(0.4 * (frames - 1))
            annotation = Annotation(episode=name_of(number), boundary=boundary, annotator="benchmark")
            journal.save(annotation, n_frames=frames, seen_revision=0)
    return store


def stage_one(root: Path, plan: tuple[int, int, int, Source, str]) -> StagedEpisode:
    return stage(root, episode_of(*plan))


def name_of(number: int) -> str:
    return f"bench_{number:05d}"


def episode_of(seed: int, number: int, frames: int, source: Source, task: str) -> Episode:
    """Hands that wander smoothly, pause now and then, and are lost for a moment."""
    rng = np.random.default_rng((seed, number))
    effector_m = wander_m(rng, frames)
    reliable = np.ones((frames, 2), bool)
    if source.is_human:
        lost = int(rng.integers(0, frames))
        reliable[lost : lost + 4] = False
    state = rng.standard_normal((frames, 14), dtype=np.float32)
    return Episode(
        id=episode_id(name_of(number)),
        task=PAPER_TASKS[task],
        source=source,
        timestamps_s=np.arange(frames) / RATE_HZ,
        state=state,
        action=state,
        effector_m=effector_m,
        reliable=reliable,
        cameras={},
        provenance=Provenance(
            operator="benchmark", started_at="2026-01-01T09:00:00+00:00", stopped_at="2026-01-01T09:00:16+00:00"
        ),
    )


def wander_m(rng: Generator, frames: int) -> np.ndarray:
    """Up to 5 mm a frame along slowly turning directions; a fifth of the time at rest."""
    times_s = np.arange(frames)[:, None, None] / RATE_HZ
    speed_m = 0.005 * np.sin(times_s * rng.uniform(0.5, 2, (2, 3)) + rng.uniform(0, 6, (2, 3)))
    rest = slice(frames // 2, frames // 2 + frames // 5)
    speed_m[rest] = 0
    return np.cumsum(speed_m, axis=0).astype(np.float32)


def clear_labels(store: EpisodeStore) -> None:
    for path in store.labels_path.glob("*"):
        path.unlink()


def timed_label(store: EpisodeStore, workers: int) -> tuple[float, dict[str, int]]:
    """Seconds, and what `label` reported."""
    started = time.perf_counter()
    tallies = label_store(store, workers=workers).values()
    seconds = time.perf_counter() - started
    return seconds, {
        "labelled": sum(tally.labelled for tally in tallies),
        "unchanged": sum(tally.unchanged for tally in tallies),
        "frames": sum(tally.frames.total() for tally in tallies),
    }


def measure(store: EpisodeStore, options: Options) -> dict[str, Any]:
    first_s, again_s = [], []
    for _ in range(options.repeats):
        clear_labels(store)
        seconds, first = timed_label(store, options.workers)
        first_s.append(seconds)
        seconds, again = timed_label(store, options.workers)
        again_s.append(seconds)
        assert first["unchanged"] == 0, "labels of an earlier run were left"
        assert again["labelled"] == 0, "a second run finds nothing to do"
        assert again["frames"] == first["frames"], "a second run counts the same frames"
    return {"episodes": first["labelled"], "frames": first["frames"], "label_s": first_s, "again_s": again_s}


def show(found: dict[str, Any], options: Options, console: Console) -> None:
    table = Table(
        title=f"{options.hours:g} h at 25 Hz: {found['frames']:,} frames in {found['episodes']} episodes, "
        f"{options.workers} workers, {options.repeats} repeats"
    )
    for heading in ("run", "median", "fastest-slowest", "frames/s"):
        table.add_column(heading, justify="left" if heading == "run" else "right", no_wrap=True)
    for name, key in (("label everything", "label_s"), ("again, nothing changed", "again_s")):
        seconds = found[key]
        middle = float(np.median(seconds))
        table.add_row(
            name, f"{middle:.2f} s", f"{min(seconds):.2f}-{max(seconds):.2f} s", f"{found['frames'] / middle:,.0f}"
        )
    console.print(table)


def main(options: Options) -> None:
    console = Console(highlight=False, width=100)
    with tempfile.TemporaryDirectory(prefix="egorecovery_bench_") as folder:
        with console.status("writing the episodes"):
            store = build(Path(folder) / "store", options)
        os.sync()  # what the writer left for later must not be billed to the labeller
        found = measure(store, options)
    show(found, options, console)
    if options.json:
        recorded = {"options": {**asdict(options), "json": None}, **found}
        options.json.write_text(json.dumps(recorded, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
