"""The sweeping task: its rules on made-up scenes, its starts, and a few real demonstrations."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng
from scipy.spatial.transform import Rotation

from egorecovery.workcell.arena import build_arena
from egorecovery.workcell.objects import Pose
from egorecovery.workcell.robot import RobotCell
from egorecovery.workcell.tasks.table_sweep import TableSweep
from egorecovery.workcell.tasks.table_sweep_rules import SweepFacts
from egorecovery.workcell.tasks.table_sweep_script import best_stroke
from egorecovery.workcell.tasks.table_sweep_tools import BIN_CENTRE_M, BIN_HALF_M, BIN_HEIGHT_M, TRASH
from egorecovery.workcell.teleoperator import Teleoperator

SCENE = TableSweep()
PAN_M = np.array([-0.05, -0.02, 0.0])
IN_BIN = (*BIN_CENTRE_M, 0.01)
IN_PAN = tuple(PAN_M + [0, -0.05, 0.012])
ON_TABLE = (-0.05, 0.08, 0.008)
STABLE_FRAMES = 75


def pose(position_m, rotation: Rotation | None = None, speed_mps: float = 0.0) -> Pose:
    axes = np.eye(3) if rotation is None else rotation.as_matrix()
    return Pose(np.array(position_m, float), axes, np.array([speed_mps, 0.0, 0.0]))


def facts(*trash_m, tip_rad: float = 0.0, pan_m=PAN_M) -> SweepFacts:
    """A scene with some trash where it is said to be, and the rest of it in the bin."""
    places_m = [*trash_m, *[IN_BIN] * (len(TRASH) - len(trash_m))]
    return SweepFacts(
        trash=tuple(pose(place_m) for place_m in places_m),
        broom=pose((-0.05, 0.1, 0.04)),
        pan=pose(pan_m, Rotation.from_euler("x", -tip_rad)),
        broom_held=True,
        pan_held=True,
    )


def all_at(place_m, **how) -> SweepFacts:
    return facts(*[place_m] * len(TRASH), **how)


def terminal(scene_facts: SweepFacts) -> str | None:
    return SCENE.terminal(scene_facts, scene_facts)


def test_all_trash_at_rest_in_the_bin_is_the_goal():
    assert SCENE.goal(facts())
    assert terminal(facts()) is None


@pytest.mark.parametrize("place_m", [IN_PAN, ON_TABLE], ids=["in the pan", "on the table"])
def test_one_piece_elsewhere_is_not_the_goal(place_m):
    assert not SCENE.goal(facts(place_m))


def test_a_piece_that_still_rolls_in_the_bin_is_not_yet_the_goal():
    settled = facts()
    rolling = replace(settled, trash=(pose(IN_BIN, speed_mps=0.2), *settled.trash[1:]))
    assert not SCENE.goal(rolling)


@pytest.mark.parametrize(
    "place_m",
    [
        (BIN_CENTRE_M[0], BIN_CENTRE_M[1] + BIN_HALF_M + 0.002, BIN_HEIGHT_M + 0.008),
        (*BIN_CENTRE_M, BIN_HEIGHT_M + 0.01),
    ],
    ids=["on the rim", "above the bin"],
)
def test_a_piece_on_the_rim_or_above_it_is_not_in_the_bin(place_m):
    assert not SCENE.goal(facts(place_m))


def test_all_trash_swept_into_the_pan_is_neither_goal_nor_failure():
    assert not SCENE.goal(all_at(IN_PAN))
    assert terminal(all_at(IN_PAN)) is None


def test_trash_on_the_table_before_pouring_can_still_be_swept():
    assert terminal(all_at(ON_TABLE)) is None


def test_a_piece_left_on_the_table_while_the_pan_is_poured_is_terminal():
    over_bin_m = np.array([*BIN_CENTRE_M, 0.07])
    in_pan_m = over_bin_m + Rotation.from_euler("x", -0.8).apply([0, -0.05, 0.012])
    pouring = facts(ON_TABLE, *[tuple(in_pan_m)] * (len(TRASH) - 1), tip_rad=0.8, pan_m=over_bin_m)
    assert "lies on the table while the pan is poured" in str(terminal(pouring))


def test_a_piece_on_the_table_after_the_pour_is_terminal():
    assert "lies on the table after pouring" in str(terminal(facts(ON_TABLE)))


def test_a_piece_spilled_beside_the_bin_is_terminal():
    beside_m = (BIN_CENTRE_M[0], BIN_CENTRE_M[1] + BIN_HALF_M + 0.02, 0.008)
    assert "after pouring" in str(terminal(facts(beside_m, tip_rad=0.9, pan_m=np.array([0.13, -0.08, 0.07]))))


def test_a_pan_that_comes_back_level_with_trash_in_it_would_need_a_second_pour():
    assert "second pour" in str(terminal(facts(IN_PAN)))


def test_a_piece_still_sliding_out_of_the_tipped_pan_is_no_failure():
    over_bin_m = np.array([*BIN_CENTRE_M, 0.07])
    falling_m = (*BIN_CENTRE_M, 0.06)
    assert terminal(facts(falling_m, tip_rad=0.9, pan_m=over_bin_m)) is None


def test_a_spill_from_a_pan_carried_level_may_be_swept_again():
    assert terminal(facts(*[ON_TABLE] * len(TRASH), tip_rad=0.2, pan_m=np.array([0.0, -0.1, 0.09]))) is None


@pytest.mark.parametrize("lost", ["trash", "broom", "pan"])
def test_a_thing_out_of_reach_is_terminal(lost):
    far = pose((0.3, 0.0, 0.0))
    scene_facts = all_at(IN_PAN)
    gone = replace(scene_facts, **{lost: (far, *scene_facts.trash[1:]) if lost == "trash" else far})
    assert "left the reachable workspace" in str(terminal(gone))


def test_a_piece_on_the_ramp_is_not_yet_in_the_pan():
    on_ramp_m, inside_m = PAN_M + [0, -0.005, 0.01], PAN_M + [0, -0.03, 0.012]
    assert facts(tuple(on_ramp_m), tuple(inside_m)).in_pan[:2] == (False, True)


def test_a_start_that_lost_a_tool_or_whose_trash_moved_is_spoiled():
    start = SCENE.draw_failure(default_rng(0), "missed")
    inside = [start.parameters[f"{trash.name}_y"] < 0 for trash in TRASH]
    staged = facts(*[IN_PAN if is_inside else ON_TABLE for is_inside in inside])
    assert SCENE.invalid_reason(staged, start) is None
    assert SCENE.invalid_reason(replace(staged, pan_held=False), start) == "a tool is not in the hand"
    assert "is not on the table" in str(SCENE.invalid_reason(all_at(IN_PAN), start))
    assert "is not in the pan" in str(SCENE.invalid_reason(all_at(ON_TABLE), start))


@pytest.mark.parametrize("mode", TableSweep.modes)
def test_every_failure_leaves_some_trash_on_the_table_and_some_in_the_pan(mode):
    for seed in range(30):
        at = SCENE.draw_failure(default_rng(seed), mode).parameters
        inside = [at[f"{trash.name}_y"] < 0 for trash in TRASH]
        assert any(inside)
        assert not all(inside)


def test_a_stroke_never_comes_down_on_trash_when_it_can_be_helped():
    for seed in range(30):
        left_m = default_rng(seed).uniform((-0.03, 0.03), (0.03, 0.1), (3, 2))
        stroke = best_stroke(left_m)
        assert stroke is not None
        assert stroke.clear(left_m)


def test_no_stroke_reaches_a_piece_beside_the_mouth():
    assert best_stroke(np.array([[0.05, 0.01]])) is None


@pytest.fixture(scope="module")
def robot() -> RobotCell:
    return RobotCell(build_arena(SCENE.add_objects))


@pytest.mark.parametrize("kind", ["nominal", *TableSweep.modes])
def test_demonstrations_end_with_all_trash_in_the_bin(robot: RobotCell, kind: str):
    rng = default_rng(3)
    start = SCENE.draw_initial(rng) if kind == "nominal" else SCENE.draw_failure(rng, kind)
    robot.reset()
    person = Teleoperator(robot, SCENE)
    SCENE.stage(person, start)
    person.take_over()
    first = person.facts()
    assert SCENE.invalid_reason(first, start) is None

    corrected: list[SweepFacts] = []
    script = SCENE.succeed(person, rng) if kind == "nominal" else SCENE.recover(person, rng)
    person.demonstrate(script, rng, lambda action: None, lambda: corrected.append(person.facts()))
    for _ in range(STABLE_FRAMES):
        robot.step(robot.target())
        assert SCENE.goal(person.facts())
        assert SCENE.terminal(person.facts(), first) is None
    assert [all(seen.in_pan) for seen in corrected] == ([] if kind == "nominal" else [True])


@pytest.mark.parametrize("kind", ["nominal", *TableSweep.modes])
def test_doing_nothing_leaves_every_start_as_it_is(robot: RobotCell, kind: str):
    rng = default_rng(4)
    start = SCENE.draw_initial(rng) if kind == "nominal" else SCENE.draw_failure(rng, kind)
    robot.reset()
    person = Teleoperator(robot, SCENE)
    SCENE.stage(person, start)
    first = person.facts()
    for _ in range(STABLE_FRAMES):
        robot.step(robot.target())
    later = person.facts()
    assert SCENE.invalid_reason(later, start) is None
    moved_m = [now.position_m - then.position_m for now, then in zip(later.trash, first.trash, strict=True)]
    assert np.abs(moved_m).max() < 0.001
