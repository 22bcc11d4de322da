"""How much of the failure family does each recovery pool cover?

The paper claims that human recovery broadens failure-state coverage (its later tables: a convex hull 15.4 times
larger), without saying in which space. Here the space is that of the start parameters of one failure mode, each
standardised by the mean and spread of the evaluation starts; parameters that do not vary there are left out.

`plane_ratio` is human over robot hull area in the plane of the two strongest principal components of the evaluation
starts. Standardised parameters that are drawn independently have no strongest components, so that plane is partly
arbitrary: `pair_ratio`, the median over all pairs of parameters, is the steadier number. `matched_ratio` draws as many
human starts as there are robot ones, because a hull also grows with the count. `solid_ratio` is the ratio of volumes
in the three strongest components.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy import ndarray
from scipy.spatial import ConvexHull, Delaunay, KDTree, QhullError

from egorecovery.diagnostics.episode_bootstrap import SEED, DiagnosticError
from egorecovery.diagnostics.figures import COLOUR, FAINT, legend_below, note, panels
from egorecovery.diagnostics.result import Result
from egorecovery.episodes import Embodiment
from egorecovery.randomness import generator_for

MATCHED_DRAWS = 50
_FIXED = 1e-9  # spread below which a parameter does not vary


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolCoverage(Result):
    """Evaluation starts as one training pool sees them. Distances are in standard deviations of the family."""

    starts: int
    mean_nearest: float
    nearest: Float[ndarray, " N"]  # from each evaluation start to the pool's nearest start
    inside: float  # share of evaluation starts within the pool's hull in the plane
    plane: Float[ndarray, "M 2"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ModeCoverage(Result):
    """One failure mode. Ratios are human over robot; infinite where the robot's starts span nothing."""

    parameters: int  # that vary
    plane_ratio: float
    pair_ratio: float
    matched_ratio: float
    solid_ratio: float | None  # None with fewer than three parameters
    robot: PoolCoverage
    human: PoolCoverage
    evaluation_plane: Float[ndarray, "N 2"]


def hull_size(points: Float[ndarray, "N D"]) -> float:
    """Area in 2-D, volume in 3-D; zero when the points do not span the space."""
    if len(points) <= points.shape[1]:
        return 0.0
    try:
        return float(ConvexHull(points).volume)
    except QhullError:
        return 0.0


def nearest_distances(starts: Float[ndarray, "N D"], pool: Float[ndarray, "M D"]) -> Float[ndarray, " N"]:
    """From each start to the nearest one of the pool."""
    return np.asarray(KDTree(pool).query(starts)[0])


def mode_coverage(
    evaluation: Float[ndarray, "N P"],
    robot: Float[ndarray, "M P"],
    human: Float[ndarray, "L P"],
    *,
    seed: int = SEED,
) -> ModeCoverage:
    """Covers one failure mode: rows are starts, columns the parameters of the mode, in the same order for all."""
    for whose, starts in (("evaluation", evaluation), ("robot", robot), ("human", human)):
        if not len(starts):
            raise DiagnosticError(f"no {whose} start of this failure mode: its coverage is not defined")
    spread = evaluation.std(axis=0)
    varies = spread > _FIXED
    if varies.sum() < 2:
        raise DiagnosticError(f"{int(varies.sum())} parameters vary over the evaluation starts; a hull needs two")
    fresh, of_robot, of_human = (
        (points[:, varies] - evaluation[:, varies].mean(axis=0)) / spread[varies]
        for points in (evaluation, robot, human)
    )
    axes = np.linalg.svd(fresh, full_matrices=False)[2].T
    plane, solid = axes[:, :2], axes[:, :3]
    pairs = [list(pair) for pair in combinations(range(fresh.shape[1]), 2)]
    return ModeCoverage(
        parameters=int(varies.sum()),
        plane_ratio=_hull_ratio(of_human @ plane, of_robot @ plane),
        pair_ratio=float(np.median([_hull_ratio(of_human[:, pair], of_robot[:, pair]) for pair in pairs])),
        matched_ratio=_matched_ratio(of_human @ plane, of_robot @ plane, seed),
        solid_ratio=_hull_ratio(of_human @ solid, of_robot @ solid) if solid.shape[1] == 3 else None,
        robot=_pool(fresh, of_robot, plane),
        human=_pool(fresh, of_human, plane),
        evaluation_plane=fresh @ plane,
    )


def _pool(fresh: ndarray, pool: ndarray, plane: ndarray) -> PoolCoverage:
    nearest = nearest_distances(fresh, pool)
    return PoolCoverage(
        starts=len(pool),
        mean_nearest=float(nearest.mean()),
        nearest=nearest,
        inside=float(_inside(fresh @ plane, pool @ plane).mean()),
        plane=pool @ plane,
    )


def _inside(points: ndarray, pool: ndarray) -> Bool[ndarray, " N"]:
    if hull_size(pool) == 0:
        return np.zeros(len(points), bool)
    return np.asarray(Delaunay(pool).find_simplex(points) >= 0)


def _hull_ratio(human: ndarray, robot: ndarray) -> float:
    above, below = hull_size(human), hull_size(robot)
    if below == 0:
        return float("inf") if above > 0 else float("nan")
    return above / below


def _matched_ratio(human: ndarray, robot: ndarray, seed: int) -> float:
    rng = generator_for(seed=seed, purpose="hull of equal count")
    count = min(len(robot), len(human))
    drawn = [_hull_ratio(human[rng.permutation(len(human))[:count]], robot) for _ in range(MATCHED_DRAWS)]
    return float(np.mean(drawn))


def coverage_figure(modes: Mapping[str, ModeCoverage]) -> Figure:
    """One column per failure mode: the plane with both hulls, and how far evaluation starts lie from each pool."""
    figure, axes = panels(2, len(modes), width_in=3.4 * len(modes) + 0.4, height_in=6.4, same_y=True)
    for column, (mode, coverage) in enumerate(modes.items()):
        _draw_plane(axes[0][column], mode, coverage)
        _draw_distances(axes[1][column], coverage)
    axes[0][0].set_ylabel("PC 2 (s.d. of the family)")
    axes[1][0].set_ylabel("share of evaluation starts")
    handles = [Line2D([], [], linestyle="", marker=".", color=FAINT, label="evaluation starts")]
    handles += [
        Line2D([], [], marker=".", color=COLOUR[who], label=f"{who} recovery starts, hull") for who in Embodiment
    ]
    legend_below(figure, handles)
    return figure


def _draw_plane(ax: Axes, mode: str, found: ModeCoverage) -> None:
    ax.scatter(*found.evaluation_plane.T, s=5, color=FAINT, linewidths=0)
    for who, pool in ((Embodiment.HUMAN, found.human), (Embodiment.ROBOT, found.robot)):
        ax.scatter(*pool.plane.T, s=9, color=COLOUR[who], linewidths=0, alpha=0.8)
        if hull_size(pool.plane) > 0:
            corners = pool.plane[ConvexHull(pool.plane).vertices]
            ax.fill(*corners.T, facecolor=(COLOUR[who], 0.12), edgecolor=COLOUR[who], linewidth=1.3)
    ax.set_xlabel("PC 1 (s.d. of the family)")
    ax.set_title(
        f"{mode.replace('_', ' ')}: hull human/robot {found.plane_ratio:.1f}x\n"
        f"(median of pairs {found.pair_ratio:.1f}x, equal count {found.matched_ratio:.1f}x)\n"
        f"evaluation inside: robot {100 * found.robot.inside:.0f}%, human {100 * found.human.inside:.0f}%",
        fontsize=8.5,
    )


def _draw_distances(ax: Axes, found: ModeCoverage) -> None:
    for who, pool in ((Embodiment.ROBOT, found.robot), (Embodiment.HUMAN, found.human)):
        share = np.arange(1, len(pool.nearest) + 1) / len(pool.nearest)
        ax.step(np.sort(pool.nearest), share, where="post", color=COLOUR[who], linewidth=1.6)
        ax.axvline(pool.mean_nearest, color=COLOUR[who], linewidth=0.9, linestyle=":")
    ax.set_xlim(left=0)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("distance to the nearest training start (s.d.)")
    text = f"mean (dotted)\nrobot {found.robot.mean_nearest:.2f}\nhuman {found.human.mean_nearest:.2f}"
    note(ax, text, at=(0.97, 0.04), align="right", base="bottom")
