"""Result files: lines that survive, merge and do not contradict each other."""

from dataclasses import replace

import pytest

from egorecovery.cli.main import main
from egorecovery.errors import StoreDamaged
from egorecovery.evaluation.results import ResultFile, ResultsError, RolloutRecord, Subject, load, merge
from filmed_runs import rollout
from test_evaluation_statistics import record


def test_what_is_appended_is_read_back_equal(tmp_path):
    written = [replace(record(index, index % 2 == 0), gate_trace=(0.5, 0.125)) for index in range(3)]
    results = ResultFile(tmp_path / "deep" / "results.jsonl")
    for one in written:
        results.append(one)
    assert ResultFile(results.path).records() == written
    assert '"schema":1' in results.path.read_text()


def test_an_intent_trace_is_kept_and_a_line_without_one_is_what_it_was_before_there_were_any(tmp_path):
    without = record(0, True)
    with_intent = replace(without, intent_trace=((0.5, 0.125), (0.25, 1.0)))
    results = ResultFile(tmp_path / "results.jsonl")
    results.append(with_intent)
    assert results.records()[0].intent_trace == with_intent.intent_trace
    assert "intent_trace" not in without.record()
    assert RolloutRecord.of(without.record()).intent_trace == ()


def test_an_old_line_and_a_new_one_of_the_same_rollout_agree_though_only_one_has_the_intent(tmp_path):
    old, new = record(0, True), replace(record(0, True), intent_trace=((0.5,),))
    ResultFile(tmp_path / "old").append(old)
    ResultFile(tmp_path / "new").append(new)
    assert len(load([tmp_path / "old", tmp_path / "new"])) == 1
    assert merge([tmp_path / "new"], tmp_path / "old") == 0


def test_a_rollout_is_the_same_whatever_came_of_it_and_another_by_anything_else():
    one = record(0, True)
    assert one.key == replace(one, outcome="failure", duration_s=9.0, batch_rows=16).key
    others = [
        replace(one, index=1),
        replace(one, regime="initial"),
        replace(one, task="cup_brush"),
        replace(one, protocol={"starts_seed": "other"}),
        replace(one, subject=replace(one.subject, intervention={"gate": "1"})),
        replace(one, subject=replace(one.subject, policy_hash="abc")),
    ]
    assert len({one.key, *(other.key for other in others)}) == 1 + len(others)


def test_files_of_two_machines_merge_without_duplicates(tmp_path):
    first, second, all_of_it = (ResultFile(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "all.jsonl"))
    first.append_all([record(index, True) for index in (0, 1)])
    second.append_all([record(index, True) for index in (1, 2)])
    assert merge([first.path, second.path], all_of_it.path) == 3
    assert merge([second.path], all_of_it.path) == 0
    assert [one.index for one in all_of_it.records()] == [0, 1, 2]
    assert load([first.path, second.path]) == all_of_it.records()


def test_concatenated_files_read_as_one(tmp_path):
    for name, indices in (("a", (0, 1)), ("b", (1, 2))):
        ResultFile(tmp_path / name).append_all([record(index, True) for index in indices])
    (tmp_path / "both").write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
    assert [one.index for one in ResultFile(tmp_path / "both").records()] == [0, 1, 2]


def test_results_that_contradict_each_other_are_refused(tmp_path):
    ResultFile(tmp_path / "a").append(record(0, True))
    ResultFile(tmp_path / "b").append(record(0, False))
    with pytest.raises(ResultsError, match=r"start 0 .* on record twice, as success"):
        load([tmp_path / "a", tmp_path / "b"])


def test_a_changed_line_is_noticed(tmp_path):
    results = ResultFile(tmp_path / "results.jsonl")
    results.append(record(0, False))
    results.path.write_text(results.path.read_text().replace("failure", "success"))
    with pytest.raises(StoreDamaged, match=r"results\.jsonl line 1"):
        ResultFile(results.path).records()


def test_another_schema_is_refused_with_the_line(tmp_path):
    results = ResultFile(tmp_path / "results.jsonl")
    results._journal.append({**record(0, True).record(), "schema": 99})
    with pytest.raises(ResultsError, match="line 1 has schema 99, this version reads 1"):
        results.records()


@pytest.mark.parametrize("odd", [None, 7, "text", [1]], ids=repr)
def test_what_is_no_object_is_no_rollout(odd):
    with pytest.raises(ResultsError, match=r"a result is not a rollout: must be an object"):
        RolloutRecord.of(odd)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ResultsError, match=r"nothing\.jsonl: there is no such"):
        load([tmp_path / "nothing.jsonl"])


def test_inspect_sums_only_rollouts_of_one_use_of_a_policy_under_one_protocol(tmp_path, capsys):
    results = ResultFile(tmp_path / "results.jsonl")
    bench = {"name": "bench", "starts_seed": "comparison", "time_limit_s": 30.0}
    for changes in (
        {},
        {"protocol": {**bench, "time_limit_s": 60.0}},
        {"protocol": {**bench, "starts_seed": "validation"}},
        {"subject": Subject(policy="ours", policy_hash="f00d", intervention={"gate": "0"})},
        {"subject": Subject(policy="ours", policy_hash="beef")},
    ):
        fields = {"subject": Subject(policy="ours", policy_hash="f00d"), "protocol": bench, **changes}
        results.append(rollout(0, True, policy="", **fields))
    assert main(["inspect", str(results.path)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("1/1") == 5
    for words in ("time limit 60 s", "gate 0", "'validation'", "weights beef"):
        assert words in shown.replace("\n", " ")
