"""A human hand of capsules: 21 keypoints as a function of the pinch, skin around them, a forearm in a sleeve.

Frame of the hand (the wrist's): x towards the fingers, y to the left, z out of its back. Keypoints have MANO's order.
Fingertips are points on the skin, as in MANO, so that the thumb-index distance of a hand that holds an object is the
object's width.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import root_scalar
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.motion import KeypointOrder
from egorecovery.workcell.arm import HAND_TO_TOOL_M, WristCamera, add_wrist_camera
from egorecovery.workcell.hidden_embodiment import FINGERTIPS
from egorecovery.workcell.kinematics import ToolPose
from egorecovery.workcell.physics import MjModel, MjSpec, mujoco

ORDER = KeypointOrder.MANO
WIDEST_M = 0.072  # between thumb and index: people open no further than needed
PINCH_M = (0.114, 0.0, -0.022)  # midpoint of thumb and index tip
# Rotation of the opening axis from y. The palm then comes from the outside and does not hide the object from the head.
PINCH_TURN_RAD = float(np.deg2rad(30.0))

LEVEL_RAD = np.deg2rad(100.0)  # fingers never point up: beyond this tilt of a tool the hand turns with it


@dataclass(frozen=True, kw_only=True)
class Finger:
    """One finger of a right hand, from knuckle to tip."""

    joints: tuple[int, int, int]  # keypoints, starting at the knuckle
    tip: int
    knuckle_m: tuple[float, float, float]
    bones_m: tuple[float, float, float]
    arch: tuple[float, float, float]  # direction of the bulge when it bends
    radius_m: float
    rests_m: tuple[float, float, float] = (0.0, 0.0, 0.0)  # tip relative to the index tip, for idle fingers


# Proportions of a small adult hand. The three idle fingers curl beside the index, above the table and its objects.
THUMB = Finger(
    joints=(13, 14, 15),
    tip=ORDER.thumb_tip,
    knuckle_m=(0.028, 0.022, -0.010),
    bones_m=(0.047, 0.037, 0.031),
    arch=(0.0, 1.0, 0.3),
    radius_m=0.0085,
)
INDEX = Finger(
    joints=(1, 2, 3),
    tip=ORDER.index_tip,
    knuckle_m=(0.082, 0.004, 0.010),
    bones_m=(0.040, 0.024, 0.021),
    arch=(0.3, -0.7, 0.6),
    radius_m=0.0075,
)
IDLE = (
    Finger(
        joints=(4, 5, 6),
        tip=18,
        knuckle_m=(0.084, -0.016, 0.014),
        bones_m=(0.043, 0.027, 0.022),
        arch=(0.6, -0.3, 0.7),
        radius_m=0.0078,
        rests_m=(-0.004, -0.021, 0.018),
    ),
    Finger(
        joints=(10, 11, 12),
        tip=19,
        knuckle_m=(0.080, -0.034, 0.014),
        bones_m=(0.039, 0.026, 0.022),
        arch=(0.7, -0.2, 0.7),
        radius_m=0.0074,
        rests_m=(-0.008, -0.036, 0.024),
    ),
    Finger(
        joints=(7, 8, 9),
        tip=20,
        knuckle_m=(0.072, -0.050, 0.010),
        bones_m=(0.032, 0.019, 0.019),
        arch=(0.7, -0.1, 0.7),
        radius_m=0.0066,
        rests_m=(-0.018, -0.049, 0.026),
    ),
)
FINGERS = (THUMB, INDEX, *IDLE)

PALM_RADIUS_M = 0.0125
WRIST_RADIUS_M = 0.020
SLEEVE_RADIUS_M = 0.031
SLEEVE_FROM_M, SLEEVE_TO_M = 0.035, 0.42  # along the forearm, from the wrist; its end is never in view
# The gripper's camera looks along the approach. A hand approaches pitched, so its camera is turned towards the table.
CAMERA_TURN_RAD = np.deg2rad(66.0)
HAND_CAMERA = WristCamera()


KNUCKLES = tuple(finger.joints[0] for finger in FINGERS)
# Pairs of keypoints with skin between them: the palm, its far edge, three bones a finger.
BONES = np.array(
    [(0, knuckle) for knuckle in KNUCKLES]
    + [(INDEX.joints[0], IDLE[-1].joints[0])]
    + [pair for finger in FINGERS for pair in zip(finger.joints, (*finger.joints[1:], finger.tip), strict=True)]
)
RADII_M = np.array(
    [PALM_RADIUS_M] * len(KNUCKLES)
    + [PALM_RADIUS_M - 0.002]
    + [finger.radius_m for finger in FINGERS for _ in range(3)]
    + [WRIST_RADIUS_M, SLEEVE_RADIUS_M]
)


def hand_keypoints_m(side: Side, pinch_width_m: float) -> Float[ndarray, "21 3"]:
    """Keypoints in the hand's frame. Thumb and index tip are `pinch_width_m` apart around `PINCH_M`."""
    mirror = (1.0, 1.0 if side is Side.RIGHT else -1.0, 1.0)
    return _right_keypoints_m(min(max(pinch_width_m, 0.0), WIDEST_M)) * mirror


@lru_cache(maxsize=256)
def _right_keypoints_m(width_m: float) -> Float[ndarray, "21 3"]:
    """Keypoints of a right hand, cached because a hand's opening rarely changes."""
    points_m = np.zeros((21, 3))
    half_m = width_m / 2 * pinch_in_hand(Side.RIGHT)[:, 1]
    tips_m = {THUMB.tip: PINCH_M + half_m, INDEX.tip: PINCH_M - half_m}
    for finger in FINGERS:
        tip_m = tips_m.get(finger.tip, tips_m[INDEX.tip] + finger.rests_m)
        points_m[list(finger.joints)] = _joints_m(finger, tip_m)
        points_m[finger.tip] = tip_m
    return points_m


@cache
def pinch_in_hand(side: Side) -> Float[ndarray, "3 3"]:
    """Axes of the pinch: y along the opening of thumb and index, to the left; z that of the hand."""
    turn_rad = -PINCH_TURN_RAD if side is Side.RIGHT else PINCH_TURN_RAD
    return Rotation.from_rotvec([0.0, 0.0, turn_rad]).as_matrix()


def wrist_pose(side: Side, tool: ToolPose, pitch_rad: float) -> tuple[Float[ndarray, "3"], Float[ndarray, "3 3"]]:
    """Position and axes of the hand at a tool's pose.

    The hand is turned back about the opening axis, as far as the fingers do not point up.
    """
    axes = tool.rotation.as_matrix()
    steep = np.hypot(axes[2, 0], axes[2, 2])  # 0 if the opening axis is vertical, where turning back raises nothing
    tilt_rad = np.arctan2(-axes[2, 0], -axes[2, 2])
    kept_rad = np.clip(LEVEL_RAD - tilt_rad, 0.0, pitch_rad)
    back_rad = pitch_rad - steep * (pitch_rad - kept_rad)
    # Columns: x of the turned-back pinch points forward and down, y along its opening.
    sin, cos = np.sin(back_rad), np.cos(back_rad)
    turned_back = np.array([[-sin, 0.0, -cos], [0.0, 1.0, 0.0], [cos, 0.0, -sin]])
    hand_axes = axes @ turned_back @ pinch_in_hand(side).T
    return tool.position_m - hand_axes @ PINCH_M, hand_axes


def skin_m(
    side: Side, keypoints_m: Float[ndarray, "21 3"], forearm: Float[ndarray, "3"]
) -> Float[ndarray, "bones 2 3"]:
    """Both ends of every capsule: `BONES`, bare wrist, sleeve. `forearm` points from wrist to elbow."""
    points_m = keypoints_m.copy()
    # Thumb and index touch objects with their pads, so the capsules end beside the tips, away from the pinch.
    thumbward = pinch_in_hand(side)[:, 1] * (1.0 if side is Side.RIGHT else -1.0)
    points_m[THUMB.tip] += THUMB.radius_m * thumbward
    points_m[INDEX.tip] -= INDEX.radius_m * thumbward
    along = forearm / np.linalg.norm(forearm)
    arm_m = points_m[0] + np.outer([0.0, SLEEVE_FROM_M, SLEEVE_FROM_M, SLEEVE_TO_M], along)
    return np.concatenate([points_m[BONES], arm_m.reshape(2, 2, 3)])


def add_hands(spec: MjSpec) -> None:
    """The human embodiment: two hands as mocap bodies, each with a wrist camera and an invisible pinch point.

    Held objects are welded to the pinch point. Hands collide with nothing: human data are recorded, never evaluated.
    """
    spec.add_material(name="skin", rgba=(0.86, 0.64, 0.52, 1), specular=0.1, shininess=0.2)
    spec.add_material(name="sleeve", rgba=(0.20, 0.28, 0.50, 1), specular=0.0, shininess=0.0)
    for side in Side:
        hand = spec.worldbody.add_body(name=f"{side}/hand", mocap=True, pos=(-0.3, 0.0, 0.3))
        for number, radius_m in enumerate(RADII_M):
            material = "sleeve" if number == len(RADII_M) - 1 else "skin"
            _ghost(hand, mujoco.mjtGeom.mjGEOM_CAPSULE, f"{side}/hand/{number}", float(radius_m), material)
        for name in FINGERTIPS:
            hand.add_site(name=f"{side}/{name}", pos=PINCH_M, size=(0.004,) * 3, group=4)
        _add_camera(hand, side)
        pinch = spec.worldbody.add_body(name=f"{side}/pinch", mocap=True, pos=(-0.3, 0.0, 0.3))
        probe = _ghost(pinch, mujoco.mjtGeom.mjGEOM_SPHERE, f"{side}/pinch", 0.001, "skin")
        probe.group = 4  # not drawn


def pose_hand(model: MjModel, side: Side, keypoints_m: Float[ndarray, "21 3"], forearm: Float[ndarray, "3"]) -> None:
    """Move the skin of a compiled hand to keypoints in the hand's frame."""
    ends_m = skin_m(side, keypoints_m, forearm)
    way_m = ends_m[:, 1] - ends_m[:, 0]
    half_m = np.linalg.norm(way_m, axis=1) / 2
    first = int(model.body(f"{side}/hand").geomadr[0])
    for geom, way in enumerate(way_m / (2 * half_m[:, None]), start=first):
        mujoco.mju_quatZ2Vec(model.geom_quat[geom], way)
    geoms = slice(first, first + len(half_m))
    model.geom_pos[geoms] = ends_m.mean(axis=1)
    model.geom_size[geoms, 1] = half_m
    model.geom_rbound[geoms] = half_m + RADII_M
    model.geom_sameframe[geoms] = 0  # the compiler found them at the body's origin and would keep them there
    for name, tip in zip(FINGERTIPS, (THUMB.tip, INDEX.tip), strict=True):
        model.site(f"{side}/{name}").pos[:] = keypoints_m[tip]


def _joints_m(finger: Finger, tip_m: Float[ndarray, "3"]) -> Float[ndarray, "3 3"]:
    """Knuckle and two joints of a finger that bends equally at both joints, for a given tip."""
    knuckle_m = np.array(finger.knuckle_m)
    way_m = tip_m - knuckle_m
    chord_m = float(np.linalg.norm(way_m))
    bend_rad = _bend_rad(finger.bones_m, round(chord_m, 6))
    along = way_m / chord_m
    bulge = np.array(finger.arch) - along * (along @ finger.arch)
    bulge /= np.linalg.norm(bulge)
    bones = np.array(finger.bones_m) * np.exp(-1j * bend_rad * np.arange(3))  # in the plane of along and bulge
    joints = np.concatenate([[0], np.cumsum(bones)])
    joints = joints * np.exp(-1j * np.angle(joints[-1]))  # the last one is the tip: on the chord
    return knuckle_m + np.outer(joints.real, along)[:3] + np.outer(joints.imag, bulge)[:3]


@cache
def _bend_rad(bones_m: tuple[float, float, float], chord_m: float) -> float:
    def too_long_m(bend_rad: float) -> float:
        return float(abs(np.dot(bones_m, np.exp(-1j * bend_rad * np.arange(3))))) - chord_m

    assert too_long_m(0.0) >= 0 >= too_long_m(2.0), f"bones of {bones_m} m cannot span {chord_m} m"
    return float(root_scalar(too_long_m, bracket=(0.0, 2.0), xtol=1e-7).root)


def _add_camera(hand: Any, side: Side) -> None:
    """The wrist camera, at the position of the gripper's camera relative to the pinch point."""
    turn = Rotation.from_matrix(pinch_in_hand(side)) * Rotation.from_rotvec([0.0, CAMERA_TURN_RAD, 0.0])
    mount = hand.add_body(name=f"{side}/camera_mount", pos=PINCH_M - turn.apply([HAND_TO_TOOL_M, 0.0, 0.0]))
    mount.quat = np.roll(turn.as_quat(), 1)
    add_wrist_camera(mount, side, HAND_CAMERA)


def _ghost(body: Any, shape: Any, name: str, radius_m: float, material: str) -> Any:
    """A geom without collisions, for rendering or distance queries."""
    size_m = (radius_m, radius_m, 0.0)
    return body.add_geom(name=name, type=shape, size=size_m, material=material, contype=0, conaffinity=0, mass=0)
