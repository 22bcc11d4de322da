"""LeRobot data that is damaged or means harm: one clear refusal each, nothing opened outside, nothing half-written."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from egorecovery.capture.formats import lerobot_streams
from egorecovery.capture.formats.lerobot_metadata import read_data_set
from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore
from egorecovery.errors import RecordingError
from lerobot_data import (
    DATA,
    EPISODES,
    HEAD,
    LENGTHS,
    VIDEO,
    change_info,
    change_table,
    make_data_set,
    opened,
    with_column,
)

Spoil = Callable[[Path], object]


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def data_set(exported, tmp_path) -> Path:
    return shutil.copytree(exported, tmp_path / "copy")


def info(**changes: object) -> Spoil:
    return lambda root: change_info(root, lambda known: known.update(changes))


def feature(name: str, **changes: object) -> Spoil:
    return lambda root: change_info(root, lambda known: known["features"][name].update(changes))


def renamed_camera(name: str) -> Spoil:
    def change(known):
        known["features"][name] = known["features"].pop(HEAD)

    return lambda root: change_info(root, change)


def episodes(column: str, values: pa.Array) -> Spoil:
    return lambda root: change_table(root, EPISODES, lambda table: with_column(table, column, values))


def write(name: str, payload: bytes) -> Spoil:
    return lambda root: (root / name).write_bytes(payload)


DEEP = b"[" * 100_000 + b"]" * 100_000
BEFORE_LOADING = {
    "no data set": (lambda root: shutil.rmtree(root / "meta"), r"has no meta/info\.json"),
    "no json": (write("meta/info.json", b"{"), r"info\.json: not JSON"),
    "deep json": (write("meta/info.json", DEEP), r"info\.json: JSON nested more than"),
    "huge json": (write("meta/info.json", b" " * (17 << 20)), r"bytes; at most"),
    "a list": (write("meta/info.json", b"[]"), r"expected an object"),
    "v3 that calls itself v2": (info(codebase_version="v2.1"), r"meta/episodes\.jsonl is missing"),
    "a later version": (info(codebase_version="v4.0"), r"codebase_version is 'v4\.0', v3\.0, v2\.1, v2\.0 are read$"),
    "no rate": (info(fps=None), r"fps must lie in"),
    "an absurd rate": (info(fps=10**9), r"fps must lie in"),
    "no features": (info(features=[]), r"features must be an object"),
    "an absurd shape": (feature("action", shape=[10**12]), r"features\.action\.shape must be a list of sizes"),
    "a negative shape": (feature("action", shape=[-1]), r"features\.action\.shape must be a list of sizes"),
    "seven joints": (feature("observation.state", shape=[7]), r"shape \(7,\), 14 wanted.*--joint-columns"),
    "a camera of two axes": (feature(HEAD, shape=[32, 32]), r"must be height, width and channels"),
    "a name that leads outside": (renamed_camera("../../etc"), r"name that leads outside"),
    "an absolute name": (renamed_camera("/etc/passwd"), r"name that leads outside"),
    "a path that reaches into objects": (info(data_path="{chunk_index.__class__}/x"), r"is missing|unknown field"),
    "a path with a field of its own": (info(data_path="{home}/x"), r"unknown field 'home'"),
    "no episodes": (lambda root: shutil.rmtree(root / "meta" / "episodes"), r"no episode to import"),
    "episodes that are no parquet": (write(EPISODES, b"PAR1 and then nothing PAR1"), r"cannot be read"),
    "an absurd length": (episodes("length", pa.array([40, 10**12])), r"episode 1 has length 1000000000000"),
    "a negative offset": (episodes(f"videos/{HEAD}/from_timestamp", pa.array([0.0, -1.0])), r"must be a time >= 0"),
    "an offset that is no number": (
        episodes(f"videos/{HEAD}/from_timestamp", pa.array([0.0, None])),
        r"must be a time",
    ),
    "an episode twice": (episodes("episode_index", pa.array([0, 0])), r"episode 0 is listed twice"),
}


@pytest.mark.parametrize(("spoil", "message"), BEFORE_LOADING.values(), ids=BEFORE_LOADING)
def test_metadata_that_makes_no_sense_is_refused_before_a_frame_is_read(data_set, tmp_path, capsys, spoil, message):
    spoil(data_set)
    with pytest.raises(RecordingError, match=message):
        opened(data_set).load(0, None)
    said = ["--format", "lerobot", "--task", "cube_stack", "--source", "robot_recovery"]
    assert main(["import", str(data_set), *said, "--out", str(tmp_path / "store"), "--workers", "1"]) in (1, 2)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    assert not (tmp_path / "store").exists() or not EpisodeStore(tmp_path / "store").ids()


def cut(name: str, share: float) -> Spoil:
    def spoil(root: Path) -> None:
        payload = (root / name).read_bytes()
        (root / name).write_bytes(payload[: int(len(payload) * share)])

    return spoil


def link(name: str, target: str) -> Spoil:
    def spoil(root: Path) -> None:
        outside = root.parent / "outside"
        outside.mkdir()
        shutil.copy(root / name, outside / Path(name).name)
        (root / name).unlink()
        (root / name).symlink_to(target.format(outside=outside))

    return spoil


def numbers(column: str, change: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    def changed(table: pa.Table) -> pa.Table:
        values = change(np.stack(table[column].to_pylist()).astype(np.float32))
        return with_column(table, column, pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1]))

    return lambda root: change_table(root, DATA, changed)


def not_a_number(values: np.ndarray) -> np.ndarray:
    values[7, 3] = np.nan
    return values


def other_size(root: Path) -> None:
    from egorecovery.export.lerobot_video import Film

    film = Film(root / VIDEO, 25, (16, 48), "libx264")
    for _ in range(sum(LENGTHS)):
        film.add(np.zeros((16, 48, 3), np.uint8))
    film.close()


def short_video(root: Path, shown: int = 30) -> None:
    from egorecovery.export.lerobot_video import Film

    film = Film(root / VIDEO, 25, (32, 32), "libx264")
    for number in range(shown):
        film.add(np.full((32, 32, 3), 50 + 4 * number, np.uint8))
    film.close()


def words(root: Path) -> None:
    change_table(root, DATA, lambda table: with_column(table, "action", pa.array(["x"] * sum(LENGTHS))))


def pictures(encoded: bytes | None) -> Spoil:
    def spoil(root: Path) -> None:
        feature(HEAD, dtype="image")(root)
        rows = pa.array([{"bytes": encoded, "path": "../../x.png"}] * sum(LENGTHS))
        change_table(root, DATA, lambda table: table.append_column(HEAD, rows))

    return spoil


BOMB = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (2**31 - 1).to_bytes(4) * 2 + b"\x08\x02\0\0\0" + b"\0" * 64
ON_LOADING = {
    "a truncated video": (cut(VIDEO, 0.5), r"cam_high.*(cannot be decoded|no picture at)"),
    "a video that ends early": (short_video, r"no picture at 1\.200 s.*cut short"),
    "an empty video": (write(VIDEO, b""), r"cannot be decoded"),
    "a missing video": (lambda root: (root / VIDEO).unlink(), r"file-000\.mp4 is missing"),
    "pictures of another size": (other_size, r"\(16, 48\).*info\.json says \(32, 32\)"),
    "a picture size nobody has": (feature(HEAD, shape=[100_000, 100_000, 3]), r"declares 100000 x 100000 pixels"),
    "a video that is a link to the outside": (link(VIDEO, "{outside}/file-000.mp4"), r"leads outside of the data set"),
    "data that is a link to the outside": (link(DATA, "{outside}/file-000.parquet"), r"leads outside of the data set"),
    "data outside by its path": (info(data_path="../outside.parquet"), r"leads outside of the data set"),
    "missing data": (lambda root: (root / DATA).unlink(), r"file-000\.parquet is missing"),
    "truncated data": (cut(DATA, 0.7), r"file-000\.parquet cannot be read"),
    "data without a column": (
        lambda root: change_table(root, DATA, lambda table: table.drop_columns(["action"])),
        r"lacks the column action",
    ),
    "fewer samples than listed": (
        lambda root: change_table(root, DATA, lambda table: table.slice(5)),
        r"35 samples of episode 0, the metadata says 40",
    ),
    "a joint that is no number": (numbers("observation.state", not_a_number), r"NaN or infinite in 1 of 40.*sample 7"),
    "vectors of another size": (numbers("action", lambda values: values[:, :6]), r"action must hold 14 numbers"),
    "words instead of numbers": (words, r"action must hold numbers"),
    "a picture bomb": (pictures(BOMB), r"declares 2147483647 x 2147483647 pixels"),
    "a picture that is none": (pictures(b"GIF89a"), r"is not a JPEG picture"),
    "a picture elsewhere": (pictures(None), r"not embedded"),
}


@pytest.mark.parametrize(("spoil", "message"), ON_LOADING.values(), ids=ON_LOADING)
def test_frames_that_cannot_be_trusted_are_refused_with_their_file(data_set, spoil, message):
    spoil(data_set)
    with pytest.raises(RecordingError, match=message) as refused:
        opened(data_set).load(0, None)
    assert str(data_set) in str(refused.value)


def test_one_bad_episode_leaves_the_others_and_ends_in_1(data_set, tmp_path, capsys):
    short_video(data_set, shown=LENGTHS[0])
    said = ["--format", "lerobot", "--task", "cube_stack", "--source", "robot_recovery", "--workers", "1"]
    assert main(["import", str(data_set), *said, "--out", str(tmp_path / "store")]) == 1
    assert "1 accepted, 1 unreadable" in capsys.readouterr().out
    assert list((tmp_path / "store" / ".drafts").iterdir()) == []


IMPORT = ["--format", "lerobot", "--task", "cube_stack", "--source", "robot_recovery", "--workers", "1"]


def test_an_unreadable_episode_is_named_though_others_are_in_the_same_file(data_set, tmp_path, capsys):
    def with_nan(table: pa.Table) -> pa.Table:
        values = table["action"].to_pylist()
        values[LENGTHS[0] + 5][2] = float("nan")
        return with_column(table, "action", pa.array(values, table.schema.field("action").type))

    change_table(data_set, DATA, with_nan)
    assert main(["import", str(data_set), *IMPORT, "--out", str(tmp_path / "store")]) == 1
    assert re.search(r"unreadable episode 1: \S+: action is NaN or infinite in 1 of 55", capsys.readouterr().out)


def test_an_episode_without_samples_is_skipped_with_a_warning_and_fails_no_import(data_set, tmp_path, capsys):
    episodes("length", pa.array([0, LENGTHS[1]]))(data_set)
    for shown in ("1 accepted\n", "0 accepted, 1 already there\n"):
        assert main(["import", str(data_set), *IMPORT, "--out", str(tmp_path / "store")]) == 0
        said = capsys.readouterr()
        assert said.out.startswith(shown)
        assert "warning: episode 0 has no samples (length 0): skipped" in said.err
    (name,) = EpisodeStore(tmp_path / "store").ids()
    assert name.endswith("1")


def test_a_data_set_of_nothing_but_empty_episodes_is_said_to_have_none(data_set, tmp_path, capsys):
    episodes("length", pa.array([0, 0]))(data_set)
    assert main(["import", str(data_set), *IMPORT, "--out", str(tmp_path / "store")]) == 2
    assert "there is no lerobot episode to import" in capsys.readouterr().err


def test_many_episodes_without_samples_are_one_warning(data_set, monkeypatch, capsys):
    known = read_data_set(data_set)
    empty = [replace(known.episodes[0], index=2 + index, length=0) for index in range(12)]
    many = replace(known, episodes=(*known.episodes, *empty))
    monkeypatch.setattr("egorecovery.capture.formats.lerobot._known", lambda root: many)
    assert main(["import", str(data_set), *IMPORT, "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert ": 2 episodes, " in said
    assert "episodes 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more have no samples (length 0): skipped" in said


def test_episodes_that_were_not_downloaded_are_counted_in_a_warning(data_set, tmp_path, capsys):
    info(total_episodes=5)(data_set)
    assert main(["import", str(data_set), *IMPORT, "--out", str(tmp_path / "store")]) == 0
    assert "info.json counts 5 episodes, its metadata lists 2" in " ".join(capsys.readouterr().err.split())


def test_an_empty_place_in_a_column_is_called_empty(data_set):
    def with_null(table: pa.Table) -> pa.Table:
        values = table["observation.state"].to_pylist()
        values[5] = None
        return with_column(table, "observation.state", pa.array(values, table.schema.field("observation.state").type))

    change_table(data_set, DATA, with_null)
    with pytest.raises(RecordingError, match=r"observation\.state is empty \(null\) in 1 places"):
        opened(data_set).load(0, None)


def test_a_clock_that_jumps_back_is_a_discarded_attempt(data_set, tmp_path):
    store = EpisodeStore.create(tmp_path / "store")
    from egorecovery.capture.importing import import_episodes

    def jumbled(table: pa.Table) -> pa.Table:
        times_s = table["timestamp"].to_numpy().copy()
        times_s[10] = times_s[8]
        return with_column(table, "timestamp", pa.array(times_s))

    change_table(data_set, DATA, jumbled)
    with store.writing() as writer:
        outcomes = list(import_episodes(writer, opened(data_set)))
    assert not outcomes[0].accepted
    assert outcomes[1].accepted


def test_a_table_that_declares_more_than_the_limit_is_not_read(data_set, monkeypatch):
    monkeypatch.setattr(lerobot_streams, "LARGEST_TABLE", 1000)
    with pytest.raises(RecordingError, match=r"declares \d+ bytes for episode 0, at most 1000"):
        opened(data_set).load(0, None)
