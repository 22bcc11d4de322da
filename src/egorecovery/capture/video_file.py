"""Opens untrusted video files with the demuxer of their suffix only."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from egorecovery.errors import RecordingError, StoreDamaged
from egorecovery.storage.containment import require_regular

if TYPE_CHECKING:
    from av.container import InputContainer

# Demuxers by suffix. If FFmpeg guesses, a playlist with a video's suffix makes it open all listed files, also in other
# folders.
DEMUXERS = {
    ".mp4": "mp4",
    ".m4v": "mp4",
    ".mov": "mov",
    ".mkv": "matroska",
    ".webm": "matroska",
    ".avi": "avi",
}


@contextmanager
def opened_video(path: Path, *, named: bool = False) -> Iterator["InputContainer"]:
    """Opens a container of one of `DEMUXERS`. Links are refused unless the user `named` the video."""
    import av

    demuxer = DEMUXERS.get(path.suffix.lower())
    if demuxer is None:
        raise RecordingError(f"{path} is not one of {', '.join(DEMUXERS)}; export it as one")
    try:
        require_regular(path.resolve() if named else path)
    except FileNotFoundError:
        raise RecordingError(f"{path} is missing; copy or export it again") from None
    except StoreDamaged as error:
        raise RecordingError(str(error)) from None
    with av.open(str(path), format=demuxer) as container:
        yield container
