"""The store keeps what it is given, shows only whole episodes, and can be read by others' tools."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr

from egorecovery.episodes import Camera, EpisodeStore, FrameReader, Source
from egorecovery.episodes.layout import STREAMS
from egorecovery.episodes.store_writer import stage
from egorecovery.errors import EpisodeExists, EpisodeNotFound, StoreDamaged, StoreError, StoreLocked
from egorecovery.storage.checksummed_json import with_checksum
from making import make_camera, make_episode


def same(one, other) -> bool:
    """Every array, byte and fact of two episodes."""
    return (
        (one.id, one.task, one.source, one.provenance) == (other.id, other.task, other.source, other.provenance)
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in STREAMS)
        and one.cameras.keys() == other.cameras.keys()
        and all(
            np.array_equal(one.cameras[c].frames.packed, other.cameras[c].frames.packed)
            and np.array_equal(one.cameras[c].timestamps_s, other.cameras[c].timestamps_s)
            and one.cameras[c].intrinsics == other.cameras[c].intrinsics
            and np.array_equal(one.cameras[c].depth_mm, other.cameras[c].depth_mm)
            for c in one.cameras
        )
    )


def test_an_episode_comes_back_as_it_went_in(tmp_path):
    episode = make_episode(
        "ep-1", cameras={Camera.HEAD: make_camera(40, depth=True), Camera.LEFT_WRIST: make_camera(40)}
    )
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        writer.add(episode)
    assert same(EpisodeStore(tmp_path / "store").read("ep-1"), episode)


def test_an_episode_without_cameras_and_of_one_frame_can_be_kept(tmp_path):
    episode = make_episode("low-dim", frames=1, cameras={})
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        writer.add(episode)
    assert same(store.read("low-dim"), episode)


def test_all_zero_streams_are_data_not_absence(tmp_path):
    episode = make_episode("zeros", state=np.zeros((40, 14), np.float32), reliable=np.zeros((40, 2), bool))
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        writer.add(episode)
    assert same(store.read("zeros"), episode)


def test_the_zarr_library_reads_the_same_arrays(store):
    identifier = store.ids()[0]
    episode = store.read(identifier)
    group = zarr.open_group(store.path(identifier) / "episode.zarr", mode="r")
    for name in STREAMS:
        np.testing.assert_array_equal(group[name][:], getattr(episode, name))
    np.testing.assert_array_equal(group["cameras/head/jpeg"][:], episode.cameras[Camera.HEAD].frames.packed)
    assert group.attrs["source"] == str(episode.source)
    dtypes = {str(array.dtype) for _, array in group.members(max_depth=None) if isinstance(array, zarr.Array)}
    assert dtypes <= {"bool", "uint8", "uint16", "int64", "float32", "float64"}


def test_many_readers_see_the_same_bytes_while_a_writer_adds(store):
    identifiers = store.ids()

    def read(number):
        episode = EpisodeStore(store.root).read(identifiers[number % len(identifiers)])
        return episode.cameras[Camera.HEAD].frames.decode().sum(dtype=np.int64)

    with store.writing() as writer, ThreadPoolExecutor(4) as pool:
        readings = pool.map(read, range(40))
        for number in range(5):
            writer.add(make_episode(f"extra-{number}"))
        readings = list(readings)
    assert len({int(r) for r in readings}) == 1
    assert len(store) == len(identifiers) + 5


def test_a_batch_of_random_frames_equals_the_frames_one_by_one(store, rng):
    samples = [(str(rng.choice(store.ids())), int(rng.integers(40))) for _ in range(23)]
    with FrameReader(store, threads=3) as reader:
        batch = reader.read(samples)
        again = reader.read(samples, out=np.zeros_like(batch))
    expected = [[store.read(name).cameras[camera].frames[frame] for camera in Camera] for name, frame in samples]
    np.testing.assert_array_equal(batch, expected)
    np.testing.assert_array_equal(again, batch)


def test_adding_the_same_recording_twice_changes_nothing(store):
    before = {p: p.stat().st_mtime_ns for p in (store.root / "episodes").rglob("*")}
    with store.writing() as writer:
        writer.add(make_episode("robot_success-0", source=Source.ROBOT_SUCCESS))
    assert {p: p.stat().st_mtime_ns for p in (store.root / "episodes").rglob("*")} == before
    assert len(store.collection.attempts()) == 4


def test_another_recording_under_a_known_name_is_refused_and_the_first_stays(store):
    first = store.read("robot_success-0")
    with store.writing() as writer, pytest.raises(EpisodeExists, match="robot_success-0"):
        writer.add(make_episode("robot_success-0", frames=50, source=Source.ROBOT_SUCCESS))
    assert len(store.read("robot_success-0")) == len(first)
    assert not list((store.root / ".drafts").iterdir())


def test_a_staged_episode_is_invisible_until_it_is_committed(store):
    with store.writing() as writer:
        staged = stage(store.root, make_episode("staged"))
        assert "staged" not in store
        assert "staged" not in store.ids()
        writer.commit(staged)
        assert "staged" in store


def test_a_discarded_attempt_keeps_its_record_and_its_cost(store):
    with store.writing() as writer:
        writer.discard(make_episode("spoiled"), ("head: black for 1.00 s",))
    assert "spoiled" not in store
    attempt = next(a for a in store.collection.attempts() if a.episode == "spoiled")
    assert not attempt.accepted
    assert attempt.reasons == ("head: black for 1.00 s",)
    assert (attempt.operator, attempt.staging_s, attempt.reset_s) == ("ada", 3.0, 2.0)


def test_an_attempt_judged_again_counts_once_with_the_latest_verdict(store):
    episode = make_episode("second-chance")
    with store.writing() as writer:
        writer.discard(episode, ("too strict",))
        writer.add(episode)
    attempts = [a for a in store.collection.attempts() if a.episode == "second-chance"]
    assert [a.accepted for a in attempts] == [True]


def test_an_episode_committed_but_not_logged_is_logged_by_the_next_writer(store):
    with store.writing():
        staged = stage(store.root, make_episode("orphan"))
        staged.directory.rename(store.root / "episodes" / "orphan")  # killed right here
    with store.writing():
        pass
    assert [a.accepted for a in store.collection.attempts() if a.episode == "orphan"] == [True]


def test_content_is_one_hash_that_depends_on_the_episode_alone(store, tmp_path):
    other = EpisodeStore.create(tmp_path / "other")
    with other.writing() as writer:
        writer.add(make_episode("robot_success-0", source=Source.ROBOT_SUCCESS))
        writer.add(make_episode("robot_success-1", source=Source.ROBOT_SUCCESS, frames=41))
    assert other.card("robot_success-0").content == store.card("robot_success-0").content
    assert other.card("robot_success-1").content != store.card("robot_success-0").content


def test_an_unknown_episode_is_an_error_that_shows_some_known_ones(store):
    with pytest.raises(EpisodeNotFound, match=r"no episode 'nope'; it holds 4, such as human_recovery-0"):
        store.read("nope")


def test_a_directory_that_is_no_store_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match="not an episode store"):
        EpisodeStore.create(tmp_path)
    with pytest.raises(StoreError, match=r"no store\.json"):
        EpisodeStore(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_store_of_a_later_schema_is_refused(store):
    (store.root / "store.json").write_bytes(with_checksum({"format": "egorecovery-store", "schema": 2}))
    with pytest.raises(StoreError, match="'schema': 2"):
        EpisodeStore(store.root)


def test_reading_a_truncated_buffer_is_an_error_that_names_the_file(store):
    buffer = store.path("robot_success-0") / "episode.zarr/cameras/head/jpeg/c/0"
    buffer.write_bytes(buffer.read_bytes()[:-10])
    with pytest.raises(StoreDamaged, match=r"jpeg/c/0"):
        store.read("robot_success-0")


def test_reading_an_array_that_others_rewrote_with_compression_is_refused(store):
    folder = store.path("robot_success-0") / "episode.zarr/state"
    shutil.rmtree(folder)
    zarr.create_array(folder, data=np.zeros((40, 14), np.float32), chunks=(10, 14))
    with pytest.raises(StoreDamaged, match="one uncompressed chunk"):
        store.read("robot_success-0")


def test_a_second_writer_in_the_same_process_is_refused_by_the_name_of_the_first(store):
    with store.writing(), pytest.raises(StoreLocked, match=f"process {os.getpid()}"), store.writing():
        pass
    with store.writing() as writer:  # let go of properly: nobody to take over from
        assert writer.recovered is None


def test_the_manifest_lists_every_file_of_the_episode(store):
    folder = store.path("robot_success-0")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    present = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {"manifest.json"}
    assert set(manifest["files"]) == present
