"""`egorecovery audit`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tyro.conf import Positional

from egorecovery.cli.words import command

if TYPE_CHECKING:
    from rich.table import Table

    from egorecovery.audit import Audit as Audited

SHORT = {
    "setup": "setup",
    "synchronisation": "sync",
    "staging": "staging",
    "recording": "record",
    "judging and reset": "reset",
    "discarded attempts": "discard",
}


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Accepted demonstrations per operator hour, and what the hour went into."""

    EXAMPLE: ClassVar = "audit runs/raw"

    logs: Positional[tuple[Path, ...]]
    """Stores, folders of raw recordings, or their collection.jsonl."""
    out: Path | None = None
    """Folder for audit.json and a picture of the hour."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self) -> int:
        from egorecovery.audit import audit, read_ledger
        from egorecovery.audit.figure import require_matplotlib
        from egorecovery.cli.console import console, print_json

        if self.out is not None:
            require_matplotlib()
        ledger = read_ledger(self.logs)
        audits = audit(ledger)
        wrote = self._write(audits, ledger.untimed) if self.out is not None else []
        if self.json:
            print_json(plain(audits, ledger.untimed))
            return 0
        if not audits:
            console.print("no attempt with known times is logged there yet")
        for audited in audits:
            show(audited)
        if ledger.untimed:
            console.print(
                f"not counted: {ledger.untimed} imported attempts whose data do not say when they were made "
                f"(import --recorded-at says it)",
                soft_wrap=True,
            )
        for path in wrote:
            console.print(f"wrote: {path}", soft_wrap=True)
        again = command("audit", *self.logs, "--out", "audit")
        console.print(f"next: {again if self.out is None else _look_closer(self.logs[0])}", soft_wrap=True)
        return 0

    def _write(self, audits: "list[Audited]", untimed: int) -> list[Path]:
        import json

        from egorecovery.audit.figure import draw_hour
        from egorecovery.storage.atomic_io import write_file

        assert self.out is not None
        self.out.mkdir(parents=True, exist_ok=True)
        wrote = [self.out / "audit.json"]
        write_file(wrote[0], json.dumps(plain(audits, untimed), indent=2).encode())
        for audited in audits:
            wrote.append(self.out / ("hour_simulated.png" if audited.simulated else "hour.png"))
            draw_hour(audited, wrote[-1])
        return wrote


def _look_closer(path: Path) -> str:
    root = path if path.is_dir() else path.parent
    if (root / "store.json").exists():
        return command("inspect", root)
    if any(root.glob("*/recording.json")):
        return command("import", root, "--out", root.with_name(f"{root.name}_store"))
    return command("audit", path, "--json")


def show(audited: "Audited") -> None:
    from egorecovery.audit.accounts import mean_of_ratios, ratio_of_averages, shown
    from egorecovery.cli.console import console

    if audited.simulated:
        console.print("SIMULATED operator times: made up by a simulation or a replay, not measured", style="bold red")
    console.print("accepted demonstrations per operator hour, the paper's in brackets", style="bold")
    console.print(rate_table(audited))
    console.print()
    rates = audited.rates()
    of_averages, of_ratios = ratio_of_averages(rates), mean_of_ratios(rates)
    if of_averages is None:
        console.print("no task has both robot and human recoveries: there is no ratio yet")
    elif len(rates) == 1:
        console.print(f"human per robot recovery: {shown(of_averages)}x")
    else:
        console.print(
            f"human per robot recovery: {shown(of_averages)}x as ratio of averages (the paper's way), "
            f"{shown(of_ratios)}x as mean of the tasks' ratios"
        )
    console.print()
    console.print("where it went: kept and discarded clips, hours, minutes of each hour", style="bold")
    console.print(hour_table(audited))
    console.print()
    budget = audited.budget()
    whose = "measured above" if budget.measured else "the paper's, for want of a measured one"
    console.print(
        f"robot-equivalent budget: {budget.robot} robot + {budget.human} human recoveries / {shown(budget.ratio)} "
        f"= {shown(budget.equivalent)} robot recoveries (ratio {whose})"
    )
    if audited.simulated:
        console.print("All of the above is SIMULATED.", style="bold red")


def _table(first_width: int) -> "Table":
    """Tight enough for 80 columns."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=first_width)
    return table


def rate_table(audited: "Audited") -> "Table":
    from egorecovery.audit.accounts import average, paper_rates, ratio, ratio_of_averages, shown
    from egorecovery.episodes import Source

    rates, paper = audited.rates(), paper_rates()
    table = _table(first_width=13)
    for source in Source:
        table.add_column(source.replace("_", "\n"), justify="right", no_wrap=True)
    table.add_column("human per\nrobot rec.", justify="right", no_wrap=True)

    def cell(value: float | None, of_paper: float | None, places: int = 1, unit: str = "") -> str:
        mine = shown(value, places) + (unit if value is not None else "")
        return f"{mine} ({shown(of_paper, places)}{unit})" if of_paper is not None else mine

    for task, by_source in rates.items():
        theirs = paper.get(task, {})
        cells = [cell(by_source.get(source), theirs.get(source), places=0) for source in Source]
        table.add_row(task, *cells, cell(ratio(by_source), ratio(theirs), unit="x"))
    if len(rates) > 1:  # of one task there is nothing to average, and the paper's is over four
        cells = [cell(average(rates, source), average(paper, source)) for source in Source]
        table.add_row("average", *cells, cell(ratio_of_averages(rates), ratio_of_averages(paper), unit="x"))
    return table


def hour_table(audited: "Audited") -> "Table":
    from egorecovery.audit.accounts import HOUR, Use, shown

    table = _table(first_width=23)
    for name in ("kept", "disc.", "hours", *(SHORT[use] for use in Use)):
        table.add_column(name, justify="right", no_wrap=True)
    for account in audited.accounts:
        worked = account.worked
        minutes = [shown(60 * account.spent[use] / worked) if worked else "-" for use in Use]
        name = (
            f"{account.task} {account.source.replace('_', ' ').replace('success', 'suc.').replace('recovery', 'rec.')}"
        )
        table.add_row(name, str(account.accepted), str(account.discarded), shown(worked / HOUR, 2), *minutes)
    return table


def plain(audits: "list[Audited]", untimed: int) -> dict[str, object]:
    from egorecovery.audit.accounts import paper_rates

    counted = [_plain(audited) for audited in audits]
    return {"audits": counted, "attempts_without_times": untimed, "paper": _summary(paper_rates())}


def _plain(audited: "Audited") -> dict[str, object]:
    budget = audited.budget()
    return {
        "simulated": audited.simulated,
        **_summary(audited.rates()),
        "robot_equivalent_budget": {
            "robot_recoveries": budget.robot,
            "human_recoveries": budget.human,
            "ratio": budget.ratio,
            "ratio_is_measured": budget.measured,
            "budget": budget.equivalent,
        },
        "accounts": [
            {
                "task": account.task,
                "source": str(account.source),
                "accepted": account.accepted,
                "discarded": account.discarded,
                "worked_s": account.worked.total_seconds(),
                "paused_s": account.paused.total_seconds(),
                "spent_s": {use.name.lower(): spent.total_seconds() for use, spent in account.spent.items()},
            }
            for account in audited.accounts
        ],
    }


def _summary(rates) -> dict[str, object]:
    from egorecovery.audit.accounts import average, mean_of_ratios, ratio, ratio_of_averages
    from egorecovery.episodes import Source

    return {
        "accepted_per_hour": {task: {str(s): rate for s, rate in by.items()} for task, by in rates.items()},
        "average_per_hour": {str(source): average(rates, source) for source in Source},
        "human_per_robot_recovery": {task: ratio(by) for task, by in rates.items()},
        "ratio_of_averages": ratio_of_averages(rates),
        "mean_of_ratios": mean_of_ratios(rates),
    }
