"""A limits file is complete and sensible, or it is refused with its place."""

import json
import math

import pytest

from egorecovery.errors import LimitsError
from egorecovery.robot.limits import limits_of, read_limits
from robot_limits import FOLDER, workcell_limits


def content(**changes):
    return {**json.loads((FOLDER / "workcell.json").read_text()), **changes}


def with_joint(index=3, **changes):
    whole = content()
    whole["joints"][index] = {**whole["joints"][index], **changes}
    return whole


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_limits_file_of_the_examples_can_be_read(path):
    assert len(read_limits(path).joints) == 14


def test_limits_are_read_as_they_are_written():
    limits = workcell_limits()
    assert limits.names[6] == "left/gripper"
    assert (limits.joints[0].velocity, limits.joints[6].tracking_error) == (3.0, None)
    assert limits.of_each("tracking_error")[6] == math.inf
    assert limits.stop_s(25.0) == pytest.approx(0.12)


@pytest.mark.parametrize("name", ["schema", "joints", "ramp_in_s", "observation_age_s", "answer_s", "hold_s"])
def test_nothing_may_be_left_out(name):
    whole = content()
    del whole[name]
    with pytest.raises(LimitsError, match=f"robot.json: {name} is missing; no limit has a default"):
        limits_of(whole, "robot.json")


@pytest.mark.parametrize("name", ["name", "lower", "upper", "velocity", "acceleration", "jump", "tracking_error"])
def test_nothing_may_be_left_out_of_a_joint(name):
    whole = content()
    del whole["joints"][2][name]
    with pytest.raises(LimitsError, match=rf"joints\[2\]( \(.*\))?: {name} is missing; no limit has a default"):
        limits_of(whole)


@pytest.mark.parametrize("name", [None, 7, "", " ", "a\x1b[31mb", "a\nb"], ids=repr)
def test_a_name_that_cannot_be_shown_is_in_no_message(name):
    whole = content()
    whole["joints"][2]["name"] = name
    with pytest.raises(LimitsError, match=r"^limits: joints\[2\]: name must be text") as refused:
        limits_of(whole)
    assert str(refused.value).isprintable()


SILLY = [math.nan, math.inf, -math.inf, True, "1.0", None, [], {}, 1e9]


@pytest.mark.parametrize("value", SILLY, ids=repr)
@pytest.mark.parametrize("name", ["lower", "upper", "velocity", "acceleration", "jump", "tracking_error"])
def test_silly_values_are_refused_with_joint_and_name(name, value):
    if (name, value) == ("tracking_error", None):
        return  # null: not watched
    with pytest.raises(LimitsError, match=rf"joints\[3\] \(left/joint4\): {name} must be a number"):
        limits_of(with_joint(**{name: value}))


@pytest.mark.parametrize("value", [*SILLY, 0.0, -1.0], ids=repr)
@pytest.mark.parametrize("name", ["observation_age_s", "answer_s", "hold_s"])
def test_silly_times_are_refused(name, value):
    with pytest.raises(LimitsError, match=f"{name} must be a number"):
        limits_of(content(**{name: value}))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (with_joint(lower=1.0, upper=1.0), "lower must be below upper"),
        (with_joint(lower=-170.0), "lower must be a number from"),  # degrees
        (with_joint(velocity=0), "velocity must be a number above 0"),
        (with_joint(velocity=3.0, acceleration=0.5), "would take 6 s"),
        (with_joint(name="left/joint1"), "left/joint1 are there twice"),
        (with_joint(name=" "), "name must be text that can be shown"),
        (with_joint(speed=1.0), "speed is not known; it may have name, lower"),
        (content(watchdog=False), "watchdog is not known"),
        (content(joints=[]), "one entry per joint"),
        (content(joints=["joint1"]), r"joints\[0\] must be an object"),
        (content(schema=2), "schema must be 1, got 2"),
        ([], "must be an object"),
    ],
)
def test_what_contradicts_itself_is_refused(changed, words):
    with pytest.raises(LimitsError, match=words):
        limits_of(changed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "JSON nested more than"),
        ('{"schema": 1, "schema": 1}', "'schema' appears twice"),
        ("\xff", "not JSON"),
    ],
    ids=["empty", "deep", "twice", "bytes"],
)
def test_files_that_are_no_json_are_refused_by_name(tmp_path, text, words):
    path = tmp_path / "limits.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(LimitsError, match=f"limits.json: {words}|{words}"):
        read_limits(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(LimitsError, match=r"nowhere\.json is missing; examples/limits"):
        read_limits(tmp_path / "nowhere.json")
