"""LeRobot data as it was laid out before v3.0, which openpi still trains on: the same episodes come in."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from egorecovery.capture.importing import import_episodes
from egorecovery.cli.main import main
from egorecovery.episodes import Camera, EpisodeStore
from egorecovery.errors import RecordingError
from egorecovery.recovery import propose
from lerobot_data import BOUNDARY, LENGTHS, as_v2, change_info, make_data_set, number_of, opened

LIST = "meta/episodes.jsonl"


@pytest.fixture(scope="module")
def newer(tmp_path_factory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("v3"))


@pytest.fixture(scope="module")
def made(newer, tmp_path_factory) -> Path:
    return as_v2(newer, tmp_path_factory.mktemp("v2") / "data_set")


@pytest.fixture
def older(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "data_set")


@pytest.mark.parametrize(("version", "per_chunk"), [("v2.1", 1), ("v2.0", 1000)])
def test_numbers_pictures_and_proposals_are_those_of_the_same_data_in_v3(newer, tmp_path, version, per_chunk):
    older = as_v2(newer, tmp_path / "data_set", version, per_chunk)
    before, after = EpisodeStore(newer.parent / "store"), EpisodeStore.create(tmp_path / "store")
    with after.writing() as writer:
        outcomes = list(import_episodes(writer, opened(older)))
    assert all(outcome.accepted for outcome in outcomes), outcomes
    for index, (name, same) in enumerate(zip(after.ids(), before.ids(), strict=True)):
        episode, wanted = after.read(name), before.read(same)
        np.testing.assert_array_equal(episode.state, wanted.state)
        np.testing.assert_array_equal(episode.action, wanted.action)
        for number, camera in enumerate(Camera):
            shown = [number_of(picture) for picture in episode.cameras[camera].frames.decode()]
            assert shown == [frame | number << 7 for frame in range(len(wanted))]
        assert propose(after, name).frame == BOUNDARY + index


def test_the_dry_run_names_the_version_and_counts_what_is_there(older, capsys):
    words = f"import {older} --format lerobot --task cube_stack --source robot_recovery --dry-run".split()
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "LeRobot v2.1" in shown
    assert f"{len(LENGTHS)} episodes" in shown


def test_episodes_follow_each_other_in_time_as_in_v3(newer, older):
    assert [row.first_frame for row in opened(older)._data_set.episodes] == [0, LENGTHS[0]]
    assert [row.first_frame for row in opened(newer)._data_set.episodes] == [0, LENGTHS[0]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "there is no episode to import"),
        ('{"episode_index": 0, "length": 40}\n' * 2, "episode 0 is listed twice"),
        ('{"episode_index": 0, "length": 40}\n{"episode_index": 1,', "line 2"),
        ('{"episode_index": "0", "length": 40}', "episode_index must be a number"),
        ('{"episode_index": -1, "length": 40}', "episode_index must be a number"),
        ('{"episode_index": 0, "length": -1}', "has length -1"),
        ('{"episode_index": 0}', "has length None"),
        ("[1, 2]", "episode_index must be a number"),
        ("[" * 5000, "line 1"),
    ],
)
def test_a_faulty_list_of_episodes_is_refused_with_its_line(older, lines, message):
    (older / LIST).write_text(lines)
    with pytest.raises(RecordingError, match=message) as refusal:
        opened(older)
    assert LIST in str(refusal.value)


def test_a_missing_list_table_or_video_is_named(older):
    (older / "videos/chunk-001/observation.images.cam_high/episode_000001.mp4").unlink()
    with pytest.raises(RecordingError, match=r"cam_high/episode_000001\.mp4 is missing"):
        opened(older).load(1, None)
    assert len(opened(older).load(0, None).cameras) == 3, "the other episode is whole"
    (older / "data/chunk-000/episode_000000.parquet").unlink()
    with pytest.raises(RecordingError, match=r"episode_000000\.parquet is missing"):
        opened(older).load(0, None)


def test_a_data_set_without_its_list_is_refused(older):
    (older / LIST).unlink()
    with pytest.raises(RecordingError, match=r"episodes\.jsonl is missing"):
        opened(older)


def test_a_list_of_other_lengths_than_the_tables_is_refused(older):
    lines = [json.loads(line) for line in (older / LIST).read_text().splitlines()]
    (older / LIST).write_text("\n".join(json.dumps(line | {"length": line["length"] + 1}) for line in lines))
    with pytest.raises(RecordingError, match="the metadata says 41"):
        opened(older).load(0, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunks_size": 0}, "chunks_size must be a number of episodes"),
        ({"data_path": None}, "names no path"),
        ({"video_path": "videos/{nonsense}.mp4"}, "unknown field 'nonsense'"),
        ({"data_path": "../{episode_index}.parquet"}, "leads outside"),
        ({"codebase_version": "v1.6"}, "convert it with LeRobot 0.3"),
        ({"codebase_version": "v9.0"}, r"v3\.0, v2\.1, v2\.0 are read"),
    ],
)
def test_faulty_metadata_is_refused(older, change, message):
    change_info(older, lambda known: known.update(change))
    with pytest.raises(RecordingError, match=message):
        opened(older).load(0, None)
