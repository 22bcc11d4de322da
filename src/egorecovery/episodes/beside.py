"""What lies beside or in a folder that is not of the wanted kind, for messages that propose it."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

Kind = Literal["store", "run"]
MARKS = {"store": "store.json", "run": "recipe.json"}
LOOKED_AT = 500  # folders
NAMED = 3
LEVELS = 4  # of folders above that are looked at


def beside(path: Path, kind: Kind) -> str:
    """Such as '; beside it is the store runs/cubes'; empty where there is none."""
    whole = path if path.name.strip(".") else path.absolute()
    return _said(
        "beside it is",
        "beside it are",
        kind,
        [whole.with_name(name) for name in _marked(whole.absolute().parent, kind)],
    )


def within(path: Path, kind: Kind) -> str:
    """Such as '; in that folder: the store runs/cubes'."""
    return _said("in that folder:", "in that folder:", kind, [path / name for name in _marked(path, kind)])


def around(path: Path) -> str:
    """Such as '; it is part of the store runs/cubes'."""
    for folder in islice(path.absolute().parents, LEVELS):
        for kind, mark in MARKS.items():
            if (folder / mark).exists():
                up = len(path.absolute().parts) - len(folder.parts)
                shown = path.parents[up - 1] if up <= len(path.parents) and not path.is_absolute() else folder
                return f"; it is part of the {kind} {shown if shown.name else folder}"
    return ""


def _marked(folder: Path, kind: Kind) -> list[str]:
    with suppress(OSError):
        return sorted(each.name for each in islice(folder.iterdir(), LOOKED_AT) if (each / MARKS[kind]).exists())
    return []


def _said(one: str, several: str, kind: Kind, found: Sequence[Path]) -> str:
    if not found:
        return ""
    named = ", ".join(map(str, found[:NAMED]))
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"; {one} the {kind} {named}" if len(found) == 1 else f"; {several} the {kind}s {named}{more}"
