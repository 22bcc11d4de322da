"""Scale and normalisation: from valid recovery windows only, shared where magnitudes must stay comparable."""

import numpy as np
import pytest

from egorecovery.episodes import Embodiment, Source
from egorecovery.errors import MotionError
from egorecovery.intent import IntentNormaliser, IntentSpec, Verdict, embodiment_scale, frame_labels, pool_statistics
from making import make_path


def labelled(source, frames=120, boundary=60, scale=1.0, reliable=None):
    return source, frame_labels(
        effector_m=make_path(frames) * np.float32(scale),
        reliable=np.ones((frames, 2), bool) if reliable is None else reliable,
        active=(1,),
        source=source,
        boundary=boundary,
        spec=IntentSpec(),
    )


def test_the_scale_is_the_root_mean_square_of_the_windows():
    assert embodiment_scale(np.array([3.0, 4.0])) == pytest.approx(np.sqrt(12.5))


def test_the_scale_of_nothing_or_of_no_motion_is_an_error():
    with pytest.raises(MotionError, match="no valid recovery window for robot"):
        embodiment_scale(np.array([]), "robot")
    with pytest.raises(MotionError, match="do not move"):
        embodiment_scale(np.zeros(5))


def test_statistics_ignore_success_episodes_and_frames_outside_the_recovery():
    pool = [labelled(Source.ROBOT_RECOVERY), labelled(Source.HUMAN_RECOVERY, scale=0.5)]
    alone = pool_statistics(pool)
    with_success = pool_statistics([*pool, labelled(Source.ROBOT_SUCCESS, scale=40.0)])
    assert with_success.scale_m == alone.scale_m
    np.testing.assert_array_equal(with_success.normaliser.divisor, alone.normaliser.divisor)
    assert alone.windows[Embodiment.ROBOT] == pool[0][1].intent_mask.sum() > 0


def test_embodiments_that_differ_only_in_size_get_the_same_scaled_intent():
    robot, human = labelled(Source.ROBOT_RECOVERY), labelled(Source.HUMAN_RECOVERY, scale=3.0)
    scale_m = pool_statistics([robot, human]).scale_m
    both = robot[1].intent_mask & human[1].intent_mask
    np.testing.assert_allclose(
        (robot[1].intent_m / scale_m[Embodiment.ROBOT])[both],
        (human[1].intent_m / scale_m[Embodiment.HUMAN])[both],
        rtol=0.05,  # the larger path has a few more windows above the threshold, so the scales differ a little
    )


def test_normalising_keeps_zero_at_zero_and_can_be_undone(rng):
    intent = rng.gamma(2.0, 1.0, (500, 4))
    normaliser = IntentNormaliser.fit(intent)
    normalised = normaliser.normalise(intent)
    np.testing.assert_allclose(np.sqrt((normalised**2).mean(axis=0)), 1.0)
    np.testing.assert_array_equal(normaliser.normalise(np.zeros(4)), np.zeros(4))
    np.testing.assert_allclose(normaliser.restore(normalised), intent)


def test_a_coefficient_that_never_varies_is_an_error():
    with pytest.raises(MotionError, match="degenerate"):
        IntentNormaliser.fit(np.array([[1.0, 0.0], [2.0, 0.0]]))


def test_every_frame_gets_one_verdict_and_valid_is_the_intent_mask():
    _, labels = labelled(Source.ROBOT_RECOVERY)
    np.testing.assert_array_equal(labels.verdict == Verdict.VALID, labels.intent_mask)
    assert labels.counts().total() == 120
    assert labels.counts()[Verdict.PAST_END] > 0
    assert labels.counts()[Verdict.OUTSIDE_PHASE] > 0
    assert labels.counts()[Verdict.LEAVES_PHASE] > 0


def test_unreliable_motion_of_the_active_effector_defines_no_intent():
    reliable = np.ones((120, 2), bool)
    reliable[20:30, 1] = False
    _, labels = labelled(Source.HUMAN_RECOVERY, reliable=reliable)
    assert labels.counts()[Verdict.PADDED] >= 10
    assert not labels.intent_mask[20:30].any()
    reliable = np.ones((120, 2), bool)
    reliable[20:30, 0] = False  # the other hand may be lost
    assert labelled(Source.HUMAN_RECOVERY, reliable=reliable)[1].counts()[Verdict.PADDED] == 0


def test_success_episodes_have_no_recovery_and_no_intent():
    _, labels = labelled(Source.HUMAN_SUCCESS, boundary=None)
    assert not labels.in_recovery.any()
    assert not labels.gt_intent_valid.any()
    assert not labels.recovery_intent_valid.any()
    assert labels.intent_m.any()  # the motion is there; it is just not corrective
