"""The simulated workcell as a robot: one command is one 40 ms step of its physics, in simulated or in real time."""

import threading

import numpy as np

from egorecovery.episodes import RATE_HZ, Camera, Side
from egorecovery.episodes.frames import JpegFrames
from egorecovery.robot.clock import Clock
from egorecovery.robot.robot import Joints, Measurement, Observation
from egorecovery.workcell.arm import ARM_JOINTS
from egorecovery.workcell.physics import mujoco
from egorecovery.workcell.rules import Outcome
from egorecovery.workcell.workcell import Workcell

_OF_AN_ARM = (*[f"joint{number}" for number in range(1, ARM_JOINTS + 1)], "gripper")
JOINT_NAMES = tuple(f"{side}/{name}" for side in Side for name in _OF_AN_ARM)


class WorkcellRobot:
    """A staged workcell as a robot. Only the thread that rendered first, which owns the GL context, may call `read`."""

    rate_hz = RATE_HZ
    joint_names = JOINT_NAMES

    def __init__(self, cell: Workcell, clock: Clock, cameras: tuple[Camera, ...] = tuple(Camera)) -> None:
        self.cell = cell
        self.hides_embodiment = cell.hidden_embodiment
        self.outcome: Outcome | None = None  # set when the rollout is judged; the physics then stand still
        self.has_stopped = False  # by the driver's own stop
        self._clock, self._cameras = clock, cameras
        self._lock = threading.Lock()  # one thread steps the physics, another copies them for pictures
        self._seen = mujoco.MjData(cell.robot.model)
        self._joints: Joints = cell.robot.proprioception()
        self._last: Joints = cell.robot.target()

    def measure(self) -> Measurement:
        """The joints after the last step. The simulated world stands still between steps."""
        return Measurement(self._clock.now_s(), self._joints)

    def read(self) -> Observation:
        """Joints and pictures. Pictures go through JPEG as in training; physics steps do not wait for them."""
        with self._lock:
            captured_s, joints = self._clock.now_s(), self._joints
            mujoco.mj_copyData(self._seen, self.cell.robot.model, self.cell.robot.data)
        images = [self.cell.cameras.render(self._seen, camera) for camera in self._cameras]
        decoded = JpegFrames.encode(images).decode()
        named = {str(camera): image for camera, image in zip(self._cameras, decoded, strict=True)}
        return Observation(captured_s, joints, named)

    def command(self, joints: Joints) -> None:
        self._last = np.array(joints, float)
        self._step()

    def hold(self) -> None:
        self._step()

    def stop(self) -> None:
        self.has_stopped = True

    def _step(self) -> None:
        with self._lock:
            if self.outcome is None:
                self.outcome = self.cell.step(self._last)
            self._joints = self.cell.robot.proprioception()
