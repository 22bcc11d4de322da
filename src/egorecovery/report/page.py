"""The page, one HTML file that needs nothing else, and its Markdown: templates that read an analysis."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.statistics import Interval
from egorecovery.experiments.condition import (
    SOURCE_LETTERS,
    Condition,
    budget_words,
    episode_counts,
    method_title,
    task_title,
)
from egorecovery.experiments.diagnoses import diagnoses
from egorecovery.experiments.paper import ROLLOUTS
from egorecovery.report import charts
from egorecovery.report.analysis import Analysis
from egorecovery.report.commands import commands
from egorecovery.report.gate import FEWEST, SHARE, gates
from egorecovery.report.judged_claims import CEILING, JudgedClaim, points, tested_elsewhere, verdict_of
from egorecovery.report.paired import PairedComparison
from egorecovery.report.provenance import data_hashes, distinct, facts, hardware, hours, recipe_name
from egorecovery.report.results import FinishedCell, SuiteResults
from egorecovery.storage.containment import read_bytes
from egorecovery.storage.foreign_text import inert, inert_markdown

BOTH: tuple[Regime, ...] = ("recovery", "initial")  # in this order everywhere
REGIME_TITLES = {"initial": "Initial SR", "recovery": "Recovery SR"}
REGIME_WORDS = {"initial": "from nominal starts", "recovery": "from failures"}
MARKS = {"holds": "✓", "contradicted": "✕", "not seen": "≈", "undecided": "?", "not run": "○"}
SYMBOLS = {"s": "■", "^": "▲", "v": "▼", "D": "◆", "o": "●", "<": "◀"}  # of the charts' markers
EMBEDDED_VIDEO = 3_000_000  # bytes; larger ones are linked
EMBEDDED_VIDEOS = 40_000_000  # all together
VIDEO_NAME = re.compile(r"(initial|recovery)_(\d+)_(?:(\w+)_)?(success|failure|error)")  # see experiments/videos.py
MIME = {".mp4": "video/mp4", ".gif": "image/gif"}
DIAGNOSIS_CAPTIONS = {
    "ks": "KS distance between robot and human by DCT coefficient: below the dotted line, no difference is shown.",
    "coverage": "Starts of recovery episodes beside those that evaluation draws, by failure mode.",
    "bottleneck": "What enters and leaves the Intent Head on recovery episodes that the policy never saw.",
    "gate": "The gate on recovery episodes that the policy never saw, aligned to the annotated boundary.",
    "probe": "Object position read linearly from frozen trunks, on robot episodes that neither policy saw.",
}


def html_page(analysis: Analysis, claims: Sequence[JudgedClaim]) -> str:
    template = _environment(html=True).get_template("report.html")
    return template.render(
        _context(analysis, claims),
        css=Markup(files("egorecovery.report").joinpath("templates/report.css").read_text()),  # noqa: S704 - our own
        curves=list(charts.training_charts(analysis.results)),
        scores=score_groups(analysis),
        filmed=videos(analysis.results),
    )


def markdown_page(analysis: Analysis, claims: Sequence[JudgedClaim]) -> str:
    text = _environment(html=False).get_template("report.md.j2").render(_context(analysis, claims))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _context(analysis: Analysis, claims: Sequence[JudgedClaim]) -> dict[str, Any]:
    results = analysis.results
    return {
        "analysis": analysis,
        "results": results,
        "claims": claims,
        "elsewhere": tested_elsewhere(analysis),
        "facts": facts(results),
        "gates": gates(analysis),
        "diagnoses": diagnoses(results.root),
        "commands": commands(results),
        "verdict_counts": {name: sum(claim.verdict == name for claim in claims) for name in MARKS},
        "largest_index": max((record.index for cell in results.cells for record in cell.rollouts), default=0),
        "modes": {task: modes for task in analysis.tasks if (modes := analysis.modes(task))},
        "repeated": analysis.repeated(BOTH),
        "recipes": [
            cell
            for cell in {(cell.condition, cell.task): cell for cell in results.cells}.values()
            if cell.task == results.tasks[0]
        ],
    }


@cache
def _environment(html: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("egorecovery.report"),
        autoescape=html,  # noqa: S701 - Markdown is made inert by its own filter
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named: list[Callable[..., Any]] = [percent, heat, place, notation, points, p_words, span_of, task_title, hours]
    named += [
        method_title,
        caption,
        shown,
        code_line,
        whole_number,
        hardware,
        recipe_name,
        distinct,
        budget_words,
        inert_markdown,
    ]
    environment.filters |= {function.__name__: function for function in named}
    environment.globals |= {
        "BOTH": BOTH,
        "REGIMES": REGIMES,
        "REGIME_TITLES": REGIME_TITLES,
        "REGIME_WORDS": REGIME_WORDS,
        "MARKS": MARKS,
        "SYMBOLS": SYMBOLS,
        "STYLE": charts.STYLE,
        "OTHER": charts.OTHER,
        "GATE_COLOUR": charts.GATE_COLOUR,
        "DIAGNOSIS_CAPTIONS": DIAGNOSIS_CAPTIONS,
        "CEILING": CEILING,
        "FEWEST": FEWEST,
        "SHARE": SHARE,
        "PAPER_ROLLOUTS": ROLLOUTS,
        "budget_chart": charts.budget_chart,
        "gate_chart": charts.gate_chart,
        "tiles": tiles,
        "variant_rows": variant_rows,
        "comparison_groups": comparison_groups,
        "data_hashes": data_hashes,
        "picture": picture,
        "verdict_of": verdict_of,
    }
    return environment


def percent(value: int | float) -> str:
    return f"{100 * value:.1f}".removesuffix(".0")


def whole_number(value: int | float) -> str:
    return f"{value:,.0f}"


def p_words(p_value: int | float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def heat(value: int | float) -> str:
    """Background and ink of a rate: one hue from pale to deep, so that grey prints keep the order."""
    stops = ((246, 249, 252), (212, 228, 241), (150, 190, 220), (62, 126, 182), (8, 60, 118))
    place = min(max(value, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(place), len(stops) - 2)
    colour = [round(a + (place - first) * (b - a)) for a, b in zip(stops[first], stops[first + 1], strict=True)]
    ink = "#ffffff" if _luminance(colour) < 0.18 else "#000000"
    return f"background:#{''.join(f'{part:02x}' for part in colour)};color:{ink}"


def _luminance(colour: Sequence[int]) -> float:
    """Relative, as contrast is measured by (WCAG): below 0.18 white ink reads better than black."""
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def span_of(values: Iterable[float | None]) -> Interval:
    """A round axis that holds zero and all of these."""
    known = [value for value in values if value is not None]
    low, high = min([*known, -0.1]), max([*known, 0.1])
    return Interval(math.floor(10 * low + 1e-9) / 10, math.ceil(10 * high - 1e-9) / 10)


def place(value: int | float, span: Interval) -> str:
    """Percent of the way along an axis."""
    return f"{100 * (value - span.low) / (span.high - span.low):.1f}"


def notation(condition: Condition) -> Markup:
    """The budget in the paper's letters: R and H for robot and human."""
    pairs = zip(SOURCE_LETTERS.values(), episode_counts(condition.budget), strict=True)
    parts = [f"{name[0]}<sub>{name[1:]}</sub>&thinsp;{count}" for name, count in pairs if count]
    return Markup(" + ".join(parts))  # noqa: S704 - letters of ours and numbers


def shown(words: str) -> str:
    """Somebody's text in Markdown; plain where nothing in it could become markup."""
    return inert_markdown(words) if set(words) & set("<>&`|![]\\") or inert(words) != words else words


def code_line(line: str) -> str:
    """Cannot end its block."""
    return inert(line).replace("```", "`` `").replace("\n", " ")


def tiles(analysis: Analysis) -> tuple[list[tuple[Condition, Any]], str]:
    """The numbers that decide, over the tasks that all of them have; and which tasks these are, if not all."""
    if analysis.suite.layout == "curves":
        return [], ""
    methods = ("robot_success", "robot_recovery", "direct_human_recovery_mix", "egorecovery")
    conditions = [*map(analysis.find, methods), analysis.find("robot_recovery", robot_failures="anywhere")]
    conditions += [analysis.find(method, humans="stand_ins") for method in methods[2:]]  # those with human recoveries
    there = [condition for condition in conditions if condition]
    tasks = [task for task in analysis.tasks if all(task in analysis.tasks_of(condition) for condition in there)]
    rates = [(condition, analysis.average(condition, "recovery", tasks)) for condition in there]
    where = "" if tasks == list(analysis.tasks) else f" on {', '.join(map(task_title, tasks))}"
    return [(condition, rate) for condition, rate in rates if rate], where


def comparison_groups(paired: Sequence[PairedComparison]) -> dict[tuple[str, str], dict[str, dict[Regime, Any]]]:
    """By pair of conditions, then by tasks."""
    groups: dict[tuple[str, str], dict[str, dict[Regime, Any]]] = {}
    for comparison in paired:
        tasks = (
            task_title(comparison.tasks[0]) if len(comparison.tasks) == 1 else f"{len(comparison.tasks)} tasks pooled"
        )
        group = groups.setdefault((comparison.second.label, comparison.first.label), {})
        group.setdefault(tasks, {})[comparison.regime] = comparison
    return groups


def variant_rows(analysis: Analysis) -> list[dict[str, Any]]:
    """Ablations and interventions: what each costs against the full method, here and in the paper."""
    full = analysis.find("egorecovery")
    whole = next(
        (row.paper for row in analysis.rows if row.condition.role == Condition(method="egorecovery").role), None
    )
    rows = []
    for row in analysis.rows:
        paired, paper = {}, {}
        for regime in BOTH:
            if full and row.run and row.condition != full:
                paired[regime] = analysis.compare((full,), (row.condition,), regime)
            theirs, base = (entry and entry.rate(regime) for entry in (row.paper, whole))
            if theirs and base:
                paper[regime] = theirs.value - base.value
        rows.append({"row": row, "paired": paired, "paper": paper})
    return rows


def score_groups(analysis: Analysis) -> tuple[list[str], dict[str, list[tuple[Condition, list[float | None]]]]]:
    """What trained policies score on held-out episodes: names, and by task the means over seeds."""
    cells = [
        cell for cell in analysis.results.cells if not cell.condition.intervened and cell.part("training").get("scores")
    ]
    names = sorted(
        {name for cell in cells for name in cell.part("training")["scores"]},
        key=lambda name: (name.startswith("probe/"), name),
    )
    groups = {}
    for task in analysis.tasks:
        of_task = [cell for cell in cells if cell.task == task]
        groups[task] = [
            (
                condition,
                [_mean_score([cell for cell in of_task if cell.condition == condition], name) for name in names],
            )
            for condition in dict.fromkeys(cell.condition for cell in of_task)
        ]
    return names, groups


def _mean_score(cells: Sequence[FinishedCell], name: str) -> float | None:
    scores = [score for cell in cells if (score := cell.part("training")["scores"].get(name)) is not None]
    return sum(scores) / len(scores) if scores else None


def videos(results: SuiteResults) -> list[tuple[FinishedCell, list[tuple[Path, str | None]]]]:
    """Of each cell, with the address of those that are small enough to lie in the page."""
    cells, room = [], EMBEDDED_VIDEOS
    for cell in results.cells:
        entries: list[tuple[Path, str | None]] = []
        for path in cell.videos:
            size = path.stat().st_size
            within = size <= min(EMBEDDED_VIDEO, room)
            room -= size if within else 0
            payload = read_bytes(path, EMBEDDED_VIDEO) if within else b""
            entries.append((path, charts.data_uri(payload, MIME[path.suffix.lower()]) if within else None))
        cells += [(cell, entries)] if entries else []
    return cells


def caption(path: Path, cell: FinishedCell) -> str:
    """Of a video of ours: recovery start 3, on rim: success. Of another: its name."""
    named = VIDEO_NAME.fullmatch(path.stem)
    if named is None:
        return path.stem.replace("_", " ")
    regime, index, mode, outcome = named.groups()
    start = f"{regime} start {int(index)}" + (f", {mode.replace('_', ' ')}" if mode else "")
    counted = [record.outcome for record in cell.rollouts if (record.regime, record.index) == (regime, int(index))]
    unlike = f", but on record {counted[0]}" if counted and counted[0] != outcome else ""
    return f"{start}: {outcome}{unlike}"


def picture(path: Path) -> tuple[str, int]:
    """A diagnosis' figure and its width: at 200 dots per inch, half its pixels make its letters as large as ours."""
    payload = read_bytes(path)
    return charts.data_uri(payload, "image/png"), int.from_bytes(payload[16:20], "big") // 2
