"""Pictures of the workcell: one off-screen renderer for the three cameras, closed explicitly."""

import os
import weakref
from types import TracebackType

import numpy as np
from jaxtyping import UInt8, UInt16
from numpy import ndarray

from egorecovery.episodes import Camera, Intrinsics
from egorecovery.errors import EgoRecoveryError
from egorecovery.workcell.hidden_embodiment import add_dots, hide
from egorecovery.workcell.physics import MjData, MjModel, mujoco

MM_PER_M = 1000.0
FARTHEST_MM = 65535


class RenderingError(EgoRecoveryError):
    """Rendering is not possible with this machine or setting."""


class Cameras:
    """Renders images. Holds a GL context, which must be closed in the thread that created it."""

    def __init__(
        self, model: MjModel, size_px: int = 96, hidden_embodiment: bool = False, *, width_px: int | None = None
    ) -> None:
        """Renders squares of `size_px`. With `width_px` pictures are wider, with the same square in the centre.

        `hidden_embodiment` removes arms and hands from all pictures of this model.
        """
        self.size_px, self.width_px = size_px, width_px or size_px
        self._model = model
        self._hidden = hidden_embodiment
        if hidden_embodiment:
            hide(model)
        try:
            self._renderer = mujoco.Renderer(model, size_px, self.width_px, max_geom=model.ngeom + 100)
        except (ImportError, AttributeError, RuntimeError, mujoco.FatalError) as error:
            chosen = os.environ.get("MUJOCO_GL")
            raise RenderingError(
                f"pictures cannot be rendered with MUJOCO_GL={chosen} ({error}); set it to egl or osmesa, or leave it "
                "unset"
            ) from None
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION, mujoco.mjtRndFlag.mjRND_HAZE):
            self._renderer.scene.flags[flag] = False
        # Also at exit: a GL context must be closed while the interpreter still runs.
        self._close = weakref.finalize(self, self._renderer.close)
        self._option = mujoco.MjvOption()
        self._views = {camera: _fixed(model, camera) for camera in Camera}

    def render(self, data: MjData, camera: Camera) -> UInt8[ndarray, "H W 3"]:
        self._renderer.update_scene(data, self._views[camera], self._option)
        if self._hidden:
            add_dots(self._renderer.scene, self._model, data)
        return self._renderer.render()

    def render_all(self, data: MjData) -> dict[Camera, UInt8[ndarray, "H W 3"]]:
        """All three views of the current state."""
        return {camera: self.render(data, camera) for camera in Camera}

    def depth_mm(self, data: MjData, camera: Camera) -> UInt16[ndarray, "H W"]:
        """Depth along the viewing axis in millimetres, like an RGB-D camera; 0 where there is none."""
        self._renderer.update_scene(data, self._views[camera], self._option)
        self._renderer.enable_depth_rendering()
        try:
            depth_mm = np.rint(self._renderer.render() * MM_PER_M)
        finally:
            self._renderer.disable_depth_rendering()
        return np.where(depth_mm < self._farthest_mm, depth_mm, 0).astype(np.uint16)

    def intrinsics(self, camera: Camera) -> Intrinsics:
        """The pinhole intrinsics of a camera."""
        fovy_rad = np.deg2rad(self._model.camera(str(camera)).fovy[0])
        focal_px = float(self.size_px / 2 / np.tan(fovy_rad / 2))
        height, width = self.size_px, self.width_px
        return Intrinsics(width=width, height=height, fx=focal_px, fy=focal_px, cx=width / 2, cy=height / 2)

    @property
    def _farthest_mm(self) -> float:
        return min(FARTHEST_MM, 0.99 * self._model.vis.map.zfar * self._model.stat.extent * MM_PER_M)

    def close(self) -> None:
        self._close()

    def __enter__(self) -> "Cameras":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _fixed(model: MjModel, camera: Camera):
    view = mujoco.MjvCamera()
    view.type = mujoco.mjtCamera.mjCAMERA_FIXED
    view.fixedcamid = model.camera(str(camera)).id
    return view
