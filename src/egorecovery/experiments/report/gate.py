"""What the gate did in the rollouts: does it open on failures, and close when they are corrected?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import Any

from egorecovery.episodes import RATE_HZ
from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.experiments.report.arms import Arm, task_title
from egorecovery.experiments.report.figures import OTHER, STYLE
from egorecovery.experiments.report.numbers import Numbers
from egorecovery.experiments.report.svg import GRID, INK, Axis, Canvas
from egorecovery.storage.foreign_text import inert_markdown

Ending = tuple[Regime, bool]  # where rollouts started, and whether they succeeded
COLOUR: Mapping[Regime, str] = {"recovery": STYLE["egorecovery"][0], "initial": OTHER[0]}
START: Mapping[Regime, str] = {"recovery": "failures", "initial": "nominal starts"}
FEWEST = 5  # rollouts under way; a mean of fewer is not drawn
SHARE = 0.2  # nor of a smaller part of them


@dataclass(frozen=True, kw_only=True)
class GateInRollouts:
    """Of EgoRecovery's own rollouts on one task, all seeds together."""

    task: str
    first: Mapping[Regime, Sequence[float]]  # the gate of each rollout's first decision
    curves: Mapping[Ending, Sequence[float]]  # mean gate, decision by decision
    counts: Mapping[Ending, int]
    decision_s: float

    @property
    def auc(self) -> float:
        """The chance that a failure's first gate is above that of a nominal start."""
        from scipy.stats import mannwhitneyu

        failures, nominal = self.first["recovery"], self.first["initial"]
        return float(mannwhitneyu(failures, nominal).statistic) / (len(failures) * len(nominal))

    def opened(self, regime: Regime) -> float:
        """The share of rollouts that begin with a gate above one half."""
        return sum(gate > 0.5 for gate in self.first[regime]) / len(self.first[regime])

    def record(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "first_decision_auc": self.auc,
            "first_decision_open": {regime: self.opened(regime) for regime in REGIMES},
            "decision_s": self.decision_s,
            "mean_gate": [
                {"regime": regime, "succeeded": succeeded, "rollouts": self.counts[regime, succeeded], "gate": [*means]}
                for (regime, succeeded), means in self.curves.items()
            ],
        }


def gates(numbers: Numbers) -> list[GateInRollouts]:
    """Of tasks with rollouts from both kinds of starts that say what the gate did."""
    arm = numbers.find("egorecovery")
    return [found for task in numbers.tasks if arm and (found := _gate(numbers, arm, task))]


def _gate(numbers: Numbers, arm: Arm, task: str) -> GateInRollouts | None:
    rollouts = {
        regime: [one for one in numbers.suite.rollouts(arm, regime, task) if one.gate_trace] for regime in REGIMES
    }
    if not all(rollouts.values()):
        return None
    parts: dict[Ending, list[RolloutRecord]] = {
        (regime, succeeded): part
        for regime in reversed(REGIMES)
        for succeeded in (True, False)
        if len(part := [one for one in rollouts[regime] if one.succeeded == succeeded]) >= FEWEST
    }
    return GateInRollouts(
        task=task,
        first={regime: [one.gate_trace[0] for one in rollouts[regime]] for regime in REGIMES},
        curves={ending: _means(part) for ending, part in parts.items()},
        counts={ending: len(part) for ending, part in parts.items()},
        decision_s=rollouts["initial"][0].protocol["replan_steps"] / RATE_HZ,
    )


def _means(rollouts: Sequence[RolloutRecord]) -> list[float]:
    means = []
    for column in zip_longest(*(one.gate_trace for one in rollouts)):
        going = [gate for gate in column if gate is not None]
        if len(going) < max(FEWEST, SHARE * len(rollouts)):
            break
        means.append(sum(going) / len(going))
    return means


def section(found: Sequence[GateInRollouts]) -> str:
    if not found:
        return ""
    told = (
        "The gate of EgoRecovery's rollouts, as it was used. Drawn: its mean from decision to decision, while at least "
        f"{SHARE:.0%} of the rollouts, and {FEWEST}, are under way. Below it the first decision alone, when nothing "
        "has moved yet."
    )
    charts = "".join(_chart(one) for one in found)
    rows = "".join(
        f'<tr><th scope="row">{escape(task_title(one.task))}</th><td class="n">{one.auc:.3f}</td>'
        f'<td class="n">{one.opened("recovery"):.0%}</td><td class="n">{one.opened("initial"):.0%}</td></tr>'
        for one in found
    )
    head = (
        '<th>First decision</th><th class="n">AUC, failures against nominal starts</th>'
        '<th class="n">open on failures</th><th class="n">open on nominal starts</th>'
    )
    return (
        f'<p class="note">{told}</p>{_legend()}<div class="multiples">{charts}</div>'
        f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    )


def markdown(found: Sequence[GateInRollouts]) -> str:
    if not found:
        return ""
    rows = [
        f"| {inert_markdown(task_title(one.task))} | {one.auc:.3f} | "
        f"{one.opened('recovery'):.0%} | {one.opened('initial'):.0%} |"
        for one in found
    ]
    head = "| first decision | AUC, failures against nominal starts | open on failures | open on nominal starts |"
    return "\n".join(["## The gate in rollouts", "", head, "| --- | --- | --- | --- |", *rows])


def _legend() -> str:
    items = []
    for regime in reversed(REGIMES):
        for succeeded in (True, False):
            canvas = Canvas(width=34, height=14, label="")
            canvas.path([(1, 7), (33, 7)], COLOUR[regime], 2.4, "" if succeeded else "5 4")
            items.append(f"<span>{canvas.svg()}{START[regime]}, {'success' if succeeded else 'no success'}</span>")
    return f'<p class="legend">{"".join(items)}</p>'


def _chart(one: GateInRollouts) -> str:
    title = task_title(one.task)
    canvas = Canvas(width=286, height=190, label=f"{title}: mean gate over time")
    last_s = max((len(means) for means in one.curves.values()), default=1) * one.decision_s
    across = Axis(low=0, high=last_s, start_px=34, end_px=276)
    up = Axis(low=0, high=1, start_px=160, end_px=28)
    canvas.text(4, 15, title, size=11, colour=INK, bold=True)
    for level in (0, 0.5, 1):
        canvas.line(34, up(level), 276, up(level), GRID)
        canvas.text(29, up(level) + 3.5, f"{level:g}", anchor="end", size=9.5)
    for second in range(0, int(last_s) + 1, 5):
        canvas.text(across(second), 174, str(second), anchor="middle", size=9.5)
    canvas.text(276, 187, "seconds", anchor="end", size=9.5)
    for (regime, succeeded), means in one.curves.items():
        points = [(across(number * one.decision_s), up(gate)) for number, gate in enumerate(means)]
        canvas.path(points, COLOUR[regime], 1.8, "" if succeeded else "5 4")
    return canvas.svg()
