"""The motion of an EgoVerse episode, as a robot's log or a person's hands in the workspace frame."""

# N samples, P points

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.capture.formats.egoverse_reading import POSE, EgoVerseStreams, Kind, in_openpose_order
from egorecovery.capture.formats.grippers import COLUMNS, STREAMS, GripperRange, normalised
from egorecovery.capture.formats.importer import Robot
from egorecovery.capture.formats.placement import Placement
from egorecovery.capture.recording import HandPoses, HandTracks, RobotLog
from egorecovery.episodes import Side
from egorecovery.errors import RecordingError
from egorecovery.kinematics import EffectorPoses, pack, unpack
from egorecovery.motion import KeypointOrder

OPENING_ROOM = 0.02  # tolerance of openings beyond 0..1, for rounding


@dataclass(frozen=True, kw_only=True)
class MotionReader:
    """Reads the motion of a data set's episodes."""

    kind: Kind
    robot: Robot
    grippers: Mapping[str, GripperRange]  # of state and action; none of people
    keypoint_order: str  # aria, or one of ours
    placement: Placement

    def motion(self, streams: EgoVerseStreams, clock_s: Float[ndarray, " N"]) -> RobotLog | HandTracks | HandPoses:
        read = {"joints": self._joints, "poses": self._poses, "keypoints": self._keypoints, "hands": self._hands}
        return read[self.kind](streams, clock_s)

    def _joints(self, streams: EgoVerseStreams, clock_s: Float[ndarray, " N"]) -> RobotLog:
        """Effectors by forward kinematics of the user's robot, else as recorded, else by the workcell's arms."""
        state, action = streams.joints()
        state, action = normalised(state, self.grippers["state"]), normalised(action, self.grippers["action"])
        recorded = {} if self.robot.given else self._recorded_effectors(streams, state, action)
        return RobotLog(
            timestamps_s=clock_s, state=state, action=action, **(recorded or self._kinematics(state, action))
        )

    def _recorded_effectors(self, streams: EgoVerseStreams, state: ndarray, action: ndarray) -> dict[str, ndarray]:
        """Recorded effectors. None if the episode has joints only; positions alone if tool axes are unknown."""
        position_m = streams.recorded_positions_m()
        if position_m is None:
            return {}
        if self.placement.tool_axes is None or "poses" not in streams.episode.kinds:
            return {"effector_m": self._placed(position_m)}
        tools = self._tools(streams, {"state": state[:, COLUMNS], "action": action[:, COLUMNS]})
        return {"effector_m": tools["state"].position_m, **self._in_effector_space(tools)}

    def _kinematics(self, state: ndarray, action: ndarray) -> dict[str, ndarray]:
        arms = self.robot.arms()
        effectors = {"effector_state": arms.effector_vectors(state), "effector_action": arms.effector_vectors(action)}
        return {"effector_m": unpack(effectors["effector_state"]).position_m, **effectors}

    def _poses(self, streams: EgoVerseStreams, clock_s: Float[ndarray, " N"]) -> RobotLog:
        """A log without joint angles: its vectors hold x y z, roll pitch yaw and gripper per arm."""
        openings = {
            name: self.grippers[name].opening_01(poses[..., POSE])
            for name, poses in zip(STREAMS, streams.tool_poses(), strict=True)
        }
        tools = self._tools(streams, openings)
        return RobotLog(
            timestamps_s=clock_s,
            effector_m=tools["state"].position_m,
            **dict(zip(STREAMS, _pose_vectors(tools["state"], tools["action"]), strict=True)),
            **self._in_effector_space(tools),
        )

    def _tools(self, streams: EgoVerseStreams, openings: Mapping[str, ndarray]) -> dict[str, EffectorPoses]:
        """Measured and commanded tool poses in the workspace, with the data's own tool axes."""
        return {
            name: EffectorPoses(
                position_m=self._placed(poses[..., :3]),
                rotation=self._turned(
                    Rotation.from_quat(poses[..., 3:POSE].reshape(-1, 4), scalar_first=True).as_matrix()
                ),
                opening_01=openings[name],
            )
            for name, poses in zip(STREAMS, streams.tool_poses(), strict=True)
        }

    def _in_effector_space(self, tools: Mapping[str, EffectorPoses]) -> dict[str, ndarray]:
        axes = self.placement.tool_axes
        if axes is None:
            return {}
        return {f"effector_{name}": pack(replace(tool, rotation=tool.rotation @ axes)) for name, tool in tools.items()}

    def _keypoints(self, streams: EgoVerseStreams, clock_s: Float[ndarray, " N"]) -> HandTracks:
        points_m = streams.keypoints_m()
        aria = self.keypoint_order == "aria"
        _, matrices = streams.wrists()
        return HandTracks(
            timestamps_s=clock_s,
            keypoints_m=self._placed(in_openpose_order(points_m) if aria else points_m),
            wrist_rotation=self._turned(matrices),
            confidence=np.asarray(np.isfinite(points_m).all(axis=(2, 3)), np.float64),
            order=KeypointOrder.OPENPOSE if aria else KeypointOrder(self.keypoint_order),
        )

    def _hands(self, streams: EgoVerseStreams, clock_s: Float[ndarray, " N"]) -> HandPoses:
        hands = streams.hand_state()
        opening_01 = hands[..., 6]
        lowest, highest = float(np.nanmin(opening_01)), float(np.nanmax(opening_01))
        if lowest < -OPENING_ROOM or highest > 1 + OPENING_ROOM:
            raise RecordingError(
                f"{streams.episode.path}: the hands' opening runs from {lowest:.3g} to {highest:.3g}, 0 (closed) to 1 "
                f"(open) is wanted as the seventh number of each hand"
            )
        known = np.isfinite(hands[..., 3:6])
        turns = Rotation.from_euler("xyz", np.where(known, hands[..., 3:6], 0.0).reshape(-1, 3)).as_matrix()
        turns = np.where(np.all(known, axis=2, keepdims=True)[..., None], turns.reshape(-1, 2, 3, 3), np.nan)
        return HandPoses(
            timestamps_s=clock_s,
            wrist_m=self._placed(hands[..., :3]),
            wrist_rotation=self._turned(turns),
            opening_01=np.clip(opening_01, 0.0, 1.0),
        )

    def _placed(self, points_m: Float[ndarray, "N 2 *P 3"]) -> Float[ndarray, "N 2 *P 3"]:
        return np.stack([self.placement.points_m(side, points_m[:, side.effector]) for side in Side], axis=1)

    def _turned(self, rotations: Float[ndarray, "*N 3 3"]) -> Float[ndarray, "N 2 3 3"]:
        per_side = rotations.reshape(-1, 2, 3, 3)
        return np.stack([self.placement.rotations(side, per_side[:, side.effector]) for side in Side], axis=1)


def _pose_vectors(measured: EffectorPoses, commanded: EffectorPoses) -> list[Float[ndarray, "N 14"]]:
    """x y z, roll pitch yaw and opening per arm.

    Angles are unwrapped, because resampling interpolates and half way from pi to -pi would be 0. Commanded angles stay
    within half a turn of the measured ones.
    """
    angles_rad = np.unwrap(_angles_rad(measured), axis=0)
    ahead_rad = (_angles_rad(commanded) - angles_rad + np.pi) % (2 * np.pi) - np.pi
    return [
        np.concatenate([tool.position_m, turned_rad, tool.opening_01[..., None]], axis=-1).reshape(-1, 14)
        for tool, turned_rad in ((measured, angles_rad), (commanded, angles_rad + ahead_rad))
    ]


def _angles_rad(tool: EffectorPoses) -> Float[ndarray, "N 2 3"]:
    return Rotation.from_matrix(tool.rotation.reshape(-1, 3, 3)).as_euler("xyz").reshape(-1, 2, 3)
