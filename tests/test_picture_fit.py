"""A camera's picture as the policy's square: geometry, averages, what is refused."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from egorecovery.capture.picture_fit import PictureFit
from egorecovery.episodes import Intrinsics, JpegFrames
from egorecovery.errors import EpisodeError

SIZES = st.integers(1, 300)
SQUARES = st.integers(1, 128)
FITS = st.sampled_from(["letterbox", "crop"])
PINHOLE = Intrinsics(width=640, height=480, fx=600.0, fy=610.0, cx=320.0, cy=240.0)


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth(height: int, width: int) -> np.ndarray:
    rows, columns = np.mgrid[0:height, 0:width]
    waves = [np.sin(rows / 40) * np.cos(columns / 50), np.cos(rows / 70 + columns / 60), np.sin(columns / 45)]
    return np.rint(127 + 120 * np.stack(waves, axis=-1)).astype(np.uint8)


@given(SIZES, SIZES, SQUARES, FITS)
def test_any_picture_becomes_the_square_and_a_flat_one_stays_flat(height, width, side, fit):
    fitted = PictureFit(side, fit).apply(np.full((height, width, 3), (10, 130, 255), np.uint8))
    assert fitted.shape == (side, side, 3)
    assert {tuple(colour) for colour in fitted.reshape(-1, 3).tolist()} <= {(10, 130, 255), (0, 0, 0)}
    if fit == "crop" or height == width:
        assert (fitted == (10, 130, 255)).all()


@given(SIZES, SIZES, SQUARES, FITS)
def test_fitting_twice_is_fitting_once(height, width, side, fit):
    rule = PictureFit(side, fit)
    once = rule.apply(noise(height, width))
    np.testing.assert_array_equal(rule.apply(once), once)


@given(st.integers(64, 300), st.integers(64, 300), st.integers(1, 64))
def test_shrinking_keeps_the_mean_of_what_it_takes(height, width, side):
    picture = noise(height, width)
    fitted = PictureFit(side, "crop").apply(picture)
    shorter = min(height, width)
    top, left = (height - shorter) // 2, (width - shorter) // 2
    taken = picture[top : top + shorter, left : left + shorter]
    np.testing.assert_allclose(fitted.mean(axis=(0, 1)), taken.mean(axis=(0, 1)), atol=0.5)


@pytest.mark.parametrize(("height", "width", "side"), [(480, 640, 160), (448, 448, 224), (96, 192, 64)])
def test_whole_ratios_equal_pillows_box_filter_to_rounding(height, width, side):
    picture = noise(height, width)
    fitted = PictureFit(side, "letterbox").apply(picture)
    into = (side * width // max(height, width), side * height // max(height, width))
    theirs = np.asarray(Image.fromarray(picture).resize(into, Image.Resampling.BOX))
    top, left = (side - into[1]) // 2, (side - into[0]) // 2
    ours = fitted[top : top + into[1], left : left + into[0]].astype(int)
    assert np.abs(ours - theirs).max() <= 1


@pytest.mark.parametrize("side", [96, 128, 200, 224])
def test_other_ratios_are_close_to_pillows_antialiased_resize(side):
    picture = smooth(480, 480)
    theirs = Image.fromarray(picture).resize((side, side), Image.Resampling.BILINEAR)
    difference = np.abs(PictureFit(side, "crop").apply(picture).astype(int) - np.asarray(theirs))
    assert difference.max() <= 4
    assert difference.mean() < 0.6


def test_enlarging_equals_pillows_linear_interpolation_to_rounding():
    picture = noise(48, 48)
    theirs = Image.fromarray(picture).resize((120, 120), Image.Resampling.BILINEAR)
    rule = PictureFit(120, "crop")
    assert np.abs(rule.apply(picture).astype(int) - np.asarray(theirs)).max() <= 1
    assert rule.enlarges(48, 48)
    assert not rule.enlarges(480, 640)


def test_letterbox_keeps_the_whole_picture_between_black_bars_and_crop_keeps_its_middle():
    picture = np.full((480, 640, 3), 200, np.uint8)
    picture[:, :80] = picture[:, -80:] = (255, 0, 0)
    boxed = PictureFit(224, "letterbox").apply(picture)
    assert not boxed[:28].any()
    assert not boxed[-28:].any()
    assert (boxed[28:-28, :28] == (255, 0, 0)).all()
    assert (boxed[28:-28, 28:-28] == 200).all()
    assert (PictureFit(224, "crop").apply(picture) == 200).all()


@given(SIZES, SIZES, st.integers(8, 128), FITS)
def test_a_point_projects_to_where_its_pixel_went(height, width, side, fit):
    """A ray through the edge between two pixels of the picture goes through the same place of the fitted one."""
    pinhole = Intrinsics(width=width, height=height, fx=500.0, fy=510.0, cx=width / 2, cy=height / 2)
    fitted = PictureFit(side, fit).intrinsics(pinhole)
    shorter, longer = sorted((width, height))
    kept_wh = np.array([shorter, shorter] if fit == "crop" else [width, height])
    filled_wh = np.array([side, side]) if fit == "crop" else np.maximum(1, np.floor(side * kept_wh / longer + 0.5))
    first_xy = (np.array([width, height]) - kept_wh) // 2  # top left corner of what is kept
    ray_xy = (first_xy - [pinhole.cx, pinhole.cy]) / [pinhole.fx, pinhole.fy]
    seen_xy = ray_xy * [fitted.fx, fitted.fy] + [fitted.cx, fitted.cy]
    np.testing.assert_allclose(seen_xy, (side - filled_wh) // 2, atol=1e-6)
    across_xy = ray_xy + kept_wh / [pinhole.fx, pinhole.fy]
    seen_xy = across_xy * [fitted.fx, fitted.fy] + [fitted.cx, fitted.cy]
    np.testing.assert_allclose(seen_xy, (side - filled_wh) // 2 + filled_wh, atol=1e-6)


def test_depth_takes_readings_that_were_made_and_none_outside_of_the_picture():
    depth_mm = np.zeros((480, 640), np.uint16)
    depth_mm[:, 320:] = 900
    depth_mm[:, :320] = 500
    fitted = PictureFit(224, "letterbox").apply_depth(depth_mm)
    assert set(np.unique(fitted[28:-28])) == {500, 900}  # never 700, which is nowhere
    assert not fitted[:28].any()
    assert not fitted[-28:].any()
    assert (fitted[100, :112] == 500).all()
    assert (fitted[100, 112:] == 900).all()


def test_exact_takes_its_size_and_refuses_any_other():
    rule = PictureFit(64, "exact")
    picture = noise(64, 64)
    assert rule.apply(picture) is picture
    with pytest.raises(EpisodeError, match=r"640 x 480 pixels, 64 x 64 wanted; choose letterbox or crop"):
        rule.apply(noise(480, 640))
    with pytest.raises(EpisodeError, match="640 x 480"):
        rule.intrinsics(PINHOLE)


@pytest.mark.parametrize("wrong", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)])
def test_what_is_no_picture_is_refused(wrong):
    with pytest.raises(EpisodeError, match="picture"):
        PictureFit(8, "crop").apply(wrong)


@given(SQUARES, st.sampled_from(["letterbox", "crop", "exact"]))
def test_a_rule_survives_json_and_text(side, fit):
    rule = PictureFit(side, fit)
    assert PictureFit.from_json(rule.to_json()) == rule
    assert PictureFit.parse(str(rule)) == rule


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {"image_size": 64},
        {"image_size": "64", "fit": "crop"},
        {"image_size": True, "fit": "crop"},
        {"image_size": 64, "fit": "stretch"},
        {"image_size": 0, "fit": "crop"},
        {"image_size": 10**9, "fit": "crop"},
        {"image_size": 64, "fit": ["crop"]},
    ],
)
def test_a_damaged_rule_is_refused(record):
    with pytest.raises(EpisodeError):
        PictureFit.from_json(record)


@pytest.mark.parametrize("text", ["", "crop", "crop:", "crop:-1", "stretch:64", "64", "crop:64:1"])
def test_text_that_is_no_rule_is_refused_with_an_example(text):
    with pytest.raises(EpisodeError, match="letterbox:224"):
        PictureFit.parse(text)


def test_importing_the_rule_loads_no_simulator_no_learning_and_no_store():
    code = (
        "import sys, egorecovery.capture.picture_fit;"
        "heavy = {'torch', 'mujoco', 'scipy', 'av', 'zarr', 'transformers'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("height", "width", "side", "fit"),
    [(480, 640, 96, "letterbox"), (480, 640, 64, "crop"), (1080, 1920, 224, "letterbox"), (1080, 1920, 64, "crop")],
)
def test_pictures_that_the_decoder_shrinks_first_are_nearly_those_that_are_fitted_whole(height, width, side, fit):
    rule = PictureFit(side, fit)
    grain = np.random.default_rng(3).integers(-8, 9, (height, width, 3))
    frames = JpegFrames.encode([np.clip(smooth(height, width) + grain, 0, 255).astype(np.uint8)])
    less = frames.shrunk(0, rule.least_hw(height, width))
    assert less.shape == (height // 2, width // 2, 3)
    difference = np.abs(rule.apply(less).astype(int) - rule.apply(frames[0]))
    assert difference.mean() < 0.5
    assert difference.max() <= 12


def test_a_picture_that_is_not_made_much_smaller_or_has_no_half_is_decoded_whole():
    frames = JpegFrames.encode([smooth(480, 640)])
    np.testing.assert_array_equal(frames.shrunk(0, PictureFit(224, "letterbox").least_hw(480, 640)), frames[0])
    odd = JpegFrames.encode([smooth(481, 641)])
    assert odd.shrunk(0, (1, 1)).shape == (481, 641, 3)
