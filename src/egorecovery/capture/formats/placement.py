"""The placement of a data set in the workspace, from a file with one rigid transform, or one per side."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.episodes import Side
from egorecovery.errors import RecordingError
from egorecovery.storage import bounded_json

TOLERANCE = 1e-3  # of a rotation matrix that was written with a few digits
MAX_FILE_BYTES = 64 * 1024
AXES = {sign + name: (1 if sign == "+" else -1) * np.eye(3)[index] for index, name in enumerate("xyz") for sign in "+-"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """The transform from the data's frame to the workspace frame, for each side."""

    workspace_from_data: Mapping[Side, Float[ndarray, "4 4"]]
    tool_axes: Float[ndarray, "3 3"] | None = None  # of a gripper's frame: columns x, y opening, z approach
    name: str = ""  # for people

    @classmethod
    def none(cls) -> "Placement":
        """The data's frame is taken as the workspace frame."""
        return cls(workspace_from_data={side: np.eye(4) for side in Side})

    @classmethod
    def load(cls, path: Path) -> "Placement":
        record = read_json(Path(os.path.realpath(path)))  # the user named it, and may name a link
        known = {"workspace_from_data", "left", "right", "tool_axes"}
        unknown = set(record) - known
        if unknown:
            raise RecordingError(f"{path}: {min(unknown)!r} is not known; it may have {', '.join(sorted(known))}")
        if "workspace_from_data" in record:
            both = rigid(record["workspace_from_data"], f"{path}: workspace_from_data")
            matrices = {side: both for side in Side}
        else:
            matrices = {side: rigid(record.get(str(side)), f"{path}: {side}") for side in Side}
        axes = _tool_axes(record["tool_axes"], path) if "tool_axes" in record else None
        return cls(workspace_from_data=matrices, tool_axes=axes, name=path.name)

    def points_m(self, side: Side, points_m: Float[ndarray, "*N 3"]) -> Float[ndarray, "*N 3"]:
        matrix = self.workspace_from_data[side]
        return points_m @ matrix[:3, :3].T + matrix[:3, 3]

    def rotations(self, side: Side, rotations: Float[ndarray, "*N 3 3"]) -> Float[ndarray, "*N 3 3"]:
        return self.workspace_from_data[side][:3, :3] @ rotations


def rigid(values: object, where: str) -> Float[ndarray, "4 4"]:
    """A 4x4 rigid transform. Scaling and mirroring are refused."""
    try:
        matrix = np.array(values, np.float64)
    except (OverflowError, TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise RecordingError(f"{where} must be four rows of four numbers")
    if np.abs(matrix[3] - [0, 0, 0, 1]).max() > TOLERANCE:
        raise RecordingError(f"{where}: the last row must be 0 0 0 1, it is {matrix[3].tolist()}; is it transposed?")
    turn = matrix[:3, :3]
    if np.abs(turn @ turn.T - np.eye(3)).max() > TOLERANCE or np.linalg.det(turn) < 0:
        raise RecordingError(
            f"{where} scales or mirrors (determinant {np.linalg.det(turn):.3f}); lengths are metres on both sides"
        )
    return matrix


def read_json(path: Path) -> dict[str, object]:
    """Reads a small JSON object. Links are not followed."""
    try:
        return bounded_json.read_json(path, RecordingError, "see docs/hand_tracks.md", largest=MAX_FILE_BYTES)
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error}); see docs/hand_tracks.md") from None


def _tool_axes(record: object, path: Path) -> Float[ndarray, "3 3"]:
    named = record if isinstance(record, dict) else {}
    axes = {name: AXES.get(str(named.get(name))) for name in ("approach", "opening")}
    approach, opening = axes["approach"], axes["opening"]
    if approach is None or opening is None or abs(float(approach @ opening)) > 0.5:
        raise RecordingError(
            f'{path}: tool_axes must name two different axes, as in {{"approach": "+x", "opening": "+y"}}'
        )
    return np.stack([np.cross(opening, approach), opening, approach], axis=1)
