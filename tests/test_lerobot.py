"""LeRobot v3.0 data sets in and out: what comes back is what went in."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from egorecovery.capture import PictureFit, to_episode
from egorecovery.capture.formats.grippers import parse_ranges
from egorecovery.capture.formats.lerobot import open_paths
from egorecovery.capture.formats.lerobot_pictures import depth_of_codes
from egorecovery.capture.formats.options import LeRobotOptions
from egorecovery.capture.importing import ImportRules, import_episodes
from egorecovery.cli.main import main
from egorecovery.episodes import RATE_HZ, Camera, EpisodeStore, Source
from egorecovery.errors import RecipeError, RecordingError, StoreError
from egorecovery.export.lerobot import ExportRules, export_lerobot
from egorecovery.export.lerobot_statistics import levels, of_levels, of_numbers
from egorecovery.intent.current_labels import labels_of
from egorecovery.recovery import AnnotationJournal, propose
from lerobot_data import (
    BOUNDARY,
    DATA,
    EPISODES,
    HEAD,
    LENGTHS,
    SIZE,
    VIDEO,
    WANTED,
    change_info,
    change_table,
    make_data_set,
    marked,
    number_of,
    opened,
    with_column,
)
from making import make_episode


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("lerobot"))


@pytest.fixture
def data_set(exported, tmp_path) -> Path:
    return shutil.copytree(exported, tmp_path / "copy")


@pytest.fixture(scope="module")
def came_back(exported, tmp_path_factory) -> tuple[EpisodeStore, EpisodeStore]:
    """The store before and after: exported, then imported."""
    after = EpisodeStore.create(tmp_path_factory.mktemp("back") / "store")
    with after.writing() as writer:
        outcomes = list(import_episodes(writer, opened(exported)))
    assert all(one.accepted for one in outcomes), outcomes
    return EpisodeStore(exported.parent / "store"), after


def pairs(came_back):
    before, after = came_back
    return [(before.read(a), after.read(b)) for a, b in zip(before.ids(), after.ids(), strict=True)]


def test_numbers_come_back_exactly(came_back):
    for before, after in pairs(came_back):
        for name in ("state", "action", "effector_m"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
        for name in ("effector_state", "effector_action"):  # their axes are made unit again
            np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=1e-6)


def test_every_picture_comes_back_in_its_place_and_nearly_the_same(came_back):
    for before, after in pairs(came_back):
        for number, camera in enumerate(Camera):
            found, given = after.cameras[camera].frames.decode(), before.cameras[camera].frames.decode()
            assert [number_of(picture) for picture in found] == [frame | number << 7 for frame in range(len(before))]
            assert np.abs(found.astype(int) - given).mean() < 4


def test_the_annotated_boundary_comes_back_as_the_proposal(came_back):
    _, after = came_back
    assert [propose(after, name).frame for name in after.ids()] == [BOUNDARY, BOUNDARY + 1]


def test_labels_are_columns(exported):
    store = EpisodeStore(exported.parent / "store")
    table = pq.read_table(exported / DATA)
    labels = [labels_of(store, name) for name in store.ids()]
    for column, part in (
        ("in_recovery", "in_recovery"),
        ("intent_mask", "intent_mask"),
        ("intervention", "in_recovery"),
    ):
        wanted = np.concatenate([getattr(each, part) for each in labels])
        np.testing.assert_array_equal(table[column].to_numpy(), wanted)
    intent = np.stack(table["intent"].to_pylist())
    np.testing.assert_array_equal(intent.astype(np.float32), np.concatenate([each.intent_m for each in labels]))
    assert np.flatnonzero(table["next.success"].to_numpy()).tolist() == [LENGTHS[0] - 1, sum(LENGTHS) - 1]


def test_files_are_laid_out_as_the_format_says(exported):
    info = json.loads((exported / "meta" / "info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["total_frames"]) == ("v3.0", 25, sum(LENGTHS))
    data = pq.ParquetFile(exported / DATA)
    assert [data.metadata.row_group(group).num_rows for group in range(data.num_row_groups)] == list(LENGTHS)
    assert set(data.schema_arrow.names) == {n for n, each in info["features"].items() if each["dtype"] != "video"}
    rows = pq.read_table(exported / EPISODES).to_pylist()
    assert [row[f"videos/{HEAD}/from_timestamp"] for row in rows] == [0, LENGTHS[0] / RATE_HZ]
    assert rows[1]["dataset_from_index"] == LENGTHS[0]
    about = json.loads(pq.read_table(exported / "meta" / "tasks.parquet").schema.metadata[b"pandas"])
    assert about["index_columns"] == ["task"]
    statistics = json.loads((exported / "meta" / "stats.json").read_text())
    assert set(statistics) == set(info["features"])
    assert {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"} == set(statistics[HEAD])
    assert np.shape(statistics[HEAD]["mean"]) == (3, 1, 1)


def test_each_picture_of_the_shared_video_is_shown_at_its_number_over_the_rate(exported):
    import av

    with av.open(str(exported / VIDEO)) as container:
        times_s = [frame.time for frame in container.decode(video=0)]
    np.testing.assert_allclose(times_s, np.arange(sum(LENGTHS)) / RATE_HZ, atol=1e-6)


def test_statistics_of_numbers_and_colours_are_those_of_numpy(rng):
    values = rng.normal(size=(300, 3))
    found = of_numbers(values)
    np.testing.assert_allclose(found["std"], values.std(axis=0))
    np.testing.assert_allclose(found["q10"], np.quantile(values, 0.1, axis=0))
    pictures = rng.integers(0, 256, (4, 20, 30, 3), dtype=np.uint8)
    found = of_levels(*levels(pictures))
    np.testing.assert_allclose(np.ravel(found["mean"]), (pictures / 255).mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(np.ravel(found["std"]), (pictures / 255).std(axis=(0, 1, 2)))
    np.testing.assert_allclose(np.ravel(found["q90"]), np.quantile(pictures / 255, 0.9, axis=(0, 1, 2)), atol=1 / 255)


def test_pictures_are_fitted_while_they_are_decoded(data_set):
    fit = PictureFit(16, "crop")
    recording = opened(data_set).load(0, fit)
    assert recording.cameras[Camera.HEAD].frames.size_hw == (16, 16)
    assert recording.cameras[Camera.HEAD].intrinsics.width == 16
    assert to_episode(recording, ImportRules(fit=fit)).provenance.details["picture_fit"] == fit.to_json()


def test_an_intervention_that_begins_late_may_cut_what_came_before(data_set):
    taken_over = [10 <= frame < 30 or 35 <= frame < 38 for length in LENGTHS for frame in range(length)]
    change_table(data_set, DATA, lambda table: with_column(table, "intervention", pa.array(taken_over)))
    whole, cut = (opened(data_set, interventions=how).load(1, None) for how in ("propose", "cut"))
    assert whole.provenance.details["recovery_proposal"] == {"start_s": 0.4, "end_s": 29 / 25, "from": "intervention"}
    proposed = cut.provenance.details["recovery_proposal"]
    assert proposed["start_s"] == 0
    assert proposed["end_s"] == pytest.approx(19 / 25)
    np.testing.assert_array_equal(cut.motion.state, whole.motion.state[10:])
    shown = [number_of(cut.cameras[Camera.HEAD].frames[frame]) for frame in range(3)]
    assert shown == [10, 11, 12]


def test_an_episode_that_never_succeeds_is_discarded_with_the_reason(data_set, tmp_path):
    store = EpisodeStore.create(tmp_path / "store")
    failed = pa.array([False] * LENGTHS[0] + [True] * LENGTHS[1])
    change_table(data_set, DATA, lambda table: with_column(table, "next.success", failed))
    with store.writing() as writer:
        outcomes = list(import_episodes(writer, opened(data_set)))
    assert [one.accepted for one in outcomes] == [False, True]
    assert "not carried through" in outcomes[0].reasons[0]


def test_joints_in_another_order_are_told_by_their_columns(data_set):
    swapped = tuple(range(7, 14)) + tuple(range(7))
    plain, mirrored = opened(data_set).load(0, None), opened(data_set, joint_columns=swapped).load(0, None)
    np.testing.assert_array_equal(mirrored.motion.state, plain.motion.state[:, list(swapped)])


def test_grippers_of_another_scale_are_refused_until_their_range_is_said(data_set):
    def wider(table):
        state = np.stack(table["observation.state"].to_pylist()).astype(np.float32)
        state[:, [6, 13]] = 0.02 + 3 * state[:, [6, 13]]
        return with_column(table, "observation.state", pa.FixedSizeListArray.from_arrays(pa.array(state.ravel()), 14))

    plain = opened(data_set).load(0, None)
    change_table(data_set, DATA, wider)
    with pytest.raises(RecordingError, match=r"read 0\.02 to 3\.02.*--gripper-range state=CLOSED,OPEN"):
        opened(data_set).load(0, None)
    said = replace(WANTED, grippers=parse_ranges(["state=0.02,3.02"]))
    again = open_paths([data_set], said, LeRobotOptions()).load(0, None)
    np.testing.assert_allclose(again.motion.state, plain.motion.state, atol=1e-6)


def test_without_our_columns_effectors_come_from_the_robots_kinematics(data_set):
    change_info(
        data_set, lambda info: [info["features"].pop(name) for name in list(info["features"]) if "effector" in name]
    )
    recording = opened(data_set).load(0, None)
    np.testing.assert_allclose(recording.motion.effector_m[:, 1], recording.motion.state[:, 7:10])


def test_embedded_images_are_read_as_well_as_videos(data_set):
    images = [{"bytes": png(marked(frame, 0)), "path": None} for length in LENGTHS for frame in range(length)]
    change_info(data_set, lambda info: info["features"][HEAD].update(dtype="image"))
    change_table(data_set, DATA, lambda table: table.append_column(HEAD, pa.array(images)))
    frames = opened(data_set).load(1, None).cameras[Camera.HEAD].frames
    assert [number_of(frames[frame]) for frame in range(len(frames))] == list(range(LENGTHS[1]))


def png(picture: np.ndarray) -> bytes:
    import av

    codec = av.CodecContext.create("png", "w")
    codec.height, codec.width = picture.shape[:2]
    codec.pix_fmt, codec.time_base = "rgb24", Fraction(1)
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
    return b"".join(bytes(packet) for packet in [*codec.encode(frame), *codec.encode()])


def test_depth_codes_are_millimetres_again():
    codes = np.array([[0, 1, 2048, 4095]], np.uint16)
    linear = {"video.depth_min": 0.0, "video.depth_max": 4.095, "video.shift": 0.0, "video.use_log": False}
    assert depth_of_codes(codes, {**linear, "video.depth_min": 0.001}).tolist()[0][0] == 0  # no reading
    logarithmic = depth_of_codes(codes, {})[0]
    assert logarithmic[-1] == 10_000
    span = np.log(0.01 + 3.5) + 2048 / 4095 * (np.log(13.5) - np.log(3.51))
    assert logarithmic[2] == round(1000 * (np.exp(span) - 3.5))


def test_a_depth_video_becomes_the_depth_of_its_camera(data_set):
    import av

    key, size = f"{HEAD}_depth", SIZE
    info = {
        "is_depth_map": True,
        "video.depth_min": 0.1,
        "video.depth_max": 4.0,
        "video.shift": 0.0,
        "video.use_log": False,
    }
    path = data_set / VIDEO.replace(HEAD, key)
    path.parent.mkdir(parents=True)
    codes = [np.full((size, size), 0 if n == 3 else 40 * n, np.uint16) for n in range(sum(LENGTHS))]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("hevc", rate=25, options={"x265-params": "lossless=1:bframes=0:log-level=none"})
        stream.width, stream.height, stream.pix_fmt = size, size, "gray12le"
        for number, code in enumerate(codes):
            frame = av.VideoFrame(size, size, "gray12le")
            plane = np.frombuffer(frame.planes[0], np.uint16).reshape(size, -1)
            plane[:, :size] = code
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    described = {"dtype": "video", "shape": [size, size, 1], "names": None, "info": info}
    change_info(data_set, lambda known: known["features"].update({key: described}))

    def listed(table):
        for name in ("chunk_index", "file_index", "from_timestamp", "to_timestamp"):
            table = table.append_column(f"videos/{key}/{name}", table[f"videos/{HEAD}/{name}"])
        return table

    change_table(data_set, EPISODES, listed)
    depth_mm = opened(data_set).load(0, None).cameras[Camera.HEAD].depth_mm
    assert depth_mm.shape == (LENGTHS[0], size, size)
    assert not depth_mm[3].any()
    for frame in (1, 20, 39):
        assert (depth_mm[frame] == round(100 + 40 * frame / 4095 * 3900)).all()
    shown = opened(data_set).findings().cameras["head"]
    assert shown.endswith("with depth)")


def test_the_command_line_imports_what_it_exported(exported, tmp_path, capsys):
    store, out = exported.parent / "store", tmp_path / "out"
    assert main(["export", "lerobot", str(store), "--out", str(out)]) == 0
    shown = capsys.readouterr().out.replace("\n", " ")
    assert "exported 2 episodes, 95 frames" in shown
    assert "next: python -c" in shown
    said = ["--format", "lerobot", "--task", "cube_stack", "--source", "robot_recovery"]
    assert main(["import", str(out), *said, "--dry-run"]) == 0
    shown = capsys.readouterr().out.replace("\n", " ")
    assert "LeRobot v3.0" in shown
    assert "2 episodes, 95 frames, 25 Hz" in shown
    assert "observation.images.cam_high (32 x 32, video)" in shown
    assert main(["import", str(out), *said, "--out", str(tmp_path / "again"), "--workers", "1"]) == 0
    assert "2 accepted" in capsys.readouterr().out
    assert EpisodeStore(tmp_path / "again").ids() == ["out-000000", "out-000001"]


def test_a_second_import_adds_nothing(came_back, exported):
    _, after = came_back
    with after.writing() as writer:
        assert {str(one.outcome) for one in import_episodes(writer, opened(exported))} == {"already there"}


def test_an_export_never_overwrites_and_leaves_nothing_half_written(exported, tmp_path, monkeypatch):
    store = EpisodeStore(exported.parent / "store")
    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match="exists"):
        export_lerobot(store, tmp_path / "there", ExportRules())

    def interrupted(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_lerobot(store, tmp_path / "out", ExportRules(), interrupted)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_people_and_robots_are_not_exported_together_nor_pictures_of_two_sizes(store, tmp_path):
    unlabelled = ExportRules(labels=False)
    with pytest.raises(RecipeError, match="export one of them, as in --source"):
        export_lerobot(store, tmp_path / "out", unlabelled)
    with store.writing() as writer:
        writer.add(make_episode("zz-other", source=Source.ROBOT_SUCCESS, cameras={}))
    with pytest.raises(RecipeError, match=r"zz-other: observation\.images\.cam_high is absent"):
        export_lerobot(store, tmp_path / "out", ExportRules(labels=False, sources=(Source.ROBOT_SUCCESS,)))
    people = ExportRules(labels=False, sources=(Source.HUMAN_RECOVERY,))
    assert export_lerobot(store, tmp_path / "people", people).episodes == 1
    assert not (tmp_path / "out").exists()


def test_what_an_annotator_discarded_stays_at_home(exported, tmp_path):
    store = EpisodeStore(shutil.copytree(exported.parent / "store", tmp_path / "store"))
    journal = AnnotationJournal(store.annotations_path)
    latest = journal.latest()["ep-0"]
    journal.save(replace(latest, discard=True), n_frames=LENGTHS[0], seen_revision=latest.revision)
    made = export_lerobot(store, tmp_path / "out", ExportRules())
    assert (made.episodes, made.left_out) == (1, ("ep-0",))
