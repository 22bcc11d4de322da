"""A video of the workcell under control. It is rendered afterwards, because rendering would delay the control."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egorecovery.evaluation.rollout import RolloutJob
from egorecovery.evaluation.video import Moment, encode_film, frames
from egorecovery.robot.controller import Status
from egorecovery.workcell.physics import mujoco
from egorecovery.workcell.workcell import Workcell


@dataclass(frozen=True, eq=False)
class _VideoFrame:
    """One control cycle."""

    position: NDArray[np.float64]  # of all joints and objects, in the simulator's order
    gate: float | None
    intent: tuple[float, ...] | None


class WorkcellVideo:
    """Stores the positions of every control cycle until they are rendered."""

    def __init__(self, job: RolloutJob, cell: Workcell) -> None:
        self._job, self._cell = job, cell
        self._frames: list[_VideoFrame] = []

    def add(self, status: Status) -> None:
        self._frames.append(_VideoFrame(self._cell.robot.data.qpos.copy(), status.gate, status.intent))

    def write(self, path: Path, who: str, outcome: str) -> None:
        """Renders and writes the video. Writes nothing if there was no cycle."""
        if not self._frames:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        title = f"{who}   {self._job.task} {self._job.regime} {self._job.index}"
        encode_film(frames(list(self._moments()), title, outcome), path)

    def _moments(self) -> Iterator[Moment]:
        drawn = mujoco.MjData(self._cell.robot.model)
        for frame in self._frames:
            drawn.qpos[:] = frame.position
            mujoco.mj_forward(self._cell.robot.model, drawn)
            images = np.stack([self._cell.cameras.render(drawn, camera) for camera in self._job.cameras])
            yield Moment(images, frame.gate, frame.intent)
