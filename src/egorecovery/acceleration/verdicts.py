"""On which kinds of GPU the accelerated path has been found right: checked once, remembered in the user's cache."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from egorecovery.acceleration.kernels.dispatch import triton
from egorecovery.errors import EgoRecoveryError
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.bounded_json import BadJson, parse_json
from egorecovery.storage.checksummed_json import digest
from egorecovery.storage.typed_json import from_json, to_json

Say = Callable[[str], None]
TIMEOUT_S = 600  # of a check: kernels are compiled first, which takes longer than the check itself
LARGEST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Verdict:
    passed: bool
    words: str  # the largest errors found, or what went wrong


def passes_parity_check(device: torch.device, precision: torch.dtype, say: Say, check: Any = None) -> bool:
    """The remembered verdict on this kind of GPU, or a new one."""
    kind = kind_of_gpu(device, precision)
    name = f"{kind['gpu']}, {kind['precision']}"
    file = cache_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with _locked(file):
            known = _read(file)
            verdict = _verdict_in(known.get(digest(kind)))
            if verdict is None:
                verdict = _checked(name, device, precision, say, check)
                if verdict is not None:
                    record = {"kind": kind, **to_json(verdict)}
                    write_file(file, (json.dumps(known | {digest(kind): record}, indent=1) + "\n").encode())
    except OSError as error:
        say(f"the verdict of the parity check cannot be kept in {file} ({error})")
        verdict = _checked(name, device, precision, say, check)
    if verdict is None:
        return False
    if not verdict.passed:
        say(
            f"acceleration is off on {name}: the parity check failed ({verdict.words}); plain torch computes. "
            f"The verdict is in {file}: remove it to check again"
        )
    return verdict.passed


def kind_of_gpu(device: torch.device, precision: torch.dtype) -> dict[str, str]:
    """Everything that decides which code runs; a verdict holds for one such kind."""
    major, minor = torch.cuda.get_device_capability(device)
    return {
        "gpu": torch.cuda.get_device_name(device),
        "compute_capability": f"{major}.{minor}",
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "triton": str(getattr(triton, "__version__", None)),
        "precision": str(precision).removeprefix("torch."),
        "acceleration": sources_hash(),
    }


def sources_hash() -> str:
    """Of this package: a changed kernel is checked again."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for source in sorted(folder.rglob("*.py")):
        digest.update(f"{source.relative_to(folder)}\0".encode() + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_file() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "egorecovery", "acceleration.json")


def _checked(name: str, device: torch.device, precision: torch.dtype, say: Say, check: Any) -> Verdict | None:
    say(f"first use on {name}: checking accelerated kernels against plain torch; the verdict is kept")
    try:
        verdict = (check or check_in_a_process)(device, precision)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        say(f"acceleration is off on {name}: the parity check could not be done ({error}); plain torch computes")
        return None
    if verdict.passed:
        say(f"acceleration is on: the parity check passed on {name} ({verdict.words})")
    return verdict


def check_in_a_process(device: torch.device, precision: torch.dtype) -> Verdict:
    """In a process of its own: a kernel that faults takes its whole CUDA context with it."""
    precision_name = str(precision).removeprefix("torch.")
    command = [sys.executable, "-m", "egorecovery.acceleration.parity", str(device), precision_name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ValueError(lines[-1][:300])
    verdict = _verdict_in(_parsed(done.stdout.strip().splitlines()[-1].encode() if done.stdout.strip() else b""))
    if verdict is None:
        raise ValueError("the check gave no verdict")
    return verdict


def _parsed(payload: bytes) -> Any:
    try:
        return parse_json(payload)
    except BadJson:
        return None


def _verdict_in(record: Any) -> Verdict | None:
    try:
        known = {name: record[name] for name in ("passed", "words")}  # beside them is the kind of GPU
        return from_json(Verdict, known, "verdict", EgoRecoveryError)
    except (EgoRecoveryError, LookupError, TypeError):
        return None


def _read(file: Path) -> dict[str, Any]:
    """A cache that cannot be read is an empty one."""
    if not file.is_file() or file.stat().st_size > LARGEST_BYTES:
        return {}
    known = _parsed(file.read_bytes())
    return known if isinstance(known, dict) else {}


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Processes that start together check once: the others wait for the first one's verdict."""
    with file.with_suffix(".lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
