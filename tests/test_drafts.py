"""Drafts that a killed write left: removed when their writer is dead, left alone when it lives or cannot be judged."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from egorecovery.capture import save_recording
from egorecovery.capture.synthetic import synthetic_recording
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, EpisodeStore, Source
from egorecovery.intent import LabelStore
from egorecovery.storage import drafts
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.drafts import draft_of, leftovers, remove_drafts_of_the_dead

NAME_OF_A_CHILD = "import sys\nfrom pathlib import Path\nfrom egorecovery.storage.drafts import draft_of\n" + (
    "print(draft_of(Path(sys.argv[1])), flush=True)\ninput()"
)
NEW_SPACE = [shutil.which("unshare") or "false", "--map-root-user", "--pid", "--fork"]


@pytest.fixture
def child():
    """A process, and the draft that it would write."""
    started = []

    def start(path):
        process = subprocess.Popen(
            [sys.executable, "-c", NAME_OF_A_CHILD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process, path.parent / process.stdout.readline().strip().rsplit("/")[-1]

    yield start
    for process in started:
        process.communicate()


def aged(draft, seconds):
    draft.write_bytes(b"half")
    then_s = time.time() - seconds
    os.utime(draft, (then_s, then_s))
    return draft


def kept(folder):
    remove_drafts_of_the_dead(folder)
    return sorted(path.name for path in folder.iterdir())


def test_a_draft_stays_while_its_writer_lives_and_goes_when_it_is_dead(tmp_path, child):
    process, draft = child(tmp_path / "store.json")
    aged(draft, 0)
    assert kept(tmp_path) == [draft.name]
    assert leftovers(tmp_path) == []
    process.communicate()
    assert [problem for _, problem, _ in leftovers(tmp_path)] == ["was left by a write that was killed"]
    assert kept(tmp_path) == []


def test_a_process_that_got_the_number_of_a_dead_one_does_not_keep_its_draft(tmp_path, child):
    process, draft = child(tmp_path / "store.json")
    older = draft.name.replace(f".{process.pid}-{drafts._start_of(process.pid)}.", f".{process.pid}-1.")
    assert older != draft.name
    aged(tmp_path / older, 0)
    assert kept(tmp_path) == []


def test_own_drafts_of_other_threads_stay(tmp_path):
    draft = aged(draft_of(tmp_path / "store.json"), 0)
    assert draft_of(tmp_path / "store.json") != draft  # two threads never write one draft
    assert kept(tmp_path) == [draft.name]


def test_a_draft_of_another_computer_stays_and_after_a_day_it_is_named(tmp_path, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(drafts.socket, "gethostname", lambda: "gpu-7.lab")
        elsewhere.setattr(drafts, "_boot", lambda: "0badf00d")
        draft = draft_of(tmp_path / "store.json")
    aged(draft, 3600)
    assert kept(tmp_path) == [draft.name]
    assert leftovers(tmp_path) == []
    aged(draft, 3 * 86400)
    assert kept(tmp_path) == [draft.name]
    [(path, problem, advice)] = leftovers(tmp_path)
    assert path == draft
    assert problem == f"was begun 3 days ago by process {os.getpid()} on gpu-7-lab and never finished"
    assert advice == "if that process has ended, remove it"


def before_the_start_s():
    """An age. It grows while the tests run."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) + 60


@pytest.fixture
def draft_before_a_restart(tmp_path, monkeypatch):
    """A draft of this computer's last start, but for what is changed."""
    whole = {"_machine": "4e8f00aa17b2", "_boot": "0badf00d", "_process_space": drafts._WHOLE_COMPUTER}

    def make(**changed):
        with monkeypatch.context() as earlier:
            for name, value in {**whole, **changed}.items():
                earlier.setattr(drafts, name, lambda value=value: value)
            return draft_of(tmp_path / "store.json")

    for name in ("_machine", "_process_space"):
        monkeypatch.setattr(drafts, name, lambda name=name: whole[name])
    monkeypatch.setattr(drafts, "_boot", lambda: "5ca1ab1e")
    return make


def test_a_draft_from_before_this_computer_started_goes(tmp_path, draft_before_a_restart):
    draft = draft_before_a_restart()
    aged(draft, 0)
    assert kept(tmp_path) == [draft.name]  # younger than the start: a copy of this computer
    aged(draft, before_the_start_s())
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    "changed",
    [{"_machine": "99999999abcd"}, {"_machine": "0"}, {"_boot": "0"}, {"_process_space": "4026532999"}],
    ids=["another machine", "unknown machine", "unknown start", "in a container"],
)
def test_the_host_name_alone_does_not_make_another_computers_draft_one_from_before_the_restart(
    tmp_path, draft_before_a_restart, changed
):
    draft = aged(draft_before_a_restart(**changed), before_the_start_s() + 86400)
    assert kept(tmp_path) == [draft.name]
    assert [path for path, _, _ in leftovers(tmp_path)] == [draft]


def test_a_computer_that_does_not_know_itself_removes_nothing_of_another_start(
    tmp_path, draft_before_a_restart, monkeypatch
):
    draft = aged(draft_before_a_restart(_machine="0"), before_the_start_s())
    monkeypatch.setattr(drafts, "_machine", lambda: "0")
    assert kept(tmp_path) == [draft.name]


def test_a_folder_is_as_old_as_the_newest_file_in_it(tmp_path, draft_before_a_restart):
    draft = draft_before_a_restart()
    (draft / "data").mkdir(parents=True)
    aged(draft / "data" / "half.parquet", 0)
    for folder in (draft / "data", draft):  # written to, a file does not change the time of its folder
        os.utime(folder, (0, 0))
    assert kept(tmp_path) == [draft.name]
    assert leftovers(tmp_path) == []
    aged(draft / "data" / "half.parquet", before_the_start_s())
    assert kept(tmp_path) == []


def test_drafts_named_before_the_machine_was_in_the_name_are_judged_too(tmp_path, child):
    process, draft = child(tmp_path / "store.json")
    without = draft.name.replace(f".{drafts._machine()}-", ".")
    assert without != draft.name
    aged(tmp_path / without, 0)
    assert kept(tmp_path) == [without]
    process.communicate()
    assert kept(tmp_path) == []


def test_a_container_with_the_same_name_is_another_place(tmp_path, monkeypatch):
    with monkeypatch.context() as inside:
        inside.setattr(drafts, "_process_space", lambda: "4026532999")
        draft = draft_of(tmp_path / "store.json")
    aged(draft, 10)
    assert kept(tmp_path) == [draft.name]


def test_drafts_of_older_versions_go_after_an_hour_without_their_process_and_are_named_after_a_day_with_it(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, living = tmp_path / f".store.json.{ended.pid}.draft", tmp_path / f".store.json.{os.getppid()}.draft"
    aged(dead, 60)  # of another computer, perhaps
    aged(living, 7200)
    assert kept(tmp_path) == sorted([dead.name, living.name])
    assert leftovers(tmp_path) == []
    aged(dead, 7200)
    assert kept(tmp_path) == [living.name]
    aged(living, 2 * 86400)  # it may still write, or its number was given to another process
    assert kept(tmp_path) == [living.name]
    words = f"was begun 2 days ago by process {os.getppid()} of an older version and never finished"
    assert leftovers(tmp_path) == [(living, words, "if that process has ended, remove it")]


def test_a_name_with_the_ending_of_a_draft_and_no_writer_is_reported_and_left(tmp_path):
    (tmp_path / ".foo.draft").write_bytes(b"")
    assert leftovers(tmp_path) == [(tmp_path / ".foo.draft", "is not part of this folder", "remove it")]
    assert kept(tmp_path) == [".foo.draft"]
    (tmp_path / "labels").mkdir()
    (tmp_path / ".foo.draft").rename(tmp_path / "labels" / ".foo.draft")
    assert [damage.problem for damage in LabelStore(tmp_path / "labels").damages()] == ["is not part of this folder"]


def test_where_proc_shows_other_processes_the_start_of_one_is_unknown(monkeypatch):
    own = drafts._start_of(os.getpid())
    assert own not in (None, "0")
    monkeypatch.setattr(drafts.os, "readlink", lambda path: "4711")
    assert drafts._start_of(os.getpid()) == "0"


@pytest.mark.skipif(
    subprocess.run([*NEW_SPACE, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0,
    reason="this user cannot make process spaces",
)
def test_a_process_space_without_its_own_proc_reads_no_start_from_it():
    asked = "import os; from egorecovery.storage import drafts; print(os.getpid(), drafts._start_of(os.getpid()))"
    told = subprocess.check_output([*NEW_SPACE, sys.executable, "-c", asked], text=True)
    assert told.split() == ["1", "0"]


def test_only_drafts_of_the_name_asked_for_are_removed(tmp_path, child):
    process, draft = child(tmp_path / "export")
    process.communicate()
    draft.mkdir()
    aged(draft / "half.parquet", 0)
    remove_drafts_of_the_dead(tmp_path, of="other")
    assert draft.exists()
    remove_drafts_of_the_dead(tmp_path, of="export")
    assert not draft.exists()


def test_a_name_as_long_as_file_systems_allow_can_be_written(tmp_path):
    path = tmp_path / ("\u00e4" * 127)
    write_file(path, b"whole")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_verify_and_import_name_the_computer_of_an_old_draft(tmp_path, monkeypatch, capsys, rng):
    store = EpisodeStore.create(tmp_path / "store")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(drafts.socket, "gethostname", lambda: "gpu-7")
        elsewhere.setattr(drafts, "_boot", lambda: "0badf00d")
        aged(draft_of(store.root / "annotations.jsonl.anchor"), 5 * 86400)
    words = "on gpu-7 and never finished; if that process has ended, remove it"
    assert main(["verify", str(store.root)]) == 1
    assert words in " ".join(capsys.readouterr().out.split())
    recording, _ = synthetic_recording("clip", PAPER_TASKS["cube_stack"], Source.ROBOT_SUCCESS, rng, image_size=16)
    save_recording(recording, tmp_path / "raw" / "clip")
    main(["import", str(tmp_path / "raw"), "--out", str(store.root), "--workers", "1"])
    assert words in " ".join(capsys.readouterr().err.split())
