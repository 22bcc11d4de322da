"""The benchmark that asks whether results depend on how they were made sees it where they do."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from egorecovery.evaluation import EvaluationProtocol, RolloutRecord, Subject

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "evaluation.py"
SAME = dict.fromkeys(("outcome", "reason", "duration_s", "retries", "gate_trace", "all"), 0)


def loaded():
    spec = importlib.util.spec_from_file_location("evaluation_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmark = loaded()


def record(index):
    return RolloutRecord(
        subject=Subject(policy="somebody"),
        task="cube_stack",
        regime="initial",
        index=index,
        start={"mode": "initial"},
        protocol=EvaluationProtocol().identity(),
        outcome="failure",
        reason="time limit",
        duration_s=30.0,
        retries=0,
        decisions=2,
        gate_trace=(0.1, 0.2),
    )


RECORDS = [record(index) for index in range(3)]


def test_the_order_of_results_makes_no_difference():
    assert benchmark.differing(RECORDS, RECORDS[::-1]) == SAME


@pytest.mark.parametrize(
    "change", [{"outcome": "success"}, {"reason": "x"}, {"duration_s": 29.96}, {"retries": 1}, {"gate_trace": (0.1,)}]
)
def test_a_rollout_that_went_otherwise_is_counted_where_it_differs(change):
    [name] = change
    changed = [RECORDS[0], replace(RECORDS[1], **change), RECORDS[2]]
    assert benchmark.differing(RECORDS, changed) == {**SAME, name: 1, "all": 1}


def test_another_number_of_decisions_shows_in_the_whole_record():
    changed = [*RECORDS[:2], replace(RECORDS[2], decisions=3)]
    assert benchmark.differing(RECORDS, changed) == {**SAME, "all": 1}


def test_a_rollout_that_is_missing_or_too_many_differs_in_everything():
    assert benchmark.differing(RECORDS, RECORDS[:2]) == dict.fromkeys(SAME, 1)
    assert benchmark.differing(RECORDS[:1], RECORDS) == dict.fromkeys(SAME, 2)


@pytest.fixture
def played(monkeypatch):
    """How the policy was evaluated; Ray's workers get another reason."""
    ways = []

    def results(run, options, out, workers, executor="local", killed=False):
        ways.append((workers, executor, killed))
        return RECORDS if executor == "local" else [replace(RECORDS[0], reason="x"), *RECORDS[1:]]

    monkeypatch.setattr(benchmark, "results", results)
    return ways


def test_results_that_differ_are_an_exit_code_of_1_and_told_apart(played, capsys, monkeypatch):
    monkeypatch.setattr(benchmark.importlib.util, "find_spec", lambda name: object())
    assert benchmark.main(benchmark.Options(check=Path("run"))) == 1
    assert played == [(1, "local", False), (2, "local", False), (2, "ray", False), (2, "local", True)]
    [ray] = [line for line in capsys.readouterr().out.splitlines() if "Ray" in line]
    assert ray.count("not 1") == 2
    assert ray.count("same") == 4


def test_where_ray_is_not_installed_the_others_are_compared(played, capsys, monkeypatch):
    monkeypatch.setattr(benchmark.importlib.util, "find_spec", lambda name: None)
    assert benchmark.main(benchmark.Options(check=Path("run"))) == 0
    assert [executor for _, executor, _ in played] == ["local"] * 3
    assert "Ray is left out, it is not installed" in capsys.readouterr().out
