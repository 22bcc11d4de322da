"""`egorecovery simulate`."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from egorecovery.cli.words import command

if TYPE_CHECKING:
    from egorecovery.episodes import EpisodeStore


@dataclass(frozen=True, kw_only=True)
class Simulate:
    """Collect demonstrations in the simulated workcell; run again, it goes on where it stopped."""

    EXAMPLE: ClassVar = "simulate --task cube_stack --source robot_success --episodes 12 --out runs/cubes"
    HEADINGS: ClassVar = {
        "depth": "pictures",
        "across_family": "what is shown, for studies",
        "workers": "this machine",
    }

    task: str
    """cup_brush, table_sweep, round_disk, cube_stack, or a task of your own (docs/tutorial_task.md)."""
    source: Literal["robot_success", "robot_recovery", "human_success", "human_recovery"]
    """Who shows it, a robot arm or a human hand, and what: ordinary work, or a recovery from a failure."""
    episodes: int
    """How many of this source and seed the store is to have; those that are there count."""
    out: Path
    """The store to add to; made if there is none."""
    seed: int = 0
    """Another one gives other episodes."""
    image_size: int = 96
    """Side of the square pictures, in pixels; the same for all episodes of a task."""
    depth: bool = False
    """Record depth maps with human demonstrations."""
    plain_room: bool = False
    """Always the same light, colours and cameras."""
    across_family: bool = False
    """Robot recoveries from any failure instead of a few staged ones (docs/workcell.md)."""
    stand_in: bool = False
    """Human demonstrations made by the robot: its pictures, its motion written as hands. Shows what human data lose."""
    hidden_embodiment: bool = False
    """Leave arms and hands out of the pictures and draw fingertips as dots: robots and people look alike."""
    near_misses: bool = False
    """Begin half of the recoveries at the small misses that policies make (docs/workcell.md)."""
    off_centre_grips: bool = False
    """Grip handles as far off their middle as policies do (docs/workcell.md)."""
    turned_hands: bool = False
    """Let the robot's hand arrive turned and then align (docs/workcell.md)."""
    workers: int = 0
    """Processes to use; 0 for all cores."""
    executor: Literal["local", "ray"] = "local"
    """Where they run: this machine, or a Ray cluster (docs/scale.md)."""

    def run(self) -> int:
        import time

        from egorecovery.cli.console import console, progress_bar
        from egorecovery.cli.words import plural
        from egorecovery.episodes import EpisodeStore, Source
        from egorecovery.executors import cores
        from egorecovery.workcell.collection import Order, collect

        order = Order(
            task=self.task,
            source=Source(self.source),
            episodes=self.episodes,
            seed=self.seed,
            image_size=self.image_size,
            depth=self.depth,
            plain_room=self.plain_room,
            across_family=self.across_family,
            stand_in=self.stand_in,
            hidden_embodiment=self.hidden_embodiment,
            near_misses=self.near_misses,
            off_centre_grips=self.off_centre_grips,
            turned_hands=self.turned_hands,
        )
        store = EpisodeStore.create(self.out)
        self._require_same_pictures(store)
        there = None
        started_s = time.monotonic()
        with progress_bar(f"Collecting {self.task}, {plural(self.source)}", "episodes") as advance:

            def progress(_: Order, done: int, total: int) -> None:
                nonlocal there
                there = done if there is None else there
                advance(done, total)

            discarded = collect([order], store, self.workers or cores(), self.executor, progress)
        made = self.episodes - (there or 0)
        minutes = (time.monotonic() - started_s) / 60
        console.print(
            f"{made} episodes made, {there} were there, {discarded} attempts discarded; "
            f"{made / minutes:.0f} episodes per minute"
        )
        console.print(f"store: {self.out}", soft_wrap=True)
        console.print(f"next: {command('label', self.out)}", soft_wrap=True)
        return 0

    def _require_same_pictures(self, store: "EpisodeStore") -> None:
        """Before anything is made, and also where nothing is left to make: it would have been of another size."""
        from egorecovery.cli.inspect import picture_size
        from egorecovery.errors import PicturesDiffer, StoreError

        wanted, there = f"{self.image_size} x {self.image_size}", 0
        found: str | None = None
        for identifier in store.ids():
            with suppress(StoreError, OSError, ValueError):  # a damaged episode keeps nobody from adding others
                card = store.card(identifier)
                if card.task.name == self.task:
                    there += 1
                    found = found or picture_size(store, card)
        if found and found != wanted:
            side, *_ = found.split(" ")
            raise PicturesDiffer(
                f"{self.out} has {there} episode{'s' * (there != 1)} of {self.task} with pictures of {found}, not "
                f"{wanted}, and a policy trains on one size: make it with --image-size {side}, or name another store "
                "with --out"
            )
