"""Full disks and second writers: refused with a message that helps, and nothing that was there is harmed."""

import getpass
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egorecovery.capture import save_recording
from egorecovery.capture.synthetic import synthetic_recording
from egorecovery.episodes import PAPER_TASKS, EpisodeStore, Source
from egorecovery.errors import StoreError, StoreLocked
from egorecovery.recovery import Annotation, AnnotationJournal
from tiny_episodes import FRAMES, tiny_episode

pytestmark = pytest.mark.fault

HOLDER = Path(__file__).with_name("killed_writer.py")
NO_ROOM = 16 * 1024  # bytes: below one camera's frames in the recordings here, above everything else
TMPFS_BYTES = 6 * 2**20  # several times what an import needs: the kernel counts small file systems roughly


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two good recordings."""
    directory = tmp_path_factory.mktemp("limits") / "recordings"
    for number in range(2):
        rng = np.random.default_rng([7, number])
        recording, _ = synthetic_recording(f"new-{number}", PAPER_TASKS["cube_stack"], Source.ROBOT_RECOVERY, rng)
        save_recording(recording, directory / recording.id)
    return directory


@pytest.fixture
def old_store(tmp_path: Path) -> EpisodeStore:
    return store_with_old_episodes(tmp_path / "store")


def store_with_old_episodes(root: Path) -> EpisodeStore:
    store = EpisodeStore.create(root)
    with store.writing() as writer:
        for name in ("old-0", "old-1"):
            writer.add(replace(tiny_episode(name), task=PAPER_TASKS["cup_brush"]))  # other pictures, another task
    return store


def assert_only_the_old_episodes(store: EpisodeStore) -> None:
    assert store.folders() == ["old-0", "old-1"]
    for name in store.ids():
        assert store.damages(name) == []
        assert all(len(camera.frames.decode()) == FRAMES for camera in store.read(name).cameras.values())
    assert store.damages_beside_episodes() == []
    assert not any((store.root / ".drafts").iterdir())


def egorecovery(*arguments: object, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """The command line, in a process of its own. Python ignores SIGXFSZ, so a limit shows as an error, not a death."""
    command = [sys.executable, "-m", "egorecovery", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=before, check=False)


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (NO_ROOM, NO_ROOM))


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """For this process; the hard limit stays, so that the soft one can be raised again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)  # noqa: S607 - from the PATH


def fill(disk: Path, leave: int = 0) -> Path:
    """Takes all room but some bytes."""
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    ballast.write_bytes(b"\0" * max(free - leave, 0))
    return ballast


def test_import_beyond_the_file_size_limit_ends_with_2_and_says_so_and_leaves_old_data_intact(old_store, recordings):
    ended = egorecovery("import", recordings, "--out", old_store.root, before=limit_file_size)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "the file would exceed the size limit" in ended.stderr
    assert "free space and run again" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_only_the_old_episodes(old_store)


def test_import_into_a_nearly_full_disk_ends_with_2_and_says_so_and_leaves_old_data_intact(small_disk, recordings):
    store = store_with_old_episodes(small_disk / "store")
    fill(small_disk, leave=100_000)
    ended = egorecovery("import", recordings, "--out", store.root)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "the disk is full" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_only_the_old_episodes(store)


def test_import_into_a_disk_without_one_free_byte_ends_with_2_and_says_so(small_disk, recordings):
    store = store_with_old_episodes(small_disk / "store")
    fill(small_disk)
    ended = egorecovery("import", recordings, "--out", store.root)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "the disk is full" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_only_the_old_episodes(store)


def test_import_succeeds_once_room_has_been_made(small_disk, recordings):
    store = store_with_old_episodes(small_disk / "store")
    ballast = fill(small_disk, leave=100_000)
    assert egorecovery("import", recordings, "--out", store.root).returncode != 0
    ballast.unlink()
    ended = egorecovery("import", recordings, "--out", store.root)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert store.ids() == ["new-0", "new-1", "old-0", "old-1"]
    assert egorecovery("verify", store.root).returncode == 0


@pytest.mark.parametrize("limit", [0, 100, 1000, 4000])  # none, and through headers, arrays and pictures
def test_add_beyond_the_file_size_limit_adds_nothing_and_names_the_reason(old_store, limit):
    with old_store.writing() as writer:
        with file_size_limit(limit), pytest.raises(StoreError, match="the file would exceed the size limit"):
            writer.add(tiny_episode("new"))
        assert_only_the_old_episodes(old_store)
        writer.add(tiny_episode("new"))  # the same writer can go on
    assert old_store.ids() == ["new", "old-0", "old-1"]
    assert old_store.damages("new") == []


def test_episode_that_cannot_be_logged_for_lack_of_room_is_not_added_either(old_store):
    """The journal is the last to be written: 'nothing was added' must be true there as well."""
    log = old_store.collection.journal.path
    with old_store.writing() as writer:
        while log.stat().st_size < 10_000:  # larger than any file of an episode without pictures
            writer.discard(tiny_episode("worthless"), ("hands: tracking lost",))
        with (
            file_size_limit(log.stat().st_size),
            pytest.raises(StoreError, match=r"collection\.jsonl: .*nothing was added"),
        ):
            writer.add(tiny_episode("new", cameras=0))
        assert_only_the_old_episodes(old_store)


@pytest.mark.parametrize("room", [0, 1, 100])  # for the next line of about 200 bytes
def test_annotation_without_room_is_refused_and_the_earlier_revision_stays(old_store, room):
    journal = AnnotationJournal(old_store.annotations_path)
    first = Annotation(episode="old-0", boundary=3, annotator="ada")
    journal.save(first, n_frames=FRAMES, seen_revision=0)
    second = Annotation(episode="old-0", boundary=4, annotator="ada")
    size = old_store.annotations_path.stat().st_size
    with file_size_limit(size + room), pytest.raises(StoreError, match=r"annotations\.jsonl: .* exceed the size limit"):
        journal.save(second, n_frames=FRAMES, seen_revision=1)
    assert old_store.annotations_path.stat().st_size == size
    assert journal.latest()["old-0"].boundary == 3
    assert journal.save(second, n_frames=FRAMES, seen_revision=1).revision == 2


@contextmanager
def lock_held_by_another_process(store: EpisodeStore, *how: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    command = [sys.executable, HOLDER, how[0] if how else "hold", store.root, *how[1:]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        word, *more = holder.stdout.readline().split()
        assert word == "locked"
        try:
            yield holder, more
        finally:
            holder.kill()


def test_second_writer_is_refused_with_the_process_user_host_and_command_of_the_first(old_store):
    with lock_held_by_another_process(old_store) as (holder, _):
        with pytest.raises(StoreLocked) as refusal, old_store.writing():
            pass
        message = str(refusal.value)
        assert str(old_store.root) in message
        assert f"process {holder.pid} of {getpass.getuser()} on {socket.gethostname()}" in message
        assert f"{HOLDER} hold {old_store.root}" in message


def test_import_into_a_store_being_written_ends_with_2_and_names_the_holder(old_store, recordings):
    with lock_held_by_another_process(old_store) as (holder, _):
        ended = egorecovery("import", recordings, "--out", old_store.root)
    assert ended.returncode == 2
    assert f"process {holder.pid} of " in ended.stderr
    assert_only_the_old_episodes(old_store)


def test_store_can_be_read_while_another_process_writes_it(old_store):
    with lock_held_by_another_process(old_store):
        assert_only_the_old_episodes(EpisodeStore(old_store.root))


def test_writer_that_ended_properly_is_not_reported_as_dead(old_store):
    with lock_held_by_another_process(old_store) as (holder, _):
        holder.communicate("")  # ends its input: it lets go
        assert holder.returncode == 0
    with old_store.writing() as writer:
        assert writer.recovered is None


def test_lock_of_a_killed_writer_is_taken_over_and_the_dead_one_named(old_store):
    with lock_held_by_another_process(old_store) as (holder, _):
        holder.kill()
        holder.wait()
        with old_store.writing() as writer:
            assert writer.recovered is not None
            assert f"process {holder.pid} of {getpass.getuser()} on {socket.gethostname()}" in writer.recovered
        with old_store.writing() as writer:
            assert writer.recovered is None, "it is told once"


def test_writer_that_finds_no_room_for_its_name_lets_go_of_the_lock(old_store):
    with (
        file_size_limit(0),
        pytest.raises(StoreError, match="the file would exceed the size limit"),
        old_store.writing(),
    ):
        pass
    with old_store.writing() as writer:  # the same process, as a long-running server would try again
        writer.add(tiny_episode("new"))
    assert "new" in old_store


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming a user without a name needs root")
def test_user_without_a_name_can_write_as_in_a_container_with_a_bare_number(old_store):
    for path in (old_store.root, *old_store.root.rglob("*")):
        os.chown(path, 54321, 54321)
    script = (
        "import os; from egorecovery.episodes import EpisodeStore; os.setuid(54321)\n"
        "with EpisodeStore('.').writing(): print('written')"
    )
    nameless = {key: value for key, value in os.environ.items() if key not in ("USER", "LOGNAME", "LNAME", "USERNAME")}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, cwd=old_store.root, env=nameless, capture_output=True, text=True, check=False)
    assert ended.stdout == "written\n", ended.stderr


@pytest.mark.parametrize("start_method", ["spawn", "fork", "forkserver"])
def test_worker_that_outlives_its_killed_parent_does_not_keep_the_lock(old_store, start_method):
    with lock_held_by_another_process(old_store, "hold-with-worker", start_method) as (holder, (worker,)):
        try:
            holder.kill()
            holder.wait()
            os.kill(int(worker), 0)  # raises if the worker died as well, which would prove nothing
            with old_store.writing() as writer:
                assert f"process {holder.pid} of " in str(writer.recovered)
        finally:
            os.kill(int(worker), signal.SIGKILL)
