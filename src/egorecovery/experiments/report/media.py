"""Pictures and films inside the page."""

import base64
import re
from html import escape
from pathlib import Path

from egorecovery.experiments.report.arms import task_title
from egorecovery.experiments.report.cells import Cell, Suite
from egorecovery.storage.containment import read_bytes

EMBEDDED_FILM = 3_000_000  # bytes; larger ones are linked
EMBEDDED_FILMS = 40_000_000  # all together
FILMED = re.compile(r"(initial|recovery)_(\d+)_(?:(\w+)_)?(success|failure|error)")  # see `videos.film_name`
MIME = {".mp4": "video/mp4", ".gif": "image/gif"}


def films(suite: Suite) -> str:
    parts, left = [], EMBEDDED_FILMS
    for cell in suite.cells:
        shown = []
        for path in cell.films:
            size = path.stat().st_size
            within = size <= min(EMBEDDED_FILM, left)
            left -= size if within else 0
            shown.append(_film(suite, cell, path, within))
        if shown:
            title = escape(f"{cell.arm.full_label}, {task_title(cell.task)}, seed {cell.seed}")
            parts.append(f'<h4>{title}</h4><div class="films">{"".join(shown)}</div>')
    if not parts:
        return ""
    note = (
        "Above the cameras: the gate over time and the intent, where the method has them. <code>--films</code> takes "
        "the first starts, one of every kind of failure before a second of any, whatever the outcome."
    )
    return f'<p class="note">{note}</p>{"".join(parts)}'


def _film(suite: Suite, cell: Cell, path: Path, within: bool) -> str:
    caption = _caption(cell, path)
    source = _inline(path) if within else path.relative_to(suite.root).as_posix()
    if not within:
        shown = f'<a href="{escape(source)}">{escape(path.name)}, {path.stat().st_size / 1e6:.1f} MB</a>'
    elif path.suffix.lower() == ".gif":
        shown = f'<img alt="{escape(caption)}" src="{source}">'
    else:
        shown = f'<video controls muted loop playsinline preload="metadata" src="{source}"></video>'
    return f"<figure>{shown}<figcaption>{escape(caption)}</figcaption></figure>"


def _caption(cell: Cell, path: Path) -> str:
    """Of a film of ours: recovery start 3, on rim: success. Of another: its name."""
    named = FILMED.fullmatch(path.stem)
    if named is None:
        return path.stem.replace("_", " ")
    regime, index, mode, outcome = named.groups()
    start = f"{regime} start {int(index)}" + (f", {mode.replace('_', ' ')}" if mode else "")
    counted = [one.outcome for one in cell.rollouts if (one.regime, one.index) == (regime, int(index))]
    unlike = f", but on record {counted[0]}" if counted and counted[0] != outcome else ""
    return f"{start}: {outcome}{unlike}"


def _inline(path: Path) -> str:
    return f"data:{MIME[path.suffix.lower()]};base64,{base64.b64encode(read_bytes(path, EMBEDDED_FILM)).decode()}"
