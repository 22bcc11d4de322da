"""What an evaluation leaves behind: one sealed JSON line per rollout, appended as it ends.

An append that returned survives a kill. Files from several machines are merged by `merge`, by concatenation or by
reading them together: a line that is there twice counts once, two that contradict each other are an error.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation.protocol import EvaluationProtocol, Regime
from egorecovery.evaluation.rollout import Ending, Result
from egorecovery.storage.checksummed_json import digest
from egorecovery.storage.journal import Journal
from egorecovery.storage.typed_json import Must, between, from_json, to_json
from egorecovery.workcell.starts import Start

SCHEMA = 1
GATE_DECIMALS = INTENT_DECIMALS = 3


class ResultsError(EgoRecoveryError):
    """Results that cannot be read, or that contradict each other."""


MOST = 10**9  # of anything that is counted
Number = Annotated[int | float, between(-1e15, 1e15)]  # as it was written: 1 stays 1, and 1.0 stays 1.0


def _naming(field: str) -> Must:
    return Must(f"that has a text {field}", lambda record: isinstance(record.get(field), str))


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Whose rollouts these are."""

    policy: str
    policy_hash: str = ""  # of the weights; empty for scripted ones
    cell: str = ""  # of an experiment, such as "main/cube_stack/egorecovery"
    seed: int = 0  # of the training
    intervention: Mapping[str, str | bool] = field(default_factory=dict)  # how gate and intent were used


@dataclass(frozen=True, kw_only=True)
class RolloutRecord:
    """One line of a result file."""

    subject: Subject
    task: str
    regime: Regime
    index: Annotated[int, between(0, MOST)]  # of the start
    start: Annotated[Mapping[str, Any], _naming("mode")]
    protocol: Annotated[Mapping[str, Any], _naming("starts_seed")]
    outcome: Result
    reason: str
    duration_s: Number
    retries: Annotated[int, between(-MOST, MOST)]  # see rollout.Attempts
    decisions: Annotated[int, between(-MOST, MOST)]
    gate_trace: tuple[Number, ...] = ()  # one per decision; empty for policies without a gate
    batch_rows: int = 1  # of every inference
    unreachable_targets: int = 0  # effector targets out of the arms' reach, replaced by the nearest pose
    # One per decision, a number per coefficient. Younger than published results: left out of a line where empty, and
    # no part of what two lines of one rollout must agree on.
    intent_trace: tuple[tuple[Number, ...], ...] = field(default=(), compare=False)

    @classmethod
    def of_ending(
        cls,
        ending: Ending,
        *,
        start: Start,
        subject: Subject,
        task: str,
        regime: Regime,
        index: int,
        protocol: EvaluationProtocol,
        batch_rows: int,
    ) -> "RolloutRecord":
        return cls(
            subject=subject,
            task=task,
            regime=regime,
            index=index,
            start=start.record(),
            protocol=protocol.identity(),
            outcome=ending.result,
            reason=ending.reason,
            duration_s=round(ending.duration_s, 3),
            retries=ending.retries,
            decisions=ending.decisions,
            gate_trace=tuple(round(gate, GATE_DECIMALS) for gate in ending.gates if gate is not None),
            batch_rows=batch_rows,
            unreachable_targets=ending.unreachable,
            intent_trace=tuple(
                tuple(round(value, INTENT_DECIMALS) for value in intent)
                for intent in ending.intents
                if intent is not None
            ),
        )

    @property
    def succeeded(self) -> bool:
        return self.outcome == "success"

    @property
    def mode(self) -> str:
        return str(self.start["mode"])

    @property
    def key(self) -> str:
        """The same for the same rollout, whoever ran it and how it went."""
        return rollout_key(self.subject, self.task, self.regime, self.index, self.protocol)

    @property
    def start_key(self) -> tuple[str, str, str, int]:
        """What two methods must share to be compared."""
        return (str(self.protocol["starts_seed"]), self.task, self.regime, self.index)

    def record(self) -> dict[str, Any]:
        fields = {**to_json(self), "schema": SCHEMA, "mode": self.mode}
        if not self.intent_trace:
            del fields["intent_trace"]
        return fields

    @classmethod
    def of(cls, record: object, where: str = "a result") -> "RolloutRecord":
        if not isinstance(record, Mapping):
            raise ResultsError(f"{where} is not a rollout: must be an object, got {type(record).__name__}")
        if record.get("schema") != SCHEMA:
            raise ResultsError(
                f"{where} has schema {record.get('schema')}, this version reads {SCHEMA}; evaluate again"
            )
        if "mode" not in record:
            raise ResultsError(f"{where} is not a rollout: mode is missing")
        fields = {name: value for name, value in record.items() if name not in ("schema", "mode")}
        return from_json(cls, fields, f"{where} is not a rollout: ", ResultsError)


def rollout_key(subject: Subject, task: str, regime: Regime, index: int, protocol_identity: Mapping[str, Any]) -> str:
    return digest(
        {
            "subject": to_json(subject),
            "task": task,
            "regime": regime,
            "index": index,
            "protocol": dict(protocol_identity),
        }
    )


class ResultFile:
    """Results at rest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = Journal(path, chained=False)  # files are merged line by line; a cell's card binds its own

    def append(self, record: RolloutRecord) -> None:
        self.append_all([record])

    def append_all(self, records: Sequence[RolloutRecord]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._journal.append_all([record.record() for record in records])

    def records(self) -> list[RolloutRecord]:
        """Each rollout once, in the order of the file."""
        lines = enumerate(self._journal.records(), start=1)
        return unique(RolloutRecord.of(line, f"{self.path} line {number}") for number, line in lines)


def unique(records: Iterable[RolloutRecord]) -> list[RolloutRecord]:
    """Drops repetitions; refuses contradictions."""
    records_by_key: dict[str, RolloutRecord] = {}
    for record in records:
        known = records_by_key.setdefault(record.key, record)
        if known != record:
            raise ResultsError(
                f"{record.task} {record.regime} start {record.index} of {record.subject.policy!r} is on record twice, "
                f"as {known.outcome} after {known.duration_s} s and as {record.outcome} after {record.duration_s} s; "
                "machines differ in the last bits: keep the lines of one of them"
            )
    return list(records_by_key.values())


def load(paths: Iterable[Path]) -> list[RolloutRecord]:
    """All rollouts of several files."""
    records: list[RolloutRecord] = []
    for path in paths:
        if not path.exists():
            raise ResultsError(f"{path}: there is no such result file")
        records += ResultFile(path).records()
    return unique(records)


def merge(paths: Sequence[Path], into: Path) -> int:
    """Adds to `into` what it lacks; returns how many rollouts that were."""
    target = ResultFile(into)
    there = target.records()
    fresh = unique([*there, *load(paths)])[len(there) :]
    if fresh:
        target.append_all(fresh)
    return len(fresh)
