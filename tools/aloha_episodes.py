"""Demonstrations of the simulated workcell, recorded as ALOHA records: HDF5 files at 50 Hz, pictures of 640 x 480.

    python tools/aloha_episodes.py --task cup_brush --source robot_success --episodes 34 --seed 1 --out DIR

The same episodes as `egorecovery simulate --plain-room` with that seed, seen by other cameras and clocked twice as
fast: what an import makes of them can be compared with the store they come from. Nothing of our import writes them.
Pictures are JPEG in padded rows with `compress_len`, as Mobile ALOHA's compression leaves them; `--raw` writes arrays,
as ACT's recorder does (1.4 GB for ten seconds). Grippers have ALOHA's ranges. Existing files are kept.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import simplejpeg

from egorecovery.episodes import Camera, Source
from egorecovery.workcell.appearance import PLAIN
from egorecovery.workcell.collection import MOST_ATTEMPTS, Job, Order
from egorecovery.workcell.demonstration import OPERATOR, Ended, _wait
from egorecovery.workcell.physics import mujoco
from egorecovery.workcell.render import Cameras
from egorecovery.workcell.robot import ALONG_STEP, LARGEST_MOVE, SUBSTEPS, RobotCell, clip_target
from egorecovery.workcell.staging import draw_start
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.teleoperator import OutOfReach, Teleoperator
from egorecovery.workcell.workcell import StagingFailed, Workcell

HEIGHT, WIDTH = 480, 640
NAMES = {Camera.HEAD: "cam_high", Camera.LEFT_WRIST: "cam_left_wrist", Camera.RIGHT_WRIST: "cam_right_wrist"}
STATE_GRIPPER, ACTION_GRIPPER = (0.0184, 0.0584), (-0.6213, 1.4910)  # metres and radians, closed and open
GRIPPERS = [6, 13]


class SeenHalfway(RobotCell):
    """The robot of the workcell, which says when half of a control step has passed."""

    def step(self, target: np.ndarray) -> None:
        model, data, ctrl = self.model, self.data, self._at.ctrl
        start = data.ctrl[ctrl]
        goal = np.clip(clip_target(target), start - LARGEST_MOVE, start + LARGEST_MOVE)
        ramp = start + (goal - start) * ALONG_STEP
        data.ctrl[ctrl] = ramp[0]
        mujoco.mj_step2(model, data)
        for number, servo_target in enumerate(ramp[1:], start=1):
            if number == SUBSTEPS // 2:
                self.halfway()
            data.ctrl[ctrl] = servo_target
            mujoco.mj_step(model, data)
        self.refresh()

    def halfway(self) -> None:
        """Replaced by whoever records."""


class Recorder:
    """Rows of one attempt, 20 ms apart."""

    def __init__(self, cell: Workcell, cameras: Cameras) -> None:
        self._cell, self._cameras = cell, cameras
        self._seen = mujoco.MjData(cell.robot.model)  # a copy, so that looking changes nothing
        self.states: list[np.ndarray] = []
        self.commands: list[np.ndarray] = []  # at every other row
        self.jpegs: dict[Camera, list[bytes]] = {camera: [] for camera in Camera}
        self.succeeded = False

    def look(self, command: np.ndarray) -> None:
        self.commands.append(command)
        self.row()

    def row(self) -> None:
        model = self._cell.robot.model
        mujoco.mj_copyData(self._seen, model, self._cell.robot.data)
        mujoco.mj_kinematics(model, self._seen)
        mujoco.mj_camlight(model, self._seen)
        self.states.append(self._cell.robot.proprioception())
        for camera in Camera:
            picture = self._cameras.render(self._seen, camera)
            self.jpegs[camera].append(simplejpeg.encode_jpeg(picture, quality=90, colorsubsampling="420"))

    def step(self, action: np.ndarray) -> None:
        outcome = self._cell.step(action)
        if outcome is not None and not outcome.succeeded:
            raise Ended(outcome.reason)
        self.succeeded = self.succeeded or outcome is not None

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """State and action per row; between two commands the leader is halfway between them."""
        rows = 2 * len(self.commands)
        commands = np.array(self.commands)
        action = np.stack([np.interp(np.arange(rows) / 2, np.arange(len(commands)), each) for each in commands.T], 1)
        return np.array(self.states[:rows]), action


def attempts(order: Order, index: int, cell: Workcell, cameras: Cameras) -> Iterator[Recorder]:
    """Those of `simulate`: the first that succeeds is the episode."""
    job = Job(order, index, Path())
    for number in range(MOST_ATTEMPTS):
        start = draw_start(cell.scene, order.source, job.generator("start", number))
        start = Start(**{**vars(start), "appearance": PLAIN})
        rng = job.generator("demonstration", number)
        recorder = Recorder(cell, cameras)
        try:
            cell.reset(start)
            cell.robot.halfway = recorder.row
            teleoperator = Teleoperator(cell.robot, cell.scene, step=recorder.step)
            teleoperator.aim = OPERATOR
            scene = cell.scene
            script = scene.recover(teleoperator, rng) if start.kind == "recovery" else scene.succeed(teleoperator, rng)
            teleoperator.demonstrate(script, rng, recorder.look, lambda: None)
            cell.robot.halfway = lambda: None
            outcome = None if recorder.succeeded else _wait(cell)
        except (StagingFailed, OutOfReach, Ended):
            continue
        finally:
            cell.robot.halfway = lambda: None
        if recorder.succeeded or (outcome is not None and outcome.succeeded):
            yield recorder


def scaled(joints: np.ndarray, span: tuple[float, float]) -> np.ndarray:
    joints = joints.copy()
    joints[:, GRIPPERS] = span[0] + (span[1] - span[0]) * joints[:, GRIPPERS]
    return joints


def write(path: Path, recorder: Recorder, raw: bool) -> None:
    state, action = recorder.rows()
    partial = path.with_suffix(".partial")
    with h5py.File(partial, "w") as root:
        root.attrs["sim"] = True
        root.attrs["compress"] = not raw
        root["action"] = scaled(action, ACTION_GRIPPER).astype("f4")
        observations = root.create_group("observations")
        observations["qpos"] = scaled(state, STATE_GRIPPER).astype("f4")
        observations["qvel"] = np.gradient(state, 0.02, axis=0).astype("f4")
        images = observations.create_group("images")
        lengths = []
        for camera, name in sorted(NAMES.items(), key=lambda item: item[1]):
            jpegs = recorder.jpegs[camera][: len(state)]
            if raw:
                stored = images.create_dataset(name, (len(jpegs), HEIGHT, WIDTH, 3), "u1", chunks=(1, HEIGHT, WIDTH, 3))
                for row, jpeg in enumerate(jpegs):
                    stored[row] = simplejpeg.decode_jpeg(jpeg)
                continue
            lengths.append([len(jpeg) for jpeg in jpegs])
            padded = np.zeros((len(jpegs), max(lengths[-1])), np.uint8)
            for row, jpeg in enumerate(jpegs):
                padded[row, : len(jpeg)] = np.frombuffer(jpeg, np.uint8)
            images[name] = padded
        if not raw:
            root["compress_len"] = np.array(lengths, "f4")
    os.replace(partial, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", required=True)
    parser.add_argument("--source", choices=("robot_success", "robot_recovery"), required=True)
    parser.add_argument("--episodes", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="where to begin, to share the work among processes")
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    order = Order(task=chosen.task, source=Source(chosen.source), episodes=chosen.episodes, seed=chosen.seed)
    chosen.out.mkdir(parents=True, exist_ok=True)
    cell = Workcell(scene_named(chosen.task))
    cell.robot = SeenHalfway(cell.robot.model)
    with Cameras(cell.robot.model, HEIGHT, width_px=WIDTH) as cameras:
        for index in range(chosen.first, chosen.episodes):
            path = chosen.out / f"episode_{index}.hdf5"
            if path.exists():
                continue
            recorder = next(attempts(order, index, cell, cameras))
            write(path, recorder, chosen.raw)
            print(f"{path}: {2 * len(recorder.commands)} rows", flush=True)


if __name__ == "__main__":
    main()
