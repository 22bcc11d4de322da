"""Verification: any byte that is not what was written is found, and exactly the file it is in is named."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore
from egorecovery.errors import StoreDamaged, StoreError
from egorecovery.intent import LabelStore, label_store
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.storage.journal import Journal
from tiny_episodes import FRAMES, tiny_episode

pytestmark = pytest.mark.fault

some_place = st.floats(0, 1, exclude_max=True)  # of a file, from its first byte to its last
some_flip = st.integers(1, 255)  # any other value of the byte
JOURNALS = ("collection.jsonl", "annotations.jsonl")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """Two episodes, a discarded attempt, annotations and labels. Shared: each test repairs what it damages."""
    store = EpisodeStore.create(tmp_path_factory.mktemp("damage") / "store")
    journal = AnnotationJournal(store.annotations_path)
    with store.writing() as writer:
        for name in ("one", "two"):
            writer.add(tiny_episode(name))
            annotation = Annotation(episode=name, boundary=12, annotator="tester", note="Gänsefüßchen")
            journal.save(annotation, n_frames=FRAMES, seen_revision=0)
        writer.discard(tiny_episode("three"), ("hands: tracking lost",))
    label_store(store)
    assert LabelStore(store.labels_path).episodes() == ["one", "two"]
    return store


def files_of(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files
    return files


@contextmanager
def changed(path: Path, payload: bytes | None) -> Iterator[None]:
    """The file with other bytes, or without the file, for a while."""
    before = path.read_bytes()
    assert payload != before
    try:
        path.unlink() if payload is None else path.write_bytes(payload)
        yield
    finally:
        path.write_bytes(before)


def flipped(path: Path, place: float, flip: int = 0xFF) -> bytes:
    payload = bytearray(path.read_bytes())
    payload[int(place * len(payload))] ^= flip
    return bytes(payload)


def cut(path: Path, place: float) -> bytes:
    payload = path.read_bytes()
    return payload[: int(place * len(payload))]


def named_by_verify(store: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[Path]]:
    """Exit code and the files that `egorecovery verify` names."""
    code = main(["verify", str(store.root), "--json"])
    return code, [Path(damage["path"]) for damage in json.loads(capsys.readouterr().out)["damages"]]


def test_undamaged_store_is_verified_with_exit_code_0(store, capsys):
    assert named_by_verify(store, capsys) == (0, [])
    assert main(["verify", str(store.root)]) == 0
    assert "2 episodes checked, 0 damaged files" in capsys.readouterr().out


@given(place=some_place, flip=some_flip)
@settings(max_examples=10, deadline=None)
def test_flipped_byte_anywhere_in_an_episode_is_found_and_its_file_named(store, place, flip):
    for path in files_of(store.root / "episodes" / "one"):
        with changed(path, flipped(path, place, flip)):
            assert [damage.path for damage in store.damages("one")] == [path]
            assert store.damages("two") == []


@given(place=some_place)
@settings(max_examples=10, deadline=None)
def test_truncation_of_any_file_of_an_episode_is_found_and_its_file_named(store, place):
    for path in files_of(store.root / "episodes" / "one"):
        with changed(path, cut(path, place)):
            assert [damage.path for damage in store.damages("one")] == [path]
            assert store.damages("two") == []


def test_verify_ends_with_1_and_names_exactly_the_file_with_a_flipped_byte(store, capsys):
    rng = np.random.default_rng(5)
    for path in files_of(store.root / "episodes"):
        with changed(path, flipped(path, rng.random())):
            assert named_by_verify(store, capsys) == (1, [path])


def test_verify_ends_with_1_and_names_exactly_the_deleted_file(store, capsys):
    for path in files_of(store.root / "episodes" / "two"):
        with changed(path, None):
            assert named_by_verify(store, capsys) == (1, [path])


def test_verify_ends_with_1_and_names_exactly_the_added_file(store, capsys):
    folders = {path.parent for path in files_of(store.root / "episodes")}
    for added in [*(folder / "added" for folder in folders), store.root / "episodes" / "one" / ".hidden"]:
        added.write_bytes(b"not ours")
        try:
            assert named_by_verify(store, capsys) == (1, [added])
        finally:
            added.unlink()


def test_verify_names_an_episode_that_was_accepted_and_is_gone(store, capsys, tmp_path):
    copy = EpisodeStore(shutil.copytree(store.root, tmp_path / "copy"))
    shutil.rmtree(copy.root / "episodes" / "two")
    assert named_by_verify(copy, capsys) == (1, [copy.root / "episodes" / "two"])


def test_every_damaged_file_is_named_not_only_the_first(store, capsys):
    one, two = (files_of(store.root / "episodes" / name)[3] for name in ("one", "two"))
    annotations = store.annotations_path
    damage = [changed(path, flipped(path, 0.5)) for path in (one, two, annotations)]
    with damage[0], damage[1], damage[2]:
        assert named_by_verify(store, capsys) == (1, [one, two, annotations])


@pytest.mark.parametrize("name", JOURNALS)
def test_flip_of_every_single_byte_of_a_journal_is_found_final_newline_included(store, name):
    path, rng = store.root / name, np.random.default_rng(6)
    payload = path.read_bytes()
    for place in range(len(payload)):
        spoiled = bytearray(payload)
        spoiled[place] ^= int(rng.integers(1, 256))
        with changed(path, bytes(spoiled)):
            assert len(Journal(path).problems()) == 1, f"byte {place} of {len(payload)}"
            with pytest.raises(StoreDamaged, match=name):  # a record is never silently forgotten
                Journal(path).records()


@pytest.mark.parametrize("name", JOURNALS)
def test_verify_ends_with_1_and_names_exactly_the_flipped_or_cut_journal(store, name, capsys):
    path = store.root / name
    *_, last_line, _ = path.read_bytes().split(b"\n")
    whole = path.read_bytes()
    for spoiled in (
        flipped(path, 0),
        flipped(path, 0.5),
        whole[:-1] + b" ",  # the final newline
        whole[:-1],
        whole[: -len(last_line)],
        whole[:1],
    ):
        with changed(path, spoiled):
            assert named_by_verify(store, capsys) == (1, [path])


def test_collection_log_without_the_accepted_episodes_is_named(store, capsys):
    """One episode may be unlogged, where a writer was killed before the log; more means that the log was cut."""
    path = store.root / "collection.jsonl"
    for spoiled in (None, b""):
        with changed(path, spoiled):
            assert named_by_verify(store, capsys) == (1, [path])


def test_flip_of_every_single_byte_of_store_json_is_found_when_the_store_is_opened(store):
    path = store.root / "store.json"
    for place in range(path.stat().st_size):
        with changed(path, flipped(path, place / path.stat().st_size)), pytest.raises(StoreError, match=path.name):
            EpisodeStore(store.root)


def test_verify_ends_with_1_and_names_a_damaged_store_json(store, capsys):
    path = store.root / "store.json"
    for spoiled in (flipped(path, 0.5), cut(path, 0.5), cut(path, 0)):
        with changed(path, spoiled):
            code = main(["verify", str(store.root)])
            said = capsys.readouterr()
            assert str(path) in said.out + said.err
            assert code == 1


def test_change_that_leaves_the_json_of_a_sealed_file_equal_is_found_all_the_same(store, capsys):
    """A final newline that became a space means the same to a JSON reader; it is a flipped byte none the less."""
    for path in (store.root / "episodes" / "one" / "manifest.json", store.labels_path / "one.json"):
        with changed(path, path.read_bytes()[:-1] + b" "):
            assert named_by_verify(store, capsys) == (1, [path])
    path = store.root / "store.json"
    with changed(path, path.read_bytes()[:-1] + b" "), pytest.raises(StoreDamaged, match=path.name):
        EpisodeStore(store.root)


@given(place=some_place, flip=some_flip)
@settings(max_examples=10, deadline=None)
def test_flip_or_cut_of_any_label_file_is_found_and_its_file_named(store, place, flip):
    labels = LabelStore(store.labels_path)
    for path in files_of(store.labels_path):
        for spoiled in (flipped(path, place, flip), cut(path, place)):
            with changed(path, spoiled):
                assert [damage.path for damage in labels.damages()] == [path]


def test_verify_ends_with_1_and_names_exactly_the_damaged_or_lost_label_file(store, capsys):
    arrays = store.labels_path / "one.safetensors"
    card = store.labels_path / "one.json"
    for path, spoiled in ((arrays, flipped(arrays, 0.5)), (arrays, None), (card, flipped(card, 0.5))):
        with changed(path, spoiled):
            assert named_by_verify(store, capsys) == (1, [path])


def test_damaged_file_is_named_letter_for_letter_in_any_directory(store, capsys, tmp_path):
    """Square brackets are markup to the terminal library, and letters in a path."""
    copy = shutil.copytree(store.root, tmp_path / "[old]" / "data[/b]")
    path = files_of(copy / "episodes" / "one")[0]
    path.write_bytes(flipped(path, 0.5))
    assert main(["verify", str(copy)]) == 1
    assert str(path) in capsys.readouterr().out


def test_damaged_header_is_refused_with_a_store_error_or_read_but_never_crashes(store):
    """What `inspect`, `label` and `annotate` read first; any other exception would be a traceback to their user."""
    group = next((store.root / "episodes" / "one").glob("*.zarr"))
    refused = 0
    for path in (group / "zarr.json", group / "effector_m" / "zarr.json"):
        size = path.stat().st_size
        for place in range(size):
            with changed(path, flipped(path, place / size, flip=1)):
                for read in (store.card, store.read, lambda name: store.stream(name, "effector_m")):
                    try:
                        read("one")
                    except StoreError:
                        refused += 1
    assert refused > 100


def test_episode_whose_manifest_is_lost_is_not_overwritten_but_refused_with_a_store_error(store, tmp_path):
    copy = EpisodeStore(shutil.copytree(store.root, tmp_path / "copy"))
    (copy.root / "episodes" / "one" / "manifest.json").unlink()
    left = files_of(copy.root / "episodes" / "one")
    with copy.writing() as writer, pytest.raises(StoreError, match="episodes/one"):
        writer.add(tiny_episode("one"))
    assert files_of(copy.root / "episodes" / "one") == left
