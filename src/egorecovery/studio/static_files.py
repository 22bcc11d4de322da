"""The pages' files, read once at start. Requests are looked up by name, so no path is ever resolved."""

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
    contents: dict[str, tuple[bytes, str]] = {}
    _collect(files("egorecovery.studio") / "static", "", contents)
    return contents


def _collect(folder: Traversable, prefix: str, contents: dict[str, tuple[bytes, str]]) -> None:
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            _collect(entry, name + "/", contents)
        elif (suffix := "." + name.rpartition(".")[2]) in CONTENT_TYPES:
            contents[name] = (entry.read_bytes(), CONTENT_TYPES[suffix])
