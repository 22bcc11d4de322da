"""Cup brushing: its rules on made-up facts, its starts and demonstrations in the cell."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from egorecovery.workcell.objects import Pose
from egorecovery.workcell.rules import Protocol, Result
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks.cup_brush import OFFSETS_M, CupBrush
from egorecovery.workcell.tasks.cup_brush_objects import BORE_M, HEAD_M, TUBE_M, BrushFacts
from egorecovery.workcell.teleoperator import Teleoperator
from egorecovery.workcell.workcell import Workcell

SCENE = CupBrush()
TUBE_AT_M = (0.01, -0.02, 0.0)


def posed(position_m, tilt_rad: float = 0.0, speed_mps: float = 0.0) -> Pose:
    axes = Rotation.from_euler("y", tilt_rad).as_matrix()
    return Pose(np.array(position_m, float), axes, np.array([0.0, 0.0, speed_mps]))


def facts(*, depth_m: float = 0.07, offset_m: float = 0.002, held: bool = False, **brush) -> BrushFacts:
    """The brush in the tube and let go of, unless said otherwise."""
    tip_m = np.add(TUBE_AT_M, (offset_m, 0.0, TUBE_M - depth_m))
    return BrushFacts(
        tube=posed(TUBE_AT_M), brush=posed(tip_m, **brush), brush_held=held, tube_held=True, touching=True
    )


def failed(mode: str, **what) -> BrushFacts:
    typical = {
        "beside": {"depth_m": 0.02, "offset_m": 0.04},
        "on_rim": {"depth_m": 0.0, "offset_m": 0.018},
        "retreated": {"depth_m": -0.015, "offset_m": 0.04},
    }[mode]
    return facts(**{**typical, "held": True, **what})


def start_of(mode: str) -> Start:
    return Start(task="cup_brush", kind="initial" if mode == "nominal" else "recovery", mode=mode)


def test_a_brush_let_go_of_in_an_upright_tube_is_the_goal():
    assert SCENE.goal(facts())
    assert SCENE.goal(facts(tilt_rad=0.2))  # it may lean on the tube's wall


@pytest.mark.parametrize(
    "near_miss",
    [
        facts(held=True),
        facts(depth_m=HEAD_M - 0.002),
        facts(offset_m=BORE_M + 0.002),  # as deep, but beside the tube
        facts(tilt_rad=0.4),
        facts(speed_mps=0.1),
        replace(facts(), tube=posed(TUBE_AT_M, tilt_rad=0.25)),
    ],
    ids=["still held", "only the bristles are in", "outside the wall", "tilting out", "moving", "tube leans"],
)
def test_a_near_miss_is_not_the_goal_and_not_terminal(near_miss: BrushFacts):
    assert not SCENE.goal(near_miss)
    assert SCENE.terminal(near_miss, facts()) is None


def test_depth_is_measured_in_the_frame_of_the_tube():
    turn, shift_m = Rotation.from_euler("xy", [0.1, -0.15]), np.array([0.03, 0.02, 0.05])
    there = facts()

    def carried(pose: Pose) -> Pose:
        return Pose(turn.apply(pose.position_m) + shift_m, turn.as_matrix() @ pose.axes, pose.velocity_mps)

    moved = replace(there, tube=carried(there.tube), brush=carried(there.brush))
    assert moved.depth_m == pytest.approx(there.depth_m)
    assert moved.offset_m == pytest.approx(there.offset_m)
    assert moved.lean_rad == pytest.approx(there.lean_rad, abs=1e-6)


def test_a_tube_knocked_over_is_terminal():
    lying = replace(facts(), tube=posed(TUBE_AT_M, tilt_rad=1.5))
    assert "knocked over" in (SCENE.terminal(lying, facts()) or "")


@pytest.mark.parametrize("place_m", [(0.3, 0.0, 0.0), (0.0, -0.4, 0.0), (0.0, 0.0, -0.7)])
def test_a_brush_or_tube_out_of_reach_is_terminal(place_m):
    for lost in (replace(facts(), brush=posed(place_m)), replace(facts(), tube=posed(place_m))):
        assert "reachable workspace" in (SCENE.terminal(lost, facts()) or "")


def test_a_brush_lying_within_reach_is_not_terminal():
    dropped = replace(facts(), brush=posed((0.02, 0.1, 0.013), tilt_rad=1.57))
    assert SCENE.terminal(dropped, facts()) is None


@pytest.mark.parametrize("mode", list(SCENE.modes))
def test_a_failure_start_is_accepted_only_when_it_is_that_failure(mode: str):
    assert SCENE.invalid_reason(failed(mode), start_of(mode)) is None
    for wrong in (
        failed(mode, held=False),
        failed(mode, depth_m=0.03, offset_m=0.002),
        replace(failed(mode), tube_held=False),
        replace(failed(mode), tube=posed(TUBE_AT_M, tilt_rad=0.3)),
    ):
        assert SCENE.invalid_reason(wrong, start_of(mode)) is not None
    for other in SCENE.modes:
        if other != mode:
            assert SCENE.invalid_reason(failed(other), start_of(mode)) is not None


def test_a_nominal_start_with_a_hand_on_the_brush_is_spoiled():
    assert SCENE.invalid_reason(facts(depth_m=0.0, offset_m=0.1, held=True), start_of("nominal")) is not None


def test_draws_cover_their_ranges_and_never_leave_them(rng: np.random.Generator):
    for mode, (least_m, most_m) in OFFSETS_M.items():
        offsets_m = [SCENE.draw_failure(rng, mode).parameters["offset"] for _ in range(200)]
        assert least_m <= min(offsets_m) < least_m + 0.1 * (most_m - least_m)
        assert most_m - 0.1 * (most_m - least_m) < max(offsets_m) <= most_m


@pytest.fixture(scope="module")
def cell():
    with Workcell(CupBrush(), protocol=Protocol(stable_s=1.0)) as cell:
        yield cell


@pytest.mark.parametrize("mode", ["nominal", *SCENE.modes])
def test_the_demonstrator_succeeds_where_doing_nothing_does_not(cell: Workcell, mode: str):
    rng = np.random.default_rng(11)
    start = SCENE.draw_initial(rng) if mode == "nominal" else SCENE.draw_failure(rng, mode)
    cell.reset(start)
    begun = cell.save()
    idle = [cell.step(cell.robot.target()) for _ in range(40)]
    assert idle == [None] * 40  # neither success nor terminal failure
    cell.restore(begun)

    outcomes, corrected = [], []
    person = Teleoperator(cell.robot, SCENE, step=lambda action: outcomes.append(cell.step(action)))
    script = SCENE.succeed(person, rng) if mode == "nominal" else SCENE.recover(person, rng)
    person.demonstrate(script, rng, lambda action: None, lambda: corrected.append(cell.facts()))
    outcomes += [cell.step(cell.robot.target()) for _ in range(30)]

    ended = next(outcome for outcome in outcomes if outcome is not None)
    assert ended.result is Result.SUCCESS
    if mode != "nominal":
        (at_boundary,) = corrected
        assert at_boundary.depth_m < 0  # still above the mouth ...
        assert at_boundary.offset_m < 0.003  # ... and over its middle
        assert at_boundary.lean_rad < 0.06
