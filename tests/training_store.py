"""Labelled stores to train on, and the smallest recipe that learns from them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from egorecovery.cli.train import Train
from egorecovery.episodes import (
    PAPER_TASKS,
    RATE_HZ,
    Camera,
    CameraStream,
    Episode,
    EpisodeStore,
    Intrinsics,
    JpegFrames,
    Source,
    episode_id,
)
from egorecovery.intent import label_store
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.training import Recipe
from egorecovery.workcell.collection import Order, collect
from making import PROVENANCE

TASK = "cube_stack"
FRAMES = 48
BOUNDARY = 25
PIXELS = 32
PER_SOURCE = 4
COLOURS = {"recovering": (230, 60, 30), "on its way": (40, 220, 60)}
START_M, GOAL_M = np.array([0.25, 0.0, 0.1]), np.array([0.45, 0.1, 0.15])

# Of the recipe "demo", by dotted name, as `--set` takes them.
TINY: Mapping[str, str] = {
    "policy.cameras": '["head"]',
    "policy.image_size": str(PIXELS),
    "policy.vision.stem_width": "8",
    "policy.vision.widths": "[8, 16]",
    "policy.vision.depths": "[1, 1]",
    "policy.vision.group_channels": "4",
    "policy.width": "32",
    "policy.heads": "2",
    "policy.stem_tokens": "4",
    "policy.action_tokens": "6",
    "policy.blocks": "2",
    "policy.decoder_layers": "1",
    "policy.horizon": "8",
    "batch.robot": "8",
    "batch.human": "8",
    "optimisation.learning_rate": "0.003",
    "optimisation.warmup_steps": "5",
    "held_out": "1",
}
BUDGET = {"robot_success": 2, "robot_recovery": 2, "human_recovery": 3}

SIMULATED_TASK = "cup_brush"
SIMULATED_BUDGET = {"robot_success": 20, "robot_recovery": 20, "human_recovery": 36}
SIMULATED_HELD_OUT = 4
SIMULATED: Mapping[str, str] = {
    "losses.intent_form": "l1",  # Eq. 3: on the scale of the release so short a training hardly learns intent
    "policy.cameras": '["head", "left_wrist"]',
    "augmentation.shift": "0.02",
    "augmentation.state_dropout": "0.0",
    "policy.image_size": "48",
    "policy.vision.stem_width": "16",
    "policy.vision.widths": "[16, 32, 32]",
    "policy.vision.group_channels": "8",
    "policy.width": "48",
    "policy.stem_tokens": "6",
    "policy.action_tokens": "8",
    "policy.blocks": "2",
    "policy.decoder_layers": "1",
    "policy.horizon": "8",
    "batch.robot": "16",
    "batch.human": "16",
    "optimisation.learning_rate": "0.002",
    "optimisation.warmup_steps": "20",
    "losses.gate": "1.0",
    "losses.intent": "0.5",
    "held_out": str(SIMULATED_HELD_OUT),
}


def training_arguments(
    store: EpisodeStore, run: Path, changes: Mapping[str, str] | None = None, **options: object
) -> list[str]:
    """`egorecovery train ...` of the tiny recipe on the made-up store."""
    settings = [text for pair in {**TINY, **(changes or {})}.items() for text in pair]
    chosen = {"task": TASK, "run": run, "device": "cpu", **BUDGET, **options}
    flags = [part for name, value in chosen.items() for part in _flag(name, value)]
    return ["train", str(store.root), *flags, "--set", *settings]


def _flag(name: str, value: object) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag] if value else []
    return [flag, str(value)]


def tiny_recipe(steps: int, changes: Mapping[str, str] | None = None, **budget: int) -> Recipe:
    """The same, as a value."""
    chosen = {**BUDGET, **budget}
    settings = {**TINY, **(changes or {})}
    return Train(store=Path(), task=TASK, run_folder=Path(), steps=steps, set=settings, **chosen).resolved()


def make_made_up_store(root: Path, per_source: int = PER_SOURCE) -> EpisodeStore:
    """Some episodes of each source whose pictures show all there is to know: where the hand is, and its phase."""
    store = EpisodeStore.create(root)
    with store.writing() as writer:
        for source in Source:
            for number in range(per_source):
                writer.add(made_up_episode(source, number))
    annotate(store, BOUNDARY)
    label_store(store)
    return store


def annotate(store: EpisodeStore, boundary: int, seen_revision: int = 0) -> None:
    journal = AnnotationJournal(store.annotations_path)
    for name in store.ids():
        if store.card(name).source.is_recovery:
            annotation = Annotation(episode=name, boundary=boundary, annotator="ada")
            journal.save(annotation, n_frames=FRAMES, seen_revision=seen_revision)


def made_up_episode(source: Source, number: int) -> Episode:
    rng = np.random.default_rng([list(Source).index(source), number])
    start_m = START_M + rng.normal(0, 0.02, 3)
    stations = [start_m, GOAL_M]
    if source.is_recovery:
        stations.insert(1, start_m + [0.05, *rng.choice([-1, 1]) * rng.uniform([0.1, 0.05], [0.2, 0.1])])
    effector_m = np.stack([_path(stations)] * 2, axis=1).astype(np.float32)
    recovering = np.arange(FRAMES) <= (BOUNDARY if source.is_recovery else -1)
    mixing = np.random.default_rng([source.is_human, 99]).normal(size=(4, 14))
    state = (np.column_stack([effector_m[:, 0], recovering * 0.1]) @ mixing).astype(np.float32)
    return Episode(
        id=episode_id(f"{source}-{number}"),
        task=PAPER_TASKS[TASK],
        source=source,
        timestamps_s=np.arange(FRAMES) / RATE_HZ,
        state=state,
        action=np.concatenate([state[1:], state[-1:]]),
        effector_m=effector_m,
        reliable=np.ones((FRAMES, 2), bool),
        cameras={Camera.HEAD: _camera(_pictures(effector_m[:, 0], recovering, 40 if source.is_human else 90))},
        provenance=PROVENANCE,
    )


def _path(stations: list[np.ndarray]) -> np.ndarray:
    """Straight from station to station, the middle one at the boundary, slow at both ends."""
    times = [0, BOUNDARY, FRAMES - 1] if len(stations) == 3 else [0, FRAMES - 1]
    legs = []
    for first, last, begin, end in zip(stations, stations[1:], times, times[1:], strict=False):
        along = np.linspace(0, 1, end - begin, endpoint=False)
        legs.append(first + (3 * along**2 - 2 * along**3)[:, None] * (last - first))
    return np.concatenate([*legs, stations[-1][None]])


def _pictures(hand_m: np.ndarray, recovering: np.ndarray, background: int) -> np.ndarray:
    """A blob where the hand is, larger when it is high, in the colour of its phase."""
    rows, columns = np.mgrid[:PIXELS, :PIXELS]
    down = PIXELS * (0.5 - 1.5 * hand_m[:, 1])
    right = PIXELS * (2.0 * hand_m[:, 0] - 0.3)
    radius = 2 + 20 * hand_m[:, 2]
    away = np.hypot(rows - down[:, None, None], columns - right[:, None, None])
    blob = (away < radius[:, None, None])[..., None]
    colour = np.where(recovering[:, None], COLOURS["recovering"], COLOURS["on its way"])[:, None, None]
    return np.where(blob, colour, background).astype(np.uint8)


def _camera(pictures: np.ndarray) -> CameraStream:
    return CameraStream(
        frames=JpegFrames.encode(pictures),
        timestamps_s=np.arange(len(pictures)) / RATE_HZ,
        intrinsics=Intrinsics(width=PIXELS, height=PIXELS, fx=20.0, fy=20.0, cx=PIXELS / 2, cy=PIXELS / 2),
    )


def make_simulated_store(root: Path) -> EpisodeStore:
    """Episodes of the workcell, annotated by its annotator."""
    store = EpisodeStore.create(root)
    for source, budget in SIMULATED_BUDGET.items():
        count = budget + SIMULATED_HELD_OUT
        order = Order(task=SIMULATED_TASK, source=Source(source), episodes=count, image_size=48, plain_room=True)
        collect([order], store)
    label_store(store)
    return store


def simulated_recipe(seed: int = 0) -> Recipe:
    """The least that finds recovery and intent in held-out episodes of the workcell."""
    where = {"store": Path(), "run_folder": Path(), "task": SIMULATED_TASK, "seed": seed}
    return Train(**where, **SIMULATED_BUDGET, steps=700, set=dict(SIMULATED)).resolved()
