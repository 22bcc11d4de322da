"""A third-person view of the workcell for videos. Policies never see it, and training pictures do not change."""

import weakref
from dataclasses import dataclass
from types import TracebackType

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from egorecovery.workcell.physics import MjData, MjModel, mujoco
from egorecovery.workcell.render import RenderingError


@dataclass(frozen=True, kw_only=True)
class OutsideView:
    """The view from in front of the table, slightly to the right, looking back at the robot or person."""

    lookat_m: tuple[float, float, float] = (-0.04, -0.03, 0.06)
    distance_m: float = 1.12
    azimuth_deg: float = 148.0  # of the viewing direction, from the x axis; 180 looks straight back at the bases
    elevation_deg: float = -27.0
    fovy_deg: float = 34.0


# Pictures for people may take longer than those for policies, so they have soft edges and shadows.
SAMPLES, SHADOW_PX, SLICES, STACKS = 4, 2048, 28, 16


class OutsideCamera:
    """Renders square pictures with its own colours and shadows. Close it in the thread that created it."""

    def __init__(self, model: MjModel, size_px: int, view: OutsideView | None = None) -> None:
        self._model, self._view = model, view or OutsideView()
        plain = _quality(model)
        _set_quality(model, (SAMPLES, SHADOW_PX, SLICES, STACKS))
        try:  # the renderer reads them once, on creation
            self._renderer = mujoco.Renderer(model, size_px, size_px, max_geom=2 * model.ngeom + 200)
        except (ImportError, AttributeError, RuntimeError, mujoco.FatalError) as error:
            raise RenderingError(
                f"the outside view cannot be rendered ({error}); set MUJOCO_GL to egl or osmesa"
            ) from None
        finally:
            _set_quality(model, plain)
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = True
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        self._camera.lookat[:] = self._view.lookat_m
        self._camera.distance = self._view.distance_m
        self._camera.azimuth, self._camera.elevation = self._view.azimuth_deg, self._view.elevation_deg
        self._option = mujoco.MjvOption()
        self._close = weakref.finalize(self, self._renderer.close)

    def render(self, data: MjData) -> UInt8[ndarray, "H W 3"]:
        """Renders the current state. The model is unchanged afterwards."""
        model = self._model
        shadows, fovy_deg = model.light_castshadow.copy(), float(model.vis.global_.fovy)
        model.light_castshadow[:], model.vis.global_.fovy = True, self._view.fovy_deg
        try:
            self._renderer.update_scene(data, self._camera, self._option)
        finally:
            model.light_castshadow[:], model.vis.global_.fovy = shadows, fovy_deg
        return np.array(self._renderer.render())

    def close(self) -> None:
        self._close()

    def __enter__(self) -> "OutsideCamera":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _quality(model: MjModel) -> tuple[int, int, int, int]:
    quality = model.vis.quality
    return quality.offsamples, quality.shadowsize, quality.numslices, quality.numstacks


def _set_quality(model: MjModel, values: tuple[int, int, int, int]) -> None:
    quality = model.vis.quality
    quality.offsamples, quality.shadowsize, quality.numslices, quality.numstacks = values
