"""`egorecovery VERB ...`: picks the verb, shows errors as one message, returns the exit code."""

import difflib
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from io import TextIOWrapper
from typing import Annotated, Any, TextIO, Union, cast

import tyro

from egorecovery import __version__
from egorecovery.cli.annotate import Annotate
from egorecovery.cli.audit import Audit
from egorecovery.cli.bench import Bench
from egorecovery.cli.control import Control
from egorecovery.cli.demo import Demo
from egorecovery.cli.diagnose import Diagnose
from egorecovery.cli.evaluate import Evaluate
from egorecovery.cli.experiment import Experiment
from egorecovery.cli.export import Export
from egorecovery.cli.extras import advice
from egorecovery.cli.import_recordings import Import
from egorecovery.cli.inspect import Inspect
from egorecovery.cli.label import Label
from egorecovery.cli.overview import overview
from egorecovery.cli.pull import Pull
from egorecovery.cli.push import Push
from egorecovery.cli.record import Record
from egorecovery.cli.score import Score
from egorecovery.cli.serve import Serve
from egorecovery.cli.simulate import Simulate
from egorecovery.cli.track import Track
from egorecovery.cli.train import Train
from egorecovery.cli.verify import Verify
from egorecovery.cli.watch import Watch
from egorecovery.cli.words import Wrapping, wrapped
from egorecovery.errors import EgoRecoveryError
from egorecovery.storage.foreign_text import inert

VERBS = {
    "demo": Demo,
    "simulate": Simulate,
    "record": Record,
    "track": Track,
    "import": Import,
    "annotate": Annotate,
    "label": Label,
    "train": Train,
    "evaluate": Evaluate,
    "experiment": Experiment,
    "diagnose": Diagnose,
    "score": Score,
    "watch": Watch,
    "serve": Serve,
    "control": Control,
    "export": Export,
    "push": Push,
    "pull": Pull,
    "audit": Audit,
    "inspect": Inspect,
    "verify": Verify,
    "bench": Bench,
}
GO_ON = ("demo", "simulate", "import", "label", "train", "evaluate", "experiment", "push", "pull")
SEVERAL = (
    "--active", "--allow-host", "--camera", "--film-starts", "--gripper-range", "--keys", "--limit", "--merge",
    "--only", "--run", "--seeds", "--set", "--tasks",
)  # fmt: skip
USAGE = 2  # the input cannot be worked with; 1 means that the job itself found something wrong
EXPORTS = ("lerobot", "onnx")
INTERRUPTED = 130
DESCRIPTION = "Teach a bimanual robot to recover from failure with cheap egocentric human clips."


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal of few letters shows what it lacks as numbers
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return parse(arguments).run()
    except ModuleNotFoundError as error:
        words = advice(error)
        if words is None:
            raise
        _complain(f"egorecovery {' '.join(arguments[:1])}: {words}")
        return USAGE
    except EgoRecoveryError as error:
        _complain(f"egorecovery: {inert(str(error))}")
        return USAGE
    except OSError as error:  # permissions, missing files, a full disk
        if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        _complain(f"egorecovery: {inert(str(error))}")
        return USAGE
    except KeyboardInterrupt:
        print(f"\negorecovery: {_after_interrupt(arguments)}", file=sys.stderr)
        return INTERRUPTED


def _complain(message: str) -> None:
    print(wrapped(message, sys.stderr), file=sys.stderr)


def _after_interrupt(arguments: list[str]) -> str:
    verb = arguments[0] if arguments else ""
    if verb == "record":
        return "stopped; clips that were accepted stay: run the same command again to record more"
    if verb in GO_ON:
        return "stopped; what was done stays: run the same command again to go on"
    return "stopped; run the same command again to start over"


def parse(arguments: list[str]) -> Any:
    """The chosen verb with its options."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview(DESCRIPTION))
        raise SystemExit(0 if arguments else USAGE)
    if arguments[:1] == ["--version"]:
        print(__version__)
        raise SystemExit(0)
    if arguments and not arguments[0].startswith("-") and arguments[0] not in VERBS:
        near = difflib.get_close_matches(arguments[0], VERBS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"one of {', '.join(VERBS)} was expected"
        raise EgoRecoveryError(f"there is no verb '{arguments[0]}'; {hint}")
    if arguments[0] == "export" and len(arguments) > 1 and arguments[1] not in (*EXPORTS, "-h", "--help"):
        kinds = " or ".join(f"'egorecovery export {kind} ...'" for kind in EXPORTS)
        raise EgoRecoveryError(f"export as what? {kinds}")
    if arguments[:2] == ["export", "lerobot"] and "--out" in arguments:
        raise EgoRecoveryError("the new folder is named without --out: egorecovery export lerobot STORE FOLDER")
    verbs: Any = Union[tuple(Annotated[verb, tyro.conf.subcommand(name)] for name, verb in VERBS.items())]  # noqa: UP007 - built at run time
    helped = {"-h", "--help"} & set(arguments) and sys.stdout.isatty()
    with redirect_stdout(cast(TextIO, Wrapping(sys.stdout))) if helped else nullcontext():
        return tyro.cli(
            verbs,
            prog="egorecovery",
            description=DESCRIPTION,
            args=_gathered(arguments),
            config=(tyro.conf.FlagCreatePairsOff,),
        )


def _gathered(arguments: list[str]) -> list[str]:
    """`--set a 1 --set b 2` as `--set a 1 b 2`: of an option with several values that is given twice, both count."""
    values: dict[str, list[str]] = {}
    kept: list[str] = []
    option = ""
    for word in arguments:
        if word.startswith("--"):
            option = word if word in SEVERAL and arguments.count(word) > 1 else ""
            if not option or option not in values:
                kept.append(word)
            values.setdefault(option, [])
        elif option:
            values[option].append(word)
        else:
            kept.append(word)
    return [part for word in kept for part in (word, *(values.get(word, []) if word in SEVERAL else []))]
