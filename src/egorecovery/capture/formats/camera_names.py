"""Maps camera names of other formats to head and wrist cameras."""

import re
from collections.abc import Mapping, Sequence

from egorecovery.episodes import Camera
from egorecovery.errors import RecordingError

USUAL = {
    **dict.fromkeys(
        ("cam_high", "cam_head", "head", "high", "top", "front", "front_1", "front_img_1", "main", "ego"), Camera.HEAD
    ),
    **dict.fromkeys(("cam_left_wrist", "left_wrist", "left_wrist_img", "wrist_left", "left"), Camera.LEFT_WRIST),
    **dict.fromkeys(("cam_right_wrist", "right_wrist", "right_wrist_img", "wrist_right", "right"), Camera.RIGHT_WRIST),
}


def chosen_cameras(wanted: Mapping[Camera, str], names: Sequence[str]) -> dict[Camera, str]:
    """A name in the data set for each of our cameras: as the user says, otherwise by common names."""
    for camera, name in wanted.items():
        if name not in names:
            raise RecordingError(f"--camera {camera}={name}: there is no such camera; there are {', '.join(names)}")
    chosen = dict(wanted)
    for name in names:
        camera = USUAL.get(re.split(r"[./]", name)[-1].lower())
        if camera and camera not in chosen and name not in chosen.values():
            chosen[camera] = name
    if not names:
        raise RecordingError("the data have no camera, and a policy needs pictures; export them again with pictures")
    if not chosen:
        ours = ", ".join(Camera)
        raise RecordingError(
            f"none of the cameras ({', '.join(names)}) is known by its name; say which is which, as in "
            f"--camera head={names[0]} (ours: {ours})"
        )
    return {camera: chosen[camera] for camera in Camera if camera in chosen}


def parsed_cameras(settings: Sequence[str]) -> dict[Camera, str]:
    """Parses head=NAME left_wrist=NAME from the command line."""
    cameras = {}
    for setting in settings:
        ours, _, theirs = setting.partition("=")
        if ours not in list(Camera) or not theirs:
            raise RecordingError(f"--camera {setting!r}: write {'|'.join(Camera)}=NAME, as in head=cam_high")
        cameras[Camera(ours)] = theirs
    return cameras
