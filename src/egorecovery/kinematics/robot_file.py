"""A robot's arms from a file: MJCF or URDF with both arms, or a JSON file that names one model per arm.

An MJCF or URDF works directly if it has six hinge joints per side whose names contain "left" and "right", and a site or
body per side whose name contains the side and "tool", "pinch", "grasp" or "tcp". Other models are described in a JSON
file; `docs/kinematics.md` has an example.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict, get_args

import numpy as np

from egorecovery.episodes import Side
from egorecovery.errors import KinematicsError
from egorecovery.kinematics.arm import Arm, names
from egorecovery.kinematics.arms import ARM_JOINTS, Arms
from egorecovery.kinematics.bindings import MjModel, MjSpec, mujoco
from egorecovery.storage.bounded_json import read_named_json
from egorecovery.storage.typed_json import between, from_json, of_length

LARGEST = 1e6  # metres, or parts of a quaternion; larger numbers are refused
TOOL_WORDS = ("tool", "pinch", "grasp", "tcp")
Axis = Literal["+x", "-x", "+y", "-y", "+z", "-z"]
AXES = {axis: (1 if axis[0] == "+" else -1) * np.eye(3)["xyz".index(axis[1])] for axis in get_args(Axis)}
Number = Annotated[float, between(-LARGEST, LARGEST)]


class ArmJoints(TypedDict):
    names: Annotated[list[str], of_length(ARM_JOINTS, "joint names from the base on")]


class ToolAxes(TypedDict):
    """Of the tool's own frame."""

    approach: Axis
    opening: Axis


class BasePose(TypedDict):
    """In the workspace."""

    position_m: Annotated[list[Number], of_length(3, "numbers")]
    quaternion_wxyz: NotRequired[Annotated[list[Number], of_length(4, "numbers")]]


@dataclass(frozen=True, kw_only=True)
class ArmFile:
    """One arm in a JSON file."""

    model: str  # MJCF or URDF, relative to the JSON file
    tool: str  # site or body between the fingertips
    joints: ArmJoints
    axes: ToolAxes
    base: BasePose


def load_arms(path: Path) -> Arms:
    """Both arms of a robot description."""
    if path.suffix.lower() == ".json":
        return _arms_of_json(path)
    model = _compiled(_spec(path), path)
    return Arms(*(_arm_by_names(model, side, path) for side in Side))


def _arms_of_json(path: Path) -> Arms:
    record = read_named_json(path, KinematicsError, "see docs/kinematics.md")
    if set(record) != {"left", "right"}:
        raise KinematicsError(f'{path}: wants an object with "left" and "right", one arm each; see docs/kinematics.md')
    arms = []
    for side in Side:
        described = from_json(ArmFile, record[side], f"{path}: {side}", KinematicsError, "see docs/kinematics.md")
        arms.append(_arm_of_description(described, path, side))
    return Arms(*arms)


def _arm_of_description(described: ArmFile, path: Path, side: Side) -> Arm:
    where = f"{path}: {side}"
    quaternion = described.base.get("quaternion_wxyz", [1, 0, 0, 0])
    axes = _tool_axes(described.axes, where)
    parent = mujoco.MjSpec()
    frame = parent.worldbody.add_frame(pos=described.base["position_m"], quat=quaternion)
    parent.attach(_spec(path.parent / described.model), frame=frame, prefix="")
    try:
        return Arm(_compiled(parent, path), described.joints["names"], described.tool, axes)
    except KinematicsError as error:
        raise KinematicsError(f"{where}: {error}") from None


def _tool_axes(axes: ToolAxes, where: str) -> np.ndarray:
    approach, opening = AXES[axes["approach"]], AXES[axes["opening"]]
    if abs(approach @ opening) > 0.5:
        raise KinematicsError(f"{where}.axes: approach and opening must be two different axes")
    return np.stack([np.cross(opening, approach), opening, approach], axis=1)


def _arm_by_names(model: MjModel, side: Side, path: Path) -> Arm:
    hinges = [
        name
        for index, name in enumerate(names(model, mujoco.mjtObj.mjOBJ_JOINT))
        if side in name.lower() and model.jnt_type[index] == mujoco.mjtJoint.mjJNT_HINGE
    ][:ARM_JOINTS]
    frames = [*names(model, mujoco.mjtObj.mjOBJ_SITE), *names(model, mujoco.mjtObj.mjOBJ_BODY)]
    tools = [name for name in frames if side in name.lower() and any(word in name.lower() for word in TOOL_WORDS)]
    if len(hinges) < ARM_JOINTS or not tools:
        lacking = f"{len(hinges)} of {ARM_JOINTS} hinge joints" if len(hinges) < ARM_JOINTS else "no tool frame"
        raise KinematicsError(
            f"{path}: the {side} arm cannot be identified by names ({lacking} found); write a JSON file that names "
            f"joints and tool of each arm, see docs/kinematics.md"
        )
    return Arm(model, hinges, tools[0])


def _spec(path: Path) -> MjSpec:
    if not path.is_file():
        raise KinematicsError(f"{path}: there is no such robot description (MJCF or URDF)")
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise KinematicsError(f"{path}: MuJoCo cannot read it: {error}") from error
    spec.compiler.fusestatic = False  # a URDF's tool link hangs on a fixed joint
    return spec


def _compiled(spec: MjSpec, path: Path) -> MjModel:
    try:
        return spec.compile()
    except ValueError as error:
        raise KinematicsError(f"{path}: MuJoCo cannot compile it: {error}") from error
