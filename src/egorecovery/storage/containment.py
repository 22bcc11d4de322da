"""Untrusted files: opened only inside their folder, only if regular, only up to a size limit.

All files below a store, run, checkpoint, recording or experiment folder are opened through this module. The folder
itself is named by the user and may be a link. Nothing below it may be a link.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from egorecovery.errors import UnsafeFile

RECORD_BYTES = 64 << 20  # of a JSON file; the largest that this project writes have a few megabytes
JOURNAL_BYTES = 1 << 30
TREE_FILES = 200_000  # below one folder
TREE_DEPTH = 16
_WORDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}


def inside(root: Path, *names: str) -> Path:
    """`root/names...`, without links. Every parent is a folder; the last part may be a regular file or missing."""
    path = os.fspath(root)
    for number, name in enumerate(names, start=1):
        _require_name(root, name)
        path = f"{path}/{name}"
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            for later in names[number:]:
                _require_name(root, later)
            break
        except NotADirectoryError:
            raise UnsafeFile(f"{os.path.dirname(path)} is no folder") from None
        if not (stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and number == len(names))):
            raise _refusal(path, mode, "a folder" if number < len(names) else "a file or a folder of its own")
    return root.joinpath(*names)


def relative_names(text: str) -> tuple[str, ...]:
    """The parts of a relative POSIX path that was read from a file."""
    return tuple(text.split("/"))


def is_relative_name(text: object) -> bool:
    """A relative POSIX path that stays below its folder."""
    return isinstance(text, str) and "\0" not in text and not {"", ".", ".."} & set(text.split("/"))


def open_file(path: Path, largest: int | None = None) -> int:
    """A read-only descriptor of a regular file. Links, devices and pipes are refused without blocking."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        _explain(path, error)
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(path, status.st_mode, "a file")
        if largest is not None and status.st_size > largest:
            raise UnsafeFile(f"{path} has {status.st_size:,} bytes; at most {largest:,} are read")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(path: Path, largest: int | None = None) -> None:
    """Refuses links, pipes, devices and files that are too large. A missing file raises `FileNotFoundError`."""
    os.close(open_file(path, largest))


def open_for_append(path: Path, flags: int = os.O_APPEND) -> int:
    """A descriptor for appending to a regular file, which is created if missing. Links are refused."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o644)
    except OSError as error:
        _explain(path, error)
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnsafeFile(f"{path} is no regular file; nothing is written there")
    return descriptor


def read_bytes(path: Path, largest: int = RECORD_BYTES) -> bytes:
    descriptor = open_file(path, largest)
    try:
        # The file's size and one byte: allocating the largest size would cost more than reading most files.
        pieces = [os.read(descriptor, os.fstat(descriptor).st_size + 1)]
        while pieces[-1] and sum(map(len, pieces)) <= largest:  # it may have grown since
            pieces.append(os.read(descriptor, 1 << 16))
    finally:
        os.close(descriptor)
    payload = b"".join(pieces)
    if len(payload) > largest:
        raise UnsafeFile(f"{path} has more than {largest:,} bytes, the most that is read")
    return payload


def read_named(path: Path, largest: int = RECORD_BYTES) -> bytes:
    """The bytes of a file that a user named, which may be a link. Pipes, devices and folders are refused."""
    return read_bytes(Path(os.path.realpath(path)), largest)


def is_file(path: Path) -> bool:
    """Whether a path is a regular file, not a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, not a link."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def exists(path: Path) -> bool:
    """Whether anything has this name, including a broken link."""
    return os.path.lexists(path)


def names_in(folder: Path) -> list[str]:
    """The sorted names in a folder; none if the folder is missing."""
    if not exists(folder):
        return []
    if not is_folder(folder):
        raise _refusal(folder, os.lstat(folder).st_mode, "a folder")
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def files_below(folder: Path) -> dict[str, os.stat_result]:
    """All regular files as relative POSIX paths, with their status. Anything else is refused."""
    return {name: status for name, status in _regular(folder) if not stat.S_ISDIR(status.st_mode)}


def tree_below(folder: Path) -> list[str]:
    """All folders, with the folder itself as ".", and all regular files. Anything else is refused."""
    return [".", *sorted(name for name, _ in _regular(folder))]


def _regular(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    for number, (name, status) in enumerate(_walk(os.fspath(folder), "", 0)):
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise _refusal(folder / name, status.st_mode, "a file or a folder of its own")
        if number > TREE_FILES:
            raise UnsafeFile(f"{folder} holds more than {TREE_FILES:,} files and folders")
        yield name, status


def special_files(folder: Path) -> list[Path]:
    """Links, pipes, sockets and devices anywhere below a folder."""
    entries = _walk(os.fspath(folder), "", 0)
    return [
        folder / name for name, status in entries if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))
    ]


def remove(path: Path) -> None:
    """Removes a file, or a folder with its content. Of a link, only the link is removed."""
    if is_folder(path):
        shutil.rmtree(path)  # follows no links, and refuses to start at one
    else:
        path.unlink(missing_ok=True)


def _walk(root: str, below: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    if depth > TREE_DEPTH:
        raise UnsafeFile(f"{root}/{below} is nested more than {TREE_DEPTH} folders deep")
    try:
        entries = os.scandir(f"{root}/{below}")
    except NotADirectoryError:
        raise UnsafeFile(f"{root}/{below} is no folder") from None
    with entries:
        for entry in entries:
            name = below + entry.name
            yield name, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(root, f"{name}/", depth + 1)


def _require_name(root: Path, name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(name) > 255:
        raise UnsafeFile(f"{root}: {name!r} is no name of a file in this folder")


def _explain(path: Path, error: OSError) -> None:
    """Raises a clear error for a failed `open`. A missing file keeps its own error."""
    if isinstance(error, NotADirectoryError):
        raise UnsafeFile(f"{os.path.dirname(path)} is no folder") from None
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise _refusal(path, mode, "a file") from error


def _refusal(path: Path | str, mode: int, wanted: str) -> UnsafeFile:
    kind = _WORDS.get(stat.S_IFMT(mode), "a special file")
    return UnsafeFile(
        f"{path} is {kind}, wanted {wanted}: nothing is read or written through it; remove it, or restore it from a "
        "copy"
    )
