"""Drafts: what is written beside its place and renamed at the end. And whether the writer of one still lives.

A draft's name says who writes it: computer, start of that computer, process space, process and its start. Only a writer
of the same place can be judged. Disks are shared, and another computer may use the same process numbers.
"""

import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from egorecovery.storage.containment import remove

NAME_BYTES = 100  # of the final name, at the start of the draft's: file systems allow 255 in all
HOUR_S, DAY_S = 3600.0, 86400.0
_HOST_LETTERS = 32
_UNKNOWN = "0"
_DRAFT = re.compile(
    r"\.(?P<name>.+)\.(?P<host>[A-Za-z0-9-]+)\.(?P<boot>[0-9a-f]+)-(?P<space>[0-9]+)"
    r"\.(?P<process>[0-9]{1,10})-(?P<start>[0-9]+)\.[0-9a-f]{32}\.draft"
)
_OLDER = re.compile(r"\.(?P<name>.+)\.(?P<process>[0-9]{1,10})\.draft")  # of versions up to 0.2


class _Writer(NamedTuple):
    host: str
    boot: str
    space: str
    process: int
    start: str


def draft_of(path: Path) -> Path:
    """A new name beside a path, for its draft. No two writers get the same."""
    own = _own()
    writer = f"{own.host}.{own.boot}-{own.space}.{own.process}-{own.start}"
    return path.with_name(f".{_shortened(path.name)}.{writer}.{uuid.uuid4().hex}.draft")


def is_draft(name: str) -> bool:
    return name.startswith(".") and name.endswith(".draft")


def remove_drafts_of_the_dead(folder: Path, of: str | None = None) -> None:
    """Removes the drafts whose writers are dead: all in a folder, or those `of` one name."""
    for path, name, state, _ in _drafts_in(folder):
        if state == "dead" and (of is None or name == _shortened(of)):
            remove(path)


def leftovers(folder: Path) -> list[tuple[Path, str, str]]:
    """Drafts that nobody finishes: path, problem and advice. Those of living writers are none."""
    found = []
    for path, _, state, writer in _drafts_in(folder):
        if state == "dead":
            found.append((path, "was left by a write that was killed", "remove it"))
        elif state == "elsewhere" and writer is not None and (age_s := _age_s(path)) > DAY_S:
            days = int(age_s / DAY_S)
            ago = f"{days} day{'s' * (days > 1)} ago"
            problem = f"was begun {ago} by process {writer.process} on {writer.host} and never finished"
            found.append((path, problem, "if that process has ended, remove it"))
    return found


State = Literal["living", "dead", "elsewhere"]


def _drafts_in(folder: Path) -> Iterator[tuple[Path, str, State, _Writer | None]]:
    """Path, name of the final file, state and writer of each draft. Names that are no draft's are left out."""
    for entry in sorted(os.listdir(folder)) if folder.is_dir() else ():
        path = folder / entry
        if match := _DRAFT.fullmatch(entry):
            writer = _Writer(match["host"], match["boot"], match["space"], int(match["process"]), match["start"])
            yield path, match["name"], _state(path, writer), writer
        elif match := _OLDER.fullmatch(entry):
            yield path, match["name"], _state_of_older(path, int(match["process"])), None


def _state(path: Path, writer: _Writer) -> State:
    own = _own()
    if writer[:3] == own[:3]:
        start = _start_of(writer.process)
        same = start == writer.start or _UNKNOWN in (start, writer.start)
        return "living" if start is not None and same else "dead"
    # The same name after another start is this computer before its restart, or another one of that name.
    restarted = writer.host == own.host and writer.boot != own.boot
    return "dead" if restarted and _age_s(path) > time.clock_gettime(time.CLOCK_BOOTTIME) else "elsewhere"


def _state_of_older(path: Path, process: int) -> State:
    """Its name does not say where its process ran, or when it began. No write takes an hour."""
    age_s = _age_s(path)
    if age_s > DAY_S or (age_s > HOUR_S and (process == os.getpid() or _start_of(process) is None)):
        return "dead"
    return "living"


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except FileNotFoundError:  # finished meanwhile
        return 0.0


def _own() -> _Writer:
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:_HOST_LETTERS] or "unnamed"
    process = os.getpid()
    return _Writer(host, _boot(), _process_space(), process, _start_of(process) or _UNKNOWN)


@cache
def _boot() -> str:
    """Eight letters that differ from one start of the computer to the next."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")[:8]
    except OSError:
        return _UNKNOWN


def _process_space() -> str:
    """Containers count their processes apart, on one computer and maybe under one name."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return _UNKNOWN


def _start_of(process: int) -> str | None:
    """When a process began, in clock ticks after the computer's start; "0" if that is hidden; None if none runs."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
        return text.rpartition(")")[2].split()[19]  # field 22 of proc(5); the program's name may hold anything
    except (OSError, IndexError):
        pass
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except OSError:  # another user's process
        pass
    return _UNKNOWN


def _shortened(name: str) -> str:
    """The beginning of a name, in whole letters."""
    return name.encode(errors="ignore")[:NAME_BYTES].decode(errors="ignore")
