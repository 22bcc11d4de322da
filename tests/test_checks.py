"""Each acceptance rule: an episode spoiled in one respect is discarded for that reason and no other."""

import re
from dataclasses import replace

import numpy as np
import pytest

from egorecovery.episodes import AcceptanceLimits, Camera, CameraStream, JpegFrames, Source, check_episode
from egorecovery.errors import RecipeError
from making import PROVENANCE, make_camera, make_episode


def spoiled(array, where, value):
    array = array.copy()
    array[where] = value
    return array


def filmed(head: CameraStream, **changes):
    return make_episode(cameras={Camera.HEAD: head, Camera.LEFT_WRIST: make_camera(40)}, **changes)


GOOD = make_episode()
CAMERA = make_camera(40)
IMAGES = CAMERA.frames.decode()


def test_a_whole_episode_of_every_source_is_accepted():
    for source in Source:
        assert check_episode(make_episode(source=source)) == ()


SPOILED = {
    "start: .*no valid failure state": make_episode(provenance=replace(PROVENANCE, start_valid=False)),
    "maneuver: interrupted .gripper fault": make_episode(provenance=replace(PROVENANCE, interruption="gripper fault")),
    "maneuver: not carried through": make_episode(provenance=replace(PROVENANCE, completed=False)),
    "maneuver: lasts 0.36 s": make_episode(frames=10),
    "maneuver: the active effector moves 0.0 mm": make_episode(effector_m=GOOD.effector_m[:1].repeat(40, axis=0)),
    "state: NaN or infinite in 1 of 40 frames, first at frame 7": make_episode(
        state=spoiled(GOOD.state, (7, 3), np.nan)
    ),
    "action: NaN or infinite in 2 of 40": make_episode(action=spoiled(GOOD.action, slice(3, 5), np.inf)),
    "effector_m: the right effector jumps 1.0[0-9] m at t=0.76 s": make_episode(
        effector_m=np.concatenate([GOOD.effector_m[:20], GOOD.effector_m[20:] + np.array([[0, 0, 0], [0, 1, 0]], "f4")])
    ),
    "timestamps_s: not the 25 Hz grid": make_episode(
        timestamps_s=np.concatenate([np.arange(20) / 25, 0.001 + np.arange(20, 40) / 25])
    ),
    "head: timestamps run backwards at frame 11": filmed(
        replace(CAMERA, timestamps_s=spoiled(CAMERA.timestamps_s, 11, 0.39))
    ),
    "head: out of sync by 100 ms": filmed(replace(CAMERA, timestamps_s=CAMERA.timestamps_s + 0.1)),
    "head: no image for 0.1[23] s at t=0.40 s": filmed(
        replace(CAMERA, timestamps_s=spoiled(CAMERA.timestamps_s, [11, 12, 13], [0.40, 0.525, 0.525]))
    ),
    "head: black for 0.08 s": filmed(replace(CAMERA, frames=JpegFrames.encode(spoiled(IMAGES, slice(5, 7), 0)))),
    "head: picture frozen for 0.44 s at t=0.44 s while an effector moved": filmed(
        replace(CAMERA, frames=CAMERA.frames.select([*range(11), *[10] * 11, *range(22, 40)]))
    ),
    "hands: both tracked in 80.0%": make_episode(
        source=Source.HUMAN_RECOVERY, reliable=spoiled(GOOD.reliable, (slice(0, 40, 5), 1), False)
    ),
}


@pytest.mark.parametrize("reason", SPOILED)
def test_a_spoiled_episode_is_discarded_for_that_reason_alone(reason):
    reasons = check_episode(SPOILED[reason])
    assert len(reasons) == 1, reasons
    assert re.search(reason, reasons[0])


def test_losing_a_hand_for_long_is_discarded_even_when_most_of_the_episode_is_tracked():
    reliable = np.ones((400, 2), bool)
    reliable[100:120, 0] = False
    episode = make_episode(frames=400, source=Source.HUMAN_SUCCESS, reliable=reliable, cameras={})
    assert any("tracking lost for 0.80 s" in reason for reason in check_episode(episode))


def test_a_still_picture_is_fine_while_nothing_moves():
    path = GOOD.effector_m.copy()
    path[10:25] = path[10]
    frames = CAMERA.frames.select([*range(11), *[10] * 14, *range(25, 40)])
    assert check_episode(filmed(replace(CAMERA, frames=frames), effector_m=path)) == ()


def test_a_wrist_camera_may_see_nothing_move_while_only_the_other_arm_works():
    path = GOOD.effector_m.copy()
    path[:, 0] = path[0, 0]
    still = replace(CAMERA, frames=CAMERA.frames.select([3] * 40))
    assert check_episode(make_episode(effector_m=path, cameras={Camera.LEFT_WRIST: still})) == ()
    assert check_episode(make_episode(effector_m=path, cameras={Camera.RIGHT_WRIST: still})) != ()


def test_limits_can_be_loosened_for_one_import():
    episode = SPOILED["maneuver: lasts 0.36 s"]
    assert check_episode(episode, AcceptanceLimits(min_duration_s=0.1)) == ()


def test_limits_can_be_named_on_a_command_line():
    assert AcceptanceLimits.changed(["max_gap_s=0.2", "min_tracked=0.5"]).max_gap_s == 0.2
    with pytest.raises(RecipeError, match=r"no limit 'max_gap'; there are .*max_gap_s"):
        AcceptanceLimits.changed(["max_gap=0.2"])
    with pytest.raises(RecipeError, match="write a number"):
        AcceptanceLimits.changed(["max_gap_s"])


def test_an_episode_wrong_in_several_ways_lists_them_all():
    episode = make_episode(frames=10, provenance=replace(PROVENANCE, completed=False))
    assert len(check_episode(episode)) == 2


def test_limits_that_make_no_sense_are_refused():
    with pytest.raises(RecipeError, match="min_tracked"):
        AcceptanceLimits(min_tracked=90.0)
