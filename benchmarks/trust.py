"""What it costs that bytes are checked: opening, reading, labelling, training start-up without it, first, and again.

python benchmarks/trust.py [--episodes 60] [--frames 150] [--size 96] [--rounds 15] [--json PATH]
"""

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro

from egorecovery.episodes import (
    PAPER_TASKS,
    RATE_HZ,
    Camera,
    CameraStream,
    Episode,
    EpisodeStore,
    Intrinsics,
    JpegFrames,
    Provenance,
    Source,
    episode_id,
)
from egorecovery.intent import label_store
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.storage.checked_content import CACHE_FILE, CheckedContent
from egorecovery.storage.journal import Journal
from egorecovery.training import RECIPES, Budget, frame_table
from egorecovery.training.image_source import decode
from egorecovery.training.splits import select


@dataclass(frozen=True, kw_only=True)
class Options:
    episodes: int = 60
    frames: int = 150
    size: int = 96
    rounds: int = 15
    json: Path | None = None
    """Also write all numbers there."""


def episode(number: int, options: Options) -> Episode:
    rng = np.random.default_rng(number)
    frames, size = options.frames, options.size
    state = np.cumsum(rng.normal(0, 0.01, (frames, 14)), axis=0).astype(np.float32)
    ramp = np.add.outer(np.arange(size), np.arange(size))[..., None] % 200
    images = (ramp[None] + rng.integers(0, 20, (frames, size, size, 3))).astype(np.uint8)
    stream = CameraStream(
        frames=JpegFrames.encode(images),
        timestamps_s=np.arange(frames) / RATE_HZ,
        intrinsics=Intrinsics(width=size, height=size, fx=90.0, fy=90.0, cx=size / 2, cy=size / 2),
    )
    return Episode(
        id=episode_id(f"episode-{number:04d}"),
        task=PAPER_TASKS["cube_stack"],
        source=tuple(Source)[number % 4],
        timestamps_s=np.arange(frames) / RATE_HZ,
        state=state,
        action=np.concatenate([state[1:], state[-1:]]),
        effector_m=np.cumsum(rng.normal(0, 0.02, (frames, 2, 3)), axis=0).astype(np.float32),
        reliable=np.ones((frames, 2), bool),
        cameras=dict.fromkeys(Camera, stream),
        provenance=Provenance(
            operator="bench", started_at="2026-01-01T09:00:00+00:00", stopped_at="2026-01-01T09:00:06+00:00"
        ),
    )


def build(root: Path, options: Options) -> None:
    store = EpisodeStore.create(root)
    annotations = []
    with store.writing() as writer:
        for number in range(options.episodes):
            made = episode(number, options)
            writer.add(made)
            if made.source.is_recovery:
                annotations.append(Annotation(episode=made.id, boundary=options.frames // 2, annotator="bench"))
    AnnotationJournal(store.annotations_path).save_first(annotations)
    label_store(store)


@contextmanager
def unchecked():
    """Nothing is hashed that a manifest speaks of, and nothing is remembered."""
    kept = CheckedContent.damages, CheckedContent._known
    CheckedContent.damages, CheckedContent._known = lambda self, names: {}, lambda self: {}  # type: ignore[method-assign]
    try:
        yield
    finally:
        CheckedContent.damages, CheckedContent._known = kept  # type: ignore[method-assign]


def open_all(root: Path) -> None:
    """Headers only: no frame is decoded, no array is touched."""
    store = EpisodeStore(root)
    store.require_intact(store.ids())
    for name in store.ids():
        store.read(name)


def read_all(root: Path) -> None:
    """Every array and every frame."""
    store = EpisodeStore(root)
    store.require_intact(store.ids())
    for name in store.ids():
        found = store.read(name)
        for stream in (found.state, found.action, found.effector_m):
            stream.sum()
        for camera in found.cameras.values():
            for frame in range(len(found)):
                camera.frames[frame]


def label(root: Path) -> None:
    for path in (root / "labels").iterdir():
        path.unlink()
    label_store(EpisodeStore(root))


def start_training(root: Path) -> None:
    """All that comes before the first step: pools, frame table, statistics, decoding."""
    import torch

    store = EpisodeStore(root)
    base = replace(RECIPES["bench"]("cube_stack"), held_out=1)
    each = len(store) // 4 - base.held_out
    budget = Budget(robot_success=each, robot_recovery=each, human_success=0, human_recovery=each)
    recipe = base.with_budget(budget)
    recorded = frame_table.read(store, select(store, recipe).episodes, recipe)
    frames = frame_table.table(recorded, frame_table.fit(recorded, recipe), recipe)
    size = store.frames(store.ids()[0], Camera.HEAD).size_hw[0]
    decode(store, frames.samples, tuple(Camera), size, torch.device("cpu"))


def seconds(work: Callable[[Path], None], root: Path) -> float:
    """Of processor time, all threads together: other programs on the machine do not count."""
    started_s = time.process_time()
    work(root)
    return time.process_time() - started_s


def compare(work: Callable[[Path], None], root: Path, rounds: int) -> dict[str, float]:
    """The least of all rounds, for whatever else runs on a machine only adds; each round runs every way once."""
    found: dict[str, list[float]] = {"unchecked": [], "first": [], "again": []}
    seconds(work, root)
    for _ in range(rounds):
        with unchecked():
            found["unchecked"].append(seconds(work, root))
        (root / CACHE_FILE).unlink(missing_ok=True)
        found["first"].append(seconds(work, root))
        found["again"].append(seconds(work, root))
    least = {name: min(values) for name, values in found.items()}
    return least | {f"{name}_ratio": least[name] / least["unchecked"] for name in ("first", "again")}


def appends(root: Path, rounds: int) -> dict[str, float]:
    """One acknowledged line of a journal, with and without chain and anchor."""
    found = {}
    for name, chained in (("unchained", False), ("chained", True)):
        journal = Journal(root / f"{name}.jsonl", chained=chained)
        started_s = time.perf_counter()
        for number in range(20 * rounds):
            journal.append({"number": number})
        found[f"{name}_ms"] = 1000 * (time.perf_counter() - started_s) / (20 * rounds)
    return found


def main(options: Options) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        build(root, options)
        time.sleep(0.2)  # what is younger is not remembered
        results = {
            work.__name__: compare(work, root, options.rounds) for work in (open_all, read_all, label, start_training)
        }
        results["append"] = appends(Path(folder), options.rounds)
    for name, values in results.items():
        print(name, {key: round(value, 4) for key, value in values.items()})
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options))
