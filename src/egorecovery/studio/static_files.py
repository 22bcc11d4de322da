"""The pages' files, read once at start: a request names one of them or nothing, so no path is ever resolved."""

from importlib.resources import files
from importlib.resources.abc import Traversable

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def static_files() -> dict[str, tuple[bytes, str]]:
    """Content and type by path below `static/`."""
    found: dict[str, tuple[bytes, str]] = {}
    _collect(files("egorecovery.studio") / "static", "", found)
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, tuple[bytes, str]]) -> None:
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            _collect(entry, name + "/", found)
        elif (suffix := "." + name.rpartition(".")[2]) in CONTENT_TYPES:
            found[name] = (entry.read_bytes(), CONTENT_TYPES[suffix])
