"""Camera drivers and robot streams: real files, real processes, SDKs replaced by fakes of their interface."""

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st

from egorecovery.capture.cameras.frame_pipe import MOST_PAYLOAD, read_message
from egorecovery.capture.cameras.orbbec import OrbbecCamera
from egorecovery.capture.cameras.realsense import RealsenseCamera
from egorecovery.capture.cameras.spec import CameraSpec, calibration
from egorecovery.capture.cameras.uvc import UvcCamera
from egorecovery.capture.clocks import DeviceClock, SessionClock
from egorecovery.capture.robot_stream import RobotCommand, parse_sample
from egorecovery.capture.sensor import CameraDriver, CameraFrame
from egorecovery.capture.sensor_worker import SensorWorker
from egorecovery.capture.stream_meter import missing_between, skew_s
from egorecovery.errors import CaptureError

FAKE_SDK = Path(__file__).with_name("fake_orbbec")


def spec(text: str) -> CameraSpec:
    return CameraSpec.parse(f"head={text}")


# uvc


@pytest.fixture
def film(tmp_path):
    """What a webcam sends, in a file: JPEG pictures 1/30 s apart. Yields the path and the pictures' bytes."""
    path, sent = tmp_path / "film.avi", []
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj422p"
        for number in range(12):
            image = np.full((48, 64, 3), 20 * number, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuvj422p")
            for packet in stream.encode(frame):
                sent.append(bytes(packet))
                container.mux(packet)
    return path, sent


def test_pictures_that_a_webcam_compressed_are_kept_byte_for_byte(film):
    path, sent = film
    camera = UvcCamera(spec(f"uvc:{path}"), container_format="avi")
    shots = list(camera.items())
    assert [shot.jpeg for shot in shots] == sent
    assert (camera.intrinsics.width, camera.intrinsics.height, camera.rate_hz) == (64, 48, 30.0)


def test_capture_times_of_a_webcam_are_the_kernels_stamps_and_not_the_times_of_arrival(film):
    clock = DeviceClock("film", monotonic=lambda: 5.0, realtime=lambda: 1.7e9)  # arrival: all at once
    camera = UvcCamera(spec(f"uvc:{film[0]}"), container_format="avi", clock=clock)
    np.testing.assert_allclose([shot.captured_s for shot in camera.items()], np.arange(12) / 30, atol=1e-6)


def test_raw_pictures_of_a_webcam_are_compressed_once(tmp_path):
    path = tmp_path / "raw.avi"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("rawvideo", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuyv422"
        image = np.full((48, 64, 3), [200, 60, 30], np.uint8)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuyv422")))
    (shot,) = UvcCamera(spec(f"uvc:{path}"), container_format="avi").items()
    np.testing.assert_allclose(simplejpeg.decode_jpeg(shot.jpeg)[24, 32], [200, 60, 30], atol=6)


def test_a_calibration_must_fit_the_pictures(film, tmp_path):
    known = {"width": 64, "height": 48, "fx": 50.0, "fy": 51.0, "cx": 31.0, "cy": 23.0}
    (tmp_path / "known.json").write_text(json.dumps(known))
    camera = UvcCamera(spec(f"uvc:{film[0]},calibration={tmp_path / 'known.json'}"), container_format="avi")
    assert (camera.intrinsics.fy, camera.guessed_intrinsics) == (51.0, False)
    with pytest.raises(CaptureError, match=r"is for 64 x 48 pixels, the camera gives 640 x 480"):
        calibration(tmp_path / "known.json", (640, 480))
    with pytest.raises(CaptureError, match="is missing"):
        calibration(tmp_path / "no.json", (640, 480))
    (tmp_path / "bad.json").write_text('{"width": "wide"}')
    with pytest.raises(CaptureError, match="no calibration"):
        calibration(tmp_path / "bad.json", (640, 480))


# What a process sees that has a camera of 64 x 48 pixels at 50 Hz, unplugged after 6 pictures, at /dev/video77.
WITH_A_CAMERA = """
import errno, json, os, time
from egorecovery.capture.cameras.spec import CameraSpec
from egorecovery.capture.cameras.uvc import UvcCamera
from egorecovery.capture.clocks import DeviceClock
from egorecovery.errors import CaptureError

def camera(options=""):
    return UvcCamera(CameraSpec.parse("head=uvc:/dev/video77" + options))

def refusal(call):
    try:
        call()
    except CaptureError as error:
        return str(error)

def look():
    for shot in opened.items():
        sent = open(os.environ["FAKE_V4L2"] + f"/{len(shots)}.jpg", "rb").read()
        shots.append([shot.jpeg == sent, time.monotonic() - shot.captured_s])

shots, opened = [], camera(",fps=50")
seen = {"rate_hz": opened.rate_hz, "size": [opened.intrinsics.width, opened.intrinsics.height]}
seen["unplugged"], seen["shots"] = refusal(look), shots
ticks = iter([0, 0, 0] + [3600] * 100)
jumping = DeviceClock("its clock", monotonic=lambda: time.monotonic() + next(ticks))
spec = CameraSpec.parse("head=uvc:/dev/video77")
seen["jumped"] = refusal(lambda: list(UvcCamera(spec, clock=jumping).items()))
seen["another size"] = refusal(lambda: camera(",size=640x480"))
for name in ("EACCES", "EBUSY", "EINVAL", "EIO"):
    os.environ["FAKE_V4L2_ERROR"] = str(getattr(errno, name))
    seen[name] = refusal(camera)
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict:
    """FFmpeg's own driver, on answers as the kernel gives them: pictures are stamped 7 ms before they can be taken."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in of the kernel")
    home = tmp_path_factory.mktemp("video4linux")
    source, library = Path(__file__).with_name("fake_v4l2.c"), home / "fake.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    for number in range(6):
        (home / f"{number}.jpg").write_bytes(simplejpeg.encode_jpeg(np.full((48, 64, 3), 40 * number, np.uint8)))
    settings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "LD_PRELOAD": str(library),
        "MALLOC_PERTURB_": "165",
    }
    command = [sys.executable, "-c", WITH_A_CAMERA]
    done = subprocess.run(command, env={**settings, "FAKE_V4L2": str(home)}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_webcam_is_read_through_the_kernels_interface_with_its_stamps_until_it_is_unplugged(seen):
    assert (seen["rate_hz"], seen["size"]) == (50.0, [64, 48])
    assert [whole for whole, _ in seen["shots"]] == [True] * 6
    assert all(0.007 <= late_s < 5 for _, late_s in seen["shots"])
    assert seen["unplugged"].startswith("uvc:/dev/video77 stopped delivering ([Errno 19] No such device")


def test_a_webcam_whose_clock_jumps_while_recording_is_refused_and_takes_nothing_with_it(seen):
    """MALLOC_PERTURB_ makes memory that is used after it was freed end the process."""
    assert "its clock jumped by" in seen["jumped"]


def test_a_webcam_that_gives_another_size_than_was_asked_for_is_refused(seen):
    wanted = "head: /dev/video77 gives 64x48, 640x480 is asked for; 'v4l2-ctl --list-formats-ext"
    assert seen["another size"].startswith(wanted)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("EACCES", "may not be read by you; join the group 'video'"),
        ("EBUSY", "is in use by another program"),
        ("EINVAL", "does not offer what was asked for"),
        ("EIO", "cannot be opened as a camera ([Errno 5] Input/output error"),
    ],
)
def test_a_webcam_that_cannot_be_opened_says_why_and_what_to_do(seen, name, reason):
    assert seen[name].startswith(f"head: /dev/video77 {reason}")


# clocks


@given(delays_s=st.lists(st.floats(0, 0.05), min_size=1, max_size=40), start_s=st.floats(0, 1e6))
def test_times_of_a_camera_with_a_clock_of_its_own_are_never_in_the_future_and_keep_their_spacing(delays_s, start_s):
    now = SimpleNamespace(s=0.0)
    clock = DeviceClock("camera", monotonic=lambda: now.s, realtime=lambda: 1.7e9 + now.s)
    offset_s = 5e8  # far from both clocks of ours
    for number, delay_s in enumerate(delays_s):
        taken_s = start_s + number / 30
        now.s = taken_s + delay_s
        captured_s = clock.monotonic_s(taken_s + offset_s)
        assert captured_s <= now.s + 1e-6
        assert captured_s >= taken_s - 1e-6
    assert clock.domain == "own"
    assert captured_s - taken_s <= min(delays_s) + 1e-6


@given(domain=st.sampled_from(["monotonic", "realtime"]), now_s=st.floats(100, 1e6), delay_s=st.floats(0, 1.0))
def test_times_from_a_clock_of_this_machine_are_taken_as_they_are(domain, now_s, delay_s):
    clock = DeviceClock("camera", monotonic=lambda: now_s, realtime=lambda: 1.7e9)
    ours_s = {"monotonic": now_s, "realtime": 1.7e9}[domain]
    assert clock.monotonic_s(ours_s - delay_s) == pytest.approx(now_s - delay_s, abs=1e-5)
    assert clock.domain == domain


def test_a_clock_that_is_set_while_recording_is_noticed():
    clock = DeviceClock("head", monotonic=lambda: 100.0, realtime=lambda: 1.7e9)
    clock.monotonic_s(1.7e9)
    with pytest.raises(CaptureError, match=r"its clock jumped by -3600"):
        clock.monotonic_s(1.7e9 - 3600)


def test_the_calendar_of_a_session_follows_the_monotonic_clock_alone():
    from datetime import UTC, datetime

    now = SimpleNamespace(s=50.0)
    clock = SessionClock(monotonic=lambda: now.s, calendar=lambda: datetime(2026, 3, 1, 10, tzinfo=UTC))
    now.s += 2.5
    assert clock.calendar(clock.now_s()) == "2026-03-01T10:00:02.500+00:00"
    clock.skip_to(60.0)
    assert clock.now_s() == 60.0
    clock.skip_to(55.0)
    assert clock.now_s() == 60.0


# orbbec


@pytest.fixture
def orbbec(monkeypatch):
    """Opens the driver on the fake SDK, in a process of its own."""
    opened = []

    def opener(target="", fake="", pictures=10**6, sdk=FAKE_SDK, size="32x24", more=""):
        monkeypatch.setenv("PYTHONPATH", str(sdk))
        monkeypatch.setenv("ORBBEC_FAKE", fake)
        monkeypatch.setenv("ORBBEC_FAKE_PICTURES", str(pictures))
        opened.append(OrbbecCamera(spec(f"orbbec:{target},python={sys.executable},size={size}{more}")))
        return opened[-1]

    yield opener
    for camera in opened:
        camera.close()


def test_orbbec_pictures_depth_and_parameters_come_through_the_pipe_whole(orbbec):
    before_s = time.monotonic()
    camera = orbbec("AB12")
    shots = list(islice(camera.items(), 3))
    assert (camera.intrinsics.fx, camera.intrinsics.fy) == (30.0, 31.0)
    for number, shot in enumerate(shots, start=1):
        assert abs(int(simplejpeg.decode_jpeg(shot.jpeg)[0, 0, 0]) - number) <= 2
        np.testing.assert_array_equal(shot.depth_mm, np.full((6, 8), number))  # the fake's unit is half a millimetre
        assert before_s - 5 < shot.captured_s <= time.monotonic() + 5


def test_orbbec_without_depth_and_with_a_clock_of_its_own(orbbec):
    camera = orbbec(fake="own clock", more=",depth=no")
    shots = list(islice(camera.items(), 3))
    assert all(shot.depth_mm is None for shot in shots)
    assert shots[-1].captured_s <= time.monotonic()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"fake": "none"}, "no Orbbec camera is connected"),
        ({"target": "ZZ"}, "no device has serial number ZZ"),
        ({"fake": "silent"}, "no picture for 5 seconds"),
        ({"sdk": "/nowhere"}, "No module named 'pyorbbecsdk'"),
    ],
)
def test_what_the_orbbec_process_cannot_do_is_said_in_its_words(orbbec, how, message):
    with pytest.raises(CaptureError, match=message):
        orbbec(**how)


@pytest.mark.parametrize(
    ("how", "message"), [({"pictures": 3}, "USB disconnected"), ({"fake": "die"}, "camera process ended")]
)
def test_an_orbbec_camera_that_is_lost_is_an_error_and_not_an_end(orbbec, how, message):
    with pytest.raises(CaptureError, match=message):
        list(orbbec(**how).items())


def message(header: dict, payload: bytes = b"") -> bytes:
    encoded = json.dumps(header).encode()
    return b"EGO1" + struct.pack("<II", len(encoded), len(payload)) + encoded + payload


def test_a_message_cut_anywhere_is_refused_or_the_end():
    whole = message({"a": 1}, b"12345")
    assert read_message(io.BytesIO(whole), "x").payload == b"12345"
    assert read_message(io.BytesIO(b""), "x") is None
    for length in range(1, len(whole)):
        with pytest.raises(CaptureError):
            read_message(io.BytesIO(whole[:length]), "x")


@given(st.binary(max_size=64))
def test_bytes_that_are_no_message_are_refused_without_allocating_what_they_claim(junk):
    claims = b"EGO1" + struct.pack("<II", 5, MOST_PAYLOAD + 1) + junk
    with pytest.raises(CaptureError, match="announced"):
        read_message(io.BytesIO(claims), "x")
    if junk and not junk.startswith(b"EGO1"):
        with pytest.raises(CaptureError):
            read_message(io.BytesIO(junk), "x")


# realsense


class FakeRealsense:
    """The part of pyrealsense2 that our driver uses."""

    stream = SimpleNamespace(color="color", depth="depth")
    format = SimpleNamespace(rgb8="rgb8", z16="z16")
    option = SimpleNamespace(global_time_enabled="global time")

    def __init__(self, numbers, lost=""):
        self.numbers, self.lost = iter(numbers), lost
        self.set_options, self.stopped = [], False

    def pipeline(self):
        return self

    def config(self):
        return SimpleNamespace(enable_device=lambda serial: None, enable_stream=lambda *wanted: None)

    def align(self, stream):
        return SimpleNamespace(process=lambda frames: frames)

    def start(self, config):
        if self.lost == "at start":
            raise RuntimeError("No device connected")
        return self

    def stop(self):
        self.stopped = True

    def get_device(self):
        return self

    def query_sensors(self):
        return [
            SimpleNamespace(
                supports=lambda option: True,
                set_option=lambda option, value: self.set_options.append((option, value)),
                is_depth_sensor=lambda: True,
                as_depth_sensor=lambda: SimpleNamespace(get_depth_scale=lambda: 0.00025),
            )
        ]

    def get_stream(self, stream):
        known = SimpleNamespace(width=32, height=24, fx=30.0, fy=30.0, ppx=16.0, ppy=12.0)
        return SimpleNamespace(as_video_stream_profile=lambda: SimpleNamespace(get_intrinsics=lambda: known))

    def wait_for_frames(self, wait_ms):
        number = next(self.numbers, None)
        if number is None:
            raise RuntimeError("Frame didn't arrive within 5000")
        colour = SimpleNamespace(
            get_frame_number=lambda: number,
            get_timestamp=lambda: time.time() * 1000 - 20,
            get_data=lambda: np.full((24, 32, 3), 10 * number, np.uint8),
        )
        depth = SimpleNamespace(get_data=lambda: np.full((24, 32), 4000, np.uint16))
        return SimpleNamespace(get_color_frame=lambda: colour, get_depth_frame=lambda: depth)


def test_realsense_depth_is_in_millimetres_and_a_repeated_picture_is_taken_once():
    before_s = time.monotonic()
    sdk = FakeRealsense([1, 2, 2, 3])
    camera = RealsenseCamera(spec("realsense:"), sdk=sdk)
    items = camera.items()
    shots = [next(items) for _ in range(3)]
    assert [int(simplejpeg.decode_jpeg(shot.jpeg)[0, 0, 0]) for shot in shots] == [10, 20, 30]
    assert (shots[0].depth_mm == 1000).all()
    assert all(before_s - 5 < shot.captured_s < time.monotonic() for shot in shots)
    assert ("global time", 1) in sdk.set_options
    with pytest.raises(CaptureError, match="stopped delivering"):
        next(items)
    assert sdk.stopped


def test_realsense_that_is_not_there_says_so():
    with pytest.raises(CaptureError, match=r"cannot be started \(No device connected\)"):
        RealsenseCamera(spec("realsense:123"), sdk=FakeRealsense([], lost="at start"))


def test_realsense_without_its_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyrealsense2", None)
    with pytest.raises(CaptureError, match=r"egorecovery\[realsense\]"):
        RealsenseCamera(spec("realsense:"))


# robot streams


def line(**changes) -> bytes:
    sample = {"captured_s": 1.0, "state": [0.1] * 14, "action": [0.2] * 14, "effector_m": [[0, 0, 0], [1, 1, 1]]}
    return json.dumps({**sample, **changes}).encode() + b"\n"


ROBOT = """
import json, sys, time
for number in range(int(sys.argv[1])):
    at = [[0.3, 0.1, 0.1], [0.3, -0.1, 0.1]]
    print(json.dumps({"captured_s": time.monotonic(), "state": [number] * 14, "action": [0] * 14, "effector_m": at}),
          flush=True)
if len(sys.argv) > 2: sys.exit("estop")
time.sleep(60)
"""


def test_a_robots_program_is_read_line_by_line(tmp_path):
    (tmp_path / "robot.py").write_text(ROBOT)
    before_s = time.monotonic()
    robot = RobotCommand(f"{sys.executable} {tmp_path / 'robot.py'} 5", 50.0)
    samples = list(islice(robot.items(), 5))
    robot.close()
    assert [sample.state[0] for sample in samples] == [0, 1, 2, 3, 4]
    assert all(before_s - 5 < sample.captured_s <= time.monotonic() + 5 for sample in samples)


def test_a_robots_program_that_ends_is_an_error_with_its_exit_code(tmp_path):
    (tmp_path / "robot.py").write_text(ROBOT)
    robot = RobotCommand(f"{sys.executable} {tmp_path / 'robot.py'} 2 stop", 50.0)
    with pytest.raises(CaptureError, match=r"ended after 2 lines \(exit code 1\)"):
        list(robot.items())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"joint 1: 0.3\n", "not JSON"),
        (b"[1, 2]\n", "must be an object"),
        (line(state=[0.1] * 13), r"state must be finite numbers of shape \(14,\)"),
        (line(action=[float("nan")] * 14), r"not JSON \(NaN is not a number\)"),
        (line(effector_m=None), "effector_m must be finite"),
        (line(captured_s="now"), "captured_s must be a number"),
        (line(effector_state=[0.0]), "effector_state must be finite"),
        (b"[" * 100_000, "longer than"),
    ],
)
def test_a_line_that_is_no_sample_is_refused_with_its_number(bad, reason):
    with pytest.raises(CaptureError, match=f"line 3: {reason}"):
        parse_sample(bad, "line 3")


# meters and workers


@given(st.lists(st.booleans(), min_size=2, max_size=60), st.floats(-0.1, 0.1))
def test_missing_frames_are_counted_by_their_gaps(delivered, jitter):
    times_s = [(number + jitter * (number % 2)) / 30 for number, is_there in enumerate(delivered) if is_there]
    if len(times_s) < 2:
        return
    inner = delivered[delivered.index(True) : len(delivered) - delivered[::-1].index(True)]
    assert sum(missing_between(a, b, 30.0) for a, b in pairwise(times_s)) == inner.count(False)


def test_skew_is_the_spread_at_the_newest_moment_that_all_streams_have_reached():
    rates = {"head": 30.0, "wrist": 30.0}
    times_s = [number / 30 for number in range(10)]
    late = [time_s + 0.008 for time_s in times_s]
    assert skew_s({"head": times_s, "wrist": late[:8]}, rates) == pytest.approx(0.008)
    assert skew_s({"head": times_s, "wrist": []}, rates) is None
    assert skew_s({"head": times_s, "wrist": [5.0]}, rates) is None


class Flaky(CameraDriver):
    """Delivers one picture, then is unplugged; the one that is opened after it lives."""

    described, rate_hz = "flaky", 30.0

    def __init__(self, lives: bool) -> None:
        self._lives, self.closed = lives, False

    def items(self):
        yield CameraFrame(captured_s=time.monotonic(), jpeg=b"\xff\xd8\xff\xd9")
        if not self._lives:
            raise OSError("unplugged")
        while not self.closed:
            time.sleep(0.001)

    def close(self) -> None:
        self.closed = True


def test_a_camera_that_is_lost_says_why_and_is_opened_again(monkeypatch):
    monkeypatch.setattr("egorecovery.capture.sensor_worker.RETRY_S", 0.01)
    reasons = []

    def reopen():
        reasons.append(worker.lost)
        return Flaky(lives=True)

    worker = SensorWorker("head", Flaky(lives=False), reopen)
    until_s = time.monotonic() + 20
    while not (reasons and worker.live) and time.monotonic() < until_s:
        time.sleep(0.001)
    assert reasons == ["flaky: OSError: unplugged"]
    assert worker.live
    assert not worker.lost
    worker.close()
