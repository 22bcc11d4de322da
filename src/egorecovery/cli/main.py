"""`egorecovery VERB ...`: picks the verb, shows errors as one message, returns the exit code."""

import difflib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

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
from egorecovery.cli.export_lerobot import ExportLerobot
from egorecovery.cli.export_onnx import ExportOnnx
from egorecovery.cli.extras import advice
from egorecovery.cli.help_page import help_page
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
from egorecovery.cli.system_errors import words_of
from egorecovery.cli.track import Track
from egorecovery.cli.train import Train
from egorecovery.cli.usage import check_words, gathered, options_before_the_verb
from egorecovery.cli.verify import Verify
from egorecovery.cli.watch import Watch
from egorecovery.cli.words import wrapped
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
    "export": None,  # of what kind decides
    "push": Push,
    "pull": Pull,
    "audit": Audit,
    "inspect": Inspect,
    "verify": Verify,
    "bench": Bench,
}
GO_ON = ("demo", "simulate", "import", "label", "train", "evaluate", "experiment", "push", "pull")
USAGE = 2  # the input cannot be worked with; 1 means that the job itself found something wrong
EXPORTS = {"lerobot": ExportLerobot, "onnx": ExportOnnx}
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
        _complain(f"egorecovery: {inert(words_of(error))}")
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
    if arguments[0] == "help":  # as many programs are asked
        return parse([*arguments[1:], "--help"])
    if arguments[0].startswith("-"):
        raise EgoRecoveryError(options_before_the_verb(arguments, list(VERBS)))
    if arguments[0] not in VERBS:
        near = difflib.get_close_matches(arguments[0], VERBS, n=1, cutoff=0.6)
        hint = f"did you mean '{near[0]}'?" if near else f"one of {', '.join(VERBS)} was expected"
        raise EgoRecoveryError(f"there is no verb '{arguments[0]}'; {hint}")
    name, verb, words = _chosen(arguments)
    if {"-h", "--help"} & set(words):
        print(help_page(name, verb))
        raise SystemExit(0)
    check_words(name, verb, words)
    return tyro.cli(
        verb, prog=f"egorecovery {name}", args=gathered(verb, words), config=(tyro.conf.FlagCreatePairsOff,)
    )


def _chosen(arguments: list[str]) -> tuple[str, Any, list[str]]:
    """The verb's name, its dataclass and the words after it."""
    name, *words = arguments
    if name != "export":
        return name, VERBS[name], words
    if words[:1] and words[0] in EXPORTS:
        return f"export {words[0]}", EXPORTS[words[0]], words[1:]
    if {"-h", "--help"} & set(words[:1]):
        print("\n\n".join(help_page(f"export {kind}", verb) for kind, verb in EXPORTS.items()))
        raise SystemExit(0)
    kinds = " or ".join(f"'egorecovery export {kind} ...'" for kind in EXPORTS)
    raise EgoRecoveryError(f"export as what? {kinds}")
