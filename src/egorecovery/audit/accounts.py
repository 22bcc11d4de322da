"""From logged times to throughput: rates per task and source, ratios, and the robot-equivalent budget."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Any

from egorecovery.audit.ledger import Ledger, is_simulated
from egorecovery.episodes import Source
from egorecovery.episodes.attempt_log import Activity, ActivityKind, Attempt

HOUR = timedelta(hours=1)


class Use(StrEnum):
    """Uses of an operator's time. Pauses are not counted and not listed."""

    SETUP = "setup"
    SYNCHRONISATION = "synchronisation"
    STAGING = "staging"
    RECORDING = "recording"
    RESET = "judging and reset"
    DISCARDED = "discarded attempts"  # their staging, recording and reset


@dataclass(kw_only=True)
class Account:
    """Time and attempts of one task and source."""

    task: str
    source: Source
    accepted: int = 0
    discarded: int = 0
    spent: dict[Use, timedelta] = field(default_factory=lambda: dict.fromkeys(Use, timedelta()))
    paused: timedelta = timedelta()

    @property
    def worked(self) -> timedelta:
        return sum(self.spent.values(), timedelta())

    @property
    def per_hour(self) -> float | None:
        """Accepted demonstrations per operator hour; None if no time is logged."""
        return self.accepted / (self.worked / HOUR) if self.worked else None

    def add(self, attempt: Attempt) -> None:
        parts = {
            Use.STAGING: timedelta(seconds=attempt.staging_s),
            Use.RECORDING: duration(attempt),
            Use.RESET: timedelta(seconds=attempt.reset_s),
        }
        for use, length in parts.items():
            self.spent[use if attempt.accepted else Use.DISCARDED] += length
        self.accepted += attempt.accepted
        self.discarded += not attempt.accepted


def duration(spent: Attempt | Activity) -> timedelta:
    """Time from start to stop, exact to the microsecond. The ledger has checked the times."""
    return datetime.fromisoformat(spent.stopped_at) - datetime.fromisoformat(spent.started_at)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The accounts of measured times or of simulated times, never of both."""

    simulated: bool
    accounts: tuple[Account, ...]

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(account.task for account in self.accounts))

    def rates(self) -> dict[str, dict[Source, float]]:
        """Rates per task and source, where time is logged."""
        rates: dict[str, dict[Source, float]] = {task: {} for task in self.tasks}
        for account in self.accounts:
            if account.per_hour is not None:
                rates[account.task][account.source] = account.per_hour
        return rates

    def budget(self) -> "Budget":
        """The accepted recoveries in units of robot demonstrations, by this audit's own ratio if it has one."""
        accepted = {source: sum(a.accepted for a in self.accounts if a.source is source) for source in Source}
        ratio = ratio_of_averages(self.rates())
        return Budget(
            robot=accepted[Source.ROBOT_RECOVERY],
            human=accepted[Source.HUMAN_RECOVERY],
            ratio=ratio or float(paper()["human_recoveries_per_robot_recovery"]),
            measured=bool(ratio),
        )


@dataclass(frozen=True, kw_only=True)
class Budget:
    """B = R_rec + H_rec / ratio."""

    robot: int
    human: int
    ratio: float
    measured: bool  # False: the paper's ten human recoveries for a robot's

    @property
    def equivalent(self) -> float:
        return self.robot + self.human / self.ratio


def audit(ledger: Ledger) -> list[Audit]:
    """Measured times first, then simulated ones. A kind without entries is left out."""
    accounts_by_kind: dict[bool, dict[tuple[str, Source], Account]] = {False: {}, True: {}}

    def account(operator: str, task: str, source: str) -> Account:
        accounts = accounts_by_kind[is_simulated(operator)]
        key = task, Source(source)
        return accounts.setdefault(key, Account(task=key[0], source=key[1]))

    for attempt in ledger.attempts:
        account(attempt.operator, attempt.task, attempt.source).add(attempt)
    for activity in ledger.activities:
        worked = account(activity.operator, activity.task, activity.source)
        if activity.kind is ActivityKind.PAUSE:
            worked.paused += duration(activity)
        else:
            worked.spent[Use.SETUP if activity.kind is ActivityKind.SETUP else Use.SYNCHRONISATION] += duration(
                activity
            )
    return [
        Audit(simulated=simulated, accounts=tuple(_in_order(accounts.values())))
        for simulated, accounts in accounts_by_kind.items()
        if accounts
    ]


def _in_order(accounts: Iterable[Account]) -> list[Account]:
    """Accounts in the order of the paper's table; other tasks follow its four."""
    known = list(paper_rates())
    return sorted(
        accounts,
        key=lambda a: (known.index(a.task) if a.task in known else len(known), a.task, list(Source).index(a.source)),
    )


Rates = Mapping[str, Mapping[Source, float]]


def average(rates: Rates, source: Source) -> float | None:
    """The mean over tasks with equal weights, as in the paper."""
    known = [by_source[source] for by_source in rates.values() if source in by_source]
    return sum(known) / len(known) if known else None


def ratio(by_source: Mapping[Source, float]) -> float | None:
    """Human recoveries per robot recovery of one task."""
    human, robot = by_source.get(Source.HUMAN_RECOVERY), by_source.get(Source.ROBOT_RECOVERY)
    return human / robot if human is not None and robot else None


def paired(rates: Rates) -> dict[str, Mapping[Source, float]]:
    """Tasks with recoveries of both embodiments. Other tasks would enter only one side of the ratio."""
    return {task: by_source for task, by_source in rates.items() if ratio(by_source) is not None}


def ratio_of_averages(rates: Rates) -> float | None:
    """The paper's 10.5."""
    both = paired(rates)
    human, robot = average(both, Source.HUMAN_RECOVERY), average(both, Source.ROBOT_RECOVERY)
    return human / robot if human is not None and robot else None


def mean_of_ratios(rates: Rates) -> float | None:
    ratios = [value for by_source in rates.values() if (value := ratio(by_source)) is not None]
    return sum(ratios) / len(ratios) if ratios else None


@lru_cache(maxsize=1)
def paper() -> dict[str, Any]:
    return json.loads(files("egorecovery.audit").joinpath("paper_throughput.json").read_text())


def paper_rates() -> dict[str, dict[Source, float]]:
    rates = paper()["rates_per_hour"]
    return {task: {Source(name): float(rate) for name, rate in by.items()} for task, by in rates.items()}


def shown(value: float | None, places: int = 1) -> str:
    """A number as text, with halves rounded up as the paper prints 504.25; a dash for None."""
    if value is None:
        return "-"
    return str(Decimal(repr(round(value, 9))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))
