"""One 6-DoF arm with a parallel gripper, from primitives, with the proportions of a small arm of 0.6 m reach.

At zero angles the upper arm points up, the forearm and the hand forward. Joints: 1 base yaw, 2 shoulder and 3 elbow
pitch, 4 forearm roll, 5 wrist pitch (positive bends the hand down), 6 hand roll. In the hand's frame x points out of
the gripper, y along its opening, and z to its upper side, where the camera is.
"""

from dataclasses import dataclass
from math import cos, radians, sin
from typing import Any

from egorecovery.episodes import Camera, Side
from egorecovery.workcell.hidden_embodiment import FINGERTIPS
from egorecovery.workcell.physics import MjSpec, mujoco

Body = Any  # mujoco's MjsBody; the bindings carry no type stubs
Point = tuple[float | int, float | int, float | int]

ARM_JOINTS = 6
OPENING_M = 0.08  # between the pads, fully open

SHOULDER_HEIGHT_M = 0.13
UPPER_ARM_M = 0.295
FOREARM_M = 0.27
WRIST_TO_HAND_M = 0.035
HAND_TO_TOOL_M = 0.108

# 300 N/m gave 3 N per finger on a 40 mm cube. Stiffer and force-limited, the gripper holds a 15 mm handle as firmly.
GRIP_GAIN = 1000.0  # N / m of half opening
GRIP_DAMPING = 20.0
GRIP_FORCE_N = 8.0  # half of it on each finger

_APPROACH_IS_Z = (0.7071067811865476, 0.0, 0.7071067811865476, 0.0)  # tool: z leaves the gripper, y opens it

# Bits: arms collide with arms, table and objects, but not with the floor, which saves a test per link and step.
ARM_CONTYPE, ARM_CONAFFINITY = 2, 3


@dataclass(frozen=True)
class JointSpec:
    """A joint with its servo. These gains held 10 of 10 grasps; the torques are those of a small real arm."""

    axis: tuple[int, int, int]
    lower_rad: float
    upper_rad: float
    gain: float  # N m / rad; damping ratio 1
    armature: float
    torque_limit: float  # N m; stops an arm that is commanded into the table


# The elbow's limit keeps the forearm off the upper arm. The wrist's limits keep the camera off the forearm.
JOINTS = (
    JointSpec((0, 0, 1), -2.6, 2.6, 400.0, 0.1, 25.0),
    JointSpec((0, 1, 0), -0.8, 2.1, 400.0, 0.1, 25.0),
    JointSpec((0, 1, 0), -1.5, 1.0, 300.0, 0.1, 20.0),
    JointSpec((1, 0, 0), -2.9, 2.9, 120.0, 0.02, 8.0),
    JointSpec((0, 1, 0), -1.3, 1.9, 120.0, 0.02, 8.0),
    JointSpec((1, 0, 0), -2.5, 2.5, 60.0, 0.02, 5.0),
)


@dataclass(frozen=True, kw_only=True)
class WristCamera:
    """Pose of a wrist camera in the hand's frame: above the housing, behind the fingers, tilted towards them."""

    forward_m: float = 0.02
    above_m: float = 0.08  # clears the housing; nearer, the camera would look into its own gripper
    down_rad: float = radians(26)
    fovy_deg: float = 66.0


WRIST_CAMERA = WristCamera()


def add_materials(spec: MjSpec) -> None:
    """Arm colours, shared by both arms."""
    for name, grey in (("arm_shell", 0.86), ("arm_joint", 0.24), ("gripper", 0.42), ("pad", 0.10)):
        spec.add_material(name=name, rgba=(grey, grey, grey * 1.03, 1), specular=0.3, shininess=0.4)


def add_arm(spec: MjSpec, side: Side, base_m: Point) -> None:
    """Put one arm on the table, facing forward. All names start with its side."""
    base = spec.worldbody.add_body(name=f"{side}/base", pos=base_m)
    _cylinder(base, (0, 0, 0), (0, 0, SHOULDER_HEIGHT_M - 0.045), 0.048, "arm_joint")

    turret = _link(base, side, 1, (0, 0, 0), mass_kg=0.8)
    _capsule(turret, (0, 0, SHOULDER_HEIGHT_M - 0.01), (0, 0, SHOULDER_HEIGHT_M), 0.048, "arm_shell")
    upper = _link(turret, side, 2, (0, 0, SHOULDER_HEIGHT_M), mass_kg=0.8)
    _capsule(upper, (0, 0, 0.03), (0, 0, UPPER_ARM_M - 0.02), 0.034, "arm_shell")
    forearm = _link(upper, side, 3, (0, 0, UPPER_ARM_M), mass_kg=0.4)
    _cylinder(forearm, (0, -0.04, 0), (0, 0.04, 0), 0.036, "arm_joint")
    roll = _link(forearm, side, 4, (0, 0, 0), mass_kg=0.4)
    _capsule(roll, (0.05, 0, 0), (FOREARM_M - 0.04, 0, 0), 0.029, "arm_shell")
    wrist = _link(roll, side, 5, (FOREARM_M, 0, 0), mass_kg=0.2)
    _cylinder(wrist, (0, -0.032, 0), (0, 0.032, 0), 0.030, "arm_joint")
    hand = _link(wrist, side, 6, (WRIST_TO_HAND_M, 0, 0), mass_kg=0.25)
    _add_gripper(spec, hand, side)
    _add_camera(hand, side)

    for number, joint in enumerate(JOINTS, start=1):
        servo = spec.add_actuator(name=f"{side}/joint{number}", target=f"{side}/joint{number}")
        servo.trntype = mujoco.mjtTrn.mjTRN_JOINT
        servo.set_to_position(kp=joint.gain, dampratio=1.0)
        servo.ctrlrange = (joint.lower_rad, joint.upper_rad)
        servo.forcerange = (-joint.torque_limit, joint.torque_limit)
    _add_gripper_servo(spec, side)
    # MuJoCo excludes parent and child itself, except at a fixed base. The others are two joints apart in one housing.
    for near, far in (("base", "link1"), ("base", "link2"), ("link2", "link4"), ("link4", "link6")):
        spec.add_exclude(bodyname1=f"{side}/{near}", bodyname2=f"{side}/{far}")


def _link(parent: Body, side: Side, number: int, origin_m: Point, mass_kg: float) -> Body:
    """A moving link. `gravcomp` carries its weight, like the drives of a real arm."""
    joint = JOINTS[number - 1]
    link = parent.add_body(name=f"{side}/link{number}", pos=origin_m, gravcomp=1.0)
    link.explicitinertial = True
    link.mass = mass_kg
    link.inertia = (mass_kg * 0.004,) * 3  # of a ball of 0.1 m; armature dominates
    added = link.add_joint(name=f"{side}/joint{number}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=joint.axis)
    added.range = (joint.lower_rad, joint.upper_rad)
    added.armature = joint.armature
    return link


def _add_gripper(spec: MjSpec, hand: Body, side: Side) -> None:
    _box(hand, (0.028, 0, 0), (0.026, 0.052, 0.024), "gripper")
    _capsule(hand, (-0.012, 0, 0), (0.004, 0, 0), 0.026, "arm_shell")
    hand.add_site(name=f"{side}/tool", pos=(HAND_TO_TOOL_M, 0, 0), quat=_APPROACH_IS_Z, size=(0.004,) * 3, group=4)
    for finger, way in (("finger_left", 1), ("finger_right", -1)):
        body = hand.add_body(name=f"{side}/{finger}", gravcomp=1.0)
        body.explicitinertial = True
        body.mass = 0.04
        body.inertia = (2e-5,) * 3
        slide = body.add_joint(name=f"{side}/{finger}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0, way, 0))
        slide.range = (0.0, OPENING_M / 2)
        slide.armature = 0.05
        slide.damping = (2.0, 0, 0)
        _box(body, (0.084, way * 0.010, 0), (0.032, 0.004, 0.008), "gripper")
        tip = FINGERTIPS[finger == "finger_right"]
        body.add_site(name=f"{side}/{tip}", pos=(HAND_TO_TOOL_M, 0, 0), size=(0.004,) * 3, group=4)
        pad = _box(body, (HAND_TO_TOOL_M, way * 0.004, 0), (0.014, 0.004, 0.010), "pad")
        pad.name = f"{side}/{finger}_pad"
    spec.add_exclude(bodyname1=f"{side}/finger_left", bodyname2=f"{side}/finger_right")


def _add_gripper_servo(spec: MjSpec, side: Side) -> None:
    """A servo for both fingers: 0 closes, 1 opens. The force is limited as in a real gripper."""
    fingers = [f"{side}/finger_left", f"{side}/finger_right"]
    mirror = spec.add_equality(name=f"{side}/fingers", type=mujoco.mjtEq.mjEQ_JOINT, name1=fingers[0], name2=fingers[1])
    mirror.objtype = mujoco.mjtObj.mjOBJ_JOINT
    mirror.data[:5] = (0, 1, 0, 0, 0)
    mirror.solref = (0.004, 1.0)
    opening = spec.add_tendon(name=f"{side}/opening")
    for finger in fingers:
        opening.wrap_joint(finger, 0.5)
    servo = spec.add_actuator(name=f"{side}/gripper", target=f"{side}/opening")
    servo.trntype = mujoco.mjtTrn.mjTRN_TENDON
    servo.set_to_position(kp=GRIP_GAIN)
    servo.gainprm[0] = GRIP_GAIN * OPENING_M / 2
    servo.biasprm[:3] = (0, -GRIP_GAIN, -GRIP_DAMPING)
    servo.ctrlrange = (0.0, 1.0)
    servo.forcerange = (-GRIP_FORCE_N, GRIP_FORCE_N)


def _add_camera(hand: Body, side: Side) -> None:
    view = WRIST_CAMERA
    bracket = _box(hand, (view.forward_m - 0.012, 0, 0.05), (0.008, 0.014, 0.034), "arm_joint")
    bracket.name = f"{side}/camera_bracket"
    add_wrist_camera(hand, side, view)


def add_wrist_camera(hand: Body, side: Side, view: WristCamera) -> None:
    """A wrist camera on any hand whose x points at the work and whose z is up. Human hands have it too."""
    name = Camera.LEFT_WRIST if side is Side.LEFT else Camera.RIGHT_WRIST
    camera = hand.add_camera(name=str(name), pos=(view.forward_m, 0, view.above_m), fovy=view.fovy_deg)
    # Columns: image right is -y of the hand, image up is z tilted towards x. The camera looks along its own -z.
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = (0, -1, 0, sin(view.down_rad), 0, cos(view.down_rad))


def _box(body: Body, centre_m: Point, half_m: Point, material: str) -> Any:
    return _shell(body, mujoco.mjtGeom.mjGEOM_BOX, material, pos=centre_m, size=half_m)


def _capsule(body: Body, start_m: Point, end_m: Point, radius_m: float, material: str) -> Any:
    return _shell(body, mujoco.mjtGeom.mjGEOM_CAPSULE, material, fromto=(*start_m, *end_m), size=(radius_m, 0, 0))


def _cylinder(body: Body, start_m: Point, end_m: Point, radius_m: float, material: str) -> Any:
    return _shell(body, mujoco.mjtGeom.mjGEOM_CYLINDER, material, fromto=(*start_m, *end_m), size=(radius_m, 0, 0))


def _shell(body: Body, shape: Any, material: str, **placement: Any) -> Any:
    return body.add_geom(type=shape, material=material, contype=ARM_CONTYPE, conaffinity=ARM_CONAFFINITY, **placement)
