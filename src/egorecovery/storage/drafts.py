"""Drafts: what is written beside its place and renamed at the end. And whether the writer of one still lives.

A draft's name says who writes it: computer, start of that computer, process space, process and its start. Only a writer
of the same place can be judged. Disks are shared, and another computer may use the same host name and process numbers.
"""

import hashlib
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from egorecovery.storage.containment import is_folder, remove

NAME_BYTES = 100  # of the final name, at the start of the draft's: file systems allow 255 in all
HOUR_S, DAY_S = 3600.0, 86400.0
_HOST_LETTERS = 32
_UNKNOWN = "0"
_WHOLE_COMPUTER = "4026531836"  # Linux' process space outside all containers, the same after every start
_DRAFT = re.compile(
    r"\.(?P<name>.+)\.(?P<host>[A-Za-z0-9-]+)\.(?:(?P<machine>[0-9a-f]+)-)?(?P<boot>[0-9a-f]+)-(?P<space>[0-9]+)"
    r"\.(?P<process>[0-9]{1,10})-(?P<start>[0-9]+)\.[0-9a-f]{32}\.draft"
)
_OLDER = re.compile(r"\.(?P<name>.+)\.(?P<process>[0-9]{1,10})\.draft")  # of versions up to 0.2


class _Writer(NamedTuple):
    host: str
    machine: str
    boot: str
    space: str
    process: int
    start: str


def draft_of(path: Path) -> Path:
    """A new name beside a path, for its draft. No two writers get the same."""
    own = _own()
    writer = f"{own.host}.{own.machine}-{own.boot}-{own.space}.{own.process}-{own.start}"
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
        if state == "stray":
            found.append((path, "is not part of this folder", "remove it"))
        elif state == "dead":
            found.append((path, "was left by a write that was killed", "remove it"))
        elif state == "elsewhere" and (age_s := _age_s(path)) > DAY_S:
            days = int(age_s / DAY_S)
            problem = f"was begun {days} day{'s' * (days > 1)} ago by {writer} and never finished"
            found.append((path, problem, "if that process has ended, remove it"))
    return found


State = Literal["living", "dead", "elsewhere", "stray"]


def _drafts_in(folder: Path) -> Iterator[tuple[Path, str, State, str]]:
    """Path, name of the final file, state and writer of each draft. A stray has a draft's ending, and no writer."""
    for entry in sorted(os.listdir(folder)) if folder.is_dir() else ():
        path = folder / entry
        if match := _DRAFT.fullmatch(entry):
            named = match.groupdict(default=_UNKNOWN)
            name, process = named.pop("name"), int(named.pop("process"))
            writer = _Writer(process=process, **named)
            yield path, name, _state(path, writer), f"process {process} on {writer.host}"
        elif match := _OLDER.fullmatch(entry):
            process = int(match["process"])
            yield path, match["name"], _state_of_older(path, process), f"process {process} of an older version"
        elif is_draft(entry):
            yield path, entry, "stray", ""


def _state(path: Path, writer: _Writer) -> State:
    own = _own()
    if _UNKNOWN in (own.boot, own.space, writer.boot):
        return "elsewhere"
    if (writer.host, writer.boot, writer.space) == (own.host, own.boot, own.space):
        start = _start_of(writer.process)
        same = start == writer.start or _UNKNOWN in (start, writer.start)
        return "living" if start is not None and same else "dead"
    # Host names repeat, and images of containers give one machine-id to all of them. Only both together, outside
    # containers, are this computer before its restart. A copy of a virtual machine may still share both: hence the age.
    restarted = (
        (writer.host, writer.machine) == (own.host, own.machine)
        and own.machine != _UNKNOWN
        and writer.space == own.space == _WHOLE_COMPUTER
        and writer.boot != own.boot
    )
    return "dead" if restarted and _age_s(path) > time.clock_gettime(time.CLOCK_BOOTTIME) else "elsewhere"


def _state_of_older(path: Path, process: int) -> State:
    """Its name does not say where its process ran, or when it began. No write takes an hour."""
    age_s = _age_s(path)
    if age_s <= HOUR_S:
        return "living"
    if process == os.getpid() or _start_of(process) is None:
        return "dead"
    return "living" if age_s <= DAY_S else "elsewhere"


def _age_s(path: Path) -> float:
    """Time since anything in a draft was written. A folder's own time stays while files below it grow."""
    try:
        newest_s = path.lstat().st_mtime
        if is_folder(path):
            for folder, folders, files in os.walk(path, onerror=_raise):
                newest_s = max([newest_s, *(os.lstat(os.path.join(folder, name)).st_mtime for name in folders + files)])
    except OSError:  # finished or changed meanwhile, or not ours to read
        return 0.0
    return time.time() - newest_s


def _raise(error: OSError) -> None:
    raise error


def _own() -> _Writer:
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:_HOST_LETTERS] or "unnamed"
    process = os.getpid()
    return _Writer(host, _machine(), _boot(), _process_space(), process, _start_of(process) or _UNKNOWN)


@cache
def _machine() -> str:
    """Twelve letters of this computer, of any start. A hash: the identity itself is not for others' eyes."""
    try:
        identity = Path("/etc/machine-id").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return _UNKNOWN
    if not re.fullmatch("[0-9a-f]{32}", identity):  # empty or "uninitialized" before the first start
        return _UNKNOWN
    return hashlib.sha256(f"egorecovery {identity}".encode()).hexdigest()[:12]


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
        # `unshare --pid` without its own /proc shows the processes of another space, under other numbers.
        if os.readlink("/proc/self") == str(os.getpid()):
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
