"""The card of a finished cell: written, and read as a stranger may have written it, every field of its type."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypedDict, get_args

from egorecovery.episodes import Source
from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation.protocol import REGIMES
from egorecovery.evaluation.results import ResultFile, RolloutRecord
from egorecovery.experiments.cell import CellPlan, without_unused_settings
from egorecovery.experiments.machine import now, versions
from egorecovery.policy.action_source import GateUse
from egorecovery.policy.config_json import differences
from egorecovery.storage.checksummed_json import file_sha256, read_checksummed
from egorecovery.storage.containment import exists, inside, is_file
from egorecovery.storage.typed_json import Must, between, from_json

SCHEMA = 1
CARD = "cell.json"
BoundFile = Literal["rollouts.jsonl", "log.jsonl"]  # their SHA-256 are in the card, where it is not older than that
ROLLOUTS, LOG = BOUND = get_args(BoundFile)

Name = Annotated[str, Must("of 1 to 128 printable letters", lambda text: 0 < len(text) <= 128 and text.isprintable())]
Text = Annotated[str, Must("of at most 2,000 letters", lambda text: len(text) <= 2000)]
Count = Annotated[int, between(0, 10**12)]
Number = Annotated[int | float, between(-1e15, 1e15)]
Hash = Annotated[str, Must("that is a SHA-256", lambda text: bool(re.fullmatch(r"[0-9a-f]{1,64}", text)))]


class CardError(EgoRecoveryError):
    """A cell's card that is not as this program writes it, or whose files are not those it speaks of."""


class _Intervention(TypedDict, total=False):
    zero_intent: bool
    gate: GateUse


class _Recipe(TypedDict, total=False):
    name: Text


class _Protocol(TypedDict, total=False):
    name: Text
    rollouts: Count
    starts_seed: Text
    replan_steps: Count


class _Hardware(TypedDict, total=False):
    device: Text
    cpu_count: Count


class _Training(TypedDict, total=False):
    seconds: Number
    steps: Count
    samples_per_s: Number
    scores: Mapping[Text, Number | None]


class _Evaluation(TypedDict, total=False):
    seconds: Number
    versions: Mapping[Text, Text]


class CellCard(TypedDict, total=False):
    """What is checked of a card: older ones have fewer fields, newer ones may have more."""

    suite: Name
    task: Required[Name]
    method: Required[Name]
    seed: Required[Count]
    budget: Required[Mapping[Source, Count]]
    variant: Name | None
    intervention: _Intervention
    robot_failures: Name
    humans: Name
    hidden_embodiment: bool
    off_centre_grips: bool
    turned_hands: bool
    settings: Mapping[Text, Text]
    recipe: _Recipe
    protocol: _Protocol
    orders: list[Any]
    recipe_hash: Text
    data_hash: Text
    cell_hash: Text
    training_id: Text
    training: _Training
    evaluation: _Evaluation
    hardware: _Hardware
    revision: Text | None
    finished_at: Text
    files: Mapping[BoundFile, Hash]


class TrainingCard(TypedDict):
    """What is checked of a `training.json`."""

    seconds: Number
    hardware: _Hardware
    data_hash: Text


def read_cell_card(folder: Path) -> dict[str, Any]:
    """The card, each field of its type. A missing one is a `FileNotFoundError`."""
    path = inside(folder, CARD)
    card = read_checksummed(path)
    if card.get("schema") != SCHEMA:
        raise CardError(f"{path} has schema {card.get('schema')}, this version reads {SCHEMA}")
    return from_json(CellCard, card, f"{path}: ", CardError, "run the cell again")


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


def finished_card(plan: CellPlan, folder: Path, training: Mapping[str, Any], evaluation_s: float) -> dict[str, Any]:
    """Of a cell whose rollouts and log lie in its folder; `training` is what the training says of itself."""
    return {
        **plan.card(),
        "data_hash": training["data_hash"],
        "training": {name: training[name] for name in ("seconds", "steps", "samples_per_s", "scores")},
        "evaluation": {"seconds": round(evaluation_s, 1), "versions": versions()},
        "hardware": training["hardware"],
        "revision": training["revision"],
        "finished_at": now(),
        "files": bound_files(folder),
    }


def bound_files(folder: Path) -> dict[str, str]:
    """What a new card says of the files beside it."""
    return {name: file_sha256(inside(folder, name)) for name in BOUND if exists(folder / name)}


def other_settings(card: dict[str, Any], plan: CellPlan) -> str:
    """The first fields in which a finished cell is not the planned one."""
    parts = ("suite", "recipe", "orders", "intervention", "protocol")
    before, after = (
        {name: _by_name(without_unused_settings(name, entry.get(name))) for name in parts}
        for entry in (card, plan.card())
    )
    return "; ".join(differences(before, after)[:3]) or "fields that are no longer known"


def _by_name(value: Any) -> Any:
    return {str(number): entry for number, entry in enumerate(value)} if isinstance(value, list) else value
