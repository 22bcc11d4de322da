"""Tables on the runs themselves: held-out scores, and every cell with what made it."""

from collections.abc import Iterable, Sequence
from html import escape

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.experiments.report.arms import task_title
from egorecovery.experiments.report.cells import Cell
from egorecovery.experiments.report.numbers import Numbers
from egorecovery.experiments.report.provenance import SHOWN, hardware, hours


def score_table(numbers: Numbers) -> str:
    """What the trained policies score on episodes that they never saw; means over seeds."""
    cells = [cell for cell in numbers.suite.cells if not cell.arm.intervened and cell.part("training").get("scores")]
    names = sorted({name for cell in cells for name in cell.part("training")["scores"]}, key=_score_order)
    if not names:
        return ""
    heads = "".join(f'<th class="n">{escape(_score_words(name))}</th>' for name in names)
    body = []
    for task in numbers.tasks:
        body.append(f'<tr class="part"><th colspan="{len(names) + 1}">{escape(task_title(task))}</th></tr>')
        for arm in dict.fromkeys(cell.arm for cell in cells if cell.task == task):
            mine = [cell.part("training")["scores"] for cell in cells if (cell.task, cell.arm) == (task, arm)]
            values = [[scores[name] for scores in mine if scores.get(name) is not None] for name in names]
            tds = "".join(f'<td class="n">{_mean(found)}</td>' for found in values)
            body.append(f'<tr><th scope="row">{escape(arm.full_label)}</th>{tds}</tr>')
    return (
        f'<div class="scroll"><table class="plain small"><thead><tr><th>Method</th>{heads}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _score_order(name: str) -> tuple[bool, str]:
    return (name.startswith("probe/"), name)


def _score_words(name: str) -> str:
    return name.replace("/", ", ").replace("_", " ")


def _mean(values: Sequence[float]) -> str:
    return escape(f"{sum(values) / len(values):.3f}") if values else "&ndash;"


def cell_table(cells: Iterable[Cell]) -> str:
    heads = (
        "Cell",
        "Initial",
        "Recovery",
        "Training",
        "Samples/s",
        "Evaluation",
        "Machine",
        "Revision",
        "Recipe",
        "Data",
        "Finished",
    )
    titles = "".join(f"<th>{head}</th>" for head in heads)
    body = []
    for cell in cells:
        training, evaluation = cell.part("training"), cell.part("evaluation")
        steps, seconds, speed = (training.get(name) for name in ("steps", "seconds", "samples_per_s"))
        spent = evaluation.get("seconds")
        body.append(
            f"<tr><td><code>{escape(cell.id)}</code></td>"
            + "".join(f"<td>{_count(cell, regime)}</td>" for regime in REGIMES)
            + f"<td>{escape(f'{steps} steps' if steps else '')}{f', {hours(seconds)}' if seconds else ''}</td>"
            + f"<td>{f'{speed:,.0f}' if speed else ''}</td><td>{hours(spent) if spent else ''}</td>"
            + f"<td>{escape(hardware(cell))}</td><td><code>{escape(str(cell.record.get('revision') or ''))}</code></td>"
            + "".join(f"<td><code>{_short(cell, name)}</code></td>" for name in ("recipe_hash", "data_hash"))
            + f"<td>{escape(cell.finished_at[:16].replace('T', ' '))}</td></tr>"
        )
    return (
        f'<div class="scroll"><table class="plain small"><thead><tr>{titles}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _count(cell: Cell, regime: Regime) -> str:
    found = [rollout.succeeded for rollout in cell.rollouts if rollout.regime == regime]
    asked = cell.part("protocol").get("rollouts")
    missing = f" (of {asked} asked)" if found and asked and len(found) < asked else ""
    return f"{sum(found)}/{len(found)}{missing}" if found else "&ndash;"


def _short(cell: Cell, name: str) -> str:
    value = str(cell.record.get(name) or "")
    return f'<span title="{escape(value)}">{escape(value[:SHOWN])}</span>'
