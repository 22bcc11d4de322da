"""Places a tracked hand in metres in front of the camera, and checks left against right."""

# N samples

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from egorecovery.episodes import Intrinsics

PALM = (0, 5, 9, 13, 17)  # points with skin near the bone, where measured depth is the hand's
NEAREST_M, FARTHEST_M = 0.1, 2.0  # plausible distances of a hand
SKIN_M = 0.01  # a depth camera sees the skin, the points lie inside
ALIKE_M = 0.04  # depths of one palm differ by less; others belong to the background
CURL_M = 0.012  # fingers bent by more distinguish the palm from the back


def placed_hand(
    pixels: Float[ndarray, "21 2"],
    metres: Float[ndarray, "21 3"],
    camera: Intrinsics,
    depth_mm: ndarray | None = None,
) -> Float[ndarray, "21 3"] | None:
    """The hand's points in the camera's frame (x right, y down, z forward), so that they project to their pixels.

    With a depth map the distance is measured. Without it, the distance follows from the tracker's model of hand size,
    and is wrong by the same factor as that size. None if there is no plausible place.
    """
    rays = np.column_stack(
        [(pixels[:, 0] - camera.cx) / camera.fx, (pixels[:, 1] - camera.cy) / camera.fy, np.ones(len(pixels))]
    )
    distance_m = None if depth_mm is None else _measured_m(pixels, metres, camera, depth_mm)
    if depth_mm is not None and distance_m is None:
        return None
    # x + tx = u (z + tz) for each point, likewise y: linear in the shift t
    rows_x = np.column_stack([np.ones(len(rays)), np.zeros(len(rays)), -rays[:, 0]])
    rows_y = np.column_stack([np.zeros(len(rays)), np.ones(len(rays)), -rays[:, 1]])
    wanted_x = rays[:, 0] * metres[:, 2] - metres[:, 0]
    wanted_y = rays[:, 1] * metres[:, 2] - metres[:, 1]
    rows, wanted = np.concatenate([rows_x, rows_y]), np.concatenate([wanted_x, wanted_y])
    if distance_m is None:
        shift_m = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    else:
        across_m = np.linalg.lstsq(rows[:, :2], wanted - rows[:, 2] * distance_m, rcond=None)[0]
        shift_m = np.append(across_m, distance_m)
    placed_m = metres + shift_m
    return placed_m if NEAREST_M <= placed_m[0, 2] <= FARTHEST_M else None


def _measured_m(
    pixels: Float[ndarray, "21 2"], metres: Float[ndarray, "21 3"], camera: Intrinsics, depth_mm: ndarray
) -> float | None:
    """Distance of the hand's centre, from depths on which the palm's points agree."""
    scale = np.array([depth_mm.shape[1] / camera.width, depth_mm.shape[0] / camera.height])
    columns, rows = np.floor(pixels[list(PALM)] * scale).astype(int).T
    inside = (rows >= 0) & (columns >= 0) & (rows < depth_mm.shape[0]) & (columns < depth_mm.shape[1])
    read_m = depth_mm[rows[inside], columns[inside]] / 1000.0
    there = (read_m >= NEAREST_M) & (read_m <= FARTHEST_M)
    found_m = (read_m + SKIN_M - metres[list(PALM), 2][inside])[there]
    if not len(found_m):
        return None
    alike = np.abs(found_m - np.median(found_m)) <= ALIKE_M
    return float(found_m[alike].mean()) if alike.sum() >= 2 else None


def curls_like_a_right_hand(points_m: Float[ndarray, "N 21 3"]) -> tuple[Bool[ndarray, " N"], Bool[ndarray, " N"]]:
    """Whether each hand bends like a right one, and where fingers are bent enough to tell.

    Fingers bend towards the palm. Points are in OpenPose order, in any frame that is not mirrored.
    """
    wrist = points_m[:, 0]
    out_of_right_palm = np.cross(points_m[:, 5] - wrist, points_m[:, 17] - wrist)
    with np.errstate(all="ignore"):
        out_of_right_palm /= np.linalg.norm(out_of_right_palm, axis=1, keepdims=True)
    tips, knuckles = points_m[:, [8, 12, 16, 20]].mean(axis=1), points_m[:, [5, 9, 13, 17]].mean(axis=1)
    curl_m = np.sum((tips - knuckles) * out_of_right_palm, axis=1)
    with np.errstate(invalid="ignore"):
        return curl_m > 0, np.abs(curl_m) > CURL_M
