"""The rates of an experiment on the terminal: percent of rollouts that succeed, with the paper's own below them."""

from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.experiments.condition import Condition, episode_counts, task_title

if TYPE_CHECKING:
    from egorecovery.report.analysis import Analysis

TITLES: dict[Regime, str] = {"initial": "from initial starts", "recovery": "from failures"}


def rate_tables(analysis: "Analysis") -> list[Table]:
    """One for each kind of start, within 80 columns. Counts and the intervals of single tasks are in the report."""
    return [_table(analysis, regime) for regime in REGIMES]


def _table(analysis: "Analysis", regime: Regime) -> Table:
    table = Table(title=f"{analysis.results.name}: success {TITLES[regime]}, percent", title_justify="left", box=SIMPLE)
    table.add_column("method and demonstrations" if analysis.suite.by_budget else "method", ratio=1)
    for task in analysis.columns:
        table.add_column(task_title(task).replace(" ", "\n") if task else "average", justify="right", no_wrap=True)
    table.add_column("95%", justify="right", no_wrap=True)
    for row in analysis.rows:
        rates = [analysis.rate(row.condition, regime, task) if row.run else None for task in analysis.columns]
        papers = [analysis.paper_rate(row, regime, task) for task in analysis.columns]
        whole, part = rates[-1], analysis.part(row.condition)
        interval = f"{100 * whole.wilson.low:.0f} to {100 * whole.wilson.high:.0f}" if whole else ""
        table.add_row(
            _name(row.condition, analysis),
            *(f"{100 * rate.value:.1f}" if rate else "-" for rate in rates),
            interval + f"\n{part}" * bool(whole and part),
        )
        if any(papers):
            table.add_row(
                "  in the paper", *(f"{100 * paper.value:.1f}" if paper else "" for paper in papers), "", style="dim"
            )
    return table


def _name(condition: Condition, analysis: "Analysis") -> str:
    """With the amounts of data where rows differ by them: robot successes and recoveries, then people's clips."""
    if not analysis.suite.by_budget:
        return condition.label
    successes, recoveries, *human = episode_counts(condition.budget)
    people = f", {sum(human)} human" if any(human) else ""
    return f"{condition.label}: {successes} + {recoveries} robot{people}"
