"""Help pages and mistyped command lines, as somebody meets them who has never seen the program."""

import shlex
from pathlib import Path

import pytest
import tyro

from egorecovery.cli.help_page import help_page
from egorecovery.cli.inspect import training_command
from egorecovery.cli.main import EXPORTS, VERBS, main, parse
from egorecovery.cli.options import command_of, options_of
from egorecovery.cli.verify import _used as verified

EVERY = [(name, verb) for name, verb in VERBS.items() if verb] + [
    (f"export {kind}", verb) for kind, verb in EXPORTS.items()
]


@pytest.mark.parametrize(("name", "verb"), EVERY)
def test_the_help_page_has_every_option_in_words_without_names_of_types(name, verb):
    page = help_page(name, verb, width=80)
    assert max(map(len, page.splitlines())) <= 80
    assert "None" not in page
    assert "STR" not in page.split()
    for option in options_of(verb):
        assert option.words, f"{option.flag} of {name} has no words"
        assert option.invocation in page


@pytest.mark.filterwarnings("ignore:get_parser:DeprecationWarning")
@pytest.mark.parametrize(("name", "verb"), EVERY)
def test_the_help_page_has_the_options_that_are_parsed(name, verb):
    parser = tyro.extras.get_parser(verb, config=(tyro.conf.FlagCreatePairsOff,))
    parsed = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
    assert {one.flag for one in options_of(verb) if not one.positional} == parsed - {"--help"}


@pytest.mark.parametrize(("name", "verb"), EVERY)
def test_the_example_of_a_help_page_is_understood(name, verb):
    assert verb.EXAMPLE.startswith(name)
    assert isinstance(parse(shlex.split(verb.EXAMPLE)), verb)


@pytest.mark.parametrize(("name", "verb"), EVERY)
def test_headings_of_options_are_those_of_fields(name, verb):
    assert set(getattr(verb, "HEADINGS", {})) <= set(verb.__dataclass_fields__)


def test_help_is_shown_wherever_it_is_asked_for(capsys):
    for words in (["train", "--help"], ["train", "store", "--run", "r", "-h"], ["export", "--help"], ["help", "train"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith("usage: egorecovery")


def test_methods_are_listed_as_baselines_then_the_papers_then_ours():
    page = " ".join(help_page("train", VERBS["train"]).split())
    assert page.index("Baselines: robot_success") < page.index("paper's: egorecovery") < page.index("Ours: shared_")
    (method,) = (one for one in options_of(VERBS["train"]) if one.flag == "--method")
    assert all(choice in method.words for choice in method.choices)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train s --run r --method robot_recovry", "did you mean robot_recovery?"),
        ("train", "STORE: The store to train on"),
        ("train s", "--run PATH: Where recipe"),
        ("evaluate a --task b --roll 5", "did you mean --rollouts N?"),
        ("evaluate a --task b --rollouts", "--rollouts needs a value"),
        ("evaluate a --task b --rollouts many", "--rollouts is a whole number, got 'many'"),
        ("train a --run b --set held_out 0 c", "takes names with their values"),
        ("bench b", "takes options only: what is 'b'?"),
        ("verify --hlep s", "did you mean --help?"),
        ("export lerobot s folder", "did you mean --out folder?"),
        ("--workers 2 label x", "egorecovery label ... --workers 2"),
        ("--quiet", "name a verb first"),
        ("watch", "RUNS ...: What to watch"),
        ("export lerobot s", "--out PATH: The folder to make"),
        ("experiment mian --out o", "did you mean main?"),
        ("label -w 3 s", "has no option -w"),
        ("train s --run r --resume=True", "--resume takes no value"),
    ],
)
def test_a_mistyped_line_is_one_message_with_what_to_type(words, said, capsys):
    assert main(words.split()) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert "Traceback" not in complaint
    assert "None" not in complaint


def test_numbers_below_zero_and_equal_signs_are_values_not_options():
    read = parse(["import", "d", "--gripper-range", "state=-0.3,1", "--out=s", "--rate-hz", "30"])
    assert (read.gripper_range, str(read.out), read.aloha.rate_hz) == (("state=-0.3,1",), "s", 30.0)


def test_a_command_is_written_as_it_was_typed_without_what_is_the_default():
    line = "train my-store --task cube_stack --run 'a b' --set held_out 2 seed 3 --wandb --device cpu"
    assert command_of("train", parse(shlex.split(line))) == (
        "egorecovery train my-store --task cube_stack --run 'a b' --set held_out 2 seed 3 --wandb --device cpu"
    )
    line = "import d --out s --format aloha --task t --rate-hz 30.0"
    assert command_of("import", parse(shlex.split(line))) == f"egorecovery {line}"
    read = parse(shlex.split("experiment main --out o --seeds 0 1 --budget-minutes 3 --list"))
    assert command_of("experiment", read, without=("--list",)) == (
        "egorecovery experiment main --out o --seeds 0 1 --budget-minutes 3.0"
    )


@pytest.mark.parametrize(
    "line",
    [
        "egorecovery train ./-s --run=-r --device=-x",
        "egorecovery experiment main --out o --only=-x",
        "egorecovery import d --out s --gripper-range state=-0.3,1",
    ],
)
def test_a_command_with_values_that_look_like_options_is_read_as_it_is_written(line):
    verb = line.split()[1]
    assert command_of(verb, parse(shlex.split(line)[1:])) == line


def test_the_help_page_of_evaluate_says_where_results_go():
    page = " ".join(help_page("evaluate", VERBS["evaluate"]).split())
    assert "RUN/results.jsonl, or CHECKPOINT_results.jsonl beside a checkpoint alone" in page


def test_lines_to_type_next_quote_paths():
    path = Path("my runs/a b")
    assert shlex.split(verified("12 episodes", path)) == ["egorecovery", "inspect", str(path)]
    assert shlex.split(verified("run", path)) == ["egorecovery", "train", "STORE", "--run", str(path), "--resume"]
    line = training_command(path, "cube_stack", {"robot_success"})
    assert str(parse(shlex.split(line)[1:]).run_folder) == f"{path}_policy"
