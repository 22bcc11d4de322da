"""Arms and hands leave the pictures of real recordings by masks; fingertips stay as dots."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.capture.hidden_pictures import DOT_RGB, MASKS, hide
from egorecovery.capture.importing import ImportRules, Outcome, import_recordings
from egorecovery.capture.recording_files import save_recording
from egorecovery.capture.synthetic import synthetic_recording
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, EpisodeStore, Side, Source

SIZE = 64
NO_TIPS = np.full((2, 2, 2), np.nan)
TABLE = np.stack(np.broadcast_arrays(*np.mgrid[60 : 60 + SIZE, 90 : 90 + SIZE], 120), axis=-1).astype(np.uint8)


def arm_mask() -> np.ndarray:
    mask = np.zeros((SIZE, SIZE), bool)
    mask[20:, 24:40] = True
    return mask


@given(colour=st.tuples(*[st.integers(0, 255)] * 3))
@settings(deadline=None, max_examples=20)
def test_nothing_of_an_arm_is_left_whatever_its_colour(colour):
    arm = TABLE.copy()
    arm[arm_mask()] = colour
    np.testing.assert_array_equal(hide(arm, arm_mask(), NO_TIPS), hide(TABLE, arm_mask(), NO_TIPS))


def test_what_is_filled_in_is_near_what_the_arm_hid_and_the_rest_is_untouched():
    hidden = hide(TABLE, arm_mask(), NO_TIPS)
    assert np.abs(hidden.astype(int) - TABLE).max() <= 12  # half the arm's width, on a slope of one a pixel
    far = ~arm_mask()
    far[:, 22:42] = False
    np.testing.assert_array_equal(hidden[far], TABLE[far])
    np.testing.assert_array_equal(hide(TABLE, np.zeros((SIZE, SIZE), bool), NO_TIPS), TABLE)


def test_fingertips_are_dots_in_the_colour_of_their_side_and_those_out_of_view_are_none():
    tips = NO_TIPS.copy()
    tips[1, 0] = (32.0, 16.0)
    hidden = hide(TABLE, arm_mask(), tips)
    for side in Side:
        dots = (hidden == np.rint(255 * np.array(DOT_RGB[side]))).all(axis=-1)
        assert dots.any() == (side is Side.RIGHT)
    rows, columns = np.nonzero(dots)
    assert (columns.mean() + 0.5, rows.mean() + 0.5) == pytest.approx((32, 16))


@pytest.fixture
def recorded(tmp_path):
    """A person's recording, with its masks."""
    recording, _ = synthetic_recording(
        "clip", PAPER_TASKS["cube_stack"], Source.HUMAN_RECOVERY, np.random.default_rng(0)
    )
    save_recording(recording, tmp_path / "clip")
    for camera, raw in recording.cameras.items():
        height, width = raw.frames.size_hw
        mask = np.zeros((len(raw.frames), height, width), bool)
        mask[:, height // 2 :, : width // 3] = True
        tips = np.full((len(raw.frames), 2, 2, 2), np.nan)
        tips[:, 0] = (width / 3, height / 2)
        np.savez_compressed(
            tmp_path / "clip" / camera / MASKS, mask_packed=np.packbits(mask, axis=-1), fingertips_px=tips
        )
    return tmp_path / "clip", recording


def imported(directory, rules):
    store = EpisodeStore.create(directory.parent / "store")
    with store.writing() as writer:
        [one] = import_recordings(writer, [directory], rules)
    return store, one


def test_an_episode_without_its_embodiment_says_so_and_shows_none_of_it(recorded):
    directory, recording = recorded
    store, one = imported(directory, ImportRules(hide_embodiment=True))
    assert one.accepted
    assert store.card(one.name).hidden_embodiment
    for camera, raw in recording.cameras.items():
        height, width = raw.frames.size_hw
        seen = store.frames(one.name, camera)[5].astype(int)
        blue = np.abs(seen - 255 * np.array(DOT_RGB[Side.LEFT])).max(axis=-1) < 40
        assert blue[height // 2, width // 3]
        untouched = np.abs(seen - raw.frames[5])[: height // 4]
        assert untouched.mean() < 6  # one more JPEG


def test_without_the_option_pictures_stay_byte_for_byte(recorded):
    directory, recording = recorded
    store, one = imported(directory, ImportRules())
    assert not store.card(one.name).hidden_embodiment
    camera, raw = next(iter(recording.cameras.items()))
    assert store.frames(one.name, camera).encoded(0).tobytes() in {
        raw.frames.encoded(index).tobytes() for index in range(len(raw.frames))
    }


def spoil(directory, camera="head", **arrays):
    path = directory / camera / MASKS
    with np.load(path) as archive:
        whole = dict(archive)
    np.savez_compressed(path, **{**whole, **arrays})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda directory: (directory / "head" / MASKS).unlink(), "segment arms and hands"),
        (lambda directory: spoil(directory, mask_packed=np.zeros((3, 2, 2), np.uint8)), "must have shape"),
        (lambda directory: spoil(directory, fingertips_px=np.zeros((2, 2))), "must have shape"),
        (lambda directory: (directory / "head" / MASKS).write_bytes(b"PK no archive"), "not an npz archive"),
    ],
)
def test_masks_that_do_not_fit_are_refused_by_name(recorded, damage, message):
    directory, _ = recorded
    damage(directory)
    _, one = imported(directory, ImportRules(hide_embodiment=True))
    assert one.outcome is Outcome.UNREADABLE
    assert str(directory / "head" / MASKS) in one.reasons[0]
    assert message in one.reasons[0]


def test_a_mask_of_the_whole_picture_is_refused(recorded):
    directory, recording = recorded
    height, width = recording.cameras["head"].frames.size_hw
    masks = np.ones((len(recording.cameras["head"].frames), height, width), bool)
    spoil(directory, mask_packed=np.packbits(masks, axis=-1))
    _, one = imported(directory, ImportRules(hide_embodiment=True))
    assert "covers the whole picture" in one.reasons[0]


def test_other_formats_have_no_masks(tmp_path, capsys):
    assert main(["import", str(tmp_path), "--format", "lerobot", "--hide-embodiment", "--dry-run"]) == 2
    assert "--hide-embodiment needs masks" in capsys.readouterr().err
