"""Tube, brush and stand, and the facts about them for the rules of cup brushing.

The tube's origin is the centre of its foot, the brush's the end of its tip. z points up the bore and the handle.
"""

from dataclasses import dataclass
from functools import cached_property
from math import pi, radians, tan
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.workcell.objects import Pose
from egorecovery.workcell.physics import MjSpec, mujoco

TUBE, BRUSH, STAND = "tube", "brush", "brush_stand"

TUBE_M = 0.076  # height
BORE_M = 0.0165  # from the axis to the inner faces
WALL_M = 0.004
TUBE_WIDTH_M = 2 * (BORE_M + WALL_M)
FLOOR_M = 0.004
FOOT_M = 0.0155  # half of the square that the tube stands on
OFF_TABLE_M = 0.001  # clearance of parts that need not touch the table: four contacts hold as well as thirty

HEAD_RADIUS_M = 0.013  # 3.5 mm of play in the bore; a round end slides in, a flat one jams
HEAD_M = 0.056  # length of the bristles
HANDLE_FROM_M, HANDLE_TO_M = 0.074, 0.142
HANDLE_WIDTH_M = 0.016  # square, so that it cannot turn between the fingers
BRUSH_MIDDLE_M = 0.07

STAND_HEIGHT_M = 0.035
STAND_HOLE_M = 0.014  # half of the hole: the brush stands straight in it
STAND_HALF_M = 0.023

REACHABLE_M = ((-0.2, 0.2), (-0.25, 0.25))  # x and y within reach of a hand
KNOCKED_OVER_RAD = radians(35)  # beyond its tipping angle of about 30 degrees: it does not come back
UPRIGHT_RAD = radians(12)
LEANING_RAD = radians(20)  # the play allows 13 degrees in the tube; at more, the brush is coming out


@dataclass(frozen=True, eq=False)
class BrushFacts:
    tube: Pose
    brush: Pose
    brush_held: bool
    tube_held: bool
    touching: bool  # brush and tube

    @cached_property
    def tip_in_tube_m(self) -> Float[ndarray, "3"]:
        """Scored in the tube's frame, since the tube may slip in the grip."""
        return self.tube.of(self.brush.position_m)

    @property
    def depth_m(self) -> float:
        """Depth of the tip below the rim; negative above it."""
        return TUBE_M - float(self.tip_in_tube_m[2])

    @property
    def offset_m(self) -> float:
        """Distance of the tip from the tube's axis."""
        return float(np.linalg.norm(self.tip_in_tube_m[:2]))

    @property
    def lean_rad(self) -> float:
        """Angle between the axes of brush and tube."""
        return float(np.arccos(np.clip(self.brush.up @ self.tube.up, -1, 1)))


def inserted(facts: BrushFacts) -> bool:
    """Whether the whole head and the start of the shaft are in the tube, held or not."""
    return facts.depth_m > HEAD_M and facts.offset_m < BORE_M and facts.lean_rad < LEANING_RAD


def lost(facts: BrushFacts) -> str | None:
    """A description of a failure that no retry can repair, or None."""
    if facts.tube.tilt_rad > KNOCKED_OVER_RAD:
        return f"the tube was knocked over ({np.rad2deg(facts.tube.tilt_rad):.0f} degrees)"
    middle_m = facts.brush.position_m + BRUSH_MIDDLE_M * facts.brush.up
    for name, place_m in (("tube", facts.tube.position_m), ("brush", middle_m)):
        inside = [low <= value <= high for value, (low, high) in zip(place_m, REACHABLE_M, strict=False)]
        if not all(inside) or place_m[2] < -0.02:
            return f"the {name} left the reachable workspace"
    return None


def add_objects(spec: MjSpec) -> None:
    _add_tube(spec)
    _add_brush(spec)
    _add_stand(spec)


def _add_tube(spec: MjSpec) -> None:
    spec.add_material(name=TUBE, rgba=(0.20, 0.45, 0.85, 0.55), specular=0.4, shininess=0.6)
    spec.add_material(name="tube_foot", rgba=(0.10, 0.25, 0.55, 1), specular=0.1, shininess=0.1)
    tube = _free_body(spec, TUBE, (-0.03, -0.02, 0.0))
    middle_m, half_side_m = BORE_M + WALL_M / 2, (BORE_M + WALL_M) * tan(pi / 8)
    for side in range(8):
        angle_rad = side * pi / 4
        _geom(
            tube,
            "BOX",
            TUBE,
            pos=(middle_m * np.cos(angle_rad), middle_m * np.sin(angle_rad), (TUBE_M + OFF_TABLE_M) / 2),
            quat=(np.cos(angle_rad / 2), 0, 0, np.sin(angle_rad / 2)),
            size=(WALL_M / 2, half_side_m, (TUBE_M - OFF_TABLE_M) / 2),
            mass=0.01,
        )
    _geom(tube, "BOX", "tube_foot", pos=(0, 0, FLOOR_M / 2), size=(FOOT_M, FOOT_M, FLOOR_M / 2), mass=0.05)


def _add_brush(spec: MjSpec) -> None:
    for name, rgba in (
        ("bristles", (0.95, 0.55, 0.10, 1)),
        ("bristle_ring", (0.98, 0.86, 0.45, 1)),
        ("shaft", (0.80, 0.80, 0.82, 1)),
        ("handle", (0.82, 0.12, 0.16, 1)),
    ):
        spec.add_material(name=name, rgba=rgba, specular=0.1, shininess=0.1)
    brush = _free_body(spec, BRUSH, (0.02, 0.1, 0.0))
    head_m = (0, 0, HEAD_RADIUS_M, 0, 0, HEAD_M - HEAD_RADIUS_M)
    _geom(brush, "CAPSULE", "bristles", fromto=head_m, size=(HEAD_RADIUS_M, 0, 0), mass=0.012)
    for height_m in (0.015, 0.028, 0.041):  # visible, without collisions
        ring_m = (0, 0, height_m - 0.002, 0, 0, height_m + 0.002)
        ring = _geom(brush, "CYLINDER", "bristle_ring", fromto=ring_m, size=(HEAD_RADIUS_M + 0.0006, 0, 0), mass=0)
        ring.contype, ring.conaffinity = 0, 0
    shaft_m = (0, 0, HEAD_M - 0.01, 0, 0, HANDLE_FROM_M)
    _geom(brush, "CAPSULE", "shaft", fromto=shaft_m, size=(0.005, 0, 0), mass=0.008)
    half_m = (HANDLE_WIDTH_M / 2, HANDLE_WIDTH_M / 2, (HANDLE_TO_M - HANDLE_FROM_M) / 2)
    _geom(brush, "BOX", "handle", pos=(0, 0, (HANDLE_FROM_M + HANDLE_TO_M) / 2), size=half_m, mass=0.02)


def _add_stand(spec: MjSpec) -> None:
    """A heavy block with a hole, which holds the brush."""
    spec.add_material(name=STAND, rgba=(0.22, 0.24, 0.26, 1), specular=0.1, shininess=0.1)
    stand = _free_body(spec, STAND, (0.02, 0.1, 0.0))
    wall_m = (STAND_HALF_M - STAND_HOLE_M) / 2
    middle_m, height_m = STAND_HOLE_M + wall_m, STAND_HEIGHT_M / 2
    for way in (-1, 1):
        _geom(stand, "BOX", STAND, pos=(way * middle_m, 0, height_m), size=(wall_m, STAND_HALF_M, height_m), mass=0.2)
        between_m = (STAND_HOLE_M, wall_m, height_m - OFF_TABLE_M)
        _geom(stand, "BOX", STAND, pos=(0, way * middle_m, height_m + OFF_TABLE_M), size=between_m, mass=0.2)


def _free_body(spec: MjSpec, name: str, position_m: tuple[float, float, float]) -> Any:
    body = spec.worldbody.add_body(name=name, pos=position_m)
    body.add_freejoint()
    return body


def _geom(body: Any, shape: str, material: str, **what: Any) -> Any:
    return body.add_geom(type=getattr(mujoco.mjtGeom, f"mjGEOM_{shape}"), material=material, **what)
