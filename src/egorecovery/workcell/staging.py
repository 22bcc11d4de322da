"""The collection protocol: the starts of each source of data.

Staging a failure for a robot is slow, so a lab stages a few configurations and repeats them with small variation.
People reach every failure in seconds. Robot recovery is therefore *compact*, while human recovery and evaluation are
sampled over the whole failure family. Nominal starts are always sampled over their whole distribution.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from egorecovery.episodes import Source
from egorecovery.errors import RecipeError
from egorecovery.randomness import generator_for
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.starts import Start

FAILURES_CONSIDERED = 200  # random failures per mode, from which a lab's configurations are chosen


@dataclass(frozen=True, kw_only=True)
class StagingProtocol:
    """Compactness of robot recovery."""

    configurations: int = 12  # staged by hand per task, over all its failure modes
    variation: float = 0.1  # each repetition moves at most this share towards another sample of the family
    configuration_seed: int = 2026  # of the configurations: a property of the lab, not of one data set

    def __post_init__(self) -> None:
        if self.configurations < 1 or not 0 <= self.variation <= 1:
            raise RecipeError(f"at least one configuration and a variation within 0..1 are wanted, got {self}")


def draw_start(
    scene: TaskScene,
    source: Source,
    rng: Generator,
    protocol: StagingProtocol | None = None,
    across_family: bool = False,
    near_misses: bool = False,
) -> Start:
    """A start for one demonstration of a source, with its own appearance.

    With near misses, half of the recoveries start from one, if the task has any.
    """
    protocol = protocol or StagingProtocol()
    if not source.is_recovery:
        return with_appearance(scene.draw_initial(rng), rng)
    near = near_misses and bool(scene.near_misses) and rng.random() < 0.5
    modes = scene.near_misses if near else scene.modes
    if source is Source.ROBOT_RECOVERY and not across_family:
        start = _staged_again(scene, rng, protocol, modes)
    else:
        start = draw_across_family(scene, rng, modes)
    return with_appearance(start, rng)


def draw_across_family(scene: TaskScene, rng: Generator, modes: Mapping[str, float] | None = None) -> Start:
    """A random failure: the mode first, then its parameters, so that rejection does not change mode frequencies."""
    modes = scene.modes if modes is None else modes
    names, weights = list(modes), np.array(list(modes.values()))
    return scene.draw_failure(rng, str(rng.choice(names, p=weights / weights.sum())))


def configurations(
    scene: TaskScene, protocol: StagingProtocol, modes: Mapping[str, float] | None = None
) -> tuple[Start, ...]:
    """The lab's staged failures (see `_configurations`)."""
    return _configurations(scene, protocol, tuple(scene.modes if modes is None else modes))


@lru_cache(maxsize=8)  # by scene: a demonstrator keeps its own
def _configurations(scene: TaskScene, protocol: StagingProtocol, modes: tuple[str, ...]) -> tuple[Start, ...]:
    """The lab's fixed failures: a few of each mode that represent the whole mode.

    With random samples, all four dropped cubes of a lab were on one side of the table, and no policy ever grasped one
    on the other side (docs/log.md). A lab that can stage only a few failures makes sure that they differ.
    """
    shares = {mode: len(range(number, protocol.configurations, len(modes))) for number, mode in enumerate(modes)}
    staged = {mode: _typical(scene, mode, count, protocol.configuration_seed) for mode, count in shares.items()}
    rounds = range(max(shares.values()))
    return tuple(staged[mode][turn] for turn in rounds for mode in modes if turn < shares[mode])


def _typical(scene: TaskScene, mode: str, count: int, seed: int) -> list[Start]:
    """A few of many failures, chosen greedily: each reduces most the distances from all to the nearest chosen one."""
    drawn = [
        scene.draw_failure(
            generator_for(seed=seed, purpose="staged failure", task=scene.task.name, mode=mode, number=number), mode
        )
        for number in range(FAILURES_CONSIDERED)
    ]
    values = np.array([scene.failure_descriptor(start) for start in drawn])
    spread = values.std(axis=0)
    scaled = values / np.where(spread > 0, spread, 1.0)
    apart = np.linalg.norm(scaled[:, None] - scaled, axis=-1)  # pairwise distances
    nearest = np.full(len(drawn), np.inf)  # from each to the nearest chosen one
    chosen: list[Start] = []
    for _ in range(count):
        best = int(np.argmin(np.minimum(apart, nearest).sum(axis=1)))
        nearest = np.minimum(nearest, apart[best])
        chosen.append(drawn[best])
    return chosen


def _staged_again(scene: TaskScene, rng: Generator, protocol: StagingProtocol, modes: Mapping[str, float]) -> Start:
    staged = configurations(scene, protocol, modes)
    known = staged[rng.integers(len(staged))]
    other = scene.draw_failure(rng, known.mode)
    share = rng.uniform(0, protocol.variation)
    # Towards another sample, not by a distance: metres and radians vary alike, and the result stays near the family.
    parameters = {
        name: value + share * (other.parameters[name] - value) if not float(value).is_integer() else value
        for name, value in known.parameters.items()
    }
    return replace(known, parameters=parameters)


def with_appearance(start: Start, rng: Generator) -> Start:
    return replace(start, appearance=int(rng.integers(1, 2**31)))
