"""Does the trained Intent Head bring robot and human together, more than any map to four dimensions would?

Paper, "Additional Ablations and Mechanism Analysis", second diagnostic. Frames: those of recovery episodes whose
intent window is valid, split at the boundary into recovery and nominal; success episodes are left out, as they
receive no intent supervision. W2_R is the dimension-normalised sliced W2 between robot and human recovery frames,
W2_N the same for nominal frames, rho = W2_R / W2_N: below one, recovery is better aligned than nominal work. The
shrink factor of a 4-D space is W2_R of the pooled trunk feature (256-D) over W2_R of that space: for the predicted
intent, a random Johnson-Lindenstrauss projection of the feature, and its four strongest principal components.

Beyond the paper: W2 has the units of its space, and nothing ties the intent's units to the trunk's, so a head with
small weights "shrinks" too. `relative_w2` divides W2_R by the spread of the pooled frames (root mean square distance
from their mean): 0 when robot and human coincide, 2 when they are two points apart; free of units, so trust it first.
`within_w2` is the distance between halves of one embodiment's own episodes: no alignment can be seen below it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from numpy.random import Generator
from sklearn.decomposition import PCA
from sklearn.random_projection import GaussianRandomProjection

from egorecovery.diagnostics.episode_bootstrap import SEED, DiagnosticError
from egorecovery.diagnostics.result import Result
from egorecovery.diagnostics.sliced_wasserstein import random_frames, sliced_w2
from egorecovery.episodes import Embodiment
from egorecovery.intent import FrameLabels
from egorecovery.randomness import generator_for

PROJECTIONS = 16  # of Johnson-Lindenstrauss: one 4-D draw alone is off by a third
SPLITS = 4  # into halves, for `within_w2` ...
WITHIN_DIRECTIONS = 64  # ... each along fewer directions: it is a yardstick, not a result
SHOWN = 300  # points per embodiment and phase kept for the figure


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadFrames:
    """What enters and leaves the Intent Head on one embodiment's frames."""

    feature: Float[ndarray, "N D"]  # pooled trunk feature
    intent: Float[ndarray, "N C"]  # predicted c_t
    recovery: Bool[ndarray, " N"]  # else nominal
    episode: Int[ndarray, " N"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SpaceAlignment(Result):
    """Robot against human in one space."""

    dimensions: int
    recovery_w2: float  # W2_R
    nominal_w2: float  # W2_N
    rho: float
    relative_w2: float  # W2_R over the pooled spread of recovery frames
    within_w2: float  # of recovery frames, between halves of one embodiment's episodes
    shrink: float  # W2_R of the feature over W2_R here
    relative_shrink: float  # the same of relative_w2: free of units


@dataclass(frozen=True, kw_only=True, eq=False)
class Plane(Result):
    """The two strongest principal components, for the eye only: no distance is taken here."""

    points: Float[ndarray, "N 2"]
    human: Bool[ndarray, " N"]
    recovery: Bool[ndarray, " N"]
    explained: float  # share of the variance


@dataclass(frozen=True, kw_only=True, eq=False)
class BottleneckAlignment(Result):
    """The trained bottleneck beside the maps that know nothing of intent."""

    feature: SpaceAlignment
    intent: SpaceAlignment
    random_jl: SpaceAlignment
    pca: SpaceAlignment
    feature_plane: Plane
    intent_plane: Plane
    frames: Mapping[str, int]


def diagnosed_frames(labels: FrameLabels) -> Bool[ndarray, " T"]:
    """The frames of one episode that enter: a valid window, in a recovery episode. `in_recovery` splits them."""
    return labels.gt_intent_valid


def bottleneck_alignment(robot: HeadFrames, human: HeadFrames, *, seed: int = SEED) -> BottleneckAlignment:
    """All four spaces, measured with the same frames."""
    _require_both_phases(robot, human)
    size = robot.intent.shape[1]
    both = np.concatenate([robot.feature, human.feature]).astype(np.float64)
    pca = PCA(n_components=size, svd_solver="full").fit(both)
    feature = _aligned(robot, human, robot.feature, human.feature, None, seed)
    projected = []
    for number in range(PROJECTIONS):
        state = int(generator_for(seed=seed, purpose="JL projection", number=number).integers(2**31))
        flat = GaussianRandomProjection(n_components=size, random_state=state).fit(both)
        projected.append(
            _aligned(robot, human, flat.transform(robot.feature), flat.transform(human.feature), feature, seed)
        )
    return BottleneckAlignment(
        feature=feature,
        intent=_aligned(robot, human, robot.intent, human.intent, feature, seed),
        random_jl=_average(projected),
        pca=_aligned(robot, human, pca.transform(robot.feature), pca.transform(human.feature), feature, seed),
        feature_plane=_plane(robot, human, robot.feature, human.feature, seed),
        intent_plane=_plane(robot, human, robot.intent, human.intent, seed),
        frames={
            f"{who} {phase}": int(np.sum(frames.recovery == (phase == "recovery")))
            for who, frames in ((Embodiment.ROBOT, robot), (Embodiment.HUMAN, human))
            for phase in ("recovery", "nominal")
        },
    )


def _aligned(
    robot: HeadFrames,
    human: HeadFrames,
    in_robot: ndarray,
    in_human: ndarray,
    feature: SpaceAlignment | None,
    seed: int,
) -> SpaceAlignment:
    in_robot, in_human = in_robot.astype(np.float64), in_human.astype(np.float64)
    dimensions = in_robot.shape[1]
    frames = random_frames(dimensions, generator_for(seed=seed, purpose="slices", dimensions=dimensions))
    of_robot, of_human = in_robot[robot.recovery], in_human[human.recovery]
    recovery_w2 = sliced_w2(of_robot, of_human, frames)
    nominal_w2 = sliced_w2(in_robot[~robot.recovery], in_human[~human.recovery], frames)
    relative_w2 = _ratio(recovery_w2, _spread(of_robot, of_human))
    rng = generator_for(seed=seed, purpose="episode halves", dimensions=dimensions)
    within = [
        _within(points, pool.episode[pool.recovery], frames[: max(1, WITHIN_DIRECTIONS // dimensions)], rng)
        for points, pool in ((of_robot, robot), (of_human, human))
    ]
    return SpaceAlignment(
        dimensions=dimensions,
        recovery_w2=recovery_w2,
        nominal_w2=nominal_w2,
        rho=_ratio(recovery_w2, nominal_w2),
        relative_w2=relative_w2,
        within_w2=float(np.mean(within)),
        shrink=1.0 if feature is None else _ratio(feature.recovery_w2, recovery_w2),
        relative_shrink=1.0 if feature is None else _ratio(feature.relative_w2, relative_w2),
    )


def _within(points: ndarray, episode: ndarray, frames: ndarray, rng: Generator) -> float:
    """Mean distance between two halves of one embodiment's episodes; unknown for a single episode."""
    names = np.unique(episode)
    if len(names) < 2:
        return float("nan")
    distances = []
    for _ in range(SPLITS):
        half = np.isin(episode, rng.permutation(names)[: len(names) // 2])
        distances.append(sliced_w2(points[half], points[~half], frames))
    return float(np.mean(distances))


def _average(spaces: list[SpaceAlignment]) -> SpaceAlignment:
    """Geometric, as ratios want it: the shrink factor stays the ratio of the averaged distances."""
    names = ("recovery_w2", "nominal_w2", "rho", "relative_w2", "within_w2", "shrink", "relative_shrink")
    with np.errstate(divide="ignore"):
        mean = {name: float(np.exp(np.mean(np.log([getattr(space, name) for space in spaces])))) for name in names}
    return SpaceAlignment(dimensions=spaces[0].dimensions, **mean)


def _spread(first: ndarray, second: ndarray) -> float:
    """Root mean square distance from the common mean, each embodiment counting half whatever its frames."""
    middle = (first.mean(axis=0) + second.mean(axis=0)) / 2
    squares = [np.square(points - middle).sum(axis=1).mean() for points in (first, second)]
    return float(np.sqrt(np.mean(squares)))


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else float("inf")


def _plane(robot: HeadFrames, human: HeadFrames, in_robot: ndarray, in_human: ndarray, seed: int) -> Plane:
    both = np.concatenate([in_robot, in_human]).astype(np.float64)
    is_human = np.arange(len(both)) >= len(in_robot)
    recovery = np.concatenate([robot.recovery, human.recovery])
    pca = PCA(n_components=2, svd_solver="full").fit(both)
    order = generator_for(seed=seed, purpose="points shown").permutation(len(both))
    kept = [order[(is_human == who)[order] & (recovery == phase)[order]][:SHOWN] for who in (0, 1) for phase in (0, 1)]
    shown = np.sort(np.concatenate(kept))
    return Plane(
        points=pca.transform(both[shown]),
        human=is_human[shown],
        recovery=recovery[shown],
        explained=float(pca.explained_variance_ratio_.sum()),
    )


def _require_both_phases(robot: HeadFrames, human: HeadFrames) -> None:
    for who, frames in ((Embodiment.ROBOT, robot), (Embodiment.HUMAN, human)):
        for phase, present in (("recovery", frames.recovery), ("nominal", ~frames.recovery)):
            if not present.any():
                raise DiagnosticError(f"no {phase} frame of the {who} has a valid intent window; add episodes")
