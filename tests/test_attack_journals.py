"""Journals that notice: a line lost, doubled, moved or cut off is found, and a machine never overrides a person."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks import copied, make_labelled_store, reseal
from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore
from egorecovery.errors import EgoRecoveryError, StaleRevision, StoreDamaged
from egorecovery.intent import LabelStore
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.storage.checksummed_json import CHECKSUM, with_checksum
from egorecovery.storage.journal import CHAIN, Journal
from tiny_episodes import FRAMES, tiny_episode

pytestmark = pytest.mark.fault
LINES = 6


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_labelled_store(tmp_path_factory.mktemp("journals") / "store")


@pytest.fixture
def store(whole, tmp_path):
    return copied(whole, tmp_path / "store")


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    journal = Journal(tmp_path_factory.mktemp("journal") / "lines.jsonl")
    for number in range(LINES):
        journal.append({"number": number})
    return journal


def changed_lines(lines: list[bytes], what: str, at: int, to: int) -> list[bytes]:
    spoiled = list(lines)
    if what == "removed":
        del spoiled[at]
    elif what == "doubled":
        spoiled.insert(to, lines[at])
    else:
        spoiled.insert(to, spoiled.pop(at))
    return spoiled


@given(st.sampled_from(["removed", "doubled", "moved"]), st.integers(0, LINES - 1), st.integers(0, LINES - 1))
@settings(max_examples=60, deadline=None)
def test_line_removed_from_doubled_in_or_moved_within_a_journal_is_found(journal, what, at, to):
    payload = journal.path.read_bytes()
    lines = payload.splitlines(keepends=True)
    spoiled = changed_lines(lines, what, at, to)
    if spoiled == lines:
        return
    try:
        journal.path.write_bytes(b"".join(spoiled))
        fresh = Journal(journal.path)
        assert fresh.problems()
        with pytest.raises(StoreDamaged, match=r"lines\.jsonl"):
            fresh.records()
        with pytest.raises(StoreDamaged):
            fresh.append({"number": 99})  # nothing is built on a journal with holes
    finally:
        journal.path.write_bytes(payload)


@given(st.integers(0, 2000), st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_changed_byte_of_an_anchor_is_found(journal, place, flip):
    payload = bytearray(journal.anchor_path.read_bytes())
    before = bytes(payload)
    payload[place % len(payload)] ^= flip
    try:
        journal.anchor_path.write_bytes(payload)
        assert Journal(journal.path).problems()
    finally:
        journal.anchor_path.write_bytes(before)


def test_journal_that_is_ahead_of_its_anchor_is_no_damage_and_the_next_append_catches_up(tmp_path):
    """What a kill between the line and the anchor leaves."""
    journal = Journal(tmp_path / "lines.jsonl")
    journal.append({"number": 0})
    anchor = journal.anchor_path.read_bytes()
    journal.append({"number": 1})
    journal.anchor_path.write_bytes(anchor)
    again = Journal(journal.path)
    assert again.problems() == []
    again.append({"number": 2})
    assert [record["number"] for record in Journal(journal.path).records()] == [0, 1, 2]
    assert json.loads(again.anchor_path.read_bytes())["lines"] == 3


def test_old_journal_is_read_and_bound_aloud_by_the_next_append(tmp_path, capsys):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"".join(with_checksum({"number": number}) for number in range(3)))
    journal = Journal(path)
    assert [record["number"] for record in journal.records()] == [0, 1, 2]
    assert journal.problems() == []
    journal.append({"number": 3})
    assert "3 lines are bound together" in capsys.readouterr().err
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(StoreDamaged, match="lost, doubled or moved"):
        Journal(path).records()


@pytest.mark.parametrize("spoil", [lambda path: path.unlink(), lambda path: cut_last_line(path)])
def test_lost_annotation_is_found_by_verify_and_stops_label_before_labels_are_removed(store, capsys, spoil):
    """F4"""
    spoil(store.annotations_path)
    assert main(["verify", str(store.root)]) == 1
    assert "annotations.jsonl" in capsys.readouterr().out
    assert main(["label", str(store.root)]) == 2
    assert LabelStore(store.labels_path).episodes() == ["one", "three", "two"]


def cut_last_line(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def test_annotations_lost_together_with_their_anchor_are_still_missed_by_their_labels(store):
    """F4"""
    store.annotations_path.unlink()
    store.annotations_path.with_name("annotations.jsonl.anchor").unlink()
    assert main(["verify", str(store.root)]) == 1
    assert main(["label", str(store.root)]) == 2
    assert LabelStore(store.labels_path).episodes() == ["one", "three", "two"]


def test_episode_removed_together_with_its_collection_line_is_missed(store):
    """F4"""
    import shutil

    shutil.rmtree(store.root / "episodes" / "two")
    path = store.collection.journal.path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"two"' not in line))
    assert main(["verify", str(store.root)]) == 1


def test_machines_confirmation_never_overrides_a_person(tmp_path):
    """F5: the check and the write are under one lock."""
    journal = AnnotationJournal(tmp_path / "annotations.jsonl")
    machine = [Annotation(episode=f"e{n}", boundary=3, annotator="machine") for n in range(4)]
    person = Annotation(episode="e2", boundary=9, annotator="ada")

    def confirm() -> None:
        try:
            AnnotationJournal(journal.journal.path).save_first(machine)
        except StaleRevision:
            return

    def annotate() -> bool:
        try:
            AnnotationJournal(journal.journal.path).save(person, n_frames=FRAMES, seen_revision=0)
        except StaleRevision:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        confirmed = [pool.submit(confirm) for _ in range(3)]
        saved = pool.submit(annotate)
        assert all(each.result() is None for each in confirmed)
    if saved.result():
        assert journal.latest()["e2"].annotator == "ada"
    assert journal.problems() == []  # no revision twice
    first = [annotation.episode for annotation in journal.history() if annotation.revision == 1]
    assert len(first) == len(set(first))


def test_two_saves_that_did_not_see_each_other_are_named_by_verify(tmp_path):
    """F5: as older versions could leave them."""
    path = tmp_path / "annotations.jsonl"
    record = {**Annotation(episode="e", boundary=3, annotator="ada").record(), "revision": 1}
    path.write_bytes(with_checksum(record) + with_checksum({**record, "annotator": "machine"}))
    assert "revision 1 of e" in AnnotationJournal(path).problems()[0]


def seal_line(path, **changes):
    """A line with a valid checksum and chain that is no annotation."""
    journal = Journal(path)
    record = {**journal.records()[-1], **changes}
    record = {name: value for name, value in record.items() if value is not ...}
    journal.append(record)


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"boundary": ...},
        {"boundary": "7"},
        {"quality": "perfect"},
        {"annotator": 7},
        {"revision": None},
        {"episode": ["one"]},
        {"discard": "no"},
    ],
)
@pytest.mark.parametrize("name", ["annotations.jsonl"])
def test_sealed_line_that_is_no_annotation_is_damage_to_verify_and_one_error_to_label(store, change, name):
    """F10: journal lines have a schema."""
    seal_line(store.root / name, **change)
    assert main(["verify", str(store.root)]) == 1
    assert main(["label", str(store.root)]) == 2


def test_records_look_as_they_always_did(tmp_path):
    journal = Journal(tmp_path / "lines.jsonl")
    journal.append({"number": 0})
    assert journal.records() == [{"number": 0}]
    line = json.loads(journal.path.read_bytes())
    assert {CHAIN, CHECKSUM, "number"} == set(line)


def test_annotator_that_is_not_utf8_is_refused():
    """F10"""
    with pytest.raises(EgoRecoveryError, match="annotator is not UTF-8"):
        Annotation(episode="e", boundary=3, annotator="\udcff")


def test_damaged_data_is_neither_labelled_nor_given_to_training(store, capsys):
    """F3: zeroed bytes in an array, with everything else intact."""
    chunk = store.root / "episodes" / "two" / "episode.zarr" / "action" / "c" / "0" / "0"
    payload = bytearray(chunk.read_bytes())
    payload[100:400] = bytes(300)
    chunk.write_bytes(payload)
    fresh = EpisodeStore(store.root)
    assert list(fresh.damaged_among(fresh.ids())) == ["two"]
    LabelStore(store.labels_path).remove("two")
    assert main(["label", str(store.root)]) == 1
    assert "two is skipped" in capsys.readouterr().err
    assert LabelStore(store.labels_path).episodes() == ["one", "three"]


def test_memory_of_checked_content_from_elsewhere_is_not_believed(store, tmp_path):
    """A stranger's store may come with a memory that says all is well."""
    import time
    from array import array

    from egorecovery.storage import checked_content

    time.sleep(0.15)  # what is younger is not remembered, for it could change unseen within a tick
    assert store.damaged_among(store.ids()) == {}
    memory = store.root / ".checked.json"
    assert memory.is_file()
    chunk = store.root / "episodes" / "two" / "episode.zarr" / "state" / "c" / "0" / "0"
    chunk.write_bytes(bytes(chunk.stat().st_size))
    assert list(EpisodeStore(store.root).damaged_among(store.ids())) == ["two"]
    assert list(copied(store, tmp_path / "copy").damaged_among(store.ids())) == ["two"]
    for layout in ((), ("manifest.json",)):  # a stranger who knows the machine's name, and no inode or time on it
        mark = checked_content._hashed(layout, array("Q", [0] * 5 * len(layout)))
        forged = {name: [0, mark, mark, "0" * 64] for name in store.ids()}
        record = {"schema": checked_content.SCHEMA, "layouts": [list(layout)], "checked": forged}
        memory.write_bytes(with_checksum(record))
        assert list(EpisodeStore(store.root).damaged_among(store.ids())) == ["two"]


def test_intact_episodes_are_hashed_once(store, monkeypatch):
    import time

    from egorecovery.storage import manifest

    time.sleep(0.15)
    store.damaged_among(store.ids())
    monkeypatch.setattr(manifest, "file_sha256", lambda path: pytest.fail(f"{path} is hashed again"))
    assert EpisodeStore(store.root).damaged_among(store.ids()) == {}
    with store.writing() as writer:
        assert writer.recovered is None
    assert tiny_episode("one").id in store


def test_memory_notices_what_is_added_removed_replaced_or_renamed(store):
    """Nothing is hashed, and yet a folder that changed in any way is looked at again."""
    import os
    import time

    time.sleep(0.15)
    assert store.damaged_among(store.ids()) == {}
    group = store.root / "episodes" / "two" / "episode.zarr"

    def touched(change, undo):
        change()
        found = EpisodeStore(store.root).damaged_among(store.ids())
        undo()
        return list(found)

    chunk, aside = group / "state" / "c" / "0" / "0", group / "aside"
    for added in ("effector_state", "cameras/extra", "cameras/head/extra", "cameras/head/depth_mm/c/9"):
        extra = group / added  # where it would be read
        assert touched(lambda extra=extra: extra.write_bytes(b"x"), extra.unlink) == ["two"], added
    assert touched(lambda: chunk.rename(aside), lambda: aside.rename(chunk)) == ["two"]
    payload = chunk.read_bytes()
    flipped = bytes([payload[0] ^ 1]) + payload[1:]
    times = chunk.stat()

    def forge():
        chunk.write_bytes(flipped)
        os.utime(chunk, ns=(times.st_atime_ns, times.st_mtime_ns))  # the time of change cannot be set back

    assert touched(forge, lambda: chunk.write_bytes(payload)) == ["two"]
    whole, home = group.rename(store.root / "moved.zarr"), group
    assert touched(lambda: home.symlink_to(whole), home.unlink) == ["two"]
    whole.rename(home)
    assert EpisodeStore(store.root).damaged_among(store.ids()) == {}


def test_card_of_a_remembered_episode_has_the_content_of_its_manifest(store):
    import time

    before = {name: store.card(name).content for name in store.ids()}
    time.sleep(0.15)
    store.damaged_among(store.ids())
    assert {name: EpisodeStore(store.root).card(name).content for name in store.ids()} == before
    reseal(store.root / "episodes" / "two" / "manifest.json", lambda record: record["files"].popitem())
    assert EpisodeStore(store.root).card("two").content != before["two"]
