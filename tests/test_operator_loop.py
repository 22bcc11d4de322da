"""Keys, pedals and scripts: what the operator does, and what it means in each state."""

import io
import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egorecovery.capture.keys import REPEATS_S, HeldKeys, Keyboard, Script, key_names
from egorecovery.capture.operator_loop import TRANSITIONS, Action, KeyMap, State
from egorecovery.errors import CaptureError


def press_all(keys: KeyMap, typed: list[str], state: State = State.STAGING) -> list[State]:
    states = []
    for key in typed:
        action = keys.action(key, state)
        state = TRANSITIONS[state][action] if action is not None else state
        states.append(state)
    return states


def test_one_pedal_records_clip_after_clip():
    a_clip = [State.RECORDING, State.JUDGING, State.RESETTING]
    assert press_all(KeyMap(), ["space"] * 6) == a_clip * 2


def test_a_clip_can_be_thrown_away_while_it_is_recorded():
    assert press_all(KeyMap(), ["space", "d"]) == [State.RECORDING, State.RESETTING]


@given(st.lists(st.sampled_from(["space", "enter", "d", "n", "p", "q", "x"]), max_size=40))
def test_no_sequence_of_keys_quits_while_a_clip_waits_for_its_verdict(typed):
    states = [State.SETTING_UP, *press_all(KeyMap(), typed, State.SETTING_UP)]
    for before, after in pairwise(states):
        if after is State.ENDED:
            assert before not in (State.RECORDING, State.JUDGING)


def test_keys_can_be_changed_one_action_at_a_time():
    keys = KeyMap.parse(("start=f5", "accept=enter+y", "discard=+"))
    assert keys.action("f5", State.STAGING) is Action.START
    assert keys.action("space", State.STAGING) is None
    assert keys.action("y", State.JUDGING) is Action.ACCEPT
    assert keys.action("+", State.JUDGING) is Action.DISCARD
    assert keys.action("space", State.RECORDING) is Action.STOP


def test_one_key_may_not_mean_two_things_at_the_same_time():
    with pytest.raises(CaptureError, match="'enter' would mean both"):
        KeyMap.parse(("discard=enter",))
    KeyMap.parse(("pause=enter",))  # never at the same time as accept


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        (" ", ["space"]),
        ("\r", ["enter"]),
        ("\x7f", ["backspace"]),
        ("\x1b", ["escape"]),
        ("\x1bOP", ["f1"]),
        ("\x1b[15~", ["f5"]),
        ("\x1b[24~d", ["f12", "d"]),
        ("nd ", ["n", "d", "space"]),
        ("\x1b[99~", []),
    ],
)
def test_what_a_terminal_sends_is_named(typed, names):
    assert key_names(typed) == names


def test_a_key_that_is_held_down_counts_once():
    held = HeldKeys()
    repeats_s = [0.0, 0.5, *(0.5 + number * 0.03 for number in range(1, 40))]
    assert [held.pressed("space", 10 + time_s) for time_s in repeats_s].count(True) == 1
    assert held.pressed("space", 10 + repeats_s[-1] + REPEATS_S)
    assert held.pressed("d", 10 + repeats_s[-1] + REPEATS_S)


def test_a_keyboard_reads_single_keys_as_they_come():
    reading, writing = os.pipe()
    keyboard = Keyboard(KeyMap(), reading)
    assert keyboard.next(State.STAGING, 0.0) is None
    os.write(writing, b"x ")  # x means nothing
    assert [keyboard.next(State.STAGING, 0.0) for _ in range(3)] == [None, Action.START, None]
    os.close(writing)
    assert keyboard.next(State.STAGING, 0.0) is Action.QUIT  # the terminal was closed
    os.close(reading)


def test_a_script_waits_for_what_it_is_told_to_and_then_quits():
    script = Script(io.StringIO("wait ready  # cameras\n\nstart\nwait end\naccept\n"), "script")
    states = [State.SYNCHRONISING] * 3 + [State.SETTING_UP] * 3 + [State.RECORDING] * 3 + [State.JUDGING]
    actions = [script.next(state, 0.0) for state in [*states, State.RESETTING]]
    assert [action for action in actions if action] == [Action.START, Action.ACCEPT, Action.QUIT]
    assert actions.index(Action.START) > 3
    assert actions.index(Action.ACCEPT) > 8


def test_a_script_that_ends_in_the_middle_of_a_clip_leaves_the_verdict_to_the_recorder():
    script = Script(io.StringIO(""), "script")
    for state in (State.RECORDING, State.JUDGING):
        with pytest.raises(EOFError):
            script.next(state, 0.0)
    assert script.next(State.RESETTING, 0.0) is Action.QUIT


@pytest.mark.parametrize("line", ["jump\n", "start now\n", "wait soon\n", "wait\n"])
def test_a_script_line_that_makes_no_sense_is_refused(line):
    with pytest.raises(CaptureError, match="script line 1"):
        Script(io.StringIO(line), "script").next(State.STAGING, 0.0)
