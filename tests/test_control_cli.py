"""`egorecovery control` from the command line, against scripted servers."""

import json

import pytest

from egorecovery.cli.main import main
from robot_limits import FOLDER
from scripted_server import ScriptedServer


def control(server, tmp_path, *more, limits=FOLDER / "workcell.json"):
    url = server if isinstance(server, str) else server.url
    command = ["control", "--server", url, "--task", "cube_stack", "--limits", str(limits)]
    return main([*command, "--log", str(tmp_path / "control.jsonl"), *more])


def test_a_rollout_is_judged_logged_and_said(tmp_path, capsys):
    with ScriptedServer() as server:
        simulated = ["--time", "simulated", "--seconds", "3.2", "--regime", "initial"]
        assert control(server, tmp_path, *simulated) == 0
    printed = capsys.readouterr().out
    assert "server: scripted (25 Hz, chunks of 20)" in printed
    assert "any fault: at rest within 0.16 s" in printed
    assert "initial start 0: failure after 3.2 s (time limit)" in printed
    assert f"next: grep -v chunk {tmp_path / 'control.jsonl'} | tail" in printed
    events = [json.loads(line) for line in (tmp_path / "control.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events[:4]] == ["start", "rollout", "server", "chunk"]
    assert (events[2]["model"], events[2]["checkpoint"]) == ("scripted", "0" * 64)
    assert events[3]["gate"] == 0.3


def test_a_fault_is_the_exit_code_and_the_reason(tmp_path, capsys):
    with ScriptedServer("jump") as server:
        simulated = ["--time", "simulated", "--seconds", "3.2", "--regime", "initial"]
        assert control(server, tmp_path, *simulated) == 1
    assert "stopped (jump): left/joint3 would move by" in capsys.readouterr().out


def test_in_real_time_a_server_that_falls_silent_ends_the_rollout(tmp_path, capsys):
    with ScriptedServer("silent") as server:
        assert control(server, tmp_path, "--regime", "initial", "--replan", "3") == 1
    assert "stopped (no answer)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "told", "words"),
    [
        (["--shadow", "--time", "simulated"], {}, "--shadow needs --time real"),
        (["--rollouts", "0"], {}, "rollouts must be at least 1"),
        (["--slow", "0"], {}, "slow must be above 0"),
        (["--slow", "nan"], {}, "slow must be above 0"),
        (["--seconds", "3"], {}, "--seconds must be more than 3: success is judged over 3 s"),
        (["--seconds", "nan"], {}, "--seconds must be more than 3"),
        ([], {"task": "cup_brush"}, "was trained for cup_brush, not for cube_stack; give --task"),
        ([], {"cameras": ("head", "chest")}, "looks through chest; the workcell has head"),
        ([], {"action_hz": 50.0}, "start the server with --client-hz 25"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_moves(more, told, words, tmp_path, capsys):
    with ScriptedServer(**told) as server:
        assert control(server, tmp_path, *more) == 2
    assert words in capsys.readouterr().err


def test_without_limits_or_server_nothing_begins(tmp_path, capsys):
    assert control("ws://127.0.0.1:1", tmp_path, limits=tmp_path / "nowhere.json") == 2
    assert "is missing; examples/limits" in capsys.readouterr().err
    assert control("ws://127.0.0.1:1", tmp_path) == 2
    assert "no policy server answers there" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
