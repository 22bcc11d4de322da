"""How a policy grips the disk, and what becomes of the disk: from the traces of `traces.py`.

python benchmarks/traces.py RUN --task round_disk --regime initial --rollouts 60 --out initial.npz
python benchmarks/grips.py initial.npz

A rollout's first lift is where the disk first hangs 20 mm above where it began. `along` is how far the handle's middle
then is from the fingers, along the handle. If a policy puts its hand over the groove and not the disk, the disk comes
down as far off as it was gripped: the slope of `ends` over `along` is 1, and what is off by more than the groove
forgives (4.5 mm) is not seated.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from egorecovery.kinematics.effector_space import ARM_DIM, unpack
from egorecovery.workcell.tasks.round_disk_objects import BOARD, BOARD_HALF_M, DISK

LIFTED_M = 0.02
IN_HAND_M = 0.035  # between the tool and the middle of the plate
FORGIVEN_M = 0.0045  # `grip_tolerance.py`
RIGHT = 1


@dataclass(frozen=True)
class Options:
    traces: Positional[tuple[Path, ...]]


@dataclass(frozen=True, kw_only=True)
class Grip:
    """One rollout."""

    mode: str
    succeeded: bool
    closings: int
    nearest_m: float  # tool to the handle's middle at the first closing, horizontally
    along_m: float | None  # at the first lift; None: never lifted
    ends_m: float  # the disk from the groove, at the end
    ends_along_m: float  # the same along the hand as it was at the first lift, its sign like that of `along_m`
    where: str


def read(path: Path) -> list[Grip]:
    with np.load(path, allow_pickle=False) as kept:
        traces = {name: kept[name] for name in kept.files}
    return [grip(traces, row) for row in range(len(traces["steps"]))]


def grip(traces: dict[str, Any], row: int) -> Grip:
    steps, names = int(traces["steps"][row]), [str(name) for name in traces["names"]]
    effector, target = traces["effector"][row, :steps], traces["target"][row, :steps]
    disk_m, board_m = (traces["objects_m"][row, :steps, names.index(body)] for body in (DISK, BOARD))
    poses = unpack(effector)
    tool_m, axes = poses.position_m[:, RIGHT], poses.rotation[:, RIGHT]
    near = np.linalg.norm(disk_m - tool_m, axis=1) < IN_HAND_M
    lifted = np.flatnonzero(near & (disk_m[:, 2] > disk_m[0, 2] + LIFTED_M))
    opening = target[:, RIGHT * ARM_DIM + ARM_DIM - 1]
    closed = opening < 0.25
    closings = np.flatnonzero(closed[1:] & ~closed[:-1]) + 1
    first = int(closings[0]) if len(closings) else 0
    at = int(lifted[0]) if len(lifted) else None
    off_m = disk_m[-1, :2] - board_m[-1, :2]
    return Grip(
        mode=str(traces["mode"][row]),
        succeeded=bool(traces["succeeded"][row]),
        closings=len(closings),
        nearest_m=float(np.linalg.norm((disk_m - tool_m)[first, :2])),
        along_m=None if at is None else float((disk_m[at] - tool_m[at]) @ axes[at, :, 0]),
        ends_m=float(np.linalg.norm(off_m)),
        ends_along_m=0.0 if at is None else float(off_m @ axes[at, :2, 0]),
        where=whereabouts(float(np.linalg.norm(off_m)), bool(near[-1] and opening[-1] < 0.25)),
    )


def whereabouts(off_m: float, in_hand: bool) -> str:
    if in_hand:
        return "in the hand"
    return "on the board" if off_m < BOARD_HALF_M else "on the table"


def main(options: Options) -> None:
    table = Table(title="first grips and what became of the disk", title_justify="left")
    for column in (
        "traces",
        "start",
        "rollouts",
        "lifted",
        "along, sd mm",
        "centred: seated",
        "off-centre: seated",
        "ends over along",
        "failures: on the board / table / in the hand",
        "median off the groove, mm",
    ):
        table.add_column(column, overflow="fold")
    for path in options.traces:
        grips = read(path)
        for mode in sorted({each.mode for each in grips}):
            table.add_row(path.stem, mode, *summary([each for each in grips if each.mode == mode]))
    Console(width=150).print(table)


def summary(grips: list[Grip]) -> list[str]:
    lifted = [each for each in grips if each.along_m is not None]
    along_m = np.array([each.along_m for each in lifted], float)
    centred = [each for each in lifted if abs(each.along_m or 0.0) <= FORGIVEN_M]
    off_centre = [each for each in lifted if each not in centred]
    placed = [each for each in lifted if each.where == "on the board"]
    failed = [each for each in grips if not each.succeeded]
    places = [sum(each.where == where for each in failed) for where in ("on the board", "on the table", "in the hand")]
    on_board_mm = [1000 * each.ends_m for each in failed if each.where == "on the board"]
    return [
        str(len(grips)),
        str(len(lifted)),
        f"{1000 * float(np.std(along_m)):.1f}" if len(lifted) else "-",
        f"{sum(each.succeeded for each in centred)} / {len(centred)}",
        f"{sum(each.succeeded for each in off_centre)} / {len(off_centre)}",
        slope(placed),
        " / ".join(map(str, places)),
        f"{float(np.median(on_board_mm)):.0f}" if on_board_mm else "-",
    ]


def slope(placed: list[Grip]) -> str:
    """Of where disks end over how they were gripped, with its standard error."""
    if len(placed) < 5:
        return "-"
    along = np.array([each.along_m for each in placed], float)
    ends = np.array([each.ends_along_m for each in placed])
    fitted, covariance = np.polyfit(along, ends, 1, cov=True)
    return f"{fitted[0]:.2f} +- {covariance[0, 0] ** 0.5:.2f}"


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
