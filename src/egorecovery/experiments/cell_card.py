"""The card of a finished cell, read as a stranger may have written it: every field of its type, bound to its files."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation.protocol import REGIMES
from egorecovery.evaluation.results import ResultFile, RolloutRecord
from egorecovery.policy.action_source import GateUse
from egorecovery.storage.checksummed_json import file_sha256, read_checksummed
from egorecovery.storage.containment import exists, inside, is_file

SCHEMA = 1
CARD, ROLLOUTS, LOG = "cell.json", "rollouts.jsonl", "log.jsonl"
BOUND = (ROLLOUTS, LOG)  # their SHA-256 are in the card, where it is not older than that
_LONGEST_NAME = 128
_HASH = re.compile(r"[0-9a-f]{1,64}")
_SOURCES = {"robot_success", "robot_recovery", "human_success", "human_recovery"}


class CardError(EgoRecoveryError):
    """A cell's card that is not as this program writes it, or whose files are not those it speaks of."""


def read_cell_card(folder: Path) -> dict[str, Any]:
    """The card, each field of its type. A missing one is a `FileNotFoundError`."""
    path = inside(folder, CARD)
    card = read_checksummed(path)
    if card.get("schema") != SCHEMA:
        raise CardError(f"{path} has schema {card.get('schema')}, this version reads {SCHEMA}")
    lacking = [name for name in ("task", "method", "seed", "budget") if name not in card]
    if lacking:
        raise CardError(f"{path} lacks {', '.join(lacking)}")
    wrong = [name for name, fits in _FIELDS.items() if name in card and not fits(card[name])]
    if wrong:
        words = repr(card[wrong[0]])
        raise CardError(f"{path}: {wrong[0]} is not as this program writes it: {words[:80]}; run the cell again")
    return card


def require_bound(folder: Path, card: Mapping[str, Any]) -> None:
    """The files beside a card must be those that it speaks of; older cards speak of none."""
    for name, wanted in card.get("files", {}).items():
        path = inside(folder, name)
        if not is_file(path) or file_sha256(path) != wanted:
            raise CardError(
                f"{path} is missing or not the file that {CARD} speaks of; restore it from a copy, or remove the "
                "cell's folder and run it again"
            )


def require_whole(folder: Path, card: Mapping[str, Any]) -> list[RolloutRecord]:
    """The rollouts, if there are as many of each regime as the card asks for."""
    require_bound(folder, card)
    records = ResultFile(inside(folder, ROLLOUTS)).records()
    asked = card.get("protocol", {}).get("rollouts", 0)
    for regime in REGIMES:
        count = len({record.index for record in records if record.regime == regime})
        if count < asked:
            raise CardError(
                f"{folder / ROLLOUTS} has {count} {regime} rollouts, the card says {asked}: lines were lost; restore "
                "it from a copy, or remove the cell's folder and run it again"
            )
    strangers = {record.task for record in records} - {card["task"]}
    if strangers:
        raise CardError(f"{folder / ROLLOUTS} holds rollouts of {strangers.pop()}, the cell is of {card['task']}")
    return records


def bound_files(folder: Path) -> dict[str, str]:
    """What a new card says of the files beside it."""
    return {name: file_sha256(inside(folder, name)) for name in BOUND if exists(folder / name)}


def is_text(value: object, longest: int = 2000) -> bool:
    return isinstance(value, str) and len(value) <= longest


def is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 10**12


def is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e15 and math.isfinite(value)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable()


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and bool(_HASH.fullmatch(value))


def _or_none(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


def _object(**wanted: Callable[[Any], bool]) -> Callable[[object], bool]:
    """An object whose known fields, as far as they are there, are of their types."""
    return lambda value: (
        isinstance(value, dict) and all(name not in value or fits(value[name]) for name, fits in wanted.items())
    )


def _each(names: Callable[[object], bool], values: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(names(name) and values(entry) for name, entry in value.items())


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "suite": _is_name,
    "task": _is_name,
    "method": _is_name,
    "seed": is_count,
    "budget": _each(lambda name: name in _SOURCES, is_count),
    "variant": _or_none(_is_name),
    "intervention": _object(
        zero_intent=lambda value: type(value) is bool, gate=lambda value: value in get_args(GateUse)
    ),
    "robot_failures": _is_name,
    "humans": _is_name,
    "recipe": _object(name=is_text),
    "protocol": _object(name=is_text, rollouts=is_count, starts_seed=is_text, replan_steps=is_count),
    "orders": lambda value: isinstance(value, list),
    "recipe_hash": is_text,
    "data_hash": is_text,
    "cell_hash": is_text,
    "training_id": is_text,
    "training": _object(
        seconds=is_number, steps=is_count, samples_per_s=is_number, scores=_each(is_text, _or_none(is_number))
    ),
    "evaluation": _object(seconds=is_number, versions=_each(is_text, is_text)),
    "hardware": _object(device=is_text, cpu_count=is_count),
    "revision": _or_none(is_text),
    "finished_at": is_text,
    "files": _each(lambda name: name in BOUND, _is_hash),
}


def cell_problem(folder: Path) -> str | None:
    """Why a finished cell is not what was written; None where it is."""
    try:
        require_whole(folder, read_cell_card(folder))
    except (EgoRecoveryError, OSError) as error:
        return str(error)
    return None
