"""The facts and rules of disk placement."""

from dataclasses import dataclass

import numpy as np

from egorecovery.workcell.objects import Pose
from egorecovery.workcell.tasks.round_disk_objects import CLEARANCE_M, DISK_RADIUS_M, PLATE_M, RIM_M

REACHABLE_M = ((-0.16, 0.2), (-0.28, 0.16))  # x and y; a disk dropped outside has left the workspace
FLUSH_M = 0.0015  # the plate's edge may stand this high above the rim; resting on it, it stands at least 8 mm high
STILL_MPS = 0.02
DISPLACED_M, TURNED_RAD = 0.015, 0.35  # the board may be touched, not moved


@dataclass(frozen=True, eq=False)
class DiskFacts:
    disk: Pose  # its origin is the centre of the plate
    board: Pose  # its origin is on the table, below the centre of the groove
    held: bool
    on_board: bool  # they touch

    @property
    def offset_m(self) -> float:
        """Distance of the plate's centre from the groove's axis."""
        return float(np.linalg.norm(self.board.of(self.disk.position_m)[:2]))

    @property
    def protrusion_m(self) -> float:
        """Height of the plate's highest point above the rim."""
        up = self.board.axes.T @ self.disk.up
        edge_m = PLATE_M / 2 * abs(float(up[2])) + DISK_RADIUS_M * float(np.hypot(up[0], up[1]))
        return float(self.board.of(self.disk.position_m)[2] + edge_m - RIM_M)


def seated(facts: DiskFacts) -> bool:
    """Flush and released. The paper requires a disk that stays seated, which a held one need not."""
    return flush(facts) and not facts.held and facts.disk.speed_mps < STILL_MPS


def flush(facts: DiskFacts) -> bool:
    """Whether the disk is in the groove with no part of the plate on or above the rim, held or not."""
    return facts.offset_m < CLEARANCE_M + 0.001 and facts.protrusion_m < FLUSH_M


def lost(facts: DiskFacts, first: DiskFacts) -> str | None:
    """A description of a failure that no retry can repair, or None. A disk in the hand is never dropped."""
    moved_m = np.linalg.norm(facts.board.position_m[:2] - first.board.position_m[:2])
    if moved_m > DISPLACED_M:
        return f"the board was displaced by {moved_m * 1000:.0f} mm"
    turn_rad = facts.board.turned_rad(first.board)
    if turn_rad > TURNED_RAD:
        return f"the board was turned by {np.rad2deg(turn_rad):.0f} degrees"
    if not facts.held and not _reachable(facts.disk):
        return "the disk was dropped outside the reachable workspace"
    return None


def _reachable(disk: Pose) -> bool:
    inside = [low <= value <= high for value, (low, high) in zip(disk.position_m, REACHABLE_M, strict=False)]
    return bool(all(inside) and disk.position_m[2] > 0)
