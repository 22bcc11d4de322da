"""What a store tells without any policy: how comparable its targets are, and which failures it covers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.diagnostics.coverage import ModeCoverage, mode_coverage
from egorecovery.diagnostics.episode_bootstrap import DiagnosticError
from egorecovery.diagnostics.ks_alignment import KsAlignment, comparable_windows, ks_alignment
from egorecovery.episodes import Embodiment, EpisodeId, EpisodeStore, Phase, Source
from egorecovery.errors import StoreError
from egorecovery.intent import FrameLabels, IntentSpec, labels_of
from egorecovery.intent.statistics import pool_statistics
from egorecovery.randomness import generator_for
from egorecovery.recovery import AnnotationJournal
from egorecovery.storage.typed_json import from_json
from egorecovery.training import RECIPES
from egorecovery.training.splits import everything
from egorecovery.workcell.scene import OBJECT_M
from egorecovery.workcell.staging import draw_across_family
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named

EVALUATION_STARTS = 400  # drawn across the family, as evaluation draws them

Labelled = Sequence[tuple[Source, EpisodeId, FrameLabels]]


def episodes_of(store: EpisodeStore, task: str) -> dict[EpisodeId, Source]:
    """All recorded episodes of a task. A store that has none is refused, with the tasks it has."""
    cards = [store.card(name) for name in store.ids()]
    sources = {card.id: card.source for card in cards if card.task.name == task}
    if not sources:
        tasks = sorted({card.task.name for card in cards})
        raise StoreError(f"{store.root} has no episode of {task!r}; it has {', '.join(tasks) or 'no episode at all'}")
    return sources


def labelled(store: EpisodeStore, task: str, spec: IntentSpec) -> Labelled:
    """The episodes that any training could use: annotated, kept, and with labels that fit."""
    annotations = AnnotationJournal(store.annotations_path).latest()
    usable = everything(store, replace(RECIPES["bench"](task), intent=spec))
    return [(source, name, labels_of(store, name, spec, annotations)) for source, name in usable]


def target_alignment(episodes: Labelled, phase: Phase) -> KsAlignment:
    """KS by DCT coefficient; each embodiment is divided by its own s_d, of its recovery windows in both phases."""
    for who in Embodiment:
        for wanted in dict.fromkeys((Phase.RECOVERY, phase)):
            if not any(source.embodiment is who and source.phase is wanted for source, _, _ in episodes):
                raise DiagnosticError(
                    f"no labelled {who} {wanted} episode of this task; collect some, annotate, and run "
                    "'egorecovery label'"
                )
    scale_m = pool_statistics((source, labels) for source, _, labels in episodes).scale_m
    values: dict[Embodiment, ndarray] = {}
    numbers: dict[Embodiment, ndarray] = {}
    for who in Embodiment:
        own = [labels for source, _, labels in episodes if (source.embodiment, source.phase) == (who, phase)]
        windows = [comparable_windows(labels, phase) for labels in own]
        chosen = [labels.intent_m[window] / scale_m[who] for labels, window in zip(own, windows, strict=True)]
        values[who] = np.concatenate(chosen)
        numbers[who] = np.repeat(np.arange(len(own)), [int(window.sum()) for window in windows])
    robot, human = Embodiment.ROBOT, Embodiment.HUMAN
    return ks_alignment(values[robot], values[human], robot_episode=numbers[robot], human_episode=numbers[human])


class StartCoverage:
    """The failures that a store's recovery episodes began with, beside those that evaluation draws."""

    def __init__(self, store: EpisodeStore, task: str) -> None:
        self._starts: dict[Embodiment, list[Start]] = {who: [] for who in Embodiment}
        recoveries = {name: source for name, source in episodes_of(store, task).items() if source.is_recovery}
        for name, source in recoveries.items():
            self._starts[source.embodiment].append(_start(name, store.read(name).provenance.details.get("start")))
        scene = scene_named(task)
        self._fresh = [
            draw_across_family(scene, generator_for(seed=0, purpose="fresh", task=task, number=number))
            for number in range(EVALUATION_STARTS)
        ]

    @property
    def modes(self) -> list[str]:
        return sorted({start.mode for start in self._fresh})

    def of(self, mode: str) -> ModeCoverage:
        names = next(sorted(start.parameters) for start in self._fresh if start.mode == mode)
        fresh, robot, human = (
            _parameters(starts, mode, names)
            for starts in (self._fresh, self._starts[Embodiment.ROBOT], self._starts[Embodiment.HUMAN])
        )
        return mode_coverage(fresh, robot, human)


def _start(name: str, recorded: object) -> Start:
    """Details of an episode are whatever its recorder wrote: nothing in them is taken for granted."""
    if recorded is None:
        raise DiagnosticError(
            f"{name} does not say which failure it began with (provenance.details.start); simulated episodes do"
        )
    return from_json(Start, recorded, f"{name}: provenance.details.start", DiagnosticError)


def _parameters(starts: Sequence[Start], mode: str, names: Sequence[str]) -> Float[ndarray, "N P"]:
    own = [start for start in starts if start.mode == mode]
    for start in own:
        if sorted(start.parameters) != list(names):
            raise DiagnosticError(
                f"a recorded start of mode {mode} has parameters {', '.join(sorted(start.parameters))}, the task now "
                f"has {', '.join(names)}: it was recorded by another version of the workcell"
            )
    return np.array([[start.parameters[name] for name in names] for start in own]).reshape(len(own), len(names))


def object_positions_m(store: EpisodeStore, names: Sequence[EpisodeId]) -> dict[EpisodeId, Float[ndarray, "T 3"]]:
    """Where the manipulated object truly was on every frame; refused where an episode does not say."""
    positions: dict[EpisodeId, ndarray] = {}
    silent = []
    for name in names:
        recorded = store.read(name).provenance.details.get(OBJECT_M)
        if recorded is None:
            silent.append(name)
            continue
        wanted = (store.card(name).frames, 3)
        try:
            position_m = np.asarray(recorded, np.float64)
        except (OverflowError, TypeError, ValueError):
            position_m = np.empty(0)
        if position_m.shape != wanted or not np.isfinite(position_m).all():
            raise DiagnosticError(
                f"{name}: provenance.details.{OBJECT_M} must be finite numbers of shape {wanted}, got "
                f"{position_m.shape}; record one x y z in metres for every frame"
            )
        positions[name] = position_m
    if silent:
        raise DiagnosticError(
            f"{len(silent)} of {len(names)} robot episodes do not carry the object's position, such as {silent[0]}: it "
            f"would be provenance.details.{OBJECT_M}, one x y z in metres for every frame"
        )
    return positions
