"""Checks our LeRobot import and export against LeRobot itself, which lives in an environment of its own.

    python tools/interop_lerobot.py --env ENV [--work DIR]                   # v3.0: our import and our export
    python tools/interop_lerobot.py --env ENV --lerobot 0.3.3 [--work DIR]   # v2.1: our import

ENV is made if it is not there (about 1 GB): LeRobot without its dependencies, then those that its data sets need. An
environment that is there may have another version; 0.6.1 was tried. Prints what was
compared; the exit code is 1 where something differs.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from egorecovery.capture import to_episode
from egorecovery.capture.formats.importer import ImportAs, Robot
from egorecovery.capture.formats.options import LeRobotOptions
from egorecovery.capture.formats.registry import open_data_set
from egorecovery.capture.importing import import_episodes
from egorecovery.capture.synthetic import synthetic_recording
from egorecovery.episodes import PAPER_TASKS, Camera, EpisodeStore, Source
from egorecovery.export.lerobot import ExportRules, export_lerobot
from egorecovery.export.lerobot_episodes import CAMERAS, columns
from egorecovery.intent import label_store
from egorecovery.intent.current_labels import labels_of
from egorecovery.recovery import confirm_candidates, propose
from egorecovery.workcell.kinematics import workcell_arms

SIDE = Path(__file__).with_name("lerobot_side.py")
LATEST_OF_V2 = "0.3.3"  # the last LeRobot that writes v2.1
NEEDED = ["torch==2.13.0", "datasets>=4,<4.2", "huggingface_hub<1", "av", "deepdiff", "draccus==0.10.0", "einops"]
NEEDED += ["jsonlines", "packaging", "pandas", "pillow", "psutil", "safetensors", "termcolor"]
TASK = PAPER_TASKS["cube_stack"]
CODEC = 6.0  # mean difference of a picture, of 255, that a codec may make; another picture differs by more


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", type=Path, required=True)
    parser.add_argument("--lerobot", default="0.4.4")
    parser.add_argument("--work", type=Path)
    chosen = parser.parse_args()
    if not (chosen.env / "bin" / "python").exists():
        make_environment(chosen.env, chosen.lerobot)
    with tempfile.TemporaryDirectory(dir=chosen.work) as work:
        differing = theirs_read_by_us(chosen.env, Path(work))
        if chosen.lerobot != LATEST_OF_V2:
            differing += ours_read_by_lerobot(chosen.env, Path(work))
    for line in differing:
        print(f"DIFFERS: {line}")
    return 1 if differing else 0


def make_environment(env: Path, version: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", env], check=True)
    pip = [env / "bin" / "python", "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *NEEDED], check=True)
    subprocess.run([*pip, "--no-deps", f"lerobot=={version}", "accelerate"], check=True)  # they pin an older torch


def lerobot(env: Path, job: str, *paths: Path) -> None:
    done = subprocess.run([env / "bin" / "python", SIDE, job, *paths], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"lerobot {job} failed:\n{done.stderr[-3000:]}")


def ours_read_by_lerobot(env: Path, work: Path) -> list[str]:
    """Every column exactly, every picture to within what the codec loses."""
    store = EpisodeStore.create(work / "store")
    with store.writing() as writer:
        for number in range(3):
            source = Source.ROBOT_RECOVERY if number else Source.ROBOT_SUCCESS
            recording, _ = synthetic_recording(f"clip-{number}", TASK, source, np.random.default_rng(number))
            writer.add(to_episode(recording))
    confirm_candidates(store, "interop")
    label_store(store)
    export_lerobot(store, work / "ours", ExportRules(instruction="put the cube on the other"))
    lerobot(env, "read", work / "ours", work / "ours.npz")
    found = np.load(work / "ours.npz")
    names, wanted, pictures = store.ids(), {}, {}
    for name in names:
        for column, values in columns(store.read(name), labels_of(store, name)).items():
            wanted.setdefault(column, []).append(values)
        for camera in Camera:
            pictures.setdefault(camera, []).append(store.frames(name, camera).decode())
    differing = [
        f"column {column}"
        for column, parts in wanted.items()
        if not np.array_equal(found[column].reshape(len(found["index"]), -1), np.concatenate(parts))
    ]
    for camera, parts in pictures.items():
        away = np.abs(found[f"observation.images.{CAMERAS[camera]}"].astype(int) - np.concatenate(parts))
        worst = away.mean(axis=(1, 2, 3)).max()
        print(
            f"our export, {camera}: {len(away)} pictures, mean difference {away.mean():.2f}, worst {worst:.2f} of 255"
        )
        differing += [f"pictures of {camera}: {worst:.1f}"] * bool(worst > CODEC)
    differing += ["the task in words"] * (set(found["tasks"]) != {"put the cube on the other"})
    print(f"our export: {len(names)} episodes, {len(wanted)} columns compared value for value")
    return differing


def theirs_read_by_us(env: Path, work: Path) -> list[str]:
    """A data set of LeRobot's own writer: 50 Hz, videos and images, with v3.0 three episodes in each video."""
    lerobot(env, "write", work / "theirs", work / "truth.npz")
    truth = np.load(work / "truth.npz")
    wanted = ImportAs(
        task=TASK, source=Source.ROBOT_RECOVERY, robot=Robot(name="the workcell's arms", arms=workcell_arms)
    )
    importer = open_data_set("lerobot", [work / "theirs"], wanted, LeRobotOptions())
    store = EpisodeStore.create(work / "imported")
    with store.writing() as writer:
        outcomes = list(import_episodes(writer, importer))
    differing = [f"{one.name}: {one.outcome} {one.reasons}" for one in outcomes if not one.accepted]
    pictures = 0
    for name in store.ids():
        number = int(name.rsplit("-", 1)[1])
        episode = store.read(name)
        for stream in ("state", "action"):
            exact = np.array_equal(getattr(episode, stream), truth[f"{stream}_{number}"][::2][: len(episode)])
            differing += [f"{name}: {stream}"] * (not exact)
        for camera_number, camera in enumerate(Camera):
            seen = [mark(image) for image in episode.cameras[camera].frames.decode()]
            expected = [2 * frame | number << 8 | camera_number << 10 for frame in range(len(episode))]
            differing += [f"{name}: pictures of {camera}"] * (seen != expected)
            pictures += len(seen)
        differing += [f"{name}: recovery proposal"] * (propose(store, name).frame not in (19, 20))
    print(f"LeRobot's data set: {len(store)} episodes, {pictures} pictures told apart by their marks, values exact")
    return differing


def mark(picture: np.ndarray) -> int:
    """The number that `lerobot_side.marked` wrote into a picture."""
    fields = [picture[row * 32 + 16, column * 32 + 16].mean() > 127 for row in range(3) for column in range(4)]
    return sum(int(field) << bit for bit, field in enumerate(fields))


if __name__ == "__main__":
    raise SystemExit(main())
