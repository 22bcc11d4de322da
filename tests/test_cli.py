"""The command line as a person meets it: real processes, real exit codes."""

import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from egorecovery import __version__
from egorecovery.capture import save_recording
from egorecovery.capture.synthetic import TrackerFaults, synthetic_recording
from egorecovery.cli.console import InertConsole
from egorecovery.cli.main import VERBS, main
from egorecovery.cli.overview import GROUPS
from egorecovery.cli.words import wrapped
from egorecovery.episodes import PAPER_TASKS, Source


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "egorecovery", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.fixture
def recordings(tmp_path):
    for source in Source:
        for number in range(2):
            recording, _ = synthetic_recording(
                f"{source}-{number}",
                PAPER_TASKS["cup_brush"],
                source,
                np.random.default_rng(number),
                TrackerFaults(jumps=1, gaps=0),
                image_size=16,
            )
            save_recording(recording, tmp_path / "raw" / recording.id)
    return tmp_path / "raw"


def test_help_lists_every_verb():
    helped = run("--help")
    assert helped.returncode == 0
    for verb in VERBS:
        assert verb in helped.stdout


def test_the_overview_fits_a_small_terminal_and_has_no_other_verbs(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    assert {verb for verbs in GROUPS.values() for verb in verbs} == set(VERBS)


def test_help_imports_nothing_heavy():
    heavy = "numpy scipy zarr torch simplejpeg av fastapi uvicorn websockets msgpack mujoco matplotlib h5py pyarrow"
    code = (
        "import sys\nfrom egorecovery.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in {heavy.split()!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_a_mistyped_verb_gets_a_suggestion(capsys):
    assert main(["lable", "x"]) == 2
    assert "did you mean 'label'?" in capsys.readouterr().err


def test_a_mistyped_option_gets_a_suggestion():
    done = run("label", "store", "--worker", "2")
    assert done.returncode == 2
    assert "--workers" in done.stderr + done.stdout


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == __version__


def test_an_error_is_one_message_without_a_traceback(tmp_path):
    done = run("inspect", tmp_path / "nowhere")
    assert done.returncode == 2
    assert "is not an episode store" in done.stderr
    assert "Traceback" not in done.stderr


def test_from_recordings_to_labels_through_the_verbs(recordings, tmp_path, capsys):
    store = str(tmp_path / "store")
    assert main(["import", str(recordings), "--out", store, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["accepted"]) == 8

    assert main(["annotate", store, "--annotator", "ada", "--confirm-candidates"]) == 0
    assert "4 candidates confirmed" in capsys.readouterr().out
    assert main(["annotate", store, "--annotator", "ada", "--episode", "human_recovery-0", "--boundary", "30"]) == 0
    assert "revision 2, boundary 30" in capsys.readouterr().out

    assert main(["label", store, "--json", "--workers", "1"]) == 0
    tallies = json.loads(capsys.readouterr().out)
    assert tallies["human_recovery"]["labelled"] == 2
    assert tallies["human_recovery"]["frames"]["valid"] > 0
    assert tallies["human_success"]["frames"]["valid"] == 0

    assert main(["inspect", store, "--json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["human_recovery-0"]["boundary"] == 30
    assert rows["human_recovery-0"]["labels"] == "current"

    assert main(["inspect", store, "human_recovery-0"]) == 2
    assert "did you mean --episode human_recovery-0?" in " ".join(capsys.readouterr().err.split())
    assert main(["inspect", store, "--episode", "human_recovery-0", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [a["revision"] for a in facts["annotations"]] == [1, 2]
    assert facts["provenance"]["operator"] == "synthetic"

    for table in (["label", store], ["inspect", store], ["inspect", store, "--episode", "human_recovery-0"]):
        assert main(table) == 0
        assert "human" in capsys.readouterr().out
    assert main(["verify", store]) == 0
    assert "8 episodes checked, 0 damaged" in capsys.readouterr().out


def test_one_unreadable_recording_does_not_cost_the_others(recordings, tmp_path, capsys):
    (recordings / "robot_success-0" / "robot.npz").unlink()
    assert main(["import", str(recordings), "--out", str(tmp_path / "store")]) == 1
    shown = capsys.readouterr().out
    assert "7 accepted, 1 unreadable" in shown
    assert "robot.npz is missing" in shown.replace("\n", " ")


def test_a_limit_can_be_changed_for_one_import(recordings, tmp_path, capsys):
    strict = ["import", str(recordings), "--out", str(tmp_path / "store"), "--json", "--limit", "min_duration_s=60"]
    assert main(strict) == 1  # nothing came in: somebody should look
    assert len(json.loads(capsys.readouterr().out)["discarded"]) == 8


def test_importing_again_adds_nothing(recordings, tmp_path, capsys):
    arguments = ["import", str(recordings), "--out", str(tmp_path / "store")]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["accepted"], len(again["already_there"])) == ([], 8)
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[0] == "0 accepted, 8 already there"
    assert main(["inspect", str(tmp_path / "store"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 8


def test_a_boundary_for_a_success_episode_is_refused(recordings, tmp_path, capsys):
    store = str(tmp_path / "store")
    main(["import", str(recordings), "--out", store])
    assert main(["annotate", store, "--annotator", "a", "--episode", "robot_success-0", "--boundary", "3"]) == 2
    assert "has no recovery" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--confirm-candidates", "--episode", "e"], "choose one of"),
        (["--confirm-candidates", "--discard"], "name it with --episode"),
        (["--boundary", "3"], "name it with --episode"),
        (["--confirm-candidates"], "give --annotator"),
        ([], "not an episode store"),
        (["--host", "192.168.1.5"], "not an episode store"),
    ],
)
def test_annotate_refuses_modes_that_do_not_go_together(arguments, wanted, tmp_path, capsys):
    assert main(["annotate", str(tmp_path), *arguments]) == 2
    assert wanted in capsys.readouterr().err


def test_the_demo_refuses_to_work_in_a_folder_of_something_else(tmp_path, capsys):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").touch()
    assert main(["demo", "--out", str(tmp_path / "work")]) == 2
    assert "name an empty or a new folder" in capsys.readouterr().err
    assert (tmp_path / "work" / "thesis.tex").exists()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_message_is_broken_between_words_in_a_terminal_and_nowhere_else(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = "note: the files have no colour order: rgb is taken; where colours look wrong, --channel-order bgr"
    shown = wrapped(words, Terminal()).splitlines()
    assert max(map(len, shown)) <= 60
    assert " ".join(shown) == words
    assert any("--channel-order" in line for line in shown)
    assert wrapped(words, io.StringIO()) == words


def test_help_in_a_terminal_is_no_wider_than_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with pytest.raises(SystemExit):
        main(["record", "--help"])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert "Record demonstrations" in terminal.getvalue()
    assert max(map(len, lines)) <= 80


def test_export_without_a_kind_says_how_it_is_written(tmp_path, capsys):
    assert main(["export", str(tmp_path), "--out", "there"]) == 2
    assert "export lerobot" in capsys.readouterr().err


def test_verify_says_of_a_picture_that_it_is_no_result_file(tmp_path, capsys):
    picture = tmp_path / "sheet.png"
    picture.write_bytes(b"\x89PNG")
    assert main(["verify", str(picture)]) == 2
    assert "no result file" in capsys.readouterr().err


def test_a_missing_aloha_file_is_said_to_be_missing(tmp_path, capsys):
    arguments = ("--format", "aloha", "--task", "cube_stack", "--source", "robot_success", "--out")
    assert main(["import", str(tmp_path / "nowhere"), *arguments, str(tmp_path / "store")]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err


def test_prose_is_broken_between_words_in_a_terminal_and_a_command_is_never_broken():
    terminal = io.StringIO()
    shown = InertConsole(file=terminal, force_terminal=True, width=60, highlight=False)
    terminal.isatty = lambda: True
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "60")
        shown.print(
            "note: the policy has neither Intent Head nor gate: it was trained by imitation alone", soft_wrap=True
        )
        shown.print(f"next: egorecovery evaluate runs/policy --task cube_stack {'--rollouts 5 ' * 4}", soft_wrap=True)
    lines = terminal.getvalue().splitlines()
    assert len(lines) == 3
    assert max(map(len, lines[:-1])) <= 60
    assert " ".join(lines[:-1]).endswith("trained by imitation alone")
    assert lines[-1].count("--rollouts 5") == 4


def test_labels_of_an_earlier_annotation_are_said_to_be_outdated(recordings, tmp_path, capsys):
    store = str(tmp_path / "store")
    main(["import", str(recordings), "--out", store])
    main(["annotate", store, "--annotator", "ada", "--confirm-candidates"])
    main(["label", store, "--workers", "1"])
    show = ["inspect", store, "--episode", "human_recovery-0"]
    capsys.readouterr()
    assert main(show) == 0
    assert "outdated" not in capsys.readouterr().out
    main(["annotate", store, "--annotator", "ada", "--episode", "human_recovery-0", "--boundary", "17"])
    capsys.readouterr()
    assert main(show) == 0
    said = capsys.readouterr().out
    assert "outdated, of an earlier annotation" in said
    assert f"next: egorecovery label {store}" in said
