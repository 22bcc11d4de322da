"""Appearance of the room: light, colours and cameras vary slightly between episodes; physics does not."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from egorecovery.workcell.physics import MjModel

PLAIN = 0  # the appearance seed of the plain room


@dataclass(frozen=True, kw_only=True)
class Variation:
    """Limits of the differences from the plain room."""

    brightness: float = 0.25  # of the lights, relative
    warmth: float = 0.08  # of their colour
    sun_rad: float = 0.5  # of the key light's direction
    table_hue: float = 0.12  # of the table's colour per channel
    object_hue: float = 0.06  # of the objects' colours, which must stay recognisable
    camera_m: float = 0.006
    camera_rad: float = 0.012


class Room:
    """The plain appearance of a compiled model, and the appearance of any seed."""

    def __init__(self, model: MjModel, variation: Variation | None = None) -> None:
        self._model = model
        self._variation = variation or Variation()
        self._plain = {name: getattr(model, name).copy() for name in _VARIED}
        headlight = model.vis.headlight
        self._headlight = {name: np.array(getattr(headlight, name)) for name in ("ambient", "diffuse")}

    def dress(self, seed: int) -> None:
        """Give the model the appearance of a seed. The same seed always gives the same appearance."""
        for name, plain in self._plain.items():
            getattr(self._model, name)[:] = plain
        for name, plain in self._headlight.items():
            setattr(self._model.vis.headlight, name, plain)
        if seed == PLAIN:
            return
        rng = np.random.default_rng([seed, 0xA99EA2])
        self._light(rng)
        self._paint(rng)
        self._nudge_cameras(rng)

    def _light(self, rng: np.random.Generator) -> None:
        vary = self._variation
        tint = _scale(rng, vary.brightness) * (1 + rng.normal(0, vary.warmth) * np.array([1.0, 0.0, -1.0]))
        for name, plain in self._headlight.items():
            setattr(self._model.vis.headlight, name, np.clip(plain * tint, 0, 1))
        self._model.light_diffuse[:] = np.clip(self._plain["light_diffuse"] * tint * _scale(rng, vary.brightness), 0, 1)
        turn = Rotation.from_rotvec(rng.normal(0, vary.sun_rad / 2, 3))
        self._model.light_dir[:] = turn.apply(self._plain["light_dir"])

    def _paint(self, rng: np.random.Generator) -> None:
        vary = self._variation
        names = [self._model.mat(index).name for index in range(self._model.nmat)]
        for index, name in enumerate(names):
            spread = vary.table_hue if name in ("table", "floor") else vary.object_hue
            colour = self._plain["mat_rgba"][index, :3] * _scale(rng, spread) + rng.normal(0, spread / 2, 3)
            self._model.mat_rgba[index, :3] = np.clip(colour, 0, 1)

    def _nudge_cameras(self, rng: np.random.Generator) -> None:
        """Shifts cameras by a few millimetres and less than a degree, as if the mount had been bumped."""
        vary = self._variation
        for camera in range(self._model.ncam):
            self._model.cam_pos[camera] += rng.normal(0, vary.camera_m / 2, 3)
            plain = Rotation.from_quat(np.roll(self._plain["cam_quat"][camera], -1))
            nudged = plain * Rotation.from_rotvec(rng.normal(0, vary.camera_rad / 2, 3))
            self._model.cam_quat[camera] = np.roll(nudged.as_quat(), 1)


_VARIED = ("mat_rgba", "light_diffuse", "light_dir", "cam_pos", "cam_quat")


def _scale(rng: np.random.Generator, spread: float) -> float:
    return float(1 + rng.uniform(-spread, spread))
