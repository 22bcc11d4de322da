"""Commands stay inside position, velocity and acceleration limits, whatever is wanted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.robot import JointLimits, Limits
from egorecovery.robot.command_filter import Clamp, CommandFilter, Motion
from robot_limits import workcell_limits

finite = st.floats(allow_nan=False, allow_infinity=False)
near = st.floats(-4.0, 4.0)


@st.composite
def joint_limits(draw, name="joint"):
    lower = draw(st.floats(-3.0, 2.0))
    velocity = draw(st.floats(0.05, 20.0))
    return JointLimits(
        name=name,
        lower=lower,
        upper=lower + draw(st.floats(0.01, 4.0)),
        velocity=velocity,
        acceleration=velocity / draw(st.floats(0.005, 2.0)),
        jump=20.0,
        tracking_error=None,
    )


def of(*joints) -> Limits:
    return Limits(joints=joints, ramp_in_s=0.0, observation_age_s=1.0, answer_s=1.0, hold_s=1.0)


@st.composite
def histories(draw):
    """Limits, a rate, a place to start, and wishes of every size."""
    joint = draw(joint_limits())
    rate_hz = draw(st.sampled_from([10.0, 25.0, 50.0, 200.0]))
    start = joint.lower + draw(st.floats(0.0, 1.0)) * (joint.upper - joint.lower)
    wishes = draw(st.lists(near | finite | st.sampled_from([1e300, -1e300, 0.0]), min_size=1, max_size=60))
    return joint, rate_hz, start, wishes


@settings(deadline=None)  # this machine may be busy
@given(histories())
def test_commands_never_leave_their_limits_whatever_is_wanted(history):
    joint, rate_hz, start, wishes = history
    filter_ = CommandFilter(of(joint), rate_hz)
    motion = Motion.at_rest(np.array([start]))
    positions, velocities = [start], [0.0]
    for wish in wishes:
        motion, _ = filter_.follow(motion, np.array([wish]))
        positions.append(motion.position[0])
        velocities.append((positions[-1] - positions[-2]) * rate_hz)
    rounding = 1e-9 * rate_hz
    assert min(positions) >= joint.lower
    assert max(positions) <= joint.upper
    assert np.abs(velocities).max() <= joint.velocity + rounding
    assert np.abs(np.diff(velocities)).max() * rate_hz <= joint.acceleration + rounding * rate_hz


@settings(deadline=None)  # this machine may be busy
@given(histories())
def test_braking_ends_at_rest_in_the_stated_time_within_all_limits_from_anywhere(history):
    joint, rate_hz, start, wishes = history
    limits = of(joint)
    filter_ = CommandFilter(limits, rate_hz)
    motion = Motion.at_rest(np.array([start]))
    for wish in wishes:
        motion, _ = filter_.follow(motion, np.array([wish]))
    cycles = 0
    while not motion.rests:
        before, motion = motion, filter_.brake(motion)
        cycles += 1
        moved = (motion.position - before.position)[0] * rate_hz
        assert joint.lower <= motion.position[0] <= joint.upper
        assert abs(moved - before.velocity[0]) * rate_hz <= joint.acceleration * (1 + 1e-6) + 1e-6
        assert moved * before.velocity[0] >= -1e-9  # it never turns back
    assert cycles / rate_hz <= limits.stop_s(rate_hz) + 1e-9


@settings(deadline=None)  # this machine may be busy
@given(histories())
def test_what_limits_allow_is_passed_on_bit_for_bit(history):
    joint, rate_hz, start, wishes = history
    filter_ = CommandFilter(of(joint), rate_hz)
    motion = Motion.at_rest(np.array([start]))
    for wish in wishes:
        motion, clamps = filter_.follow(motion, np.array([wish]))
        if not clamps:
            assert motion.position[0] == np.clip(wish, joint.lower, joint.upper)
            assert motion.position[0] == pytest.approx(wish, abs=0.01)


@pytest.mark.parametrize("joint", [0, 6])
def test_a_joint_arrives_at_the_end_of_its_range_and_stays(joint):
    limits = workcell_limits()
    filter_ = CommandFilter(limits, 25.0)
    motion = Motion.at_rest((filter_.lower + filter_.upper) / 2)
    for _ in range(60):
        motion, _ = filter_.follow(motion, filter_.upper)
    np.testing.assert_array_equal(motion.position, filter_.upper)
    assert motion.rests


@pytest.mark.parametrize(
    ("wanted", "velocity", "clamp"),
    [
        (0.004, 0.0, None),
        (0.3, 0.0, Clamp.ACCELERATION),
        (0.9, 0.99, Clamp.VELOCITY),
        (5.0, 0.0, Clamp.POSITION),
        (-5.0, 0.0, Clamp.POSITION),
    ],
)
def test_every_clamp_says_which_rule_it_was(wanted, velocity, clamp):
    joint = JointLimits(
        name="elbow", lower=-1.0, upper=1.0, velocity=1.0, acceleration=5.0, jump=9.0, tracking_error=None
    )
    motion = Motion(np.zeros(1), np.array([velocity]))
    _, clamps = CommandFilter(of(joint), 25.0).follow(motion, np.array([wanted]))
    assert clamps == ({} if clamp is None else {"elbow": clamp})


@pytest.mark.parametrize(("wanted", "counts"), [(1.003, False), (-0.003, False), (1.05, True), (-0.05, True)])
def test_a_gripper_a_hair_beyond_its_range_is_clamped_and_not_counted(wanted, counts):
    gripper = JointLimits(
        name="gripper", lower=0.0, upper=1.0, velocity=50.0, acceleration=5e3, jump=9.0, tracking_error=None
    )
    at = np.round(np.array([wanted]))
    motion, clamps = CommandFilter(of(gripper), 25.0).follow(Motion.at_rest(at), np.array([wanted]))
    assert motion.position == at
    assert clamps == ({"gripper": Clamp.POSITION} if counts else {})


def test_of_a_narrow_range_less_is_tolerated():
    slide = JointLimits(
        name="slide", lower=0.0, upper=0.05, velocity=1.0, acceleration=50.0, jump=9.0, tracking_error=None
    )
    filter_ = CommandFilter(of(slide), 25.0)
    found = [filter_.follow(Motion.at_rest(np.array([0.05])), np.array([wish]))[1] for wish in (0.0504, 0.053)]
    assert found == [{}, {"slide": Clamp.POSITION}]


def test_a_joint_too_fast_for_the_rest_of_its_range_is_slowed_in_time():
    joint = JointLimits(
        name="elbow", lower=-1.0, upper=1.0, velocity=2.0, acceleration=2.0, jump=9.0, tracking_error=None
    )
    motion = Motion(np.array([0.6]), np.array([1.2]))
    _, clamps = CommandFilter(of(joint), 25.0).follow(motion, np.array([0.9]))
    assert clamps == {"elbow": Clamp.RANGE_END}
