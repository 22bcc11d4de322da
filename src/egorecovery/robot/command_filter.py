"""Limits commands to positions, velocities and accelerations: pure arithmetic, one control cycle at a time.

Velocities and accelerations are differences between successive commands. A velocity is allowed only if the joint can
still brake before the end of its range, so braking is possible after every command.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from egorecovery.robot.limits import Limits
from egorecovery.robot.robot import Joints

# A target this far beyond its range is clamped and not counted, as nobody would call it out of range: policies answer
# 1.003 for an open gripper all the time. In radians, or of a gripper's range; of a narrow range a hundredth.
TOLERATED, TOLERATED_SHARE = 0.01, 0.01
LARGEST_WANTED = 1e6  # larger targets are clipped to this, so that arithmetic on 1e300 cannot overflow


class Clamp(StrEnum):
    """Why a joint's command differs from the policy's action."""

    POSITION = "position"  # the target is outside the joint's range, by more than is tolerated
    VELOCITY = "velocity"
    ACCELERATION = "acceleration"
    RANGE_END = "range end"  # too fast to brake before the end of the range


_RULES = (Clamp.VELOCITY, Clamp.ACCELERATION, Clamp.RANGE_END)


@dataclass(frozen=True, eq=False)
class Motion:
    """The last command and the velocity of commands."""

    position: Joints
    velocity: Joints  # per second

    @classmethod
    def at_rest(cls, position: Joints) -> "Motion":
        return cls(position, np.zeros_like(position))

    @property
    def rests(self) -> bool:
        return not self.velocity.any()


class CommandFilter:
    """Applies a robot's limits at its rate."""

    def __init__(self, limits: Limits, rate_hz: float) -> None:
        self.names = limits.names
        self.period_s = 1.0 / rate_hz
        self.lower, self.upper = limits.of_each("lower"), limits.of_each("upper")
        self._tolerated = np.minimum(TOLERATED, TOLERATED_SHARE * (self.upper - self.lower))
        self._highest = limits.of_each("velocity")
        self._change = limits.of_each("acceleration") * self.period_s  # of velocity, in one cycle

    def follow(self, motion: Motion, wanted: Joints, speed: float = 1.0) -> tuple[Motion, dict[str, Clamp]]:
        """The next command, as near to a finite target as the limits allow, and the clamped joints.

        `speed` scales the highest velocity; between two stops it may only grow.
        """
        assert np.isfinite(wanted).all()
        target = np.clip(wanted, self.lower, self.upper)
        asked = np.clip(target - motion.position, -LARGEST_WANTED, LARGEST_WANTED) / self.period_s
        room_up, room_down = self.upper - motion.position, motion.position - self.lower
        # The highest velocity of each joint that each rule allows, up and down.
        up = np.stack([self._highest * speed, self._change + motion.velocity, self._fastest(room_up)])
        down = np.stack([self._highest * speed, self._change - motion.velocity, self._fastest(room_down)])
        most, least = up.min(axis=0), -down.min(axis=0)
        velocity = np.clip(asked, np.minimum(least, most), most)  # rounding alone can bring `least` above `most`
        free = velocity == asked
        position = np.where(free, target, np.clip(motion.position + velocity * self.period_s, self.lower, self.upper))
        strictest = np.where(asked > velocity, up.argmin(axis=0), down.argmin(axis=0))
        clamps = {self.names[joint]: _RULES[strictest[joint]] for joint in np.flatnonzero(~free)}
        outside = {
            self.names[joint]: Clamp.POSITION for joint in np.flatnonzero(np.abs(wanted - target) > self._tolerated)
        }
        return Motion(position, velocity), {**clamps, **outside}

    def brake(self, motion: Motion) -> Motion:
        """The next command on the shortest way to rest."""
        speed = np.abs(motion.velocity)
        # Without this, rounding could leave one more cycle that brakes a rounding error.
        slower = np.where(speed <= self._change * (1 + 1e-9), 0.0, speed - self._change)
        velocity = np.sign(motion.velocity) * slower
        position = np.clip(motion.position + velocity * self.period_s, self.lower, self.upper)
        return Motion(position, velocity)

    def _fastest(self, room: Joints) -> Joints:
        """The highest velocity of the next cycle after which braking still ends within `room`.

        Braking takes away `change` in each cycle, so a velocity v travels period * (v + (v - change) + ...). With n
        terms that is period * (n v - change n (n - 1) / 2), which is solved for v.
        """
        cycles_room = np.maximum(room, 0.0) / self.period_s
        terms = np.maximum(np.ceil((np.sqrt(1.0 + 8.0 * cycles_room / self._change) - 1.0) / 2.0), 1.0)
        return cycles_room / terms + self._change * (terms - 1.0) / 2.0
