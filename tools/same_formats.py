"""Whether two checkouts read the same from files, and write the same bytes again.

python tools/same_formats.py BEFORE AFTER docs/results/*.tar.xz src/egorecovery/demo/checkpoints/* STORE

BEFORE and AFTER are checkouts. What is given may be archives or folders of results, checkpoints, stores, recordings and
files of robot limits. Cards of cells are also compared with their own bytes: reading changes nothing.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path


def digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()[:16]


def rewritten(path: Path, scratch: Path) -> Iterator[tuple[str, str, bytes]]:
    """Name, kind and the bytes that this checkout makes of each file in a folder, or of a file."""
    from egorecovery.storage.checksummed_json import with_checksum

    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        name = str(file.relative_to(path)) if path.is_dir() else file.name
        if file.name == "rollouts.jsonl":
            from egorecovery.evaluation import ResultFile

            yield (
                name,
                "result file",
                b"".join(with_checksum(rollout.record()) for rollout in ResultFile(file).records()),
            )
        elif file.name == "cell.json":
            from egorecovery.experiments.cell_card import read_cell_card

            yield name, "cell's card", with_checksum(read_cell_card(file.parent))
        elif file.name == "checkpoint.json":
            yield name, "checkpoint's card", _checkpoint(file.parent, scratch)
        elif file.name == "store.json":
            yield from ((f"{name}/{part}", kind, payload) for part, kind, payload in _store(file.parent, scratch))
        elif file.name == "recording.json":
            from egorecovery.capture.recording_files import load_header

            yield name, "recording", repr(load_header(file.parent)).encode()
        elif file.suffix == ".json" and file.parent.name == "limits":
            from egorecovery.robot.limits import read_limits

            yield name, "robot limits", repr(read_limits(file)).encode()


def _checkpoint(folder: Path, scratch: Path) -> bytes:
    from egorecovery.policy.checkpoint import open_checkpoint, save
    from egorecovery.policy.config_json import to_json

    found = open_checkpoint(folder)
    saved = save(
        Path(tempfile.mkdtemp(dir=scratch)) / "checkpoints",
        step=found.step,
        recipe={**found.recipe, "policy": to_json(found.config)},
        statistics=found.statistics,
        data=found.data,
        revision=found.revision,
        gate_sample=found.gate_sample,
        computed=found.computed,
        weights=found.weights(),
        training_state={},
    )
    return (saved / "checkpoint.json").read_bytes()


def _store(root: Path, scratch: Path) -> Iterator[tuple[str, str, bytes]]:
    """Every episode and log of a store, written to another one; and its labels, derived again."""
    from egorecovery.episodes import EpisodeStore
    from egorecovery.intent import label_store
    from egorecovery.recovery import AnnotationJournal

    store, copy = EpisodeStore(root), EpisodeStore.create(Path(tempfile.mkdtemp(dir=scratch)) / "store")
    with copy.writing() as writer:
        for identifier in store.ids():
            writer.add(store.read(identifier))
    for activity in store.collection.activities():
        copy.collection.add_activity(activity)
    for annotation in AnnotationJournal(store.annotations_path).latest().values():
        AnnotationJournal(copy.annotations_path).save_first([annotation])
    label_store(copy)
    for file in sorted(copy.root.rglob("*")):
        if file.is_file() and file.name not in (".checked.json", "writer.lock"):
            kind = (
                file.name if file.parent == copy.root else "label" if file.parent.name == "labels" else "episode's file"
            )
            yield str(file.relative_to(copy.root)), kind, file.read_bytes()


def look(paths: list[Path]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            root, scratch = path, Path(folder) / "scratch"
            scratch.mkdir()
            if path.name.endswith(".tar.xz"):
                root = Path(folder) / "archive"
                with tarfile.open(path) as packed:
                    packed.extractall(root, filter="data")
            for name, kind, payload in rewritten(root, scratch):
                own = (root / name).read_bytes() if (root / name).is_file() else b""
                unlike = kind == "cell's card" and own != payload
                found[f"{path.name}/{name}"] = [kind, digest(payload), "differs from its own bytes" if unlike else ""]
    return found


def seen_by(checkout: Path, paths: list[Path]) -> dict[str, list[str]]:
    command = [sys.executable, __file__, "--look", *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    return json.loads(subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout)


def main() -> int:
    if sys.argv[1:2] == ["--look"]:
        print(json.dumps(look([Path(name) for name in sys.argv[2:]])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    paths = [path.resolve() for path in given.files]
    before, after = (seen_by(checkout, paths) for checkout in (given.before, given.after))
    differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    changed = sorted(name for name, (_, _, problem) in after.items() if problem)
    for kind, count in sorted(Counter(kind for kind, _, _ in after.values()).items()):
        print(f"{count:6} x {kind}")
    print(f"{len(differing)} differ between the checkouts", *differing[:20], sep="\n  ")
    print(f"{len(changed)} are not written again as they were", *changed[:20], sep="\n  ")
    return 1 if differing or changed else 0


if __name__ == "__main__":
    sys.exit(main())
