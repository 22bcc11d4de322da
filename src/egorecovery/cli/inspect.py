"""`egorecovery inspect`."""

import shlex
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tyro.conf import Positional

from egorecovery.cli.words import command, plural
from egorecovery.errors import StoreError

if TYPE_CHECKING:
    from rich.table import Table

    from egorecovery.episodes import EpisodeCard, EpisodeStore
    from egorecovery.intent import LabelStore


FEW = 12  # episodes of a source that are listed unless all are asked for


@dataclass(frozen=True, kw_only=True)
class Inspect:
    """Show what a store, a training run or a result file holds, or one episode or rollout of it in detail."""

    EXAMPLE: ClassVar = "inspect runs/cubes"
    HEADINGS: ClassVar = {
        "episode": "what to show",
        "sheet": "pictures and films of one episode",
    }

    store: Positional[Path]
    """A store, a run or checkpoint, or a file with results that evaluate wrote."""
    episode: str | None = None
    """Show this one in detail."""
    rollout: int | None = None
    """Of results: show this one in detail, by its line, counted from 0."""
    all: bool = False
    """List every episode, where a store has many."""
    json: bool = False
    """Print JSON instead of a table."""
    sheet: Path | None = None
    """Write a contact sheet (PNG) of the episode there."""
    film: Path | None = None
    """Write a film (MP4) of the episode there."""
    rerun: str | None = None
    """Write the episode or rollout with gate and intent to this .rrd file for Rerun; 'view' opens the viewer."""

    def run(self) -> int:
        from egorecovery.episodes import EpisodeStore

        if (self.store / "results.jsonl").is_file() and not (self.store / "store.json").exists():
            return replace(self, store=self.store / "results.jsonl").run()  # what evaluate left in a run
        if self.store.is_file():
            from egorecovery.cli.inspect_results import inspect_results

            return inspect_results(self)
        from egorecovery.cli.inspect_run import inspect_run, is_run

        if is_run(self.store) and not (self.store / "store.json").exists():
            return inspect_run(self)
        if self.rollout is not None:
            raise StoreError(f"--rollout shows one of a file of results; {self.store} is a folder")
        store = EpisodeStore(self.store)
        if self.episode is not None:
            return self._detail(store, self.episode)
        if self.sheet or self.film or self.rerun:
            raise StoreError("--sheet, --film and --rerun show one episode: name it with --episode")
        return self._list(store)

    def _detail(self, store: "EpisodeStore", identifier: str) -> int:
        from egorecovery.cli.console import console, print_json
        from egorecovery.cli.inspect_episode import show_facts
        from egorecovery.episodes.pictures import write_contact_sheet, write_film

        episode = store.read(identifier)
        for path in filter(None, (self.sheet, self.film)):
            path.parent.mkdir(parents=True, exist_ok=True)
        if self.sheet:
            write_contact_sheet(episode, self.sheet)
        if self.film:
            write_film(episode, self.film)
        if self.rerun:
            from egorecovery.cli.rerun_log import log_episode

            log_episode(store, identifier, self.rerun)
        facts = episode_facts(store, identifier)
        if self.json:
            print_json(facts)
            return 0
        show_facts(facts)
        for path in filter(None, (self.sheet, self.film, self.rerun if self.rerun != "view" else None)):
            console.print(f"wrote: {path}", soft_wrap=True)
        following = shlex.join(["rerun", self.rerun]) if self.rerun and self.rerun != "view" else self._next_of(facts)
        console.print(f"next: {following}", soft_wrap=True)
        return 0

    def _next_of(self, facts: dict[str, Any]) -> str:
        if facts.get("annotations") == []:
            return command("annotate", self.store)
        if "labels" not in facts or not facts["labels_current"]:
            return command("label", self.store)
        if self.sheet or self.film:  # seen in words and pictures: the store is the next thing to look at
            return command("inspect", self.store)
        return command("inspect", self.store, "--episode", facts["id"], "--sheet", f"{facts['id']}.png")

    def _list(self, store: "EpisodeStore") -> int:
        from egorecovery.cli.console import console, print_json, tell_set_aside

        set_aside: dict[str, str] = {}
        rows = store_rows(store, set_aside)
        tell_set_aside(self.store, set_aside)
        if self.json:
            print_json(rows)
            return 1 if set_aside else 0
        attempts = store.collection.attempts()
        discarded = sum(not attempt.accepted for attempt in attempts)
        minutes = sum(row["duration_s"] for row in rows) / 60
        console.print(
            f"{self.store}: {len(rows)} episodes, {minutes:.1f} minutes; {discarded} discarded attempts on record",
            soft_wrap=True,
        )
        if rows:
            console.print(_summary(rows))
        for (task, source), of_it in _grouped(rows).items():
            console.print(f"{task}, {plural(source)}:", soft_wrap=True)
            for row in of_it if self.all else of_it[:FEW]:
                console.print(f"  {_line(row)}", soft_wrap=True)
            if len(of_it) > FEW and not self.all:
                console.print(f"  and {len(of_it) - FEW} more: --all lists them")
        console.print(f"next: {self._next(rows)}", soft_wrap=True)
        return 1 if set_aside else 0

    def _next(self, rows: list[dict[str, Any]]) -> str:
        """What the store lacks first."""
        if not rows:
            return _simulated("cube_stack", self.store)
        if any("recovery" in row["source"] and row["boundary"] is None and not row["discard"] for row in rows):
            return command("annotate", self.store)
        if any(row["labels"] != "current" and not row["discard"] for row in rows):
            return command("label", self.store)
        task = rows[0]["task"]
        there = {row["source"] for row in rows if row["task"] == task and not row["discard"]}
        if "robot_success" not in there:
            from egorecovery.workcell.tasks import task_names

            if task not in task_names():  # data of their own
                return command("import", "FOLDER", "--task", task, "--source", "robot_success", "--out", self.store)
            return _simulated(task, self.store)
        return training_command(self.store, task, there)


def training_command(store: Path, task: str, there: Collection[str]) -> str:
    """With the method that the sources are enough for."""
    method = [] if {"robot_recovery", "human_recovery"} <= set(there) else ["--method", "robot_success"]
    if "robot_recovery" in there and "human_recovery" not in there:
        method = ["--method", "robot_recovery"]
    return command("train", store, "--task", task, "--run", f"{store}_policy", *method)


def _simulated(task: str, store: Path) -> str:
    return command("simulate", "--task", task, "--source", "robot_success", "--episodes", 20, "--out", store)


def _grouped(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["task"], row["source"]), []).append(row)
    return found


def _line(row: dict[str, Any]) -> str:
    """One episode: its id whole, whatever the terminal's width."""
    said = [row["id"], f"{row['duration_s']:.1f} s"]
    if row["discard"]:
        said.append("discarded")
    elif "recovery" in row["source"]:
        said.append("no boundary" if row["boundary"] is None else f"boundary {row['boundary']}")
    if row["labels"] != "current" and not row["discard"]:
        said.append("labels outdated" if row["labels"] else "no labels")
    return "  ".join(said)


def _summary(rows: list[dict[str, Any]]) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE, padding=(0, 1), collapse_padding=True, pad_edge=False)
    table.add_column("task", overflow="fold")
    table.add_column("source", no_wrap=True)
    for column in ("episodes", "minutes", "annotated", "labelled", "pictures"):
        table.add_column(column, justify="right")
    for (task, source), of_it in _grouped(rows).items():
        sizes = {row["pictures"] for row in of_it if row["pictures"]}
        table.add_row(
            task,
            source.replace("_", " "),
            str(len(of_it)),
            f"{sum(row['duration_s'] for row in of_it) / 60:.1f}",
            str(sum(row["boundary"] is not None for row in of_it)) if "recovery" in source else "-",
            str(sum(row["labels"] == "current" for row in of_it)),
            ", ".join(sorted(sizes)),
        )
    return table


def store_rows(store: "EpisodeStore", set_aside: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """A row per episode; those that cannot be read go into `set_aside` with the reason, where that is given."""
    from egorecovery.intent import IntentSpec, LabelStore
    from egorecovery.intent.current_labels import label_state
    from egorecovery.recovery import AnnotationJournal

    annotations = AnnotationJournal(store.annotations_path).latest()
    labels = LabelStore(store.labels_path)
    rows = []
    for identifier in store.ids():
        try:
            card = store.card(identifier)
            pictures = picture_size(store, card)
        except (StoreError, OSError, ValueError) as error:
            if set_aside is None:
                raise
            set_aside[identifier] = str(error)
            continue
        annotation = annotations.get(card.id)
        derived = labels.card(card.id)
        fresh = label_state(card, annotation, derived, IntentSpec()) == "current"
        rows.append(
            {
                "id": card.id,
                "task": card.task.name,
                "source": str(card.source),
                "frames": card.frames,
                "duration_s": card.duration_s,
                "cameras": list(card.cameras),
                "pictures": pictures,
                "operator": card.operator,
                "boundary": annotation.boundary if annotation else None,
                "discard": bool(annotation and annotation.discard),
                "labels": None if derived is None else "current" if fresh else "outdated",
                "content": card.content,
            }
        )
    return rows


def _label_state(store: "EpisodeStore", card: "EpisodeCard", labels: "LabelStore") -> str:
    from egorecovery.intent import IntentSpec
    from egorecovery.intent.current_labels import label_state
    from egorecovery.recovery import AnnotationJournal

    annotation = AnnotationJournal(store.annotations_path).latest().get(card.id)
    return label_state(card, annotation, labels.card(card.id), IntentSpec())


def picture_size(store: "EpisodeStore", card: "EpisodeCard") -> str | None:
    """Of its first camera; None where there is none."""
    from egorecovery.episodes import Camera

    if not card.cameras:
        return None
    height, width = store.frames(card.id, Camera(card.cameras[0])).size_hw
    return f"{width} x {height}"


def episode_facts(store: "EpisodeStore", identifier: str) -> dict[str, Any]:
    """Everything a person asks of one episode before looking at its pictures."""
    import numpy as np

    from egorecovery.intent import LabelStore, Verdict
    from egorecovery.recovery import AnnotationJournal, propose

    episode = store.read(identifier)
    path_m = episode.effector_m[:, list(episode.task.active_effectors)]
    annotations = [a for a in AnnotationJournal(store.annotations_path).history() if a.episode == identifier]
    labels = LabelStore(store.labels_path)
    facts: dict[str, Any] = {
        "id": episode.id,
        "task": episode.task.name,
        "active": [str(side) for side in episode.task.active],
        "source": str(episode.source),
        "frames": len(episode),
        "duration_s": round(episode.duration_s, 3),
        "path_m": round(float(np.linalg.norm(np.diff(path_m, axis=0), axis=-1).sum()), 3),
        "reliable": round(float(episode.reliable.mean()), 3),
        "cameras": {
            str(camera): {
                **asdict(stream.intrinsics),
                "bytes_per_frame": len(stream.frames.packed) // len(episode),
                "depth": stream.depth_mm is not None,
            }
            for camera, stream in episode.cameras.items()
        },
        "provenance": asdict(episode.provenance),
        "content": store.card(identifier).content,
    }
    if episode.source.is_recovery:
        facts["candidate"] = asdict(propose(store, identifier))
        facts["annotations"] = [annotation.record() for annotation in annotations]
    if labels.card(identifier) is not None:
        counts = labels.read(identifier).counts()
        facts["labels"] = {verdict.words: counts[verdict] for verdict in Verdict}
        facts["labels_current"] = _label_state(store, store.card(identifier), labels) == "current"
    return facts
