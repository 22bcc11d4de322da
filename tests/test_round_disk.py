"""Round disk placement: its rules on made-up states, its starts and demonstrations on real ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from egorecovery.workcell.arena import build_arena
from egorecovery.workcell.kinematics import ToolPose, pointing_down
from egorecovery.workcell.maneuver import CorrectionDone, Reach, Waypoint
from egorecovery.workcell.objects import Pose
from egorecovery.workcell.robot import RobotCell
from egorecovery.workcell.rules import Protocol
from egorecovery.workcell.tasks.round_disk import RoundDisk
from egorecovery.workcell.tasks.round_disk_objects import BOARD_HALF_M, CLEARANCE_M, FLOOR_M, PLATE_M, RIM_M
from egorecovery.workcell.tasks.round_disk_rules import DISPLACED_M, DiskFacts, flush
from egorecovery.workcell.tasks.round_disk_script import ARM
from egorecovery.workcell.teleoperator import Teleoperator

GROOVE_M = np.array([0.05, 0.0])
KINDS = ("nominal", *RoundDisk.modes)


def pose(x_m, y_m, z_m, tilt_rad=0.0, yaw_rad=0.0, speed_mps=0.0):
    axes = Rotation.from_euler("ZY", [yaw_rad, tilt_rad]).as_matrix()
    return Pose(np.array([x_m, y_m, z_m]), axes, np.array([0.0, 0.0, speed_mps]))


def disk_at(offset_m=0.0, bottom_m=FLOOR_M, **how):
    return pose(GROOVE_M[0] + offset_m, GROOVE_M[1], bottom_m + PLATE_M / 2, **how)


SEATED = DiskFacts(disk=disk_at(), board=pose(*GROOVE_M, 0.0), held=False, on_board=True)


@pytest.fixture(scope="module")
def scene():
    return RoundDisk()


@pytest.fixture(scope="module")
def model(scene):
    return build_arena(scene.add_objects)


@pytest.fixture
def teleoperator(scene, model):
    return Teleoperator(RobotCell(model), scene)


def draw(scene, kind, seed):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    return (scene.draw_initial(rng) if kind == "nominal" else scene.draw_failure(rng, kind)), rng


def move(teleoperator, position_m, rotation, opening_01):
    reach = Reach(pose=ToolPose(position_m, rotation), opening_01=opening_01)
    teleoperator.perform(iter([Waypoint(reaches={ARM: reach}, straight=True)]))


def test_a_disk_flush_in_the_groove_and_let_go_of_is_the_goal(scene):
    assert scene.goal(SEATED)
    assert scene.goal(replace(SEATED, disk=disk_at(0.9 * CLEARANCE_M)))


def test_flush_is_judged_on_the_board_wherever_that_stands(scene):
    board = pose(0.08, -0.03, 0.0, yaw_rad=0.4)
    disk = pose(0.08, -0.03, FLOOR_M + PLATE_M / 2, yaw_rad=-2.0)
    assert scene.goal(replace(SEATED, board=board, disk=disk))


@pytest.mark.parametrize(
    "near_miss",
    [
        {"held": True},  # a disk held in place need not stay
        {"disk": disk_at(speed_mps=0.05)},  # still dropping in
        {"disk": disk_at(bottom_m=FLOOR_M + 0.002)},  # stands 2 mm above the rim
        {"disk": disk_at(tilt_rad=0.06)},  # one edge stands above the rim
        {"disk": disk_at(0.012, bottom_m=RIM_M)},  # lies on the rim
        {"disk": disk_at(0.0, bottom_m=RIM_M)},  # over the groove, level with nothing
        {"disk": disk_at(0.007, bottom_m=FLOOR_M + 0.003, tilt_rad=0.15)},  # one edge in, one on the rim
        {"disk": disk_at(0.12, bottom_m=0.0)},  # on the table, lower than the rim
    ],
)
def test_a_disk_that_is_nearly_seated_is_not(scene, near_miss):
    facts = replace(SEATED, **near_miss)
    assert not scene.goal(facts)
    assert scene.terminal(facts, SEATED) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"board": pose(GROOVE_M[0] + DISPLACED_M + 0.001, GROOVE_M[1], 0.0)}, "board was displaced by 16 mm"),
        ({"board": pose(*GROOVE_M, 0.0, yaw_rad=0.4)}, "board was turned by 23 degrees"),
        ({"disk": pose(0.0, -0.3, PLATE_M / 2)}, "outside the reachable workspace"),
        ({"disk": pose(0.0, 0.0, -0.4)}, "outside the reachable workspace"),
    ],
)
def test_what_no_retry_can_mend_is_terminal(scene, change, reason):
    assert reason in scene.terminal(replace(SEATED, **change), SEATED)


def test_a_touched_board_is_not_displaced_and_a_carried_disk_not_dropped(scene):
    nudged = replace(SEATED, board=pose(GROOVE_M[0] + DISPLACED_M - 0.001, GROOVE_M[1], 0.0))
    carried = replace(SEATED, disk=pose(0.0, -0.3, 0.1), held=True)
    assert scene.terminal(nudged, SEATED) is None
    assert scene.terminal(carried, SEATED) is None


@pytest.mark.parametrize("turn_rad", [0.0, 0.34, 0.36, 1.5, 3.1])
def test_a_turn_is_measured_about_whichever_axis(turn_rad):
    first, axis = Rotation.random(2, rng=np.random.default_rng(4))
    turned = Rotation.from_rotvec(turn_rad * axis.as_matrix()[0]) * first
    before, after = (Pose(np.zeros(3), rotation.as_matrix(), np.zeros(3)) for rotation in (first, turned))
    assert after.turned_rad(before) == pytest.approx(turn_rad, abs=1e-7)


def test_the_board_stands_by_its_weight_and_a_shove_displaces_it(teleoperator, scene):
    first = teleoperator.facts()
    beside_m = first.board.position_m + [-BOARD_HALF_M - 0.03, 0.0, 0.022]
    teleoperator.place(ARM, ToolPose(beside_m, pointing_down()), 0.0)
    teleoperator.settle(0.4)
    assert scene.terminal(teleoperator.facts(), first) is None
    move(teleoperator, beside_m + [0.06, 0, 0], pointing_down(), 0.0)
    assert "board was displaced" in scene.terminal(teleoperator.facts(), first)


@pytest.mark.parametrize("kind", KINDS)
def test_doing_nothing_from_any_start_neither_succeeds_nor_fails(teleoperator, scene, kind):
    for seed in range(3):
        start, _ = draw(scene, kind, seed)
        teleoperator.robot.reset()
        scene.stage(teleoperator, start)
        first = teleoperator.facts()
        assert scene.invalid_reason(first, start) is None
        assert scene.terminal(first, first) is None
        for _ in range(10):
            teleoperator.settle(0.2)
            assert not scene.goal(teleoperator.facts())
        assert scene.invalid_reason(teleoperator.facts(), start) is None


def test_a_missed_disk_rests_on_the_rim_in_the_hand_or_out_of_it(teleoperator, scene):
    for mode in ("held", "released"):
        start, _ = draw(scene, mode, 5)
        teleoperator.robot.reset()
        scene.stage(teleoperator, start)
        assert teleoperator.facts().held == (mode == "held")
        assert teleoperator.facts().protrusion_m > 0.005


def test_starts_that_are_no_failures_are_refused(scene):
    released, held = draw(scene, "released", 0)[0], draw(scene, "held", 0)[0]
    on_rim = replace(SEATED, disk=disk_at(0.015, bottom_m=RIM_M))
    assert scene.invalid_reason(on_rim, released) is None
    assert "seated" in scene.invalid_reason(SEATED, released)
    assert "not held" in scene.invalid_reason(on_rim, held)
    assert "on the board" in scene.invalid_reason(on_rim, draw(scene, "fallen", 0)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_demonstrations_seat_the_disk_and_leave_it_there(teleoperator, scene, kind):
    start, rng = draw(scene, kind, 1)
    scene.stage(teleoperator, start)
    first = teleoperator.facts()
    script = scene.succeed(teleoperator, rng) if kind == "nominal" else scene.recover(teleoperator, rng)
    corrected = []
    teleoperator.demonstrate(
        script, rng, lambda action: None, lambda: corrected.append((teleoperator.facts(), teleoperator.tool(ARM)))
    )
    for _ in range(round(Protocol().stable_s / 0.2)):
        assert scene.goal(teleoperator.facts())
        teleoperator.settle(0.2)
    assert scene.terminal(teleoperator.facts(), first) is None
    assert len(corrected) == (kind != "nominal")
    for facts, tool in corrected:
        assert not flush(facts)
        if kind == "held":  # in the hand, level, over the groove, not in it
            assert facts.held
            assert facts.offset_m < CLEARANCE_M
            assert facts.disk.tilt_rad < 0.03
        else:  # over the disk, about to pick it as any other
            assert not facts.held
            assert np.linalg.norm((tool.position_m - facts.disk.position_m)[:2]) < 0.06


def test_a_disk_lost_on_the_way_is_picked_up_again(teleoperator, scene):
    start, rng = draw(scene, "held", 2)
    scene.stage(teleoperator, start)
    script = scene.recover(teleoperator, rng)
    for _ in range(2):  # lifted and brought over the groove; then the hand opens
        teleoperator.perform(iter([next(script)]))
    here = teleoperator.tool(ARM)
    move(teleoperator, here.position_m + [0.02, 0, 0.01], here.rotation, 0.0)
    move(teleoperator, here.position_m + [0.02, 0, 0.05], here.rotation, 0.5)
    assert not teleoperator.facts().held
    teleoperator.demonstrate(script, rng, lambda action: None, lambda: None)
    assert scene.goal(teleoperator.facts())


def test_the_correction_is_announced_once_and_between_waypoints(teleoperator, scene):
    start, rng = draw(scene, "released", 3)
    scene.stage(teleoperator, start)
    steps = []
    for step in scene.recover(teleoperator, rng):
        steps.append(step)
        if not isinstance(step, CorrectionDone):
            teleoperator.perform(iter([step]))
    marks = [isinstance(step, CorrectionDone) for step in steps]
    assert sum(marks) == 1
    assert 0 < marks.index(True) < len(marks) - 1
