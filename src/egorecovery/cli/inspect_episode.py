"""One episode in words: what a person asks before looking at its pictures."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from egorecovery.cli.console import console

SHOWN = 8  # numbers of a list


def show_facts(facts: Mapping[str, Any]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in _said(facts):
        table.add_row(name, words)
    console.print(facts["id"], soft_wrap=True)
    console.print(table)


def _said(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "task", f"{facts['task']} ({' and '.join(facts['active'])} active)"
    yield "source", str(facts["source"]).replace("_", " ")
    yield "length", f"{facts['frames']} frames, {facts['duration_s']:.1f} s"
    yield "effector path", f"{facts['path_m']:.2f} m, reliable in {facts['reliable']:.0%} of frames"
    for camera, one in facts["cameras"].items():
        depth = ", with depth" if one["depth"] else ""
        yield f"camera {camera}", f"{one['width']} x {one['height']}, {one['bytes_per_frame']:,} bytes a frame{depth}"
    made = facts["provenance"]
    yield "recorded by", f"{made['operator']}, {made['started_at']}"
    yield "operator's time", f"{made['staging_s']:.1f} s to stage, {made['reset_s']:.1f} s to reset"
    for name, value in made["details"].items():
        yield name.replace("_", " "), _plain(value)
    if "candidate" in facts:
        yield "candidate", _plain(facts["candidate"])
    for one in facts.get("annotations", []):
        what = "discarded" if one["discard"] else f"boundary at frame {one['boundary']}"
        note = f": {one['note']}" if one.get("note") else ""
        yield f"annotation {one['revision']}", f"{what}, {one['quality']}, by {one['annotator']}{note}"
    if "annotations" in facts and not facts["annotations"]:
        yield "annotation", "none yet"
    labels = [f"{count} {words}" for words, count in facts.get("labels", {}).items() if count]
    outdated = "" if facts.get("labels_current", True) else "outdated, of an earlier annotation: "
    yield "labels", outdated + ", ".join(labels) if labels else "none yet"
    yield "content", str(facts["content"])[:16]


def _plain(value: Any) -> str:
    """As a person writes it: no braces, no quotes, four digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{str(name).replace('_', ' ')} {_plain(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        if any(isinstance(one, (list, tuple)) for one in value):
            return f"{len(value)} rows (--json shows them)"
        more = f" and {len(value) - SHOWN} more" if len(value) > SHOWN else ""
        return " ".join(map(_plain, value[:SHOWN])) + more
    return str(value)
