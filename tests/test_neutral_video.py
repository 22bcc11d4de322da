"""Copies of videos that say nothing and play everywhere."""

import av
import pytest

from egorecovery.studio.scoring import ScoringError
from egorecovery.studio.scoring.neutral_video import neutral_copy
from filmed_runs import write_video

METHOD = "egorecovery-seed-3"


def pictures(path):
    with av.open(str(path)) as container:
        return [(round(float(frame.time), 4), frame.to_ndarray(format="gray")) for frame in container.decode(video=0)]


def streams(path):
    with av.open(str(path)) as container:
        assert container.format.name.startswith("mov,mp4")
        video = container.streams.video[0].codec_context
        return [stream.type for stream in container.streams], video.name, video.pix_fmt


@pytest.mark.parametrize("sound", [False, True])
def test_h264_is_copied_bit_by_bit_without_names_sound_or_the_encoders_message(tmp_path, sound):
    source, target = tmp_path / f"{METHOD}.mp4", tmp_path / "copy.mp4"
    write_video(source, says=METHOD, sound=sound)
    assert METHOD.encode() in source.read_bytes()
    assert b"x264" in source.read_bytes()
    facts = neutral_copy(source, target)
    for word in (METHOD.encode(), b"x264", b"Lavf"):
        assert word not in target.read_bytes()
    assert streams(target) == (["video"], "h264", "yuv420p")
    before, after = pictures(source), pictures(target)
    assert (facts.frames, facts.rate_hz) == (len(after), 25)
    assert [time for time, _ in after] == [round(k / 25, 4) for k in range(12)]
    assert all((one == other).all() for (_, one), (_, other) in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("name", "codec", "pixels"),
    [("a.avi", "mpeg4", "yuv420p"), ("a.webm", "libvpx-vp9", "yuv420p"), ("a.mp4", "libx264", "yuv444p")],
)
def test_what_browsers_may_not_play_is_encoded_again_frame_by_frame(tmp_path, name, codec, pixels):
    source, target = tmp_path / name, tmp_path / "copy.mp4"
    write_video(source, codec=codec, pixels=pixels, says=METHOD)
    facts = neutral_copy(source, target)
    assert streams(target) == (["video"], "h264", "yuv420p")
    assert METHOD.encode() not in target.read_bytes()
    before, after = pictures(source), pictures(target)
    assert facts.frames == len(after) == len(before)
    assert max(abs(one.astype(int) - other).mean() for (_, one), (_, other) in zip(before, after, strict=True)) < 4


def test_an_unsteady_rate_becomes_a_steady_one_with_every_moment_at_its_time(tmp_path):
    source, target = tmp_path / "phone.mp4", tmp_path / "copy.mp4"
    ticks = [0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 15, 16]
    write_video(source, at=ticks)
    facts = neutral_copy(source, target)
    after = pictures(target)
    assert (facts.rate_hz, facts.frames) == (25, 17)
    assert [time for time, _ in after] == [round(k / 25, 4) for k in range(17)]
    shown = [picture[10:].mean() for _, picture in after]
    before = [picture[10:].mean() for _, picture in pictures(source)]
    for tick, level in zip(ticks, before, strict=True):
        assert abs(shown[tick] - level) < 3


def test_rows_are_cut_off_and_odd_sizes_made_even(tmp_path):
    source, target = tmp_path / "a.mp4", tmp_path / "copy.mp4"
    write_video(source, size=(49, 63), pixels="yuv444p")
    facts = neutral_copy(source, target, crop_top_px=6)
    assert (facts.height, facts.width) == (42, 62)
    assert pictures(target)[0][1].max() < 60  # the white rows at the top are gone


def test_a_video_that_is_held_upright_by_its_metadata_alone_is_turned(tmp_path):
    source, target = tmp_path / "phone.mp4", tmp_path / "copy.mp4"
    write_video(source, size=(48, 64))
    _turn_clockwise(source)
    assert next(av.open(str(source)).decode(video=0)).rotation == -90
    facts = neutral_copy(source, target)
    assert (facts.width, facts.height) == (48, 64)
    assert pictures(target)[0][1][:, -3:].mean() > 200  # what was on top is on the right


def _turn_clockwise(path):
    """Writes a quarter turn into the track header, as telephones do."""
    payload = bytearray(path.read_bytes())
    matrix = payload.index(b"tkhd") + 4 + 4 + 20 + 8 + 8
    one, zero = (0x10000).to_bytes(4, "big"), bytes(4)
    minus_one = (0x100000000 - 0x10000).to_bytes(4, "big")
    rows = [zero, one, zero, minus_one, zero, zero, zero, zero, (0x40000000).to_bytes(4, "big")]
    payload[matrix : matrix + 36] = b"".join(rows)
    path.write_bytes(bytes(payload))


@pytest.mark.parametrize("payload", [b"", b"not a video", b"\x00" * 4096])
def test_what_is_no_video_is_named_and_leaves_nothing(tmp_path, payload):
    source, target = tmp_path / "a.mp4", tmp_path / "copy.mp4"
    source.write_bytes(payload)
    with pytest.raises(ScoringError, match=r"a\.mp4 cannot be read as a video"):
        neutral_copy(source, target)
    assert not target.exists()


def test_a_recording_without_pictures_is_named(tmp_path):
    source = tmp_path / "sound.wav"
    with av.open(str(source), "w") as container:
        container.add_stream("pcm_s16le", rate=16_000)
    with pytest.raises(ScoringError, match=r"cannot be read as a video|no pictures"):
        neutral_copy(source, tmp_path / "copy.mp4")


def test_a_video_cut_short_keeps_what_can_be_read(tmp_path):
    source, target = tmp_path / "a.mkv", tmp_path / "copy.mp4"
    write_video(source, frames=100, codec="mpeg4")
    source.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    facts = neutral_copy(source, target)
    assert 0 < facts.frames == len(pictures(target)) < 100
