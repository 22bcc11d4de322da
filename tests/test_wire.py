"""The codec: what is sent arrives, and nothing that a stranger sends does more than raise `WireError`."""

import contextlib
import subprocess
import sys
import tracemalloc

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from egorecovery.errors import ServingError, WireError
from egorecovery.serving.metadata import ServerMetadata
from egorecovery.serving.observation import CameraNames, observation_of
from egorecovery.serving.wire import Limits, decode, encode

TYPES = ["|b1", "|u1", "|i1", "<u2", ">i2", "<i4", "<u8", ">i8", "<f2", "<f4", ">f4", "<f8"]
arrays = st.sampled_from(TYPES).flatmap(
    lambda dtype: nps.arrays(np.dtype(dtype), nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(max_size=300)
keys = st.text(max_size=20) | st.binary(max_size=20).filter(lambda key: key not in (b"__ndarray__", b"__npgeneric__"))
messages = st.recursive(
    plain | arrays,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
).filter(lambda message: depth_of(message) <= 6)


def depth_of(value) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth_of, inside), default=0)


def same(left, right) -> bool:
    """Equal in value, type and byte order; NaN equals NaN."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict) and list(left) == list(right) and all(same(left[key], right[key]) for key in left)
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray):
        equal = isinstance(right, np.ndarray) and left.dtype == right.dtype and left.shape == right.shape
        return equal and left.tobytes() == right.tobytes()
    return type(left) is type(right) and (left == right or left != left)


def array(data=b"\0" * 8, dtype="<f4", shape=(2,), **more):
    """An array as it travels, with whatever a stranger makes of it."""
    return msgpack.packb({b"__ndarray__": True, b"data": data, b"dtype": dtype, b"shape": shape, **more})


def observation() -> dict:
    pictures = {name: np.arange(3 * 8 * 8, dtype=np.uint8).reshape(3, 8, 8) for name in ("cam_high", "cam_left_wrist")}
    return {"state": np.linspace(-1, 1, 14), "images": pictures, "prompt": "stack"}


@given(messages)
def test_what_is_encoded_is_decoded(message):
    assert same(decode(encode(message)), message)


@given(st.sampled_from(TYPES), st.integers(0, 1))
def test_numpy_scalars_keep_their_type(dtype, value):
    scalar = np.dtype(dtype).type(value)
    decoded = decode(encode({"scalar": scalar}))["scalar"]
    assert decoded == scalar
    assert isinstance(decoded, type(scalar) if not isinstance(scalar, float) else float)


@given(messages.filter(lambda message: not isinstance(message, np.ndarray)))
def test_an_array_that_is_not_contiguous_arrives_as_it_looked(message):
    turned = np.arange(24, dtype=np.int32).reshape(2, 3, 4).transpose(2, 0, 1)[::2]
    assert same(decode(encode([message, turned]))[1], np.ascontiguousarray(turned))


@settings(max_examples=500)
@given(st.binary(max_size=400))
def test_any_bytes_give_a_value_or_the_typed_error(noise):
    outcome(noise)


@settings(max_examples=500)
@given(st.data())
def test_a_message_with_bytes_changed_gives_a_value_or_the_typed_error(data):
    message = bytearray(encode(observation()))
    for _ in range(data.draw(st.integers(1, 4))):
        # Mostly in front and at the end, where structure is; the middle is pixels.
        at = data.draw(st.integers(0, 90) | st.integers(0, len(message) - 1))
        message[at] = data.draw(st.integers(0, 255))
    outcome(bytes(message))


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from([b"__ndarray__", b"__npgeneric__", b"data", b"dtype", b"shape", "data", b"more"]),
        plain
        | st.sampled_from(["<f4", "O", "|O", "<M8[s]", "f4,f4", "<U5", "|V8", ">c16"])
        | st.lists(plain, max_size=4),
    )
)
def test_arrays_of_any_making_give_a_value_or_the_typed_error(made):
    outcome(msgpack.packb(made))


def outcome(message: bytes) -> None:
    """Only `WireError` may escape."""
    with contextlib.suppress(WireError):
        decode(message)


@given(
    st.dictionaries(
        st.sampled_from(["state", "images", "prompt"]),
        messages | st.dictionaries(st.sampled_from(["head", "cam_high", "cam_low", "other"]) | keys, messages),
    )
)
def test_an_observation_of_any_making_is_checked_or_refused(message):
    cameras = CameraNames(cameras=("head",))
    with contextlib.suppress(ServingError):
        observation = observation_of(message, cameras, 14)
        assert np.isfinite(observation.state_A).all()
        assert observation.pictures[0].shape[2] == 3


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_message_cut_anywhere_is_refused(part):
    message = encode(observation())
    with pytest.raises(WireError, match=r"ends in the middle|more than the message has bytes"):
        decode(message[: int(part * len(message))])


def test_every_beginning_of_a_message_is_refused():
    message = encode({"state": np.zeros(3, np.float32), "name": "robot", "list": [1, 2.5, None]})
    for length in range(len(message)):
        with pytest.raises(WireError):
            decode(message[:length])


def test_bytes_after_the_message_are_refused():
    with pytest.raises(WireError, match="continues after its value"):
        decode(encode(observation()) + b"\0")


@pytest.mark.parametrize(
    "dtype", ["O", "|O", "|O8", "<U4", "|S4", "|V8", "<c8", "<M8[s]", "<m8[s]", "f4,f4", "<f16", ""]
)
def test_only_arrays_of_booleans_integers_and_floats_are_read(dtype):
    with pytest.raises(WireError, match="booleans, integers or floats"):
        decode(array(dtype=dtype))


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 2), (), (2**40, 2**40), (0,), (2**63,)])
def test_an_array_whose_shape_lies_about_its_bytes_is_refused(shape):
    with pytest.raises(WireError, match=r"an array claims .* and has 8 bytes"):
        decode(array(shape=shape))


@pytest.mark.parametrize("shape", [(-1,), (2.0,), (True, 2), "2", None, (1,) * 9, [[2]]])
def test_an_array_whose_shape_is_none_is_refused(shape):
    with pytest.raises(WireError, match="shape must be"):
        decode(array(shape=shape))


@pytest.mark.parametrize(
    ("claim", "word"),
    [
        (b"\xdd\xff\xff\xff\xff", "claims 4294967295 values"),  # a list of four thousand million
        (b"\xdf\x7f\xff\xff\xff", "claims 4294967294 values"),  # a map
        (b"\xc6\xff\xff\xff\xff" + b"\0" * 9, "ends in the middle"),  # bytes
        (b"\xdb\xff\xff\xff\xff" + b"a" * 9, "ends in the middle"),  # text
        (b"\xdd\x00\x00\x10\x01" + b"\xc0" * 4097, "more than 4096 values"),
    ],
)
def test_a_length_that_lies_is_refused_before_anything_is_allocated(claim, word):
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=word):
            decode(claim)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\xdf\x00\x00\x00\x01\xa1a"])
def test_nesting_ends_at_its_limit(opening):
    assert decode(opening * 8 + b"\xc0") is not None
    for levels in (9, 100, 100_000):
        with pytest.raises(WireError, match="nested deeper than 8"):
            decode(opening * levels + b"\xc0")


def test_a_message_over_the_limit_is_refused_by_its_length_alone():
    limits = Limits(bytes=100)
    decode(encode(b"\0" * 98), limits)
    with pytest.raises(WireError, match="has 101 bytes; at most 100"):
        decode(encode(b"\0" * 99), limits)


@pytest.mark.parametrize(
    ("message", "word"),
    [
        (msgpack.packb(msgpack.ExtType(5, b"code")), "type 0xc7|type 0xd6"),
        (msgpack.packb(msgpack.Timestamp(1)), "type 0xd6"),
        (b"\x81\x01\x02", "neither text nor bytes"),
        (b"\x81\x91\x01\x02", "neither text nor bytes"),
        (b"\x82\xa1a\x01\xa1a\x02", "key 'a' twice"),
        (b"\xa2\xff\xfe", "not of this protocol"),  # text that is not UTF-8
        (msgpack.packb({b"__ndarray__": True}), "exactly"),
        (array(extra=1), "exactly"),
        (msgpack.packb({b"__ndarray__": 1, b"data": b"", b"dtype": "<f4", b"shape": [0]}), "exactly"),
        (msgpack.packb({b"__npgeneric__": True, b"data": "1", b"dtype": "<f4"}), "exactly"),
        (msgpack.packb({b"__npgeneric__": True, b"data": 300, b"dtype": "|u1"}), "does not fit"),
    ],
)
def test_what_the_protocol_does_not_have_is_refused(message, word):
    with pytest.raises(WireError, match=word):
        decode(message)


@pytest.mark.parametrize("value", [np.array([None]), {"set": {1}}, np.zeros(2, complex), 2**70, lambda: 0])
def test_what_has_no_form_in_the_protocol_cannot_be_sent(value):
    with pytest.raises(WireError, match="cannot be sent"):
        encode({"value": value})


METADATA = ServerMetadata(
    action_hz=50.0,
    policy_hz=25.0,
    horizon=200,
    action_space="joint",
    action_dim=14,
    state_dim=14,
    cameras=("head", "left_wrist"),
    image_size=224,
    picture_fit="letterbox",
    hidden_embodiment=False,
    model="bench cube_stack step 2000",
    checkpoint="ab" * 32,
)


def test_metadata_arrive_as_they_were():
    assert ServerMetadata.from_message(decode(encode(METADATA.to_message()))) == METADATA


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"action_hz": 0}, "action_hz must be positive"),
        ({"action_hz": float("nan")}, "action_hz must be positive"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
        ({"horizon": True}, "horizon must be a whole number"),
        ({"cameras": "head"}, "cameras must be a list"),
        ({"cameras": []}, "at least one camera"),
        ({"action_space": "torque"}, "action_space must be one of joint, effector"),
        ({"hidden_embodiment": 1}, "hidden_embodiment must be true or false"),
        ({"model": 7}, "model must be text"),
    ],
)
def test_metadata_that_make_no_sense_are_refused(change, word):
    with pytest.raises(WireError, match=word):
        ServerMetadata.from_message({**METADATA.to_message(), **change})


def test_another_servers_metadata_are_refused_by_what_they_lack():
    with pytest.raises(WireError, match="lack action_hz, policy_hz"):
        ServerMetadata.from_message({"env": "aloha_sim"})


def test_the_codec_needs_numpy_and_msgpack_only():
    """It runs on robots, where nothing else of this package's needs is installed."""
    code = (
        "import sys; import egorecovery.serving.wire, egorecovery.serving.metadata; "
        "files = [module.__file__ for module in list(sys.modules.values()) if getattr(module, '__file__', None)]; "
        "print(*{file.split('site-packages/')[1].split('/')[0] for file in files if 'site-packages/' in file})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    installed = {name for name in done.stdout.split() if not name.startswith("_")}  # the interpreter's own hooks
    assert installed - {"egorecovery"} == {"numpy", "msgpack"}
