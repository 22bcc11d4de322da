"""The page: one HTML file that needs nothing else, not even a network."""

from collections.abc import Sequence
from html import escape

from egorecovery.experiments.report.arms import task_title
from egorecovery.experiments.report.findings import Finding
from egorecovery.experiments.report.numbers import BUDGET_SUITES, Numbers
from egorecovery.experiments.report.provenance import facts
from egorecovery.experiments.report.sections import MARKS, TITLES, pill, sections
from egorecovery.experiments.report.style import CSS
from egorecovery.experiments.report.tables import percent


def page(numbers: Numbers, found: Sequence[Finding]) -> str:
    suite = numbers.suite
    title = TITLES.get(suite.name, suite.name.replace("_", " ").capitalize())
    parts = [section for section in sections(numbers, found) if section[2]]
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name, _ in parts)
    body = "".join(f'<h2 id="{anchor}">{escape(name)}</h2>{html}' for anchor, name, html in parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>EgoRecovery: {escape(title)}</title><style>{CSS}</style></head><body>"
        f"{_header(numbers, found, title)}<nav><div>{links}</div></nav><main>{body}</main>"
        f"<footer>Made by <code>egorecovery</code> from {len(suite.cells)} cells. The same numbers: "
        '<a href="report.json">report.json</a>, <a href="report.md">report.md</a>.</footer></body></html>\n'
    )


def _header(numbers: Numbers, found: Sequence[Finding], title: str) -> str:
    tasks = ", ".join(task_title(task) for task in numbers.tasks) or "no task yet"
    lead = (
        f"Closed-loop success in the simulated workcell beside the paper's own numbers. {len(numbers.suite.arms)} "
        f"{'method' if len(numbers.suite.arms) == 1 else 'methods'} on {tasks}."
    )
    told = "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in facts(numbers.suite).items())
    lacking = "".join(f"<li>{escape(words)}</li>" for words in numbers.not_run)
    absent = f'<div class="absent" id="not-run"><b>Not run</b><ul>{lacking}</ul></div>' if lacking else ""
    return (
        f'<header><div><h1>EgoRecovery: {escape(title)}</h1><p class="lead">{escape(lead)}</p>'
        f'<div class="tiles">{_tiles(numbers, found)}</div><dl class="facts">{told}</dl>{absent}</div></header>'
    )


def _tiles(numbers: Numbers, found: Sequence[Finding]) -> str:
    """The numbers that decide, large, over the tasks that all of them have."""
    methods = ("robot_success", "robot_recovery", "direct_human_recovery_mix", "egorecovery")
    chosen = [*map(numbers.find, methods), numbers.find("robot_recovery", robot_failures="anywhere")]
    chosen += [numbers.find(method, humans="stand_ins") for method in methods[2:]]  # those with human recoveries
    arms = [] if numbers.like in BUDGET_SUITES else [arm for arm in chosen if arm]
    tasks = [task for task in numbers.tasks if all(task in numbers.tasks_of(arm) for arm in arms)]
    where = "" if tasks == list(numbers.tasks) else f" on {', '.join(map(task_title, tasks))}"
    tiles = []
    for arm in arms:
        rate = numbers.average(arm, "recovery", tasks)
        if rate:
            tiles.append(
                f'<div class="tile"><b>{percent(rate.value)}%</b><span>{escape(arm.label)}</span>'
                f"<small>recovers {rate.successes:,} of {rate.rollouts:,}{escape(where)}</small></div>"
            )
    counts = {name: sum(one.verdict == name for one in found) for name in MARKS}
    words = {"holds": "hold"}
    told = "".join(
        f"<span>{pill(name, f'{count} {name if count == 1 else words.get(name, name)}')}</span>"
        for name, count in counts.items()
        if count
    )
    judged = f'<div class="tile verdicts"><small>Findings, here</small><p class="legend">{told}</p></div>'
    return "".join(tiles) + judged
