"""Recording with sensors, and import of recordings as episodes.

Names are imported on first use, because robots import `capture.picture_fit` with few packages installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egorecovery.capture.importing import (
        Imported,
        ImportRules,
        Outcome,
        import_recording,
        import_recordings,
        to_episode,
    )
    from egorecovery.capture.picture_fit import PictureFit
    from egorecovery.capture.recording import HandTracks, RawCamera, Recording, RobotLog
    from egorecovery.capture.recording_files import find_recordings, load_recording, save_recording

__all__ = [
    "HandTracks",
    "ImportRules",
    "Imported",
    "Outcome",
    "PictureFit",
    "RawCamera",
    "Recording",
    "RobotLog",
    "find_recordings",
    "import_recording",
    "import_recordings",
    "load_recording",
    "save_recording",
    "to_episode",
]

_HOME = {
    "picture_fit": ("PictureFit",),
    "recording": ("HandTracks", "RawCamera", "Recording", "RobotLog"),
    "recording_files": ("find_recordings", "load_recording", "save_recording"),
    "importing": ("ImportRules", "Imported", "Outcome", "import_recording", "import_recordings", "to_episode"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"egorecovery.capture.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
