"""The transform from a tracker's world frame to the workspace: given, or from a marker seen on the table."""

# M sightings, N samples

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.capture.formats.placement import read_json, rigid
from egorecovery.errors import RecordingError

MAX_SIGHTINGS = 1000
APART_M, APART_RAD = 0.02, np.deg2rad(5.0)  # largest differences between sightings of one marker
KEYS = ("workspace_from_data", "workspace_from_marker", "sightings")


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """A marker in a picture of the head camera."""

    sample: int  # of the hand file
    camera_from_marker: Float[ndarray, "4 4"]


def workspace_from_world(path: Path, world_from_camera: Float[ndarray, "N 4 4"] | None) -> Float[ndarray, "4 4"]:
    """The transform of one clip from its transform file (docs/hand_tracks.md)."""
    record = read_json(path)
    unknown = set(record) - set(KEYS)
    if unknown:
        raise RecordingError(f"{path}: {min(unknown)!r} is not known; it may have {', '.join(KEYS)}")
    if "workspace_from_data" in record:
        return rigid(record["workspace_from_data"], f"{path}: workspace_from_data")
    if world_from_camera is None:
        raise RecordingError(
            f"{path}: a marker is seen by the camera, so the hand file needs world_from_camera; "
            f"or give workspace_from_data"
        )
    sightings = _sightings(record.get("sightings"), len(world_from_camera), path)
    workspace_from_marker = rigid(record.get("workspace_from_marker"), f"{path}: workspace_from_marker")
    world_from_marker = _agreed(
        np.stack([world_from_camera[sighting.sample] @ sighting.camera_from_marker for sighting in sightings]), path
    )
    return workspace_from_marker @ np.linalg.inv(world_from_marker)


def _sightings(record: object, samples: int, path: Path) -> list[Sighting]:
    if not isinstance(record, list) or not 1 <= len(record) <= MAX_SIGHTINGS:
        raise RecordingError(f"{path}: sightings must be a list of 1 to {MAX_SIGHTINGS} sightings of the marker")
    sightings = []
    for number, entry in enumerate(record):
        where = f"{path}: sighting {number}"
        sample = entry.get("sample") if isinstance(entry, dict) else None
        if not isinstance(sample, int) or isinstance(sample, bool) or not 0 <= sample < samples:
            raise RecordingError(f"{where}: sample must be one of the hand file's {samples}, got {sample!r}")
        matrix = rigid(entry.get("camera_from_marker"), f"{where}: camera_from_marker")
        sightings.append(Sighting(sample=sample, camera_from_marker=matrix))
    return sightings


def _agreed(poses: Float[ndarray, "M 4 4"], path: Path) -> Float[ndarray, "4 4"]:
    """The average of all sightings. Contradicting sightings are refused."""
    turns = Rotation.from_matrix(poses[:, :3, :3])
    middle = np.eye(4)
    middle[:3, :3], middle[:3, 3] = turns.mean().as_matrix(), np.median(poses[:, :3, 3], axis=0)
    apart_m = float(np.linalg.norm(poses[:, :3, 3] - middle[:3, 3], axis=1).max())
    apart_rad = float((turns * Rotation.from_matrix(middle[:3, :3]).inv()).magnitude().max())
    if apart_m > APART_M or apart_rad > APART_RAD:
        raise RecordingError(
            f"{path}: sightings of the marker lie up to {apart_m * 1000:.0f} mm and {np.rad2deg(apart_rad):.1f} "
            f"degrees apart in the tracker's world: the camera's path drifts or has another scale, or the marker moved"
        )
    return middle
