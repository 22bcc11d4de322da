"""Whether a robot moved as it should: speeds, accelerations and reversals of the commands that a run recorded.

python benchmarks/robot_motion.py MOTION.npz [...] --limits examples/limits/workcell.json [--log control.jsonl]
    [--plot PATH.png]

`egorecovery control --record FOLDER` and `--motion FILE` of a robot's own script write such files. Velocities are
counted from command to command, at the robot's rate. A reversal is a change of a command's direction between two cycles
where it moves faster than 0.1 rad/s both before and after: an arm that goes where it should has few of them, one that
vibrates has several a second. With the log of the run, accelerations in the cycles after a new chunk are compared with
all others: where chunks do not fit together, they are higher.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from egorecovery.robot.limits import Limits, read_limits
from egorecovery.robot.motion import RecordedMotion, read_motion

MOVES_RAD_S = 0.1  # what is slower is no reversal
AFTER_CYCLES = 4  # after a new chunk


@dataclass(frozen=True, kw_only=True)
class Options:
    motions: Positional[tuple[Path, ...]]
    limits: Path
    log: Path | None = None
    """Of the same run: where chunks began."""
    plot: Path | None = None
    """Velocity and acceleration of every joint over time, of the first file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Kinematics:
    """Commands of a run, and their derivatives in steps of one control cycle."""

    period_s: float
    position: np.ndarray  # (T, J), NaN where nothing was sent

    @classmethod
    def of(cls, motion: RecordedMotion) -> "Kinematics":
        return cls(period_s=1 / motion.rate_hz, position=motion.commanded)

    @property
    def velocity(self) -> np.ndarray:
        return np.diff(self.position, axis=0) / self.period_s

    @property
    def acceleration(self) -> np.ndarray:
        return np.diff(self.velocity, axis=0) / self.period_s

    @property
    def reversals(self) -> np.ndarray:
        """How often each joint turned."""
        before, after = self.velocity[:-1], self.velocity[1:]
        with np.errstate(invalid="ignore"):
            fast = (np.abs(before) > MOVES_RAD_S) & (np.abs(after) > MOVES_RAD_S)
            return (fast & (np.sign(before) != np.sign(after))).sum(axis=0)


def described(motion: RecordedMotion, limits: Limits) -> Table:
    kinematics = Kinematics.of(motion)
    sent = np.isfinite(motion.commanded).all(axis=1)
    gaps_s = np.diff(motion.time_s)
    table = Table(
        title=f"{len(sent)} cycles, {sent.sum()} with a command; between cycles median {np.median(gaps_s) * 1000:.1f} "
        f"ms, p99 {np.quantile(gaps_s, 0.99) * 1000:.0f} ms, longest {gaps_s.max() * 1000:.0f} ms",
        title_justify="left",
        box=None,
    )
    heads = ("joint", "range used", "velocity, p99", "largest", "limit", "acceleration, p99", "largest", "limit")
    for column in (*heads, "lag", "reversals/s"):
        table.add_column(column, justify="left" if column == "joint" else "right")
    velocity, acceleration = np.abs(kinematics.velocity), np.abs(kinematics.acceleration)
    lag = np.nanmax(np.abs(motion.measured[1:] - motion.commanded[:-1]), axis=0)
    moving_s = max(sent.sum() * kinematics.period_s, kinematics.period_s)
    for joint, name in enumerate(motion.names):
        limit = limits.joints[joint]
        position = kinematics.position[sent, joint]
        table.add_row(
            name,
            f"{position.min():.2f}..{position.max():.2f}",
            *(f"{value:.2f}" for value in _spread(velocity[:, joint])),
            f"{limit.velocity:g}",
            *(f"{value:.1f}" for value in _spread(acceleration[:, joint])),
            f"{limit.acceleration:g}",
            f"{lag[joint]:.3f}",
            f"{kinematics.reversals[joint] / moving_s:.2f}",
        )
    return table


def _spread(values: np.ndarray) -> tuple[float, float]:
    return float(np.nanquantile(values, 0.99)), float(np.nanmax(values))


def problems(motion: RecordedMotion, limits: Limits) -> list[str]:
    """Commands outside limits; there must be none."""
    kinematics, found = Kinematics.of(motion), []
    for joint, limit in enumerate(limits.joints):
        position = kinematics.position[:, joint]
        for what, worst, allowed in (
            ("below its range", np.nanmax(limit.lower - position), 0.0),
            ("above its range", np.nanmax(position - limit.upper), 0.0),
            ("too fast", np.nanmax(np.abs(kinematics.velocity[:, joint])), limit.velocity),
            ("too abrupt", np.nanmax(np.abs(kinematics.acceleration[:, joint])), limit.acceleration),
        ):
            if worst > allowed + 1e-6 * max(1.0, allowed):
                found.append(f"{limit.name} is {what}: {worst:.4g}, limit {allowed:g}")
    return found


def switch_lines(motion: RecordedMotion, log: Path) -> Iterator[str]:
    """Accelerations of the arms after new chunks, and otherwise."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    starts_s = np.array([event["time_s"] for event in events if event["event"] == "chunk"])
    starts_s = starts_s[(starts_s > motion.time_s[0]) & (starts_s < motion.time_s[-1])][
        1:
    ]  # the first one is no switch
    after = np.zeros(len(motion.time_s), bool)
    for cycle in np.searchsorted(motion.time_s, starts_s):
        after[cycle : cycle + AFTER_CYCLES] = True
    turning = [joint for joint, name in enumerate(motion.names) if "gripper" not in name]
    acceleration = np.abs(Kinematics.of(motion).acceleration[:, turning])  # of commands k, k + 1, k + 2
    for where, chosen in (("after a new chunk", after[2:]), ("otherwise", ~after[2:])):
        worst = np.nanmax(acceleration[chosen], axis=1, initial=0)
        yield (
            f"{where} ({chosen.sum()} cycles): largest acceleration of any joint, rad/s^2: median "
            f"{np.median(worst):.2f}, p99 {np.quantile(worst, 0.99):.2f}, largest {worst.max():.2f}"
        )
    yield f"{len(starts_s)} switches"


def plot(motion: RecordedMotion, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kinematics, since_s = Kinematics.of(motion), motion.time_s - motion.time_s[0]
    figure, rows = pyplot.subplots(3, 2, figsize=(14, 9), sharex=True)
    joints = len(motion.names) // 2
    for arm, column in enumerate(rows.T):
        chosen = slice(arm * joints, (arm + 1) * joints - 1)  # without the gripper
        shown = ((kinematics.position, "position (rad)"), (kinematics.velocity, "velocity (rad/s)"),
                 (kinematics.acceleration, "acceleration (rad/s²)"))  # fmt: skip
        for axes, (values, words) in zip(column, shown, strict=True):
            axes.plot(since_s[len(since_s) - len(values) :], values[:, chosen], linewidth=0.8)
            axes.set_ylabel(words)
            axes.grid(alpha=0.3)
        column[0].legend(motion.names[chosen], fontsize=7, ncols=3)
        column[-1].set_xlabel("s")
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main(options: Options) -> None:
    limits = read_limits(options.limits)
    for path in options.motions:
        motion = read_motion(path)
        print(path)
        Console(width=120).print(described(motion, limits))
        print("\n".join(problems(motion, limits)) or "every command is inside all limits")
        for line in switch_lines(motion, options.log) if options.log else ():
            print(line)
        print()
    if options.plot:
        plot(read_motion(options.motions[0]), options.plot)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
