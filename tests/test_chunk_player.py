"""Chunks in time: compensated by the measured delay, never by more than was played, held when late."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.errors import RecipeError
from egorecovery.evaluation import EvaluationProtocol
from egorecovery.evaluation.chunks import ChunkExecution
from egorecovery.robot.chunk_player import ChunkPlayer, Playback

RATE_HZ = 25.0
PERIOD_S = 1 / RATE_HZ


def numbered(first, steps=20):
    """Actions that say which step of which chunk they are."""
    return first + np.arange(float(steps))[:, None] * np.ones(14)


def played(player, cycles, now_s):
    """The actions of some cycles, and the time after them."""
    found = []
    for _ in range(cycles):
        action, _ = player.next_action(now_s)
        found.append(action[0])
        now_s += PERIOD_S
    return found, now_s


def test_a_chunk_is_entered_where_the_robot_has_got_to_meanwhile():
    player = ChunkPlayer(Playback(), RATE_HZ)
    player.add(numbered(0), 0.0, 0.0)
    _, now_s = played(player, 6, 0.0)
    captured_s = now_s - 2.5 * PERIOD_S  # before the last two actions were sent
    assert player.add(numbered(100), captured_s, now_s) == 2.0
    found, _ = played(player, 2, now_s)
    assert found == [102.0, 103.0]


def test_the_first_chunk_is_played_from_its_beginning_however_long_it_took():
    player = ChunkPlayer(Playback(), RATE_HZ)
    assert player.add(numbered(0), 0.0, 12.0) == 0.0
    assert played(player, 2, 12.0)[0] == [0.0, 1.0]
    assert player.delay_s == 0.0  # nor does it say when to ask for the next


def test_a_robot_that_was_held_while_it_waited_misses_no_action():
    player = ChunkPlayer(Playback(), RATE_HZ)
    player.add(numbered(0, steps=5), 0.0, 0.0)
    _, now_s = played(player, 5, 0.0)
    captured_s = now_s
    held, now_s = played(player, 10, now_s)
    assert held == [4.0] * 10
    assert player.next_action(now_s) == (pytest.approx(np.full(14, 4.0)), False)
    assert player.add(numbered(100), captured_s, now_s) == 0.0  # 0.4 s late, nothing consumed
    assert played(player, 1, now_s)[0] == [100.0]


@settings(deadline=None)
@given(st.data())
def test_never_are_more_steps_skipped_than_were_played_or_than_the_delay_lasted(data):
    player = ChunkPlayer(Playback(replan_steps=8), RATE_HZ)
    now_s, times = 0.0, []
    player.add(numbered(0, steps=10), 0.0, 0.0)
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.integers(0, 15))):
            before = player.consumed
            player.next_action(now_s, data.draw(st.sampled_from([0.1, 0.5, 1.0])))
            times.append((now_s, player.consumed - before))
            now_s += PERIOD_S
        captured_s = now_s - data.draw(st.floats(0.0, 1.0))
        skipped = player.add(numbered(0, steps=10), captured_s, now_s)
        since = sum(consumed for time_s, consumed in times if time_s > captured_s)
        assert 0.0 <= skipped <= since + 1e-9
        assert skipped <= (now_s - captured_s) * RATE_HZ + 1e-9


def test_after_any_ramp_a_player_that_has_nothing_left_to_play_asks_for_more():
    for ramp_cycles in range(1, 25):  # sums of other fractions each: somewhere rounding goes either way
        player = ChunkPlayer(Playback(), RATE_HZ)
        for cycle in range(60):
            if player.wants_chunk():
                player.add(numbered(0, steps=3), cycle * PERIOD_S, cycle * PERIOD_S)
            _, fresh = player.next_action(cycle * PERIOD_S, min(1.0, max(0.1, cycle / ramp_cycles)))
            assert fresh


def test_the_next_chunk_is_asked_for_as_early_as_answers_usually_take():
    player = ChunkPlayer(Playback(replan_steps=10), RATE_HZ)
    player.add(numbered(0), 0.0, 5.0)
    _, now_s = played(player, 10, 5.0)
    assert player.wants_chunk()
    player.add(numbered(0), now_s - 0.1, now_s)  # 2.5 steps; entered two steps in, as two were played since
    asked = []
    for _ in range(9):
        asked.append(player.wants_chunk())
        _, now_s = played(player, 1, now_s)
    assert asked.index(True) == 5  # 3 steps before step 10, from step 2


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("steps", [3, 10, 35])
def test_without_delay_chunks_are_executed_as_in_evaluation_bit_for_bit(ensemble, steps, rng):
    protocol = EvaluationProtocol(replan_steps=7, ensemble=ensemble)
    reference = ChunkExecution(protocol)
    player = ChunkPlayer(Playback(replan_steps=7, ensemble=ensemble), RATE_HZ)
    now_s = 0.0
    for _ in range(60):
        assert player.wants_chunk() == reference.wants_chunk
        if reference.wants_chunk:
            actions = rng.normal(size=(steps, 14))
            reference.add(actions)
            assert player.add(actions, now_s, now_s) == 0.0
        action, fresh = player.next_action(now_s)
        np.testing.assert_array_equal(action, reference.next_action())
        assert fresh
        now_s += PERIOD_S


def test_ensembling_averages_what_chunks_say_of_the_same_moment():
    player = ChunkPlayer(Playback(replan_steps=1, ensemble=True, ensemble_decay=0.0), RATE_HZ)
    player.add(numbered(0), 0.0, 0.0)
    _, now_s = played(player, 4, 0.0)
    player.add(numbered(100), now_s - 1.5 * PERIOD_S, now_s)  # entered one step in
    assert played(player, 1, now_s)[0] == [(4.0 + 101.0) / 2]


@pytest.mark.parametrize("settings", [{"replan_steps": 0}, {"ensemble_decay": -1.0}, {"ensemble_decay": np.nan}])
def test_silly_playback_is_refused(settings):
    with pytest.raises(RecipeError):
        Playback(**settings)
