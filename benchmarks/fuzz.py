"""Feeds every reader changed files for as long as wanted, and counts what is no typed error.

python benchmarks/fuzz.py [--readers store run ...] [--seconds 300] [--engine atheris] [--seed 1] [--json PATH]

Each input is a whole small example with one file changed, in half of them with all checksums put right again, as a
stranger could. `--engine atheris` is guided by coverage (`pip install atheris`); `plain` draws at random and needs
nothing. A finding is an exception that is no `EgoRecoveryError`, an input that takes longer than `--longest-s`, more
than `--memory-mb` of memory, a file outside the example that changed, or the end of the process. Its input is kept
under `--findings`.
"""

import contextlib
import faulthandler
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

Engine = Literal["plain", "atheris"]


def instrumented() -> contextlib.AbstractContextManager[None]:
    """What is imported in it tells a coverage-guided engine which way an input went."""
    if not {"--worker", "atheris"} <= set(sys.argv):
        return contextlib.nullcontext()
    import atheris

    return atheris.instrument_imports(include=["egorecovery"])


with instrumented():
    from egorecovery.errors import EgoRecoveryError
    from fuzzed_readers import READERS, Reader
    from mutations import RandomChooser, mutated, resealed, restore, snapshot


@dataclass(frozen=True, kw_only=True)
class Options:
    readers: tuple[str, ...] = tuple(READERS)
    seconds: float = 300.0
    """For each reader."""
    engine: Engine = "plain"
    seed: int = 1
    longest_s: int = 20
    """More than this for one input is a hang."""
    memory_mb: int = 4096
    findings: Path = Path("fuzz_findings")
    json: Path | None = None
    """Also write the counts there, one line per reader, appended."""
    worker: bool = False
    """Fuzz the one reader here, instead of in a process of its own."""


class Provided:
    """Choices of a coverage-guided fuzzer."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    def whole(self, most: int) -> int:
        return self._provider.ConsumeIntInRange(0, most)

    def some_bytes(self, most: int) -> bytes:
        return self._provider.ConsumeBytes(most)


class Hang(BaseException):
    """Not an Exception, so that no reader takes it for damage."""


def _ring(*_: object) -> None:
    raise Hang


class Target:
    """One reader with its example; counts inputs and findings."""

    def __init__(self, name: str, options: Options) -> None:
        self.name, self._options = name, options
        self._reader: Reader = READERS[name]
        fast = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
        self._home = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-", dir=fast if fast.is_dir() else None))
        self._root, self._outside = self._home / "example", self._home / "outside"
        self._root.mkdir()
        self._outside.mkdir()
        (self._outside / "thesis.txt").write_text("years of work")
        self._reader.make(self._root)
        self._before = snapshot(self._root)
        self._reader.read(self._root)
        restore(self._root, self._before)
        self._files = [path for path in self._before if path.name.endswith(self._reader.only)]
        self.inputs, self.kinds = 0, Counter[str]()
        self.started_s, self._began_s = time.monotonic(), time.process_time()
        signal.signal(signal.SIGALRM, _ring)

    def one(self, choose: Any) -> None:
        self.inputs += 1
        path = self._files[choose.whole(len(self._files) - 1)]
        payload = mutated(self._before[path], choose, path.suffix in (".json", ".jsonl"))
        signal.alarm(self._options.longest_s)
        try:
            path.write_bytes(payload)
            if choose.whole(1):
                resealed(self._root)
            (self._home / "last").write_text(str(path.relative_to(self._root)))
            self._reader.read(self._root)
        except EgoRecoveryError:
            pass
        except Hang:
            self._found("hang", path, f"{self._options.longest_s} s")
        except Exception as error:
            self._found(_place(error), path, traceback.format_exc())
        finally:
            signal.alarm(0)
            restore(self._root, self._before)
        if [entry.name for entry in self._outside.iterdir()] != ["thesis.txt"]:
            self._found("outside", path, "a file outside was touched")

    def over(self) -> bool:
        return time.monotonic() - self.started_s > self._options.seconds

    def _found(self, kind: str, path: Path, words: str) -> None:
        self.kinds[kind] += 1
        if self.kinds[kind] == 1:
            home = self._options.findings / self.name / f"{len(self.kinds):03d}"
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(self._root, home / "example", symlinks=True)
            (home / "why.txt").write_text(f"{path.relative_to(self._root)}\n{words}\n")
            print(f"{self.name}: {kind}: {home}", flush=True)

    def report(self) -> None:
        seconds = time.monotonic() - self.started_s
        record = {
            "reader": self.name,
            "engine": self._options.engine,
            "inputs": self.inputs,
            "seconds": round(seconds, 1),
            "processor_seconds": round(time.process_time() - self._began_s, 1),
            "findings": len(self.kinds),
            "kinds": dict(self.kinds),
        }
        print(f"{self.name}: {self.inputs} inputs in {seconds:.0f} s, {len(self.kinds)} findings", flush=True)
        if self._options.json:
            with self._options.json.open("a") as stream:
                stream.write(json.dumps(record) + "\n")
        shutil.rmtree(self._home, ignore_errors=True)


def _place(error: Exception) -> str:
    """One finding per kind of error and line of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "egorecovery" in frame.filename] or frames[-1:]
    return f"{type(error).__name__} {Path(ours[-1].filename).name}:{ours[-1].lineno}"


def fuzz_here(options: Options) -> None:
    import resource

    warnings.simplefilter("ignore")
    faulthandler.enable()
    [name] = options.readers
    with instrumented():  # most readers are imported where they are first used
        target = Target(name, options)
    if options.engine == "plain":
        size = options.memory_mb << 20
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        choose = RandomChooser(random.Random(options.seed))  # noqa: S311 - inputs to repeat, no secret
        while not target.over():
            target.one(choose)
        target.report()
        return
    import atheris

    def test(payload: bytes) -> None:
        target.one(Provided(atheris.FuzzedDataProvider(payload)))
        if target.over():
            target.report()
            sys.stdout.flush()
            os._exit(0)

    arguments = [sys.argv[0], f"-seed={options.seed}", "-max_len=4096", "-len_control=0", "-handle_alrm=0"]
    atheris.Setup([*arguments, f"-rss_limit_mb={options.memory_mb}", "-verbosity=0"], test)
    atheris.Fuzz()


def main(options: Options) -> None:
    if options.worker:
        fuzz_here(options)
        return
    lost = []
    for name in options.readers:
        asked = [sys.executable, __file__, "--worker", "--readers", name, "--engine", options.engine]
        asked += ["--seconds", str(options.seconds), "--seed", str(options.seed), "--findings", str(options.findings)]
        asked += ["--longest-s", str(options.longest_s), "--memory-mb", str(options.memory_mb)]
        asked += ["--json", str(options.json)] if options.json else []
        done = subprocess.run(asked, check=False)
        if done.returncode:
            lost.append(f"{name} (exit code {done.returncode})")
    if lost:
        sys.exit(f"ended before its time, which is a finding of its own: {', '.join(lost)}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(tyro.cli(Options))
