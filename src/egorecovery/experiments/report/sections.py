"""The sections of the page, each from the numbers alone."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from egorecovery.evaluation.statistics import Interval
from egorecovery.experiments.report import gate, tables
from egorecovery.experiments.report.arms import task_title
from egorecovery.experiments.report.cells import Suite
from egorecovery.experiments.report.commands import commands
from egorecovery.experiments.report.comparisons import duel_table, seed_table, variant_table
from egorecovery.experiments.report.diagnostics import diagnoses, section
from egorecovery.experiments.report.figures import (
    VERDICT,
    curve_chart,
    curves,
    heat_scale,
    interval_glyph,
    legend,
    span_of,
    training_curves,
)
from egorecovery.experiments.report.findings import CEILING, Finding, elsewhere
from egorecovery.experiments.report.media import films
from egorecovery.experiments.report.numbers import BUDGET_SUITES, VARIANT_SUITES, Numbers
from egorecovery.experiments.report.paper import ROLLOUTS
from egorecovery.experiments.report.provenance import data_hashes, distinct, recipe_name
from egorecovery.experiments.report.run_tables import cell_table, score_table

MANY = 12  # methods; longer tables of details are folded
TITLES = {
    "main": "Main comparison",
    "scaling": "Human data scaling",
    "cost_matched": "Cost-matched substitution",
    "low_robot_grounding": "Low robot grounding",
    "ablation": "Mechanism ablation",
    "gate_intervention": "Gate interventions",
    "intent_target": "Intent targets",
    "coverage": "Where robot recoveries begin",
    "stand_ins": "Robots in people's place",
    "scarce_robot": "Few robot recoveries",
}
MARKS = {"holds": "✓", "contradicted": "✕", "not seen": "≈", "undecided": "?", "not run": "○"}
Section = tuple[str, str, str]  # anchor, title, HTML


def sections(numbers: Numbers, found: Sequence[Finding]) -> list[Section]:
    several = len(numbers.suite.arms) > 1
    return [
        ("findings", "What holds here", _findings(numbers, found)),
        ("results", "Results", _results(numbers) if numbers.suite.cells else ""),
        ("comparisons", "Paired comparisons", _duels(numbers) if several else ""),
        ("modes", "By kind of failure", _modes(numbers)),
        ("gate", "The gate in rollouts", gate.section(gate.gates(numbers))),
        ("seeds", "Several trainings", _seeds(numbers)),
        ("training", "Training", _training(numbers)),
        ("diagnostics", "Diagnostics", section(diagnoses(numbers.suite.root))),
        ("films", "Films", films(numbers.suite)),
        ("how", "How it was run", _how(numbers.suite)),
    ]


def pill(verdict: str, words: str) -> str:
    return f'<span class="pill {verdict.replace(" ", "-")}">{MARKS[verdict]} {escape(words)}</span>'


def note(html: str) -> str:
    return f'<p class="note">{html}</p>'


def _findings(numbers: Numbers, found: Sequence[Finding]) -> str:
    edges = [edge for one in found if one.interval for edge in (one.interval.low, one.interval.high)]
    span = span_of([*edges, *(one.paper_difference for one in found if one.interval)])
    items = [_finding(one, span) for one in found if one.verdict != "not run"]
    absent = [one for one in found if one.verdict == "not run"]
    if absent:
        says = "".join(f"<li>{escape(one.claim.says)} <small>{escape(one.words)}</small></li>" for one in absent)
        items.append(
            f'<div class="finding"><div>{pill("not run", "not run")}</div><ul class="absent-here">{says}</ul></div>'
        )
    others = [f"{escape(claim.says)} <small>({TITLES[claim.suite]})</small>" for claim in elsewhere(numbers)]
    told = note(
        "A finding <b>holds</b> only if the 95% interval of the paired difference, and the paired test, exclude zero "
        "in the claimed direction; it is <b>contradicted</b> if they do in the other. If neither, it is <b>not "
        "seen</b> where the difference is farther below the paper's than the errors of both allow, else undecided. "
        f"Claims about one rate are held against a ceiling of {CEILING:.0%}. Drawn: our difference in points with its "
        "interval (dot and bar) and the paper's (open diamond), positive as claimed. Each finding is judged alone, "
        "without correction for their number. Interval and test are about starts. Another training would have given "
        "other rates on the same starts; where any was repeated, so that their spread is known, the interval with "
        "other trainings must exclude zero as well."
    )
    if any(one.claim.amounts > 1 for one in found):
        told += note(
            "What is said of <b>all amounts</b> or mixtures is judged by the average of those that were run. They "
            "weigh alike. For other trainings, those along a curve then count as repeats of each other: a trend is "
            "taken for noise, which makes the interval rather too wide. Trainings of one seed share the episodes that "
            "their amounts have in common; what another choice of those would change, it does not tell."
        )
    return (
        f"{told}{''.join(items)}<details><summary>{len(others)} findings that other suites test</summary>"
        f"<ul>{''.join(f'<li>{other}</li>' for other in others)}</ul></details>"
    )


def _finding(one: Finding, span: Interval) -> str:
    glyph = ""
    if one.interval and one.difference is not None:
        glyph = interval_glyph(one.difference, one.interval, one.paper_difference, span, VERDICT[one.verdict])
    return (
        f'<div class="finding"><div>{pill(one.verdict, one.verdict)}</div><div><h3>{escape(one.claim.says)}</h3>'
        f"<p>{escape(one.beside_verdict)}</p></div><div>{glyph}</div></div>"
    )


def _results(numbers: Numbers) -> str:
    told = note(
        "Small print: successes of rollouts, and the Wilson 95% interval; hover for both. The paper ran "
        f"{ROLLOUTS} rollouts per task and regime. Averages are pooled over the tasks, and over the seeds that every "
        "task has. Data: R<sub>suc</sub>, R<sub>rec</sub>, H<sub>suc</sub>, H<sub>rec</sub> are episodes of robot and "
        "human, success and recovery."
    )
    told += f'<p class="scale">success rate, % {heat_scale()}</p>'
    if numbers.like in BUDGET_SUITES:
        return _curves(numbers) + told + tables.budget_table(numbers)
    if numbers.like in VARIANT_SUITES:
        drawn = note(
            "Drawn: the paired difference to the full method on the same starts, in points; open diamond: the paper's."
        )
        per_task = tables.own_table(numbers, numbers.rate)
        return f"{told}{variant_table(numbers)}{drawn}<h3>Per task, here</h3>{per_task}"
    largest = max((rollout.index for cell in numbers.suite.cells for rollout in cell.rollouts), default=0)
    as_paper = ""
    if largest >= ROLLOUTS or len(numbers.suite.seeds) > 1:
        as_paper = (
            f"<details><summary>As the paper counts: the first {ROLLOUTS} starts, one training</summary>"
            f"{tables.own_table(numbers, numbers.as_the_paper_counts)}</details>"
        )
    return told + "".join(tables.heat_table(numbers, regime) for regime in tables.BOTH) + as_paper


def _curves(numbers: Numbers) -> str:
    budgets = [row.arm.budget for row in numbers.rows]
    names = [task_title(task) for task in numbers.tasks]
    pooled = f"{len(names)} tasks pooled" if len(names) > 1 else "".join(names)
    charts = "".join(
        curve_chart(curves(numbers, regime), f"{tables.TITLE[regime]}, % ({pooled})", budgets) for regime in tables.BOTH
    )
    told = note(
        "Bands and bars: Wilson 95%. The paper's points pool its four tasks. A method run at one amount of data is a "
        "dotted level."
    )
    methods = list(dict.fromkeys(row.arm.method for row in numbers.rows))
    return f'{told}{legend(methods, paper=True)}<div class="charts">{charts}</div>'


def _duels(numbers: Numbers) -> str:
    if not numbers.decisive:
        return ""
    told = note(
        "Both methods from the same starts. Points [95%]: bootstrap over starts. p: exact McNemar with one training "
        "each, sign flips of starts with several. Below: where the difference would lie on these starts if both "
        f"methods were trained again, 95%{_spreads(numbers)}. Hover for the rollouts that only one of the two solved."
    )
    return told + duel_table(numbers.decisive)


def _spreads(numbers: Numbers) -> str:
    known = [
        f"{tables.TITLE[regime]} {100 * spread.deviation:.1f} points with {spread.degrees} degrees of freedom"
        for regime in tables.BOTH
        if (spread := numbers.training_spread[regime])
    ]
    told = f"; standard deviation of one training's rate, from all that were repeated: {' and '.join(known)}"
    return told if known else " (not known: nothing was trained twice)"


def _modes(numbers: Numbers) -> str:
    if not any(numbers.modes(task) for task in numbers.tasks):
        return ""
    table = tables.mode_table(numbers)
    folded = table if len(numbers.suite.arms) <= MANY else f"<details><summary>Table</summary>{table}</details>"
    return note("Recovery SR by what had gone wrong at the start; all seeds pooled.") + folded


def _seeds(numbers: Numbers) -> str:
    table = seed_table(numbers)
    told = note(
        "The same recipe from other random seeds, on the same starts. The interval resamples starts, since rollouts of "
        "one start are not independent; the spread is the standard deviation from training to training."
    )
    return told + table if table else ""


def _training(numbers: Numbers) -> str:
    charts, methods = training_curves(numbers.suite)
    scores = score_table(numbers)
    drawn = f"{legend(methods, paper=False)}{charts}" if charts else ""
    return drawn + (f"<h3>Scores on held-out episodes</h3>{scores}" if scores else "")


def _how(suite: Suite) -> str:
    if not suite.cells:
        return ""
    hashes = "".join(
        f"<tr><th>{escape(task_title(task))}</th><td><code>{escape(', '.join(found))}</code></td></tr>"
        for task, found in data_hashes(suite).items()
    )
    recipes = "".join(
        f"<details><summary>Recipe {escape(recipe_name(cell))}: {escape(cell.arm.full_label)}, "
        f"{escape(task_title(cell.task))}</summary><pre>{_json(cell.part('recipe'))}</pre></details>"
        for cell in {(cell.arm, cell.task): cell for cell in suite.cells}.values()
        if cell.task == suite.tasks[0]
    )
    protocols = "".join(
        f"<pre>{_json(protocol)}</pre>" for protocol in distinct(cell.part("protocol") for cell in suite.cells)
    )
    return (
        f"<h3>To repeat it</h3><pre>{escape(chr(10).join(commands(suite)))}</pre>"
        f"<h3>Cells</h3>{cell_table(suite.cells)}"
        f'<details><summary>Hashes of the training data</summary><table class="plain small">{hashes}</table></details>'
        f"<details><summary>Protocols</summary>{protocols}</details>{recipes}"
    )


def _json(record: Any) -> str:
    return escape(json.dumps(record, indent=1))
