"""The guard and the controller: whatever a policy says, joints stay inside limits, faults end at rest, rest is rest."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.robot import JointLimits, Limits, Measurement, Mode, Playback
from egorecovery.robot.controller import Controller
from egorecovery.robot.guard import Cause, Fault, Guard, Phase
from egorecovery.serving.client import Reply

RATE_HZ = 25.0
PERIOD_S = 1 / RATE_HZ
LIMITS = Limits(
    joints=tuple(
        JointLimits(
            name=name, lower=-1.0, upper=1.5, velocity=2.0, acceleration=10.0, jump=0.5, tracking_error=tracking
        )
        for name, tracking in (("shoulder", 0.3), ("gripper", None))
    ),
    ramp_in_s=0.4,
    observation_age_s=0.2,
    answer_s=0.5,
    hold_s=0.3,
)
STOP_S = LIMITS.stop_s(RATE_HZ)
PERSON = Fault(Cause.PERSON, "the stop key")


class Sim:
    """A robot that is exactly where it was commanded, on a clock that steps."""

    def __init__(self, subject, joints=(0.0, 0.5)):
        self.subject, self.joints, self.now_s, self.age_s = subject, np.array(joints), 0.0, 0.0
        self.is_inside = (np.abs(self.joints - 0.25) <= 1.25).all()
        self.commands, self.velocity = [self.joints], np.zeros(2)

    def cycle(self, *arguments, **how):
        cycle = self.subject.cycle(self.now_s, Measurement(self.now_s - self.age_s, self.joints), *arguments, **how)
        self.now_s += PERIOD_S
        if cycle.command is not None:
            velocity = (cycle.command - self.joints) * RATE_HZ
            assert (cycle.command >= -1.0).all()
            assert (cycle.command <= 1.5).all()
            assert np.abs(velocity).max() <= 2.0 + 1e-9
            if self.is_inside:
                assert np.abs(velocity - self.velocity).max() * RATE_HZ <= 10.0 + 1e-6
            self.joints, self.velocity = cycle.command.copy(), velocity
        else:
            assert not self.velocity.any()  # nothing is left to the robot while it moves
        self.commands.append(self.joints)
        return cycle

    def until_rest(self):
        """Seconds from now until nothing moves."""
        begun_s = self.now_s
        while self.subject.phase is not Phase.STOPPED:
            assert self.now_s - begun_s < 10 * STOP_S
            self.cycle(*[None] * isinstance(self.subject, Guard))
        return self.now_s - begun_s


def running_guard(at=(0.0, 0.5)):
    sim = Sim(Guard(LIMITS, RATE_HZ), at)
    for step in range(8):
        sim.cycle(np.array(at) + 0.05 * step)
    assert sim.subject.phase is Phase.RUNNING
    return sim


anything = st.floats() | st.floats(-2.0, 2.0) | st.sampled_from([1e300, -1e300, float("nan"), float("inf")])
events = st.one_of(
    st.tuples(st.just("action"), st.lists(anything, min_size=2, max_size=2)),
    st.tuples(st.just("near"), st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=2)),
    st.tuples(st.sampled_from(["none", "late", "stop", "rearm", "stale", "thrown"]), st.just([])),
)


@settings(deadline=None)  # this machine may be busy
@given(st.lists(events, max_size=80))
def test_any_sequence_of_actions_and_faults_keeps_joints_inside_all_limits(happenings):
    sim = Sim(Guard(LIMITS, RATE_HZ))
    wanted = sim.joints
    for what, numbers in happenings:
        if what in ("action", "near"):
            wanted = np.array(numbers) + (sim.joints if what == "near" else 0.0)
        elif what == "stop":
            sim.subject.stop(PERSON)
        elif what == "rearm":
            sim.subject.rearm()
        sim.age_s = 1.0 if what == "stale" else 0.0
        sim.cycle(None if what == "none" and not sim.velocity.any() else wanted, fresh=what != "late")
    sim.subject.stop(PERSON)
    assert sim.until_rest() <= STOP_S + PERIOD_S + 1e-9


@settings(deadline=None)  # this machine may be busy
@given(st.lists(events, max_size=60))
def test_after_a_stop_nothing_moves_until_a_person_has_rearmed(happenings):
    sim = running_guard()
    sim.subject.stop(PERSON)
    sim.until_rest()
    rest = sim.joints
    for what, numbers in happenings:
        if what != "rearm":
            cycle = sim.cycle(np.array(numbers or [9.0, 9.0]), fresh=what != "late")
            assert (cycle.command, cycle.phase) == (None, Phase.STOPPED)
    np.testing.assert_array_equal(sim.joints, rest)
    assert sim.subject.fault == PERSON


def test_the_first_fault_is_the_one_that_is_remembered():
    sim = running_guard()
    sim.cycle(np.array([np.nan, 0.5]))
    sim.subject.stop(PERSON)
    sim.until_rest()
    sim.subject.stop(PERSON)
    assert sim.subject.fault.cause is Cause.NOT_FINITE


def test_a_robot_can_only_be_rearmed_at_rest_and_then_starts_from_where_it_stands():
    sim = running_guard()
    sim.subject.stop(PERSON)
    assert not sim.subject.rearm()
    sim.until_rest()
    sim.joints = np.array([0.9, 0.2])  # moved by hand meanwhile
    assert sim.subject.rearm()
    sim.velocity = np.zeros(2)
    cycle = sim.cycle(np.array([1.0, 0.2]))
    assert cycle.phase is Phase.RUNNING
    assert 0.9 < cycle.command[0] <= 0.9 + 10.0 * PERIOD_S**2 + 1e-12


@pytest.mark.parametrize(
    ("spoil", "cause", "words"),
    [
        (lambda sim: sim.cycle(np.array([np.nan, 0.5])), Cause.NOT_FINITE, "2 finite numbers"),
        (lambda sim: sim.cycle(np.array([0.4, 0.5, 0.6])), Cause.NOT_FINITE, "2 finite numbers"),
        (lambda sim: sim.cycle(sim.joints + [0.9, 0.0]), Cause.JUMP, "shoulder would move by"),
        (lambda sim: sim.cycle(np.array([0.4, 1e300])), Cause.RANGE, r"gripper would go 1e\+300 beyond its range"),
        (lambda sim: setattr(sim, "age_s", 0.3), Cause.STALE_JOINTS, r"0.3 s old \(limit 0.2 s\)"),
        (lambda sim: setattr(sim, "age_s", -1.0), Cause.STALE_JOINTS, "in the future"),
        (lambda sim: setattr(sim, "joints", sim.joints * np.nan), Cause.NOT_FINITE, "measured joints"),
    ],
    ids=["nan", "shape", "jump", "range", "stale", "other clock", "nan measured"],
)
def test_each_fault_brakes_at_once_and_says_which_joint_and_which_limit(spoil, cause, words):
    sim = running_guard()
    guard, rest_from_s = sim.subject, sim.now_s
    spoil(sim)
    last = sim.commands[-1] if not np.isfinite(sim.joints).all() else sim.joints
    cycle = guard.cycle(sim.now_s, Measurement(sim.now_s - sim.age_s, sim.joints), last)
    assert guard.fault.cause is cause
    assert re.search(words, guard.fault.reason)
    assert cycle.phase is Phase.STOPPING
    sim.joints, sim.age_s = cycle.command, 0.0
    sim.velocity = guard._motion.velocity
    sim.now_s += PERIOD_S
    sim.until_rest()
    assert sim.now_s - rest_from_s <= STOP_S + 2 * PERIOD_S + 1e-9


def test_a_joint_that_does_not_follow_stops_the_robot_and_one_that_is_not_watched_does_not():
    sim = running_guard()
    sim.subject.cycle(sim.now_s, Measurement(sim.now_s, sim.joints + [0.0, 0.45]), sim.joints)
    assert sim.subject.fault is None
    sim.subject.cycle(sim.now_s, Measurement(sim.now_s, sim.joints + [0.4, 0.0]), sim.joints)
    assert sim.subject.fault.cause is Cause.TRACKING
    assert "shoulder is 0.3" in sim.subject.fault.reason


def test_a_program_that_was_suspended_does_not_go_on_with_what_it_wanted_before():
    sim = running_guard()
    sim.now_s += 0.4
    assert sim.cycle(sim.joints).phase is Phase.STOPPING
    assert "no control cycle for 0.44 s (limit 0.3 s)" in sim.subject.fault.reason


def test_a_start_a_little_outside_the_range_is_brought_inside_without_a_jump():
    assert Sim(Guard(LIMITS, RATE_HZ), (-1.07, 0.5)).cycle(np.array([-1.0, 0.5])).command[0] == -1.0
    sim = Sim(Guard(LIMITS, RATE_HZ), (-1.09, 0.5))  # more than the 0.08 rad of one cycle
    assert sim.cycle(np.array([-1.0, 0.5])).command is None
    assert "shoulder stands 0.09 outside its range (limit 0.08)" in sim.subject.fault.reason


@pytest.mark.parametrize(
    ("at", "wanted", "cause"),
    [((0.0, 0.5), (0.6, 0.5), Cause.FIRST_COMMAND), ((-1.6, 0.5), (-1.0, 0.5), Cause.RANGE)],
)
def test_the_first_command_must_be_near_the_measured_pose_and_that_inside_the_range(at, wanted, cause):
    sim = Sim(Guard(LIMITS, RATE_HZ), at)
    assert sim.cycle(np.array(wanted)).command is None
    assert (sim.subject.phase, sim.subject.fault.cause) == (Phase.STOPPED, cause)


def test_the_last_action_is_held_for_its_time_and_not_longer():
    sim = running_guard()
    held = [sim.cycle(sim.joints, fresh=False).phase for _ in range(7)]
    assert set(held) == {Phase.HOLDING}
    assert sim.cycle(sim.joints).phase is Phase.RUNNING  # a fresh one in time, and counting begins anew
    while sim.subject.phase in (Phase.HOLDING, Phase.RUNNING):
        sim.cycle(sim.joints, fresh=False)
    assert sim.subject.fault.cause is Cause.NO_ACTION


# ---- the controller: chunks in, commands out ----


def chunk(*rows):
    return Reply(actions=np.array(rows, float))


def path(start, steps=40, per_step=0.02):
    return Reply(actions=np.asarray(start) + per_step * np.arange(steps)[:, None] * [1.0, 0.5], gate=0.4)


class Log(list):
    def __call__(self, event, time_s, **details):
        self.append((event, details))

    @property
    def events(self):
        return [event for event, _ in self]


def controlled(limits=LIMITS, **mode):
    log = Log()
    return Sim(Controller(limits, RATE_HZ, Mode(**{"playback": Playback(replan_steps=20), **mode}), log)), log


def test_nothing_is_sent_before_the_first_chunk_however_long_it_takes():
    sim, _ = controlled()
    for _ in range(200):
        assert sim.cycle().command is None
    assert sim.subject.phase is Phase.READY
    assert sim.subject.wants_chunk(sim.now_s)


def test_a_silent_policy_ends_in_a_stop_within_the_stated_time():
    sim, log = controlled()
    sim.subject.add(path(sim.joints), sim.now_s, sim.now_s)
    due_s = None
    while sim.subject.phase is not Phase.STOPPED:
        if due_s is None and sim.subject.wants_chunk(sim.now_s):
            due_s = sim.now_s
        sim.cycle()
    assert sim.subject.status.fault.cause is Cause.NO_ANSWER
    assert sim.now_s - due_s <= LIMITS.answer_s + STOP_S + 3 * PERIOD_S
    assert log.events[-2:] == ["stop", "at rest"]


def test_refused_observations_are_named_when_the_answer_is_overdue():
    sim, log = controlled()
    sim.subject.add(path(sim.joints), sim.now_s, sim.now_s)
    while sim.subject.phase is not Phase.STOPPED:
        if sim.subject.wants_chunk(sim.now_s):
            sim.subject.refuse("the observation is 9 s old", sim.now_s)
        sim.cycle()
    assert sim.subject.status.fault.reason.endswith("; the observation is 9 s old")
    assert log.events.count("refused") == 1


def test_an_answer_that_comes_after_the_stop_changes_nothing():
    sim, _ = controlled()
    sim.subject.add(path(sim.joints), sim.now_s, sim.now_s)
    sim.cycle()
    sim.subject.stop(PERSON, sim.now_s)
    sim.until_rest()
    assert not sim.subject.wants_chunk(sim.now_s)
    sim.subject.add(path(sim.joints), sim.now_s, sim.now_s)
    assert sim.subject.status.chunks == 1
    assert sim.cycle().command is None
    assert sim.subject.rearm("test", sim.now_s)
    assert sim.cycle().command is None  # what was asked before the stop is forgotten
    sim.subject.add(path(sim.joints), captured_s=sim.now_s - 0.1, now_s=sim.now_s)
    assert sim.cycle().command is None  # and so is its answer where it comes after the re-arm


def test_the_ramp_slows_the_policy_down_instead_of_leaving_it_behind():
    sim, _ = controlled()
    sim.subject.add(path((0.0, 0.5), per_step=0.06), sim.now_s, sim.now_s)  # 1.5 rad/s
    speeds = []
    for _ in range(20):
        sim.cycle()
        speeds.append(sim.velocity[0])
    assert speeds[0] <= 0.2 + 1e-9
    assert speeds[-1] == pytest.approx(1.5)
    assert sim.subject.status.speed == 1.0
    assert sim.subject.status.clamps == 0


def test_slow_mode_follows_the_same_path_at_the_given_share_of_the_pace():
    limits = replace(LIMITS, ramp_in_s=0.0)
    fast, _ = controlled(limits)
    slow, _ = controlled(limits, slow=0.5)
    for sim in (fast, slow):
        sim.subject.add(path((0.0, 0.5)), sim.now_s, sim.now_s)
    for _ in range(16):
        fast.cycle()
    for _ in range(32):
        slow.cycle()
    np.testing.assert_allclose(np.array(slow.commands[1::2]), np.array(fast.commands[1:]), atol=0.011)
    assert slow.subject.status.speed == 0.5


def test_slow_mode_scales_the_highest_velocity():
    sim, log = controlled(replace(LIMITS, ramp_in_s=0.0), slow=0.25)
    sim.subject.add(chunk(*[[0.0, 0.5]] * 2, *[[0.45, 0.5]] * 30), sim.now_s, sim.now_s)
    for _ in range(16):
        sim.cycle()
        assert np.abs(sim.velocity).max() <= 0.5 + 1e-9
    [clamp, *_] = [details for event, details in log if event == "clamp"]
    assert clamp["joints"]["shoulder"]["rule"] in ("velocity", "acceleration")
    assert sim.subject.clamped[("shoulder", "velocity")] > 3


def test_in_shadow_mode_the_arms_may_be_anywhere_and_everything_is_computed():
    sim, log = controlled(shadow=True)
    sim.subject.add(path(sim.joints), sim.now_s, sim.now_s)
    for _ in range(10):
        cycle = sim.subject.cycle(sim.now_s, Measurement(sim.now_s, np.array([0.0, 0.5])))
        sim.now_s += PERIOD_S
        assert cycle.command is not None
    cycle = sim.subject.cycle(sim.now_s, Measurement(sim.now_s, np.array([-0.9, 0.5])))
    assert cycle.phase is Phase.RUNNING
    assert log.events == ["chunk", "running"]
