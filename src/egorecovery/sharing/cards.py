"""The README.md of a repository on a hub: facts from the files themselves, and how to use them."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from egorecovery import __version__
from egorecovery.episodes import EpisodeStore, Source
from egorecovery.evaluation import ResultFile, rates
from egorecovery.evaluation.rollout_groups import STARTS, protocol_key, protocol_names
from egorecovery.storage.checksummed_json import file_sha256
from egorecovery.storage.containment import exists, inside
from egorecovery.storage.foreign_text import inert_markdown

PAPER = "EgoRecovery: Acquiring Failure Recovery Ability Through Human Recovery Demonstration"


def card_of(folder: Path, kind: Literal["store", "run", "checkpoint"], repository: str) -> str:
    return store_card(folder, repository) if kind == "store" else policy_card(folder, repository)


def store_card(folder: Path, repository: str) -> str:
    store = EpisodeStore(folder)
    cards = [store.card(identifier) for identifier in store.ids()]
    counts = Counter((card.task.name, card.source) for card in cards)
    seconds: Counter[tuple[str, Source]] = Counter()
    for card in cards:
        seconds[card.task.name, card.source] += round(card.duration_s)
    cameras = sorted({camera for card in cards for camera in card.cameras})
    sizes = sorted({_size(store, card.id, card.cameras[0]) for card in cards if card.cameras})
    rows = [
        [inert_markdown(task), source.replace("_", " "), f"{count}", f"{seconds[task, source] / 60:.1f}"]
        for (task, source), count in sorted(counts.items())
    ]
    annotated = exists(folder / "annotations.jsonl")
    return _page(
        front={"tags": ["robotics", "egorecovery", "failure-recovery"], "task_categories": ["robotics"]},
        title=repository,
        parts=[
            f"{len(cards)} demonstrations, a store of EgoRecovery {__version__}: 25 Hz, cameras "
            f"{', '.join(cameras) or 'none'}, pictures {', '.join(sizes) or 'none'}.",
            _table(["task", "source", "episodes", "minutes"], rows),
            "Recovery boundaries are annotated." if annotated else "No recovery boundary is annotated yet.",
            _code(f"egorecovery pull {repository} --out store", "egorecovery inspect store"),
            "An episode is a Zarr v3 group: `zarr.open_group('store/episodes/ID/episode.zarr', mode='r')`.",
        ],
    )


def policy_card(folder: Path, repository: str) -> str:
    from egorecovery.policy.checkpoint import open_checkpoint  # here: a store's card is written without torch
    from egorecovery.policy.checkpoint_card import policy_hash

    found = open_checkpoint(folder)
    recipe = found.recipe
    policy, task = recipe["policy"], str(recipe["task"])
    budget = {name: count for name, count in recipe["budget"].items() if count}
    rows = [
        ["task", inert_markdown(task)],
        ["recipe", inert_markdown(str(recipe["name"]))],
        ["trained on", ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in budget.items())],
        ["steps", f"{found.step:,}"],
        ["seed", f"{recipe['seed']}"],
        ["cameras", ", ".join(map(str, policy["cameras"]))],
        ["pictures", f"{policy['image_size']} x {policy['image_size']}"],
        ["actions", f"chunks of {policy['horizon']} at 25 Hz, {policy['action_space']} space"],
        ["intent and gate", "yes" if policy["correction"] else "no"],
        ["data", f"`{found.data[:16]}`"],
    ]
    return _page(
        front={"library_name": "egorecovery", "pipeline_tag": "robotics", "tags": ["robotics", "egorecovery"]},
        title=repository,
        parts=[
            f"A policy for a bimanual robot, trained by EgoRecovery {__version__}.",
            _table(["", ""], rows),
            # Results of earlier versions name a policy by the hash of its card.
            _results(folder, {policy_hash(found.path), file_sha256(found.path / "checkpoint.json")}),
            _code(
                f"egorecovery pull {repository} --out policy",
                "egorecovery evaluate policy",
                "egorecovery serve policy --client-hz 25",
            ),
            "`--client-hz` is the rate at which the robot plays actions: 25 for the simulated workcell "
            "(`egorecovery control`), 50 for ALOHA robots, which is the default.",
            "It acts as its demonstrations did, and nothing in it is safety-rated: try it in simulation first.",
        ],
    )


def _results(folder: Path, hashes: set[str]) -> str:
    """Of the checkpoint that goes, used as it is: earlier ones and interventions are on record in the same file."""
    from egorecovery.policy.action_source import Intervention  # here: a store's card is written without torch

    records = ResultFile(inside(folder, "results.jsonl")).records() if exists(folder / "results.jsonl") else []
    records = [
        record
        for record in records
        if record.subject.policy_hash in hashes
        and (not record.subject.intervention or record.subject.intervention == asdict(Intervention()))
    ]
    if not records:
        return "No closed-loop results are with it."
    names = protocol_names(records)
    found = rates(
        records,
        by=lambda record: (record.task, record.regime, record.protocol[STARTS], names[protocol_key(record)]),
    )
    rows = [
        [inert_markdown(str(part)) for part in group] + [f"{rate.successes}/{rate.rollouts}", str(rate).split("  ")[-1]]
        for group, rate in found.items()
    ]
    return "Closed loop, in simulation or as scored:\n\n" + _table(
        ["task", "from", "starts", "protocol", "success", "rate, 95% Wilson"], rows
    )


def _size(store: EpisodeStore, identifier: str, camera: str) -> str:
    from egorecovery.episodes import Camera

    height, width = store.frames(identifier, Camera(camera)).size_hw
    return f"{width} x {height}"


def _page(front: dict[str, Any], title: str, parts: list[str]) -> str:
    lines = ["---"]
    for name, value in front.items():
        lines += [f"{name}: {value}"] if isinstance(value, str) else [f"{name}:", *(f"- {each}" for each in value)]
    text = "\n\n".join([f"# {inert_markdown(title)}", *parts, f"Paper: *{PAPER}* (Ge, Zhou, Zhou et al.)."])
    return "\n".join([*lines, "---", "", text, ""])


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(*lines: str) -> str:
    return "\n".join(["```sh", *lines, "```"])
