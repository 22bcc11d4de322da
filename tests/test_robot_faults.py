"""Faults on a robot: each ends in the stated stop, within the stated time, with all joints inside their limits."""

import json
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egorecovery.episodes import Camera
from egorecovery.errors import RobotError
from egorecovery.evaluation import bench_protocol
from egorecovery.evaluation.rollout import RolloutJob
from egorecovery.robot import Observation, read_limits
from egorecovery.robot.chunk_requests import ChunkRequester
from egorecovery.robot.clock import SteppedClock
from egorecovery.robot.command_filter import Clamp
from egorecovery.robot.controller import Controller, Mode
from egorecovery.robot.event_log import EventLog
from egorecovery.robot.guard import Cause, Fault, Phase
from egorecovery.robot.running import run_robot
from egorecovery.robot.served_rollout import roll_served
from egorecovery.robot.terminal import Operator
from egorecovery.robot.workcell_robot import JOINT_NAMES, WorkcellRobot
from egorecovery.serving.client import PolicyClient
from egorecovery.workcell.robot import HIGHEST_TARGET, LOWEST_TARGET
from point_robot import PointRobot
from robot_limits import FOLDER, workcell_limits
from robot_terminal import Terminal
from scripted_server import ScriptedServer

HERE = Path(__file__).parent
ROBOT = HERE / "point_robot.py"
LIMITS = workcell_limits(answer_s=0.2)
PERIOD_S = 0.04
STOP_S = LIMITS.stop_s(25.0)
JOB = RolloutJob(
    task="cube_stack",
    regime="initial",
    index=0,
    protocol=replace(bench_protocol("cube_stack", 20), time_limit_s=3.2, starts_seed="tests"),
    cameras=(Camera.HEAD,),
    image_size=16,
)
OVERSHOOT_RAD = 0.01  # of a servo about its command; the fastest test comes to 0.004


class Log(list):
    def __call__(self, event, time_s, **details):
        self.append((event, time_s, details))

    def time_of(self, event):
        return next(time_s for name, time_s, _ in self if name == event)


class Watch:
    """Looks at the simulated joints in every cycle."""

    def __init__(self):
        self.commands, self.measured, self.phases = [], [], []

    def __call__(self, robot, controller):
        self.commands.append(robot.cell.robot.target())
        self.measured.append(robot.measure().joints)
        self.phases.append(controller.phase)

    def check_limits(self):
        commands, measured = np.array(self.commands), np.array(self.measured)
        assert (commands >= LOWEST_TARGET).all()
        assert (commands <= HIGHEST_TARGET).all()
        arms = np.arange(14) % 7 != 6
        assert (measured >= LOWEST_TARGET - OVERSHOOT_RAD)[:, arms].all()
        assert (measured <= HIGHEST_TARGET + OVERSHOOT_RAD)[:, arms].all()
        velocity = np.diff(commands, axis=0) / PERIOD_S
        assert (np.abs(velocity) <= LIMITS.of_each("velocity") + 1e-6).all()
        assert (np.abs(np.diff(velocity, axis=0)) / PERIOD_S <= LIMITS.of_each("acceleration") + 1e-4).all()

    def check_rest(self):
        """From the stop on commands stay the same, and the arms come to rest there."""
        stopped = self.phases.index(Phase.STOPPED)
        np.testing.assert_array_equal(np.ptp(self.commands[stopped:], axis=0), 0.0)
        assert np.abs(self.measured[-1] - self.measured[-2]).max() < 1e-3


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("nan", Cause.SERVER),
        ("jump", Cause.JUMP),
        ("beyond", Cause.RANGE),
        ("silent", Cause.NO_ANSWER),
        ("shape", Cause.SERVER),
        ("garbage", Cause.SERVER),
        ("error", Cause.SERVER),
        ("close", Cause.SERVER),
    ],
)
def test_faults_of_the_policy_end_at_rest_within_the_stated_time_in_simulation(name, cause):
    log, watch = Log(), Watch()
    with ScriptedServer(name) as server:
        ending, controller = roll_served(JOB, lambda: PolicyClient(server.url), LIMITS, log=log, on_cycle=watch)
    assert controller.status.fault.cause is cause
    assert log.time_of("at rest") - log.time_of("stop") <= STOP_S + PERIOD_S
    assert (controller.phase, controller.status.phase) == (Phase.STOPPED, Phase.STOPPED)
    assert f"stopped: {controller.status.fault.reason}" in ending.reason
    watch.check_limits()
    watch.check_rest()
    assert np.ptp(watch.commands, axis=0).max() > 0.05  # it had been moving


class StaleCameras(WorkcellRobot):
    """Its cameras hang after a while: what it reads gets older and older."""

    seen = 0
    frozen: Observation | None = None

    def read(self):
        self.seen += 1
        if self.seen <= 2:
            self.frozen = super().read()
        return self.frozen


def test_stale_observations_are_never_sent_and_end_in_the_stop(monkeypatch):
    monkeypatch.setattr("egorecovery.robot.served_rollout.WorkcellRobot", StaleCameras)
    log, watch = Log(), Watch()
    with ScriptedServer() as server:
        _, controller = roll_served(JOB, lambda: PolicyClient(server.url), LIMITS, log=log, on_cycle=watch)
    fault = controller.status.fault
    assert fault.cause is Cause.NO_ANSWER
    assert re.search(r"the observation is \S+ s old \(limit 0.2 s\)", fault.reason)
    assert len(server.observations) == 2
    due_s = log.time_of("refused")
    assert log.time_of("at rest") - due_s <= LIMITS.answer_s + STOP_S + 2 * PERIOD_S + 1e-9
    watch.check_limits()
    watch.check_rest()


def test_in_slow_mode_the_workcell_takes_longer_for_the_same_path():
    reached = []
    for slow in (1.0, 0.5):
        watch = Watch()
        with ScriptedServer() as server:
            roll_served(JOB, lambda url=server.url: PolicyClient(url), LIMITS, Mode(slow=slow), on_cycle=watch)
        watch.check_limits()
        reached.append(watch.commands[-1][0] - watch.commands[0][0])
    assert reached[1] == pytest.approx(reached[0] / 2, rel=0.15)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"action_hz": 50.0}, r"50 steps a second, the robot takes 25: start the server with --client-hz 25"),
        ({"action_space": "effector", "action_dim": 20}, "effector space"),
        ({"action_dim": 7}, "answers 7; the robot has 14"),
        ({"state_dim": 7}, "takes 7 joints"),
        ({"hidden_embodiment": True}, "set hides_embodiment = True"),
    ],
)
def test_a_server_that_does_not_fit_the_robot_is_refused_before_anything_moves(told, words):
    robot = PointRobot()
    with ScriptedServer(**told) as server, pytest.raises(RobotError, match=words):
        run_robot(robot, lambda: PolicyClient(server.url), LIMITS, attended=False)
    assert not robot.commands


def test_a_robot_that_hides_its_arms_and_a_policy_that_wants_to_see_them_do_not_go_together():
    robot = PointRobot()
    robot.hides_embodiment = True
    with ScriptedServer() as server, pytest.raises(RobotError, match="hides its arms"):
        run_robot(robot, lambda: PolicyClient(server.url), LIMITS, attended=False)
    assert not robot.commands


def test_limits_of_another_robot_are_refused():
    robot = PointRobot()
    robot.joint_names = JOINT_NAMES[::-1]
    with ScriptedServer() as server, pytest.raises(RobotError, match="in this order"):
        run_robot(robot, lambda: PolicyClient(server.url), LIMITS, attended=False)


# ---- in real time, with the driver's thread and the watchdog ----


PATIENT = workcell_limits(hold_s=10.0, answer_s=10.0, observation_age_s=10.0)  # a busy machine is no fault


def run_point(robot, server, log=None, limits=None, **more):
    return run_robot(
        robot,
        lambda: PolicyClient(server.url),
        limits or workcell_limits(),
        log=Log() if log is None else log,
        attended=False,
        **more,
    )


def test_a_run_in_real_time_ends_at_rest_when_it_is_finished():
    robot = PointRobot()
    with ScriptedServer() as server:
        report = run_point(robot, server, limits=PATIENT, is_finished=lambda: len(robot.commands) > 20)
    assert report.fault is None
    assert report.ended_well
    moves = np.abs(np.diff(robot.commands, axis=0)).max(axis=1)
    assert moves.max() > 0.001
    assert moves[-1] < 0.001 + moves[-2]
    assert np.median(np.diff(robot.times_s)) > 0.9 * PERIOD_S  # it never hurries


class HangingRobot(PointRobot):
    """Its driver hangs in a command, and lets go when it is told to stop."""

    def command(self, joints):
        super().command(joints)
        if len(self.commands) == 5:
            self.was_stopped.wait(30)


class LateRobot(PointRobot):
    """Its joints hang, and come back once the robot's own stop has been called."""

    looks = 0

    def measure(self):
        self.looks += 1
        if self.looks == 30:
            assert self.was_stopped.wait(30)
            self.commands_before_stop = len(self.commands)
        return super().measure()


def test_a_driver_that_comes_back_after_the_robots_own_stop_is_commanded_nothing():
    robot = LateRobot()
    with ScriptedServer() as server:
        report = run_point(robot, server)
    assert report.fault.cause is Cause.DRIVER
    assert 0 < len(robot.commands) == robot.commands_before_stop


class NeverThere(PointRobot):
    """Its first look at the joints never ends."""

    def measure(self):
        self.was_stopped.wait(30)
        return super().measure()


def test_a_driver_that_hangs_in_its_first_cycle_is_noticed():
    robot = NeverThere()
    with ScriptedServer() as server:
        report = run_point(robot, server)
    assert report.fault.cause is Cause.DRIVER
    assert not robot.commands


class RaisingRobot(PointRobot):
    def command(self, joints):
        super().command(joints)
        if len(self.commands) == 5:
            raise OSError("the bus is off")


class BlindRobot(PointRobot):
    def measure(self):
        if len(self.commands) == 5:
            raise TimeoutError("no joint states")
        return super().measure()


class CamerasHang(PointRobot):
    """The second look waits for ever, so nobody asks the policy any more: the driver's thread must notice."""

    let_go = threading.Event()
    seen = 0

    def read(self):
        self.seen += 1
        if self.seen > 1:
            self.let_go.wait(30)
        return super().read()

    def hold(self):
        super().hold()
        self.let_go.set()  # at rest: the test may end


@pytest.mark.parametrize(
    ("robot", "cause", "words"),
    [
        (HangingRobot(), Cause.DRIVER, r"a control cycle has not ended for 0\.\d+ s \(limit 0.3 s\)"),
        (RaisingRobot(), Cause.DRIVER, "OSError: the bus is off"),
        (BlindRobot(), Cause.DRIVER, "TimeoutError: no joint states"),
        (CamerasHang(), Cause.NO_ACTION, "the last action was held for"),
    ],
    ids=["hangs", "raises", "blind", "cameras"],
)
def test_a_failing_driver_is_stopped_by_itself_and_hanging_cameras_by_the_guard(robot, cause, words):
    with ScriptedServer() as server:
        report = run_point(robot, server)
    assert report.fault.cause is cause
    assert re.search(words, report.fault.reason)
    assert robot.was_stopped.is_set() == (cause is Cause.DRIVER)
    assert not report.ended_well


@pytest.mark.fault
def test_a_server_killed_in_the_middle_of_a_chunk_leaves_the_robot_at_rest_in_the_stated_time():
    victim = subprocess.Popen(
        [sys.executable, str(HERE / "scripted_server.py"), "good"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    url, log, robot = victim.stdout.readline().strip(), Log(), PointRobot()

    def kill_in_the_middle(*_):
        if len(robot.commands) >= 30:  # on a busy machine the thirtieth may be missed
            victim.send_signal(signal.SIGKILL)
        return False

    report = run_robot(
        robot,
        lambda: PolicyClient(url),
        workcell_limits(),
        log=log,
        is_finished=kill_in_the_middle,
        attended=False,
    )
    assert victim.wait() == -signal.SIGKILL
    assert report.fault.cause is Cause.SERVER
    limits = workcell_limits()
    assert len(robot.commands) * PERIOD_S >= 30 * PERIOD_S
    cycles = len([time_s for time_s in robot.times_s if time_s > log.time_of("stop")])
    assert cycles * PERIOD_S <= limits.stop_s(25.0) + PERIOD_S  # in control cycles: this machine may be slow
    velocity = np.diff(robot.commands, axis=0) / PERIOD_S
    assert np.abs(np.diff(velocity, axis=0)).max() / PERIOD_S <= 30.0 + 1e-6
    assert (np.array(robot.commands) <= limits.of_each("upper")).all()


# ---- a person at a real terminal ----


def test_any_key_stops_the_robot_and_only_a_person_rearms_it(tmp_path):
    with ScriptedServer() as server:
        terminal = Terminal(ROBOT, server, tmp_path)
        shown = terminal.until("running  gate [####--------] 0.30")
        assert "at rest within 0.16 s" in shown
        assert "not a safety-rated stop" in shown
        terminal.press(b"\x13")  # Ctrl-S would stop the terminal instead
        terminal.until("stopped (person): the stop key")
        terminal.press(b"x")  # neither of the two keys: nothing happens
        terminal.rearm()
        terminal.until("running")
        terminal.press(b"\x1a")  # Ctrl-Z would suspend the program in the middle of a motion
        terminal.until("q ends")
        terminal.press(b"q")
        assert terminal.end() == 0
    happened = [event["event"] for event in terminal.events() if event["event"] not in ("chunk", "clamp")]
    assert happened == ["start", "server", "running", "stop", "at rest", "rearmed", "running", "stop", "at rest"]
    assert max(len(line) for line in re.split(r"[\r\n]", terminal.shown)) <= 80


def test_after_a_fault_of_the_server_a_person_can_rearm_and_the_client_connects_anew(tmp_path):
    with ScriptedServer("garbage") as server:
        terminal = Terminal(ROBOT, server, tmp_path, "--replan", "5")
        terminal.until("stopped (server)")
        terminal.rearm()
        terminal.until("running")
        terminal.until("stopped (server)")
        terminal.press(b"q")
        assert terminal.end() == 1
        assert len(server.headers) == 2


@pytest.mark.fault
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_polite_kill_brakes_before_the_program_ends(tmp_path, number):
    with ScriptedServer() as server:
        terminal = Terminal(ROBOT, server, tmp_path)
        terminal.until("running")
        terminal.process.send_signal(number)
        assert terminal.end() == 130
    assert [event["event"] for event in terminal.events()][-2:] == ["stop", "at rest"]


def pressed(*keys):
    """The phase after each (time, keys), of a robot that was stopped at 10 s."""
    controller = Controller(workcell_limits(), 25.0, Mode())
    controller.stop(Fault(Cause.SERVER, "gone"), 10.0)
    times = iter(moment_s for moment_s, _ in keys)
    person = Operator(controller, lambda: next(times), keys=0, write=str)
    phases = []
    for _, pressed in keys:
        person._press(pressed)
        phases.append(controller.phase)
    return phases


def test_a_key_alone_rearms_and_keys_hit_in_a_hurry_never_do():
    assert pressed((12.0, b"r")) == [Phase.READY]
    for keys in (b"\x1bOR", b"jr", b"rr", b" "):  # F3, and hands on the keyboard
        assert pressed((12.0, keys)) == [Phase.STOPPED]
    held = [(12.0 + 0.1 * count, b"r") for count in range(30)]  # the first key stops at once where it re-armed
    assert Phase.READY not in pressed((11.9, b"x"), *held)
    assert pressed((11.9, b"x"), (13.0, b"r"))[-1] is Phase.READY


def test_ctrl_c_while_the_robot_brakes_at_the_end_of_a_run_does_not_cut_the_braking_short():
    class Interrupted(PointRobot):
        """Ctrl-C arrives with the second command after the run was over."""

        after_end = 0

        def command(self, joints):
            super().command(joints)
            self.after_end += len(self.commands) > 20
            if self.after_end == 2:
                signal.raise_signal(signal.SIGINT)

    robot, log = Interrupted(), Log()
    with ScriptedServer() as server:
        report = run_point(robot, server, log, PATIENT, is_finished=lambda: len(robot.commands) > 20)
    assert log[-1][0] == "at rest"
    assert report.status.phase is Phase.STOPPED


def test_in_shadow_mode_the_robot_is_told_nothing(tmp_path):
    robot = PointRobot()
    with ScriptedServer() as server:
        report = run_point(
            robot, server, limits=PATIENT, mode=Mode(shadow=True), is_finished=lambda: len(server.observations) > 1
        )
    assert report.status.cycles > 5
    assert (robot.commands, robot.holds, robot.was_stopped.is_set()) == ([], 0, False)


def test_a_first_answer_that_took_too_long_is_asked_for_again():
    clock, log = SteppedClock(), Log()

    class Compiling(PolicyClient):
        """Takes ten seconds for its first answer."""

        def infer(self, observation, timeout_s):
            answer = super().infer(observation, timeout_s)
            clock.sleep_until(10.0)
            return answer

    class Stepped(PointRobot):
        def read(self):
            return replace(super().read(), captured_s=clock.now_s())

    controller = Controller(workcell_limits(), 25.0, Mode(), log)
    with ScriptedServer() as server:
        requester = ChunkRequester(Stepped(), lambda: Compiling(server.url), controller, clock)
        assert [requester.request_if_due() for _ in range(2)] == [False, True]
        requester.close()
    assert log[0][2]["reason"] == "the first answer took 10.0 s: the policy is queried again"
    assert controller.status.chunks == 1


def test_a_full_disk_leaves_the_robot_alone_and_is_said_at_the_end():
    with EventLog(Path("/dev/full")) as log:
        for number in range(100):
            log("chunk", float(number), gate=float("nan"))
    assert log.summary == "log: /dev/full is incomplete: No space left on device"


def test_a_log_that_cannot_be_opened_is_said_before_anything_moves(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "log.jsonl"):
        with pytest.raises(RobotError, match=r"--log \S+: cannot be written: "):
            EventLog(path)


def test_numbers_that_json_does_not_have_are_logged_as_text(tmp_path):
    with EventLog(tmp_path / "log.jsonl") as log:
        log("clamp", 1.23456789, wanted=np.array([np.nan, np.inf, 0.5]), rule=Clamp.POSITION)
    line = json.loads((tmp_path / "log.jsonl").read_text())
    assert line == {"event": "clamp", "time_s": 1.2346, "wanted": ["nan", "inf", 0.5], "rule": "position"}


def test_limits_that_cannot_be_used_end_the_script_before_it_connects(tmp_path):
    bad = tmp_path / "limits.json"
    bad.write_text("{}")
    command = [sys.executable, str(HERE / "point_robot.py"), "--server", "ws://127.0.0.1:1", "--limits", str(bad)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "point_robot.py: " in done.stderr
    assert "schema is missing; no limit has a default" in done.stderr
    assert "Traceback" not in done.stderr
    assert read_limits(FOLDER / "workcell.json").joints
