"""The whole attack on files of strangers, on damage and on kills, repeated by count. All five counts must be 0.

python benchmarks/attack.py [--scale 1.0] [--rows damage kills ...] [--seed 1] [--json PATH]

Builds a small store, run, experiment, recording and data sets, and does to them what an attacker, a bad disk or a lost
machine does. Counted are: files touched *outside* of what was opened; damaged bytes that were used or passed over
*silently*; *untyped* errors; *hangs*; *leaks* of a reader's own file or of a script into what is written or printed.
"""

import contextlib
import io
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from attacks import (  # noqa: E402 - after the path of the examples
    change_attributes,
    fifo,
    listing,
    make_labelled_store,
    replace_by_link,
    reseal,
    reseal_episode,
    victim,
)
from egorecovery.cli.main import main as egorecovery  # noqa: E402
from egorecovery.episodes import EpisodeStore  # noqa: E402
from egorecovery.errors import EgoRecoveryError  # noqa: E402
from egorecovery.experiments import ExperimentFolder, merge  # noqa: E402
from egorecovery.experiments.damage import experiment_damages  # noqa: E402
from egorecovery.intent import LabelStore, label_store  # noqa: E402
from egorecovery.intent.store_damage import store_damages  # noqa: E402
from egorecovery.policy.inference import load_action_source  # noqa: E402
from egorecovery.recovery import Annotation, AnnotationJournal  # noqa: E402
from egorecovery.report import write_report  # noqa: E402
from egorecovery.training.run_manifest import run_damages, unseal_run  # noqa: E402
from fuzzed_readers import READERS  # noqa: E402
from killed_writer import _die_before  # noqa: E402
from mutations import RandomChooser, mutated, resealed, restore, snapshot  # noqa: E402
from tiny_episodes import FRAMES, tiny_episode  # noqa: E402
from tiny_experiment import SUITE  # noqa: E402

KINDS = ("outside", "silent", "untyped", "hangs", "leaks")
SECRET, SCRIPT = b"the reader's own secret", "<script>alert(1)</script>"
LONGEST_S = 120


@dataclass(frozen=True, kw_only=True)
class Options:
    rows: tuple[str, ...] = ()
    """Some of the rows by name; all where none is named."""
    scale: float = 1.0
    """More or fewer of each random attack."""
    seed: int = 1
    json: Path | None = None


class Hang(BaseException):
    """Not an Exception, so that no reader takes it for damage."""


@dataclass
class Battlefield:
    """Whole examples, a folder of the reader's own beside them, and the counts."""

    home: Path
    rng: random.Random
    tried: Counter[str] = field(default_factory=Counter)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    row: str = ""

    def __post_init__(self) -> None:
        self.mine = victim(self.home / "mine")
        (self.mine / "secret.mp4").write_bytes(SECRET)
        (self.mine / "secret.json").write_bytes(b'{"secret": "' + SECRET + b'"}')
        self._mine = listing(self.mine)

    def example(self, name: str, make: Callable[[Path], object]) -> Path:
        root = self.home / name
        if not root.exists():
            root.mkdir()
            make(root)
        return root

    @contextmanager
    def attack(self, what: str) -> Iterator[None]:
        """One try. A typed refusal is as good as a value."""
        self.tried[self.row] += 1
        said, errors = io.StringIO(), io.StringIO()
        signal.alarm(LONGEST_S)
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
                yield
        except EgoRecoveryError:
            pass
        except Hang:
            self.note("hangs", what)
        except Exception:
            self.note("untyped", f"{what}\n{traceback.format_exc()}")
        finally:
            signal.alarm(0)
        if SECRET.decode() in said.getvalue() + errors.getvalue():
            self.note("leaks", what)
        if "Traceback" in errors.getvalue():
            self.note("untyped", f"{what}\n{errors.getvalue()}")
        if listing(self.mine) != self._mine:
            self.note("outside", what)
            shutil.rmtree(self.mine)
            self.__post_init__()

    def note(self, kind: str, what: str) -> None:
        self.counts.setdefault(self.row, Counter())[kind] += 1
        print(f"{self.row}: {kind}: {what}", file=sys.__stdout__, flush=True)

    def require_no_leak(self, folder: Path, what: str) -> None:
        """Of what lies there itself: a link that an attacker left in his own folder is none of it."""
        for path in folder.rglob("*") if folder.exists() else ():
            if path.is_symlink() or not path.is_file():
                continue
            payload = path.read_bytes()
            prose = b"".join(payload.split(b"```")[::2]) if path.suffix == ".md" else payload  # code is shown as it is
            if SECRET in payload or (path.suffix in (".html", ".md") and SCRIPT.encode() in prose):
                self.note("leaks", f"{what}: {path.relative_to(folder)}")


def store_of(field: Battlefield) -> Path:
    return field.example("stores", lambda root: make_labelled_store(root / "store")) / "store"


def spoiled(payload: bytes, rng: random.Random) -> tuple[str, bytes]:
    """One byte flipped, the end cut off, or a stretch zeroed."""
    at = rng.randrange(len(payload)) if payload else 0
    kind = rng.choice(["flipped", "cut", "zeroed"])
    if kind == "cut":
        return f"cut at {at}", payload[:at]
    changed = bytearray(payload)
    if kind == "flipped":
        changed[at] ^= rng.randint(1, 255)
    else:
        changed[at : at + 300] = bytes(len(changed[at : at + 300]))
    return f"{kind} at {at}", bytes(changed)


def damage(field: Battlefield, times: int) -> None:
    """Bytes flipped, cut and zeroed: found by `verify`, and not used by label, evaluate, train on or merge."""
    store, run = store_of(field), field.example("runs", READERS["run"].make) / "run"
    experiment = field.example("experiments", READERS["experiment"].make) / "experiment"
    labels = listing(store / "labels")
    merge([experiment], field.home / "whole", SUITE.name)
    whole = listing(field.home / "whole")
    files = {
        root: [path for path in snapshot(root) if path.name != ".checked.json" and path.stat().st_size]
        for root in (store, run, experiment)
    }
    for number in range(times):
        root = (store, run, experiment)[number % 3]
        path = field.rng.choice(files[root])
        before = path.read_bytes()
        how, payload = spoiled(before, field.rng)
        if payload == before:
            continue
        what = f"{path.relative_to(field.home)} {how}"
        everything = snapshot(root)
        path.write_bytes(payload)
        with field.attack(what):
            if root == store:
                _damaged_store(field, store, labels, what, is_label="labels" in path.parts)
            elif root == run:
                _damaged_run(field, run, path.name, what)
            else:
                _damaged_experiment(field, experiment, whole, what)
        restore(root, everything | {path: before})


def _damaged_store(field: Battlefield, store: Path, labels: dict[str, bytes], what: str, *, is_label: bool) -> None:
    if egorecovery(["verify", str(store)]) == 0:
        field.note("silent", f"{what}: not found by verify")
    if not is_label:
        shutil.rmtree(store / "labels")
    code = egorecovery(["label", str(store)])
    derived = listing(store / "labels") if (store / "labels").exists() else {}
    if derived != labels and (code == 0 or not derived.items() <= labels.items()):
        field.note("silent", f"{what}: labels derived from it")


def _damaged_run(field: Battlefield, run: Path, name: str, what: str) -> None:
    if not run_damages(run):
        field.note("silent", f"{what}: not found by verify")
    refused = 0
    for use in (lambda: load_action_source(run, "cpu"), lambda: unseal_run(run)):
        try:
            use()
        except EgoRecoveryError:
            refused += 1
    used = ("policy.safetensors", "checkpoint.json", "recipe.json", "log.jsonl", "manifest.json")
    if name in used and not refused:
        field.note("silent", f"{what}: used")


def _damaged_experiment(field: Battlefield, experiment: Path, whole: dict[str, bytes], what: str) -> None:
    found = bool(experiment_damages(experiment))
    try:
        ExperimentFolder(experiment).require_current()
        merge([experiment], field.home / "out", SUITE.name)
        if listing(field.home / "out") != whole:
            field.note("silent", f"{what}: merged")
    except EgoRecoveryError:
        found = True
    finally:
        shutil.rmtree(field.home / "out", ignore_errors=True)
    if not found:
        field.note("silent", f"{what}: not found by verify")


def kills(field: Battlefield, times: int) -> None:
    """SIGKILL before a change of a file, then the same work again: nothing lost, doubled or different."""
    experiment = field.example("experiments", READERS["experiment"].make) / "experiment"
    works: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
        "write, annotate, label": (_write_annotate_label, _what_a_store_says),
        "merge": (lambda root: merge([experiment], root, SUITE.name) and None, listing_without_locks),
    }
    for name, (work, says) in works.items():
        _killed(field, name, work, says, times)


def _killed(
    field: Battlefield, name: str, work: Callable[[Path], None], says: Callable[[Path], object], times: int
) -> None:
    whole = field.home / "unbroken"
    changes = _changes_of(work, whole)
    wanted = says(whole)
    for fatal in sorted({1 + number * changes // times for number in range(times)}):
        root = field.home / f"killed-{fatal}"
        with field.attack(f"{name}, killed before change {fatal} of {changes}"):
            if _in_child(work, root, fatal) != -signal.SIGKILL:
                field.note("untyped", f"{name}: was not killed before change {fatal}")
            work(root)
            if says(root) != wanted:
                field.note("silent", f"{name}, killed before change {fatal}: another outcome")
        shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(whole)


def _write_annotate_label(root: Path) -> None:
    """Goes on from wherever an earlier try got to."""
    store = EpisodeStore.create(root)
    with store.writing() as writer:
        for name in ("one", "two"):
            writer.add(tiny_episode(name, cameras=1))
    journal = AnnotationJournal(store.annotations_path)
    for name in sorted({"one", "two"} - journal.latest().keys()):
        journal.save(Annotation(episode=name, boundary=12, annotator="ada"), n_frames=FRAMES, seen_revision=0)
    label_store(store)


def _what_a_store_says(root: Path) -> object:
    store = EpisodeStore(root)
    contents = {name: store.card(name).content for name in store.ids()}
    attempts = sorted((attempt.episode, attempt.accepted) for attempt in store.collection.attempts())
    annotations = {name: vars(one) for name, one in AnnotationJournal(store.annotations_path).latest().items()}
    clean = egorecovery(["verify", str(root)])
    return contents, attempts, annotations, LabelStore(store.labels_path).episodes(), clean


def listing_without_locks(root: Path) -> dict[str, bytes]:
    return {name: payload for name, payload in listing(root).items() if not name.endswith("writer.lock")}


def _changes_of(work: Callable[[Path], None], root: Path) -> int:
    """How many changes of files the work makes, by trying where nothing is left to kill."""
    least, most = 0, 1
    while _in_child(work, root, most) < 0:
        shutil.rmtree(root, ignore_errors=True)
        least, most = most, 2 * most
    while most - least > 1:
        shutil.rmtree(root, ignore_errors=True)
        middle = (least + most) // 2
        least, most = (middle, most) if _in_child(work, root, middle) < 0 else (least, middle)
    shutil.rmtree(root, ignore_errors=True)
    work(root)
    return least


def _in_child(work: Callable[[Path], None], root: Path, fatal: int) -> int:
    """Its exit code, or the negative number of the signal that ended it."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            _die_before(fatal, root)
            work(root)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


SIMULATE = ["simulate", "--task", "cube_stack", "--source", "robot_success", "--image-size", "32", "--workers", "2"]


def orphans(field: Battlefield, times: int) -> None:
    """`simulate` killed with its workers at work: they end, and the next one goes on."""
    for number, how in zip(range(times), [signal.SIGKILL, signal.SIGTERM] * times, strict=False):
        out = field.home / f"simulated-{number}"
        with field.attack(f"simulate killed by {how.name}"):
            parent = subprocess.Popen(
                [sys.executable, "-m", "egorecovery", *SIMULATE, "--episodes", "40", "--out", str(out)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            signal.alarm(0)  # on a busy machine the first episode takes its time
            give_up_s = time.monotonic() + 600
            while not listing_of(out / "episodes") and time.monotonic() < give_up_s and parent.poll() is None:
                time.sleep(0.1)
            workers = _children(parent.pid)
            parent.send_signal(how)
            parent.wait()
            give_up_s = time.monotonic() + 60
            while (left := [pid for pid in workers if _runs(pid)]) and time.monotonic() < give_up_s:
                time.sleep(0.1)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
                field.note("hangs", f"worker {pid} outlived its parent ({how.name})")
            if not workers:
                field.note("untyped", "no worker was seen: nothing was tried")
            with EpisodeStore(out).writing():  # the next writer clears what the dead one left
                pass
            left_over = store_damages(EpisodeStore(out))
            if any("next append clears it" not in str(one) for one in left_over):
                field.note("silent", f"damage after {how.name}: {'; '.join(map(str, left_over))}")
        shutil.rmtree(out, ignore_errors=True)


def listing_of(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def _children(pid: int) -> list[int]:
    direct = [int(text) for path in Path(f"/proc/{pid}/task").glob("*/children") for text in path.read_text().split()]
    return direct + [child for one in direct for child in _children(one)]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _random(field: Battlefield, reader: str, times: int, use: Callable[[Path, str], None]) -> None:
    """Files with one change in them and all checksums valid again, in half of the tries."""
    root = field.example(f"{reader}s-random", READERS[reader].make)
    before, choose = snapshot(root), RandomChooser(field.rng)
    files = list(before)
    for number in range(times):
        path = field.rng.choice(files)
        path.write_bytes(mutated(before[path], choose, path.suffix in (".json", ".jsonl")))
        if field.rng.random() < 0.7:
            resealed(root)
        what = f"{path.relative_to(root)}, change {number}"
        with field.attack(what):
            use(root, what)
        restore(root, before)


def _links(field: Battlefield, root: Path, use: Callable[[Path, str], None], *, at_most: int) -> None:
    """Pipes, devices, and links to the reader's own files in place of each file and folder."""
    before = snapshot(root)
    named = {root / name for name in ("store", "run", "experiment")}  # by the reader, who may name a link
    places = sorted(
        {*before, *(parent for path in before for parent in path.parents if root in parent.parents)} - named
    )
    targets = [fifo, *(_link_to(target) for target in (Path("/dev/zero"), field.mine, field.mine / "secret.mp4"))]
    tries = [(place, spoil) for place in places for spoil in targets]
    for place, spoil in field.rng.sample(tries, min(at_most, len(tries))):
        if place.is_dir():
            shutil.rmtree(place)
        spoil(place)
        what = f"{place.relative_to(root)} is a link, a pipe or a device"
        with field.attack(what):
            use(root, what)
        _remove(place)
        restore(root, before)


def _link_to(target: Path) -> Callable[[Path], None]:
    return lambda path: replace_by_link(path, target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def recordings(field: Battlefield, times: int) -> None:
    """Recordings and data sets of other projects: refused, or imported without anything from elsewhere."""

    def imported(root: Path, what: str) -> None:
        out = field.home / "imported"
        try:
            egorecovery(["import", str(root), "--out", str(out)])
            field.require_no_leak(out, what)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    _links(field, field.example("recordings", READERS["recording"].make), imported, at_most=times // 3)
    for reader in ("recording", "hands", "masks", "lerobot", "aloha", "egoverse"):
        _random(field, reader, times // 9, lambda root, what, reader=reader: READERS[reader].read(root))


def stores(field: Battlefield, times: int) -> None:
    """Stores of strangers with valid checksums: every verb on them, and a writer."""
    before_drafts = store_of(field)

    def used(root: Path, what: str) -> None:
        store = root / "store"
        for verb in (["verify"], ["inspect"], ["label"], ["annotate", "--annotator", "ada", "--confirm-candidates"]):
            egorecovery([verb[0], str(store), *verb[1:]])
        READERS["store"].read(root)
        with EpisodeStore(store).writing():
            pass
        field.require_no_leak(store, what)

    root = before_drafts.parent
    before = snapshot(root)
    episode = before_drafts / "episodes" / "one"

    def id_of(text: str) -> Callable[[], None]:
        return lambda: change_attributes(episode, lambda facts: facts.update(id=text))

    def files_of(value: object) -> Callable[[], None]:
        return lambda: reseal(episode / "manifest.json", lambda record: record.update(files=value))

    written = [
        lambda: replace_by_link(before_drafts / ".drafts", field.mine),
        lambda: replace_by_link(before_drafts / "labels", field.mine / "inner"),
        *(id_of(text) for text in (str(field.mine / "inner" / "one"), "../../../mine/inner/one", "two", "", ".")),
        *(files_of(value) for value in ([], 7, {"../../x": "0" * 64}, {"/etc/passwd": "0" * 64}, {"a": None})),
        lambda: (shutil.copytree(episode, episode.with_name("copy")), reseal_episode(episode.with_name("copy"))),
    ]
    for number, spoil in enumerate(written):
        spoil()
        with field.attack(f"written by hand, {number}"):
            used(root, f"written by hand, {number}")
        for name in (".drafts", "labels", "episodes"):
            _remove(before_drafts / name)
        restore(root, before)
        (before_drafts / ".drafts").mkdir(exist_ok=True)
    _links(field, field.example("stores-linked", READERS["store"].make), used, at_most=times // 2)
    _random(field, "store", times // 2, used)


def checkpoints(field: Battlefield, times: int) -> None:
    """Runs and checkpoints with valid checksums: loaded to act, to go on, and verified."""

    def used(root: Path, what: str) -> None:
        READERS["run"].read(root)

    _links(field, field.example("runs-linked", READERS["run"].make), used, at_most=times // 3)
    _random(field, "run", times, used)


def merges(field: Battlefield, times: int) -> None:
    """Results of strangers: merged and reported, without the reader's files and without anything that runs."""

    def used(root: Path, what: str) -> None:
        home, out = root / "experiment", field.home / "merged"
        try:
            egorecovery(["verify", str(home)])
            for step in (lambda: merge([home], out, SUITE.name), lambda: write_report(home), lambda: write_report(out)):
                with contextlib.suppress(EgoRecoveryError):
                    step()
            field.require_no_leak(out, what)
            field.require_no_leak(home, what)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    root = field.example("experiments-scripted", READERS["experiment"].make)
    before = snapshot(root)
    cells = sorted((root / "experiment" / "cells").iterdir())
    scripted: list[Callable[[dict[str, Any]], object]] = [
        lambda card: card["training"].update(steps=SCRIPT),
        lambda card: card["hardware"].update(device=SCRIPT),
        lambda card: card.update(method=SCRIPT, task=SCRIPT),
        lambda card: card.update(revision=f"a\n```\n{SCRIPT}"),
        lambda card: card["evaluation"].update(versions={SCRIPT: SCRIPT}),
        lambda card: card.update(variant=SCRIPT),
    ]
    for number, change in enumerate(scripted):
        for card in (cell / "cell.json" for cell in cells):
            if card.is_file():
                reseal(card, lambda record: record.pop("files", None))
                reseal(card, change)
        with field.attack(f"script, {number}"):
            used(root, f"script, {number}")
        restore(root, before)
    _links(field, field.example("experiments-linked", READERS["experiment"].make), used, at_most=times // 2)
    _random(field, "experiment", times // 2, used)


def fuzzing(field: Battlefield, times: int) -> None:
    """Some inputs for every reader; `benchmarks/fuzz.py` does it for as long as wanted."""
    for name in READERS:
        _random(
            field,
            name,
            times // (12 if READERS[name].slow else 3),
            lambda root, what, name=name: READERS[name].read(root),
        )


def environments(field: Battlefield, times: int) -> None:
    """Odd surroundings: an answer and an exit code, and no traceback."""
    store = store_of(field)
    odd = field.home / "odd \n[name]\x1b[31m\udcff"
    shutil.copytree(store, odd, symlinks=True)
    usual = [["verify"], ["label"], ["inspect"]]
    surroundings: list[tuple[str, dict[str, str | None], str]] = [
        ("no HOME", {"HOME": None}, ""),
        ("HOME that is not there", {"HOME": "/nowhere"}, ""),
        ("TMPDIR that is not there", {"TMPDIR": "/nowhere"}, ""),
        ("ASCII", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}, ""),
        ("no terminal type", {"TERM": None, "COLUMNS": "0"}, ""),
        ("a full disk", {}, "ulimit -f 0; "),
        ("few open files", {}, "ulimit -n 40; "),
        ("nobody may read what is written", {}, "umask 777; "),
        ("working folder that is gone", {}, "mkdir gone; cd gone; rmdir ../gone; "),
        ("output that nobody reads", {}, "exec >/dev/full; "),
        ("no output", {}, "exec >&-; "),
    ]
    folders = [store, odd]
    for where in folders:
        for name, changes, before in surroundings:
            for verb in usual[: max(1, times)]:
                environment = {key: value for key, value in {**os.environ, **changes}.items() if value is not None}
                words = [sys.executable, "-m", "egorecovery", *verb, os.fspath(where)]
                with field.attack(f"{name}: {verb[0]}"):
                    signal.alarm(0)
                    done = subprocess.run(
                        ["/bin/bash", "-c", before + 'exec "$@"', "bash", *words],
                        env=environment,
                        cwd=field.home,
                        capture_output=True,
                        timeout=600,
                        check=False,
                    )
                    if b"Traceback" in done.stderr or done.returncode < 0:
                        field.note("untyped", f"{name}: {verb[0]}: {done.returncode} {done.stderr[-800:]!r}")


ROWS: dict[str, tuple[str, Callable[[Battlefield, int], None], int]] = {
    "damage": ("bytes flipped, cut, zeroed", damage, 318),
    "kills": ("SIGKILL before a change of a file, then on", kills, 80),
    "orphans": ("`simulate` killed with its workers", orphans, 4),
    "recordings": ("hostile recordings, other projects' data", recordings, 142),
    "stores": ("resealed and linked stores", stores, 99),
    "checkpoints": ("hostile runs and checkpoints", checkpoints, 83),
    "merges": ("hostile folders to merge and report", merges, 108),
    "fuzzing": ("every reader, random changes", fuzzing, 300),
    "environments": ("odd environments, three verbs, two names", environments, 3),
}


def main(options: Options) -> None:
    warnings.simplefilter("ignore")

    def ring(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, ring)
    with tempfile.TemporaryDirectory() as folder:
        field_ = Battlefield(Path(folder), random.Random(options.seed))  # noqa: S311 - to repeat, no secret
        for name in options.rows or tuple(ROWS):
            words, attack, times = ROWS[name]
            field_.row, started_s = name, time.monotonic()
            attack(field_, max(1, round(times * options.scale)))
            counted = field_.counts.get(name, Counter())
            record = {"row": name, "attack": words, "tried": field_.tried[name], **{k: counted[k] for k in KINDS}}
            print(record | {"seconds": round(time.monotonic() - started_s)}, flush=True)
            if options.json:
                with options.json.open("a") as stream:
                    stream.write(json.dumps(record) + "\n")
        if any(field_.counts.values()):
            sys.exit("not all counts are 0")


if __name__ == "__main__":
    main(tyro.cli(Options))
