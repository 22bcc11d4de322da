"""A store from a stranger: nothing outside it is touched, nothing hangs, and every refusal is one clear error."""

import json
import os
import shutil

import numpy as np
import pytest

from attacks import (
    DEEP,
    EPISODES,
    change_attributes,
    copied,
    fifo,
    listing,
    make_labelled_store,
    replace_by_link,
    reseal,
    reseal_episode,
    victim,
    within_s,
)
from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore
from egorecovery.errors import EgoRecoveryError, StoreDamaged, StoreError
from egorecovery.intent import LabelStore, label_store
from egorecovery.recovery import Annotation, AnnotationJournal
from tiny_episodes import FRAMES, tiny_episode

pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_labelled_store(tmp_path_factory.mktemp("attack") / "store")


@pytest.fixture
def store(whole, tmp_path):
    return copied(whole, tmp_path / "store")


@pytest.fixture
def mine(tmp_path):
    return victim(tmp_path / "mine")


def test_writer_does_not_empty_the_folder_that_a_drafts_link_points_to(store, mine):
    """F1"""
    before = listing(mine)
    replace_by_link(store.root / ".drafts", mine)
    with pytest.raises(StoreError, match=r"\.drafts.*link"), store.writing():
        pass
    assert listing(mine) == before


@pytest.mark.parametrize("name", ["episodes", "collection.jsonl", "writer.lock", "annotations.jsonl"])
def test_nothing_is_written_through_a_link_in_a_store(store, mine, name):
    target = mine / "thesis.txt" if "." in name else mine
    before = listing(mine)
    replace_by_link(store.root / name, target)
    annotation = Annotation(episode="one", boundary=3, annotator="ada")

    def write() -> None:
        with store.writing() as writer:
            writer.add(tiny_episode("five"))
        AnnotationJournal(store.annotations_path).save(annotation, n_frames=FRAMES, seen_revision=1)

    with pytest.raises(StoreError, match="link"):
        write()
    assert listing(mine) == before


def test_id_that_names_a_path_outside_neither_removes_nor_writes_there(store, mine):
    """F2: `label` removes what is no longer wanted, by the episode's id."""
    before = listing(mine)
    for wanted in (str(mine / "inner" / "one"), "../../mine/inner/one", "two"):
        change_attributes(store.root / "episodes" / "one", lambda facts, wanted=wanted: facts.update(id=wanted))
        for read in (store.card, store.read):
            with pytest.raises(StoreDamaged, match="id"):
                read("one")
        main(["label", str(store.root)])
        assert listing(mine) == before
        assert main(["verify", str(store.root)]) == 1


def test_labels_are_not_written_through_a_link(store, mine):
    """F2"""
    before = listing(mine)
    replace_by_link(store.root / "labels", mine / "inner")
    assert main(["label", str(store.root)]) != 0
    assert listing(mine) == before


def test_label_file_that_is_a_link_is_not_followed(store, mine):
    before = listing(mine)
    for name in ("one.json", "one.safetensors"):
        replace_by_link(store.labels_path / name, mine / "thesis.txt")
    main(["label", str(store.root)])
    assert listing(mine) == before
    assert LabelStore(store.labels_path).read("one").in_recovery.shape == (FRAMES,)


@pytest.mark.parametrize(
    "name",
    [
        "store.json",
        "collection.jsonl",
        "annotations.jsonl",
        "labels/one.json",
        "labels/one.safetensors",
        "episodes/one/manifest.json",
        "episodes/one/episode.zarr/zarr.json",
        "episodes/one/episode.zarr/effector_m/zarr.json",
        "episodes/one/episode.zarr/effector_m/c/0/0/0",
    ],
)
def test_special_file_anywhere_in_a_store_is_named_and_hangs_nobody(store, name, capsys):
    path = store.root / name
    for spoil in (fifo, lambda path: replace_by_link(path, "/dev/zero"), lambda path: replace_by_link(path, path)):
        spoil(path)
        with within_s(20):
            assert main(["verify", str(store.root)]) == 1
            assert path.name in capsys.readouterr().out
            for verb in ("inspect", "label"):
                main([verb, str(store.root)])  # an answer, whichever: no hang and no traceback


@pytest.mark.parametrize(
    "name",
    [
        "store.json",
        "collection.jsonl",
        "annotations.jsonl",
        "labels/one.json",
        "episodes/one/manifest.json",
        "episodes/one/episode.zarr/zarr.json",
        "episodes/one/episode.zarr/effector_m/zarr.json",
    ],
)
def test_deep_or_huge_json_is_refused_with_a_typed_error(store, name):
    """F10"""
    for payload in (DEEP + b"\n", b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n", b"[1e999999]\n", b"7" * 5000 + b"\n"):
        (store.root / name).write_bytes(payload)
        assert main(["verify", str(store.root)]) == 1
        for verb in (["inspect"], ["label"], ["annotate", "--annotator", "ada", "--confirm-candidates"]):
            main([verb[0], str(store.root), *verb[1:]])


@pytest.mark.parametrize(
    "files", [[], "x", 7, None, {"a": 1}, {"../../x": "0" * 64}, {"/etc/passwd": "0" * 64}, {"a": None}]
)
def test_manifest_with_files_that_are_none_is_damage(store, files):
    """F10"""
    reseal(store.root / "episodes" / "one" / "manifest.json", lambda record: record.update(files=files))
    assert [damage.path.name for damage in store.damages("one")] == ["manifest.json"]
    with pytest.raises(StoreDamaged):
        store.card("one")


def test_big_endian_array_is_refused_rather_than_misread(store):
    """F11"""
    folder = store.root / "episodes" / "one"
    array = folder / "episode.zarr" / "state"
    header = json.loads((array / "zarr.json").read_bytes())
    header["codecs"] = [{"name": "bytes", "configuration": {"endian": "big"}}]
    (array / "zarr.json").write_text(json.dumps(header))
    chunk = array / "c" / "0" / "0"
    chunk.write_bytes(np.frombuffer(chunk.read_bytes(), "<f4").astype(">f4").tobytes())
    reseal_episode(folder)
    with pytest.raises(StoreDamaged, match="big-endian"):
        store.stream("one", "state")


def test_one_unreadable_episode_does_not_hide_the_others(store, capsys):
    """F11: it is named and skipped, and the rest continues."""
    header = store.root / "episodes" / "one" / "episode.zarr" / "zarr.json"
    header.write_bytes(header.read_bytes()[:40])
    shutil.rmtree(store.labels_path)
    assert main(["inspect", str(store.root), "--json"]) == 1
    said = capsys.readouterr()
    assert [row["id"] for row in json.loads(said.out)] == ["three", "two"]
    assert "one" in said.err
    assert main(["label", str(store.root)]) == 1
    assert "one" in capsys.readouterr().err
    assert LabelStore(store.labels_path).episodes() == ["three", "two"]


def test_verify_lists_every_problem_of_a_store_in_pieces(store, capsys):
    """F11"""
    for name in ("annotations.jsonl", "collection.jsonl", "labels/one.json", "episodes/two/manifest.json"):
        (store.root / name).write_bytes(b"\xff\n")
    (store.root / "episodes" / "a link").symlink_to("/etc")
    assert main(["verify", str(store.root), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    found = {damage["path"].removeprefix(str(store.root) + "/") for damage in said["damages"]}
    assert found >= {"annotations.jsonl", "collection.jsonl", "labels/one.json", "episodes/two/manifest.json"}
    assert "episodes/a link" in found
    assert all(damage["advice"] for damage in said["damages"])


def test_swapped_episode_folders_are_found(store):
    """F4"""
    one, two, aside = (store.root / "episodes" / name for name in ("one", "two", "aside"))
    one.rename(aside)
    two.rename(one)
    aside.rename(two)
    assert store.damages("one")
    assert store.damages("two")
    with pytest.raises(StoreDamaged, match="id"):
        store.read("one")


def test_store_that_is_itself_reached_by_a_link_is_the_readers_own_choice(store, tmp_path):
    (tmp_path / "shortcut").symlink_to(store.root)
    linked = EpisodeStore(tmp_path / "shortcut")
    assert linked.ids() == list(EPISODES)
    label_store(linked)
    assert main(["verify", str(linked.root)]) == 0


def test_refusals_are_one_kind_of_error(store):
    replace_by_link(store.root / "episodes" / "one", store.root / "episodes" / "two")
    with pytest.raises(EgoRecoveryError):
        store.read("one")


def test_next_writer_removes_drafts_of_the_dead_and_leaves_those_of_the_living(store, capsys):
    """F12: a kill in the middle of a write left them for good."""
    import subprocess
    import sys
    import time

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    drafts = [store.root / f".annotations.jsonl.anchor.{process.pid}.draft" for process in (dead, living)]
    for draft in drafts:
        draft.write_bytes(b"half")
        os.utime(draft, (0, time.time() - 7200))  # of an older version, which does not name its computer
    assert main(["verify", str(store.root)]) == 1
    assert "was left by a write that was killed" in capsys.readouterr().out
    with store.writing():
        pass
    living.communicate()
    assert [draft.exists() for draft in drafts] == [False, True]


def test_name_that_the_terminal_cannot_write_is_shown_as_numbers(store, tmp_path, monkeypatch):
    """It was a traceback of the terminal library."""
    import io
    import sys

    odd = store.root.rename(tmp_path / "store \x1b[31m\u518d")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    (odd / "store.json").write_bytes(b"{}")
    assert main(["verify", str(odd)]) == 1
    sys.stdout.flush()
    assert b"\\u518d" in written.getvalue()


@pytest.mark.parametrize("shape", [[2**31, 16, 16], [FRAMES, 2**20, 2**20], [FRAMES, 16]])
def test_depth_that_declares_more_than_there_are_frames_is_damage_and_allocates_nothing(tmp_path, shape):
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        writer.add(tiny_episode("ep-0"))
    header = next(store.path("ep-0").glob("episode.zarr/cameras/head/depth_mm/zarr.json"))
    facts = json.loads(header.read_text())
    header.write_text(json.dumps({**facts, "shape": shape}))
    reseal_episode(store.path("ep-0"))
    with pytest.raises(StoreDamaged, match="depth_mm"):
        store.read("ep-0")


@pytest.mark.parametrize("at", range(2, 16))
def test_compressed_depth_whose_first_bytes_lie_is_damage_and_does_not_end_the_process(tmp_path, at):
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        writer.add(tiny_episode("ep-0"))
    chunk = next(store.path("ep-0").glob("episode.zarr/cameras/head/depth_mm/c/0/0/0"))
    payload = bytearray(chunk.read_bytes())
    payload[at] ^= 0x7F
    chunk.write_bytes(payload)
    reseal_episode(store.path("ep-0"))
    with pytest.raises(StoreDamaged, match="depth_mm"):
        store.read("ep-0")
