"""One converter for everything that is JSON: what it writes it reads, and what is wrong is named with its place."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egorecovery.errors import EgoRecoveryError, RecipeError, StoreDamaged
from egorecovery.storage.bounded_json import parse_json
from egorecovery.storage.typed_json import Must, between, from_json, to_json


class Side(StrEnum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, kw_only=True)
class Arm:
    side: Side
    reach_m: Annotated[float, between(0, 2, above_least=True)] = 1.0
    joints: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Robot:
    name: Annotated[str, Must("that is not empty", bool)]
    arms: tuple[Arm, ...] = ()
    home: tuple[int, float] | None = None
    mode: Literal["slow", "fast"] = "slow"
    spare: Arm | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    value: str | bool = ""
    count: int | float = 0


class Card(TypedDict):
    seed: Annotated[int, between(0, 10)]
    arm: NotRequired[Arm]
    sides: NotRequired[dict[Literal["left", "right"], int]]


ARMS = st.builds(
    Arm, side=st.sampled_from(Side), reach_m=st.floats(0.1, 2.0), joints=st.lists(st.text(), max_size=3).map(tuple)
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
ROBOTS = st.builds(
    Robot,
    name=st.text(min_size=1),
    arms=st.lists(ARMS, max_size=3).map(tuple),
    home=st.none() | st.tuples(st.integers(), NUMBERS),
    mode=st.sampled_from(["slow", "fast"]),
    spare=st.none() | ARMS,
    limits=st.dictionaries(st.text(), NUMBERS),
    value=st.text() | st.booleans(),
    count=st.integers() | NUMBERS,
)


@given(ROBOTS)
def test_what_is_written_is_read_and_written_alike(robot):
    written = json.dumps(to_json(robot))
    again = from_json(Robot, json.loads(written), "robot", RecipeError)
    assert again == robot
    assert json.dumps(to_json(again)) == written


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
ALMOST = st.dictionaries(st.sampled_from([*Robot.__dataclass_fields__, "nmae"]), ANYTHING)


@given(ANYTHING | ALMOST)
def test_whatever_is_read_is_a_value_of_the_type_or_one_error_of_the_kind_asked_for(value):
    for kind in (Robot, Card, Arm, tuple[Side, ...], Annotated[int, between(0, 10)]):
        with suppress(StoreDamaged):
            taken = from_json(kind, value, "it", StoreDamaged)
            assert to_json(from_json(kind, to_json(taken), "it", StoreDamaged)) == to_json(taken)


def whole(**changes: Any) -> dict[str, Any]:
    return {**to_json(Robot(name="r", arms=(Arm(side=Side.LEFT),))), **changes}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "robot must be an object, got 7"),
        (whole(nmae="x"), "robot.nmae is not known; did you mean name?"),
        (
            whole(zzz=1),
            "robot.zzz is not known; it may have name, arms, home, mode, spare, limits, value, count",
        ),
        ({}, "robot.name is missing"),
        (whole(name=""), "robot.name must be text that is not empty, got ''"),
        (whole(name=3), "robot.name must be text that is not empty, got 3"),
        (whole(arms="left"), "robot.arms must be a list, got 'left'"),
        (whole(arms=[{"side": "up"}]), "robot.arms[0].side must be one of left, right, got 'up'"),
        (whole(arms=[{"side": ["left"]}]), "robot.arms[0].side must be one of left, right, got ['left']"),
        (
            whole(arms=[{"side": "left"}, {"side": "left", "reach_m": 0}]),
            "robot.arms[1].reach_m must be a number above 0 and at most 2, got 0",
        ),
        (whole(home=[1]), "robot.home must be a list of 2 or null, got [1]"),
        (whole(home=[True, 1.0]), "robot.home[0] must be a whole number, got True"),
        (whole(home=7), "robot.home must be a list of 2 or null, got 7"),
        (whole(mode="sloww"), "robot.mode must be one of slow, fast, got 'sloww'"),
        (whole(spare={"side": 1}), "robot.spare.side must be one of left, right, got 1"),
        (whole(limits={"a": "1"}), "robot.limits.a must be a number, got '1'"),
        (whole(limits={"a": 10**400}), "robot.limits.a is too large for a number"),
        (whole(value=1), "robot.value must be text or true or false, got 1"),
        (whole(count=True), "robot.count must be a number, got True"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(value, message):
    with pytest.raises(RecipeError) as refusal:
        from_json(Robot, value, "robot", RecipeError)
    assert str(refusal.value) == message


def test_a_files_fields_stand_behind_its_name_and_what_to_do_behind_all():
    with pytest.raises(StoreDamaged) as refusal:
        from_json(Card, {"seed": 11}, "cell.json: ", StoreDamaged, "run the cell again")
    assert str(refusal.value) == "cell.json: seed must be a whole number from 0 to 10, got 11; run the cell again"
    with pytest.raises(StoreDamaged, match=r"^cell\.json: must be an object, got 3; run"):
        from_json(Card, 3, "cell.json: ", StoreDamaged, "run the cell again")


def test_an_open_object_may_have_more_and_stays_as_it_is():
    card = {"seed": 3, "arm": {"side": "left", "reach_m": 1}, "newer": [1]}
    assert from_json(Card, card, "card", StoreDamaged) is card
    with pytest.raises(StoreDamaged, match=r"card\.sides\.up must be one of left, right, got 'up'"):
        from_json(Card, {"seed": 3, "sides": {"up": 1}}, "card", StoreDamaged)


def test_whole_numbers_stay_whole_where_either_is_allowed():
    assert type(from_json(Robot, whole(count=2), "robot", RecipeError).count) is int
    assert type(from_json(Arm, {"side": "left", "reach_m": 2}, "arm", RecipeError).reach_m) is float


@pytest.mark.parametrize(
    "payload", [b'"' + b"x" * 10**6 + b'"', b"[" + b"1," * 10**5 + b"1]", b'{"' + b"y" * 10**5 + b'": 1}']
)
def test_messages_stay_short_however_long_what_they_quote(payload):
    for kind in (Robot, Arm, int, Mapping[Side, int]):
        with pytest.raises(EgoRecoveryError) as refusal:
            from_json(kind, parse_json(payload), "it", StoreDamaged)
        assert len(str(refusal.value)) < 250


def test_numbers_and_arrays_of_numpy_become_plain_ones():
    written = to_json({Side.LEFT: np.float32(0.5), "all": np.arange(3), "one": (np.int64(1), Side.RIGHT, None)})
    assert json.dumps(written) == '{"left": 0.5, "all": [0, 1, 2], "one": [1, "right", null]}'
    assert type(next(iter(written))) is str
