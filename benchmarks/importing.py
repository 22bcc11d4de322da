"""How long it takes to import recorded demonstrations, beside LeRobot's loader on the same frames.

    python benchmarks/importing.py [--episodes 6] [--seconds 10] [--workers 2] [--lerobot ENV]

Makes three-camera 640 x 480 recordings of moving noise at 25 Hz, imports them as JPEG folders and as a LeRobot data set
(exported from the first import), as they are and letterboxed to 224. Says how many minutes an hour of them takes: by
the clock, and of processor time, which other programs on the machine change little. With ENV, which
tools/interop_lerobot.py makes, LeRobot's own loader reads the same data set once, in one process.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from egorecovery.capture import PictureFit, RobotLog, save_recording
from egorecovery.capture.fitted_pictures import raw_camera
from egorecovery.capture.formats.importer import ImportAs, Importer, Robot
from egorecovery.capture.formats.options import LeRobotOptions
from egorecovery.capture.formats.recordings import RecordingFolders
from egorecovery.capture.formats.registry import open_data_set
from egorecovery.capture.importing import ImportRules, import_episodes
from egorecovery.capture.synthetic import synthetic_recording
from egorecovery.episodes import PAPER_TASKS, RATE_HZ, Camera, EpisodeStore, Intrinsics, Source
from egorecovery.export.lerobot import ExportRules, export_lerobot
from egorecovery.workcell.kinematics import workcell_arms

TASK = PAPER_TASKS["cube_stack"]
HEIGHT, WIDTH = 480, 640
SIDE = Path(__file__).parents[1] / "tools" / "lerobot_side.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lerobot", type=Path)
    parser.add_argument("--work", type=Path)
    chosen = parser.parse_args()
    hours = chosen.episodes * chosen.seconds / 3600
    result: dict[str, object] = {
        "machine": f"{platform.processor() or platform.machine()}, {chosen.workers} workers",
        "imported": f"{chosen.episodes} episodes of {chosen.seconds:g} s, 3 cameras, {WIDTH} x {HEIGHT}, 25 Hz",
    }
    with tempfile.TemporaryDirectory(dir=chosen.work) as work:
        raw, data_set = Path(work, "raw"), Path(work, "data_set")
        make_recordings(raw, chosen.episodes, chosen.seconds)
        folders = RecordingFolders.found([raw])
        fit = ImportRules(fit=PictureFit(224, "letterbox"))
        minutes: dict[str, tuple[float, float]] = {}
        minutes["JPEG recordings, as they are"] = timed(folders, Path(work, "a"), ImportRules(), chosen.workers)
        minutes["JPEG recordings, letterbox 224"] = timed(folders, Path(work, "b"), fit, chosen.workers)
        started = now()
        export_lerobot(EpisodeStore(Path(work, "a")), data_set, ExportRules(labels=False))
        minutes["export to LeRobot, one process"] = since(started)
        robot = Robot(name="the workcell's arms", arms=workcell_arms)
        wanted = ImportAs(task=TASK, source=Source.ROBOT_SUCCESS, robot=robot)
        theirs = open_data_set("lerobot", [data_set], wanted, LeRobotOptions())
        minutes["LeRobot videos, as they are"] = timed(theirs, Path(work, "c"), ImportRules(), chosen.workers)
        minutes["LeRobot videos, letterbox 224"] = timed(theirs, Path(work, "d"), fit, chosen.workers)
        if chosen.lerobot:
            minutes["LeRobot's own loader, one pass, one process"] = loader(chosen.lerobot, data_set)
    result["minutes for an hour, by the clock"] = {name: round(took / hours, 1) for name, (took, _) in minutes.items()}
    result["minutes for an hour, of one core"] = {name: round(took / hours, 1) for name, (_, took) in minutes.items()}
    result["load of the machine"] = os.getloadavg()
    print(json.dumps(result, indent=2))


def make_recordings(root: Path, episodes: int, seconds: float) -> None:
    """Noise over a gradient compresses about as badly as a real camera's pictures."""
    rng = np.random.default_rng(0)
    frames = int(seconds * RATE_HZ) + 1
    clock_s = np.arange(frames) / RATE_HZ
    grain = rng.integers(0, 12, (HEIGHT + 64, WIDTH + 64, 3), dtype=np.uint8)
    ramp = np.linspace(40, 200, WIDTH).astype(np.uint8)[None, :, None]
    pinhole = Intrinsics(width=WIDTH, height=HEIGHT, fx=600.0, fy=600.0, cx=WIDTH / 2, cy=HEIGHT / 2)

    def picture(frame: int) -> np.ndarray:
        row, column = frame * 7 % 64, frame * 11 % 64
        shifted = np.roll(ramp, 3 * frame, axis=1)
        return shifted + grain[row : row + HEIGHT, column : column + WIDTH]

    for number in range(episodes):
        made, _ = synthetic_recording(f"clip-{number:03d}", TASK, Source.ROBOT_SUCCESS, np.random.default_rng(number))
        joints = 0.3 * np.sin(clock_s[:, None] + np.arange(14))
        joints[:, [6, 13]] = 0.5 + 0.5 * np.sin(clock_s)[:, None]
        vectors = workcell_arms().effector_vectors(joints)
        effector_m = np.stack([vectors[:, :3], vectors[:, 10:13]], axis=1)
        log = RobotLog(
            timestamps_s=clock_s,
            state=joints,
            action=joints,
            effector_m=effector_m,
            effector_state=vectors,
            effector_action=vectors,
        )
        film = raw_camera((picture(frame) for frame in range(frames)), clock_s, pinhole)
        save_recording(replace(made, motion=log, cameras=dict.fromkeys(Camera, film)), root / made.id)


def now() -> tuple[float, float]:
    """Seconds by the clock, and of processor time, of this process and of those it has started and seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(each.ru_utime + each.ru_stime for each in used)


def since(started: tuple[float, float]) -> tuple[float, float]:
    """Minutes."""
    clock_s, processor_s = now()
    return (clock_s - started[0]) / 60, (processor_s - started[1]) / 60


def timed(importer: Importer, store: Path, rules: ImportRules, workers: int) -> tuple[float, float]:
    """Minutes, starting the workers included."""
    started = now()
    with EpisodeStore.create(store).writing() as writer:
        outcomes = list(import_episodes(writer, importer, rules, workers))
    assert all(one.accepted for one in outcomes), outcomes
    return since(started)


def loader(env: Path, data_set: Path) -> tuple[float, float]:
    """Minutes of LeRobot's loader, imports left out."""
    asked = [env / "bin" / "python", SIDE, "time", data_set]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    return float(said[-2]) / 60, float(said[-1]) / 60


if __name__ == "__main__":
    main()
