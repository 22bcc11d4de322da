"""The page, one HTML file that needs nothing else, and its Markdown: templates that read an analysis."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from egorecovery.evaluation.protocol import REGIMES
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
from egorecovery.report.provenance import data_hashes, distinct, facts, hardware, hours, recipe_name
from egorecovery.report.sections import (
    BOTH,
    caption,
    comparison_groups,
    picture,
    score_groups,
    tiles,
    variant_rows,
    videos,
)
from egorecovery.storage.foreign_text import inert, inert_markdown

REGIME_TITLES = {"initial": "Initial SR", "recovery": "Recovery SR"}
REGIME_WORDS = {"initial": "from nominal starts", "recovery": "from failures"}
MARKS = {"holds": "✓", "contradicted": "✕", "not seen": "≈", "undecided": "?", "not run": "○"}
SYMBOLS = {"s": "■", "^": "▲", "v": "▼", "D": "◆", "o": "●", "<": "◀"}  # of the charts' markers
HEAT = ((246, 249, 252), (212, 228, 241), (150, 190, 220), (62, 126, 182), (8, 60, 118))  # of rates from 0 to 1
WHITE_INK = 0.76705  # from this rate on white reads better than black: its luminance (WCAG) is below 0.18
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
    for function in (
        *(percent, heat, place, notation, p_words, span_of, shown, code_line, whole_number, inert_markdown),
        *(task_title, method_title, budget_words, hardware, hours, recipe_name, distinct, data_hashes, points),
        *(tiles, variant_rows, comparison_groups, caption, picture, charts.budget_chart, charts.gate_chart),
    ):
        environment.filters[function.__name__] = function
    environment.globals |= {
        "BOTH": BOTH,
        "REGIMES": REGIMES,
        "REGIME_TITLES": REGIME_TITLES,
        "REGIME_WORDS": REGIME_WORDS,
        "MARKS": MARKS,
        "SYMBOLS": SYMBOLS,
        "DIAGNOSIS_CAPTIONS": DIAGNOSIS_CAPTIONS,
        "CEILING": CEILING,
        "FEWEST": FEWEST,
        "SHARE": SHARE,
        "PAPER_ROLLOUTS": ROLLOUTS,
        "charts": charts,
        "verdict_of": verdict_of,
    }
    return environment


def percent(value: int | float) -> str:
    return f"{100 * value:.1f}".removesuffix(".0")


def whole_number(value: int | float) -> str:
    return f"{value:,.0f}"


def p_words(p_value: int | float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def heat(rate: int | float) -> str:
    """Background and ink of a rate: one hue from pale to deep, so that grey prints keep the order."""
    stops = np.linspace(0, 1, len(HEAT))
    colour = [round(float(np.interp(rate, stops, channel))) for channel in zip(*HEAT, strict=True)]
    ink = "#ffffff" if rate >= WHITE_INK else "#000000"
    return f"background:#{''.join(f'{part:02x}' for part in colour)};color:{ink}"


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
