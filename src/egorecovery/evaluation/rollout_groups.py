"""Rollouts that may be summed: of one policy, used in one way, under one protocol. And what to call those groups."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from egorecovery.evaluation.results import RolloutRecord
from egorecovery.storage.checksummed_json import digest

STARTS = "starts_seed"  # names stand beside it in a column or a title of their own
_FIRST = ("name", STARTS)


def protocol_key(record: RolloutRecord) -> str:
    """The same for rollouts under the same rules."""
    return digest(dict(record.protocol))


def protocol_names(records: Iterable[RolloutRecord]) -> dict[str, str]:
    """By `protocol_key`: the protocol's name, and the settings by which protocols of that name differ."""
    protocols = {protocol_key(record): record.protocol for record in records}
    return {key: _name(protocol, protocols.values()) for key, protocol in protocols.items()}


def _name(protocol: Mapping[str, Any], all_protocols: Iterable[Mapping[str, Any]]) -> str:
    name = str(protocol.get("name", "unknown"))
    alike = [other for other in all_protocols if str(other.get("name", "unknown")) == name]
    differing = sorted(
        field
        for field in set().union(*alike) - set(_FIRST)
        if any((field in other, other.get(field)) != (field in protocol, protocol.get(field)) for other in alike)
    )
    settings = [_setting(field, protocol[field]) for field in differing if field in protocol]
    return f"{name} ({', '.join(settings)})" if settings else name


def _setting(field: str, value: object) -> str:
    name, unit = (field[:-2], " s") if field.endswith("_s") else (field, "")
    if isinstance(value, bool):
        value = "yes" if value else "no"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{name.replace('_', ' ')} {shown}{unit}"


def policy_groups(records: Iterable[RolloutRecord]) -> dict[str, list[RolloutRecord]]:
    """Rollouts that may be summed over their starts, by a title that tells the groups apart."""
    records = list(records)
    names = protocol_names(records)
    groups: dict[tuple[str, ...], list[RolloutRecord]] = {}
    for record in records:
        subject = record.subject
        group = (record.task, subject.policy, subject.policy_hash, _use(subject.intervention), protocol_key(record))
        groups.setdefault(group, []).append(record)
    titled: dict[str, list[RolloutRecord]] = {}
    named = policy_namer(records)
    for (task, policy, _, _, rules), chosen in groups.items():
        starts = chosen[0].protocol[STARTS]
        what = "" if task.replace("_", " ") in policy else f"{task}, "
        titled[f"{what}{named(chosen[0])} ({names[rules]}, starts '{starts}')"] = chosen
    return titled


def policy_namer(records: Iterable[RolloutRecord]) -> Callable[[RolloutRecord], str]:
    """What to call a rollout's policy among these: with its weights, where trainings share a name, and its use."""
    trainings: dict[tuple[str, str], set[str]] = {}
    for record in records:
        trainings.setdefault((record.task, record.subject.policy), set()).add(record.subject.policy_hash)

    def name(record: RolloutRecord) -> str:
        subject = record.subject
        several = len(trainings[record.task, subject.policy]) > 1
        which = f", weights {subject.policy_hash[:8] or 'unknown'}" if several else ""
        return f"{subject.policy}{which}{_use(subject.intervention)}"

    return name


def _use(intervention: Mapping[str, str | bool]) -> str:
    """How gate and intent were used, if not as trained."""
    gate = intervention.get("gate", "learned")
    return ", intent 0" * bool(intervention.get("zero_intent")) + f", gate {gate}" * (gate != "learned")
