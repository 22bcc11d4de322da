"""What single sections of a page show: numbers of an analysis, arranged as templates want them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.rollout_videos import IN_CELL
from egorecovery.experiments.condition import Condition, task_title
from egorecovery.report.analysis import Analysis
from egorecovery.report.charts import data_uri
from egorecovery.report.paired import PairedComparison
from egorecovery.report.results import FinishedCell, SuiteResults
from egorecovery.storage.containment import read_bytes

BOTH: tuple[Regime, ...] = ("recovery", "initial")  # in this order everywhere
EMBEDDED_VIDEO = 3_000_000  # bytes; larger ones are linked
EMBEDDED_VIDEOS = 40_000_000  # all together
MIME = {".mp4": "video/mp4", ".gif": "image/gif"}


def tiles(analysis: Analysis) -> tuple[list[tuple[Condition, Any]], str]:
    """The numbers that decide, over the tasks that all of them have; and which tasks these are, if not all."""
    if analysis.suite.layout == "curves":
        return [], ""
    methods = ("robot_success", "robot_recovery", "direct_human_recovery_mix", "egorecovery")
    ours = ("robot_recovery_effector", "shared_decoder")
    conditions = [*map(analysis.find, methods), analysis.find("robot_recovery", robot_failures="anywhere")]
    conditions += [analysis.find(method, humans="stand_ins") for method in methods[2:]]  # those with human recoveries
    conditions += map(analysis.find, ours)
    there = [condition for condition in conditions if condition]
    tasks = [task for task in analysis.tasks if all(task in analysis.tasks_of(condition) for condition in there)]
    rates = [(condition, analysis.average(condition, "recovery", tasks)) for condition in there]
    where = "" if tasks == list(analysis.tasks) else f" on {', '.join(map(task_title, tasks))}"
    return [(condition, rate) for condition, rate in rates if rate], where


def comparison_groups(paired: Sequence[PairedComparison]) -> dict[tuple[str, str], dict[str, dict[Regime, Any]]]:
    """By pair of conditions, then by tasks."""
    groups: dict[tuple[str, str], dict[str, dict[Regime, Any]]] = {}
    for comparison in paired:
        first, *others = comparison.tasks
        tasks = f"{len(comparison.tasks)} tasks pooled" if others else task_title(first)
        group = groups.setdefault((comparison.second.label, comparison.first.label), {})
        group.setdefault(tasks, {})[comparison.regime] = comparison
    return groups


def variant_rows(analysis: Analysis) -> list[dict[str, Any]]:
    """Ablations and interventions: what each costs against the full method, here and in the paper."""
    full = analysis.find("egorecovery")
    role = Condition(method="egorecovery").role
    whole = next((row.paper for row in analysis.rows if row.condition.role == role), None)
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
    scored: dict[tuple[str, Condition], list[Mapping[str, float | None]]] = {}
    for cell in analysis.results.cells:
        scores = cell.part("training").get("scores")
        if scores and not cell.condition.intervened:
            scored.setdefault((cell.task, cell.condition), []).append(scores)
    names = {name for trainings in scored.values() for scores in trainings for name in scores}
    ordered = sorted(names, key=lambda name: (name.startswith("probe/"), name))
    return ordered, {
        task: [
            (condition, [_mean_score(trainings, name) for name in ordered])
            for (scored_on, condition), trainings in scored.items()
            if scored_on == task
        ]
        for task in analysis.tasks
    }


def _mean_score(trainings: Sequence[Mapping[str, float | None]], name: str) -> float | None:
    scores = [score for training in trainings if (score := training.get(name)) is not None]
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
            entries.append((path, data_uri(payload, MIME[path.suffix.lower()]) if within else None))
        cells += [(cell, entries)] if entries else []
    return cells


def caption(path: Path, cell: FinishedCell) -> str:
    """Of a video of ours: recovery start 3, on rim: success. Of another: its name."""
    named = IN_CELL.fullmatch(path.stem)
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
    return data_uri(payload, "image/png"), int.from_bytes(payload[16:20], "big") // 2
