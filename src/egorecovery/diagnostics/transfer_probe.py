"""Does training with human data make the frozen trunk know more about the robot's scene?

A ridge regression from the trunk's feature to the object's position on robot frames. Episodes are kept whole: each is
predicted by a probe that never saw any of its frames, and the ridge is chosen by episodes within the training folds.
If the trunk trained with human data is no better here, no head on it can use what humans showed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from numpy import ndarray
from sklearn.model_selection import GroupKFold

from egorecovery.diagnostics.episode_bootstrap import (
    RESAMPLES,
    SEED,
    DiagnosticError,
    episode_index,
    percentile_interval,
    times_drawn,
)
from egorecovery.diagnostics.figures import FAINT, NEUTRAL, OTHERS, legend_below, panels, whiskers
from egorecovery.diagnostics.result import Result
from egorecovery.randomness import generator_for

FOLDS = 5
RIDGES = tuple(10.0**power for power in range(-2, 6))  # on standardised features: from none to nearly the mean
_MM = 1000.0


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbedPool(Result):
    """One pool of episodes, such as robot recovery. Errors are distances between predicted and true position."""

    frames: int
    r2: float  # share of the pool's variance of position, all axes together; below 0 is worse than the pool's mean
    error_mm: float  # mean over episodes of each episode's mean
    low_mm: float  # 95% interval over episodes
    high_mm: float
    unseen_mm: float  # the same when the feature is ignored: the mean position of the training folds
    episodes: Int[ndarray, " E"]  # their numbers, as given
    episode_mm: Float[ndarray, " E"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbeGain(Result):
    """How much nearer one trunk comes than another on the same episodes. Positive: the second is better."""

    gain_mm: float
    low_mm: float
    high_mm: float
    better_episodes: float  # share


def transfer_probe(
    feature: Float[ndarray, "N D"],
    position_m: Float[ndarray, "N X"],
    episode: Int[ndarray, " N"],
    pool: Sequence[str],
    *,
    folds: int = FOLDS,
    seed: int = SEED,
) -> dict[str, ProbedPool]:
    """Probes all frames with one regression, and scores each pool apart. Pools are named frame by frame."""
    number = episode_index(episode, len(feature), "the probe")
    if len(position_m) != len(feature) or len(pool) != len(feature):
        raise DiagnosticError(
            f"{len(feature)} features, {len(position_m)} positions, {len(pool)} pool names: not equal"
        )
    if number.max() + 1 < 2 * folds:
        raise DiagnosticError(f"{number.max() + 1} episodes for {folds} folds: at least two per fold are wanted")
    seen, unseen = _held_out(feature.astype(np.float64), position_m.astype(np.float64), number, folds)
    names = np.asarray(pool)
    return {
        str(name): _score(
            position_m[chosen].astype(np.float64), seen[chosen], unseen[chosen], episode[chosen], str(name), seed
        )
        for name in dict.fromkeys(pool)
        for chosen in [names == name]
    }


def probe_gain(without: ProbedPool, with_human: ProbedPool, *, seed: int = SEED) -> ProbeGain:
    """Paired by episode, as both trunks are probed on the same frames."""
    if not np.array_equal(without.episodes, with_human.episodes):
        raise DiagnosticError("the two trunks were probed on different episodes: give both the same frames")
    gain = without.episode_mm - with_human.episode_mm
    low, high = _episode_interval(gain, "probe gain", seed)
    return ProbeGain(gain_mm=float(gain.mean()), low_mm=low, high_mm=high, better_episodes=float((gain > 0).mean()))


def _held_out(feature: ndarray, position_m: ndarray, number: ndarray, folds: int) -> tuple[ndarray, ndarray]:
    """Every frame predicted by a probe, and by a mean, that never saw its episode."""
    seen, unseen = np.empty_like(position_m), np.empty_like(position_m)
    for train, test in GroupKFold(folds).split(feature, groups=number):
        missed = np.zeros(len(RIDGES))
        for fit, check in GroupKFold(max(2, folds - 1)).split(train, groups=number[train]):
            guesses = ridge_path(feature[train[fit]], position_m[train[fit]], feature[train[check]])
            missed += np.square(guesses - position_m[train[check]]).sum(axis=(1, 2))
        seen[test] = ridge_path(feature[train], position_m[train], feature[test])[np.argmin(missed)]
        unseen[test] = position_m[train].mean(axis=0)
    return seen, unseen


def ridge_path(
    feature: Float[ndarray, "N D"], position_m: Float[ndarray, "N X"], asked: Float[ndarray, "M D"]
) -> Float[ndarray, "R M X"]:
    """Predictions for `asked` by every ridge of RIDGES, from one eigendecomposition."""
    middle, spread = feature.mean(axis=0), feature.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    known, asked = (feature - middle) / spread, (asked - middle) / spread
    mean_m = position_m.mean(axis=0)
    values, vectors = np.linalg.eigh(known.T @ known)
    along = vectors.T @ (known.T @ (position_m - mean_m))
    return np.stack([asked @ (vectors @ (along / (values + ridge)[:, None])) + mean_m for ridge in map(float, RIDGES)])


def _score(position_m: ndarray, seen: ndarray, unseen: ndarray, episode: ndarray, name: str, seed: int) -> ProbedPool:
    total = float(np.square(position_m - position_m.mean(axis=0)).sum())
    missed = float(np.square(position_m - seen).sum())
    episodes, number = np.unique(episode, return_inverse=True)
    episode_mm = _episode_means(position_m - seen, number)
    low, high = _episode_interval(episode_mm, name, seed)
    return ProbedPool(
        frames=len(position_m),
        r2=1 - missed / total if total > 0 else float("nan"),
        error_mm=float(episode_mm.mean()),
        low_mm=low,
        high_mm=high,
        unseen_mm=float(_episode_means(position_m - unseen, number).mean()),
        episodes=episodes,
        episode_mm=episode_mm,
    )


def _episode_means(error_m: ndarray, number: ndarray) -> Float[ndarray, " E"]:
    return _MM * np.bincount(number, np.linalg.norm(error_m, axis=1)) / np.bincount(number)


def _episode_interval(values: ndarray, purpose: str, seed: int) -> tuple[float, float]:
    counts = times_drawn(len(values), RESAMPLES, generator_for(seed=seed, purpose=f"probe bootstrap of {purpose}"))
    low, high = percentile_interval(counts @ values / len(values))
    return float(low), float(high)


def probe_figure(trunks: Mapping[str, Mapping[str, ProbedPool]]) -> Figure:
    """Error by pool, one colour per trunk; the grey line is what ignoring the image costs."""
    pools = list(dict.fromkeys(name for pools_of_trunk in trunks.values() for name in pools_of_trunk))
    figure, axes = panels(1, 1, width_in=1.9 * len(pools) + 2.6, height_in=3.3)
    ax = axes[0][0]
    step = 0.8 / len(trunks)
    for row, (trunk, pools_of_trunk) in enumerate(trunks.items()):
        place = np.arange(len(pools)) - 0.4 + step * (row + 0.5)
        probed = [pools_of_trunk[name] for name in pools]
        error, low, high, unseen, r2 = np.array(
            [[pool.error_mm, pool.low_mm, pool.high_mm, pool.unseen_mm, pool.r2] for pool in probed]
        ).T
        ax.bar(place, error, 0.9 * step, color=OTHERS[row % len(OTHERS)], label=trunk)
        ax.errorbar(place, error, whiskers(error, low, high), fmt="none", ecolor="black", capsize=3, elinewidth=0.9)
        ax.hlines(unseen, place - step / 2, place + step / 2, colors=NEUTRAL, linestyles="--", linewidth=1.3)
        for at, top, value in zip(place, high, r2, strict=True):
            ax.annotate(f"$R^2$ {value:.2f}", (at, top), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    ax.plot([], [], color=NEUTRAL, linestyle="--", label="without looking (mean position)")
    ax.set_xticks(range(len(pools)), [name.replace("_", " ") for name in pools])
    ax.set_ylabel("held-out position error (mm)")
    ax.yaxis.grid(True, color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    legend_below(figure, ax.get_legend_handles_labels()[0])
    return figure
