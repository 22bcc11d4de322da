"""From what sensors record to episodes."""

from egorecovery.capture.importing import (
    Imported,
    ImportRules,
    Outcome,
    import_recording,
    import_recordings,
    to_episode,
)
from egorecovery.capture.recording import HandTracks, RawCamera, Recording, RobotLog
from egorecovery.capture.recording_files import find_recordings, load_recording, save_recording

__all__ = [
    "HandTracks",
    "ImportRules",
    "Imported",
    "Outcome",
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
