"""The collection protocol: from which starts each source of data is recorded.

Staging a failure for a robot is slow, so a lab stages a few configurations and repeats them with small variation;
people reach every failure in seconds. Robot recovery is therefore *compact*, human recovery and evaluation are drawn
across the whole family. Nominal starts are drawn across their whole distribution for everybody.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from egorecovery.episodes import Source
from egorecovery.errors import RecipeError
from egorecovery.randomness import generator_for
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.starts import Start


@dataclass(frozen=True, kw_only=True)
class StagingProtocol:
    """How compact robot recovery is."""

    configurations: int = 8  # staged by hand for each task, over all its failure modes
    variation: float = 0.1  # each repetition lies this far (at most) towards another draw of the family
    configuration_seed: int = 2026  # which configurations: a property of the lab, not of one data set

    def __post_init__(self) -> None:
        if self.configurations < 1 or not 0 <= self.variation <= 1:
            raise RecipeError(f"at least one configuration and a variation within 0..1 are wanted, got {self}")


def draw_start(
    scene: TaskScene,
    source: Source,
    rng: Generator,
    protocol: StagingProtocol | None = None,
    across_family: bool = False,
) -> Start:
    """A start for one demonstration of a source, dressed in a look of its own."""
    protocol = protocol or StagingProtocol()
    if not source.is_recovery:
        start = scene.draw_initial(rng)
    elif source is Source.ROBOT_RECOVERY and not across_family:
        start = _staged_again(scene, rng, protocol)
    else:
        start = draw_across_family(scene, rng)
    return dressed(start, rng)


def draw_across_family(scene: TaskScene, rng: Generator) -> Start:
    """Any failure: the mode first, then its parameters, so that no mode is thinned out by rejection."""
    names, weights = list(scene.modes), np.array(list(scene.modes.values()))
    return scene.draw_failure(rng, str(rng.choice(names, p=weights / weights.sum())))


def configurations(scene: TaskScene, protocol: StagingProtocol) -> list[Start]:
    """The lab's staged failures: every mode in turn, each drawn once and for all."""
    modes = list(scene.modes)
    return [
        scene.draw_failure(
            generator_for(
                seed=protocol.configuration_seed, purpose="staged failure", task=scene.task.name, number=number
            ),
            modes[number % len(modes)],
        )
        for number in range(protocol.configurations)
    ]


def _staged_again(scene: TaskScene, rng: Generator, protocol: StagingProtocol) -> Start:
    staged = configurations(scene, protocol)
    known = staged[rng.integers(len(staged))]
    other = scene.draw_failure(rng, known.mode)
    share = rng.uniform(0, protocol.variation)
    # Towards another draw rather than by a distance: metres and radians vary alike, and the family is not left.
    parameters = {
        name: value + share * (other.parameters[name] - value) if not float(value).is_integer() else value
        for name, value in known.parameters.items()
    }
    return replace(known, parameters=parameters)


def dressed(start: Start, rng: Generator) -> Start:
    return replace(start, appearance=int(rng.integers(1, 2**31)))
