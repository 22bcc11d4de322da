"""The demo's page: one sentence, films side by side, one chart, details folded away. It works offline, from a file."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from egorecovery.demo.films import FASTER, Film
from egorecovery.demo.outcomes import WORTH_NOTE, FilmedStart
from egorecovery.storage.atomic_io import write_file

TASKS = {
    "cube_stack": "cube stacking",
    "table_sweep": "table sweeping",
    "cup_brush": "cup brush insertion",
    "round_disk": "round disk placement",
}
LABELS = {"robot_success": "robot successes", "robot_recovery": "robot recoveries", "human_recovery": "human clips"}
STARTS = {"recovery": "From failures", "initial": "From ordinary starts"}
MODES = {  # what has gone wrong before the film begins
    "fallen": "The cube has slipped off and lies beside the other one",
    "held": "The cube is still held, but off to a side",
}


def write_page(
    out: Path,
    summary: Mapping[str, Any],
    starts: Sequence[tuple[FilmedStart, Mapping[str, Film]]],
    *,
    films: str = "films",
) -> Path:
    """`out`/index.html; films lie in the folder `films` beside it."""
    place = files("egorecovery.demo") / "templates"
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((place / "page.html.j2").read_text())
    css = Markup((place / "page.css").read_text())  # noqa: S704 - ours, a file of this package
    path = out / "index.html"
    write_file(path, template.render(css=css, page=page_of(summary, starts, films)).encode())
    return path


def page_of(
    summary: Mapping[str, Any], starts: Sequence[tuple[FilmedStart, Mapping[str, Film]]], films: str
) -> dict[str, Any]:
    """What the template shows; every number of it is in the summary."""
    policies = summary["policies"]
    labels = [label(policy) for policy in policies]
    failures = policies[0]["rates"]["recovery"]["rollouts"]
    return {
        "task": TASKS.get(summary["task"], summary["task"]),
        "sentence": summary["sentence"],
        "lead": summary["lead"],
        "starts": [
            {
                "title": MODES.get(start.mode, "From the same failure") + ".",
                "films": [
                    {
                        "src": f"{films}/{shown[policy['method']].name}",
                        "label": words,
                        "succeeded": shown[policy["method"]].succeeded,
                        "outcome": outcome(shown[policy["method"]]),
                    }
                    for policy, words in zip(policies, labels, strict=True)
                ],
                "note": _pattern_words(summary, start, failures),
            }
            for start, shown in starts
        ],
        "films_note": (
            f"Each row begins at one start, seen from outside, at {FASTER} times the speed. The starts were chosen "
            "because the policies differ there. The chart says how often each succeeds."
        ),
        "worth": summary["worth"],
        "worth_note": WORTH_NOTE,
        "groups": [_group(policies, labels, regime) for regime in ("recovery", "initial")],
        "details": summary["details"],
    }


def label(policy: Mapping[str, Any]) -> str:
    """By what it has beyond the policy before it: + 200 human clips."""
    source, count = [(source, count) for source, count in policy["episodes"].items() if count][-1]
    return f"{'' if source == 'robot_success' else '+ '}{count} {LABELS[source]}"


def outcome(film: Film) -> str:
    if film.succeeded:
        return f"done in {film.seconds:.0f} s"
    return f"not done in {film.seconds:.0f} s" if "time" in film.reason else f"fails after {film.seconds:.0f} s"


def _pattern_words(summary: Mapping[str, Any], start: FilmedStart, failures: int) -> str:
    succeed = dict(zip((policy["method"] for policy in summary["policies"]), start.pattern, strict=True))
    count = next(one["starts"] for one in summary["patterns"] if one["succeed"] == succeed)
    alike = (
        "It ends like this in no other failure."
        if count == 1
        else f"It ends like this in {count} of the {failures} failures."
    )
    return f"Failure {start.index + 1} of {failures}, chosen because the policies differ here. {alike}"


def _group(policies: Sequence[Mapping[str, Any]], labels: Sequence[str], regime: str) -> dict[str, Any]:
    bars = []
    for policy, words in zip(policies, labels, strict=True):
        rate = policy["rates"][regime]
        low, high = (100 * bound for bound in rate["interval"])
        bars.append(
            {
                "label": words,
                "percent": round(100 * rate["successes"] / rate["rollouts"], 1),
                "low": round(low, 1),
                "span": round(high - low, 1),
                "successes": rate["successes"],
                "rollouts": rate["rollouts"],
            }
        )
    spoken = "; ".join(f"{bar['label']}: {bar['successes']} of {bar['rollouts']}" for bar in bars)
    return {"title": STARTS[regime], "aria": f"{STARTS[regime]}. {spoken}", "bars": bars}
