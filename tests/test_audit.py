"""The audit: the paper's table from a log at the paper's rates, and no hour counted that cannot be true."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.audit import Ledger, audit, read_ledger
from egorecovery.audit.accounts import Use, paper_rates, ratio_of_averages
from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore
from egorecovery.episodes.attempt_log import UNKNOWN_TIME, Activity, ActivityKind, Attempt, AttemptLog
from egorecovery.errors import AuditError
from egorecovery.experiments.paper import figures
from egorecovery.recovery import Annotation, AnnotationJournal
from making import make_episode
from paper_log import write_paper_log

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def an_attempt(name: str, begins_s: float, *, seconds: float = 10.0, staging_s=0.0, reset_s=0.0, **changes) -> Attempt:
    started = NOON + timedelta(seconds=begins_s)
    usual = {"task": "cup_brush", "source": "human_recovery", "operator": "ada", "accepted": True}
    return Attempt(
        episode=name,
        started_at=started.isoformat(),
        stopped_at=(started + timedelta(seconds=seconds)).isoformat(),
        staging_s=float(staging_s),
        reset_s=float(reset_s),
        **{**usual, **changes},
    )


def an_activity(kind: ActivityKind, begins_s: float, seconds: float) -> Activity:
    begins = NOON + timedelta(seconds=begins_s)
    return Activity(
        kind=kind,
        task="cup_brush",
        source="human_recovery",
        operator="ada",
        started_at=begins.isoformat(),
        stopped_at=(begins + timedelta(seconds=seconds)).isoformat(),
    )


def written(tmp_path, *entries):
    log = AttemptLog(tmp_path / "collection.jsonl")
    for entry in entries:
        if isinstance(entry, Activity):
            log.add_activity(entry)
        else:
            log.add(entry)
    return tmp_path


def test_a_log_at_the_papers_rates_gives_the_papers_table_in_print_in_json_and_as_a_picture(tmp_path, capsys):
    write_paper_log(tmp_path / "collection.jsonl")
    assert main(["audit", str(tmp_path), "--out", str(tmp_path / "audit")]) == 0
    printed = capsys.readouterr().out
    for average_of_paper in ("62.0 (62.0)", "49.0 (49.0)", "504.3 (504.3)", "516.5 (516.5)", "10.5x (10.5x)"):
        assert average_of_paper in printed
    for ratio_of_task in ("10.9x (10.9x)", "10.3x (10.3x)", "11.4x (11.4x)", "9.8x (9.8x)"):
        assert ratio_of_task in printed
    assert "10.6x as mean of the tasks' ratios" in " ".join(printed.split())
    assert "SIMULATED" not in printed
    tables = printed[: printed.index("wrote: ")]
    assert max(map(len, tables.splitlines())) <= 80  # the width of a console that is no terminal
    (measured,) = json.loads((tmp_path / "audit" / "audit.json").read_text())["audits"]
    rates = {task: {str(source): rate for source, rate in by.items()} for task, by in paper_rates().items()}
    assert measured["accepted_per_hour"] == rates
    assert all(account["discarded"] == account["accepted"] // 20 for account in measured["accounts"])
    assert (tmp_path / "audit" / "hour.png").read_bytes().startswith(b"\x89PNG")


def test_the_audits_copy_of_the_papers_rates_is_that_of_the_experiments():
    assert figures()["throughput_per_hour"] == {
        task: {str(source): rate for source, rate in rates.items()} for task, rates in paper_rates().items()
    }


def test_setup_synchronisation_resets_and_discarded_attempts_are_counted_and_pauses_are_not(tmp_path):
    written(
        tmp_path,
        an_activity(ActivityKind.SYNCHRONISATION, 0.0, 5.0),
        an_activity(ActivityKind.SETUP, 5, 15),
        an_attempt("a", 25, staging_s=5, seconds=10, reset_s=5),
        an_activity(ActivityKind.PAUSE, 40, 1000),
        an_attempt("b", 1050, staging_s=10, seconds=5, reset_s=5, accepted=False, reasons=("slipped",)),
    )
    (account,) = audit(read_ledger([tmp_path]))[0].accounts
    seconds = {use: spent.total_seconds() for use, spent in account.spent.items()}
    wanted = {Use.SYNCHRONISATION: 5, Use.SETUP: 15, Use.STAGING: 5, Use.RECORDING: 10, Use.RESET: 5, Use.DISCARDED: 20}
    assert seconds == wanted
    assert account.paused.total_seconds() == 1000
    assert account.per_hour == pytest.approx(3600 / 60)


def test_budget_counts_human_recoveries_at_the_measured_ratio_or_at_the_papers_ten(tmp_path):
    human = [an_attempt(f"h{number}", 10 * number, seconds=10) for number in range(30)]
    (measured,) = audit(read_ledger([written(tmp_path, *human)]))
    assert (measured.budget().equivalent, measured.budget().measured) == (3.0, False)
    robot = [an_attempt(f"r{n}", 1000 + 60 * n, seconds=60, source="robot_recovery") for n in range(5)]
    (measured,) = audit(read_ledger([written(tmp_path, *robot)]))
    assert (measured.budget().ratio, measured.budget().equivalent) == (6.0, 5 + 30 / 6)
    assert measured.budget().measured


def test_ratios_compare_tasks_that_have_both_recoveries(tmp_path):
    entries = [
        an_attempt("h", 0, seconds=10),
        an_attempt("r", 10, seconds=100, source="robot_recovery"),
        an_attempt("other", 200, seconds=1, task="cube_stack"),
    ]
    (measured,) = audit(read_ledger([written(tmp_path, *entries)]))
    assert ratio_of_averages(measured.rates()) == pytest.approx(10.0)


def test_an_operator_cannot_do_two_things_at_once(tmp_path):
    first = an_attempt("first", 0, seconds=10, reset_s=5)
    for second in (an_attempt("second", 12), an_attempt("second", 20, staging_s=8)):
        written(tmp_path, first, second)
        with pytest.raises(AuditError, match=r"attempt 'first' of ada .* and attempt 'second' of ada .* overlap"):
            read_ledger([tmp_path])
        for name in ("collection.jsonl", "collection.jsonl.anchor"):
            (tmp_path / name).unlink()
    with pytest.raises(AuditError, match=r"setup of ada from .* overlap"):
        read_ledger([written(tmp_path, first, an_activity(ActivityKind.SETUP, 11, 60))])


def test_imported_attempts_without_times_are_left_out_and_said(tmp_path, capsys):
    long_ago = (UNKNOWN_TIME - NOON).total_seconds()
    clips = [an_attempt(name, long_ago, operator="unknown") for name in ("clip-1", "clip-2")]  # both begin in 1970
    root = written(tmp_path, an_attempt("a", 0), *clips)
    ledger = read_ledger([root])
    assert [attempt.episode for attempt in ledger.attempts] == ["a"]
    assert ledger.untimed == 2
    assert main(["audit", str(root)]) == 0
    assert "not counted: 2 imported attempts" in capsys.readouterr().out


def test_two_operators_may_work_at_the_same_time_and_attempts_may_touch(tmp_path):
    entries = [
        an_attempt("a", 0, seconds=10, reset_s=5),
        an_attempt("b", 20, seconds=10, staging_s=5),
        an_attempt("c", 3, seconds=10, operator="grace"),
    ]
    assert len(read_ledger([written(tmp_path, *entries)]).attempts) == 3


@given(begins=st.lists(st.floats(0, 3000), min_size=2, max_size=12), lengths=st.lists(st.floats(1, 90), min_size=12))
@settings(max_examples=30, deadline=None)  # each writes a log and syncs it
def test_overlaps_are_found_wherever_they_are_and_nowhere_else(tmp_path_factory, begins, lengths):
    spans = [(begin, begin + length) for begin, length in zip(begins, lengths, strict=False)]
    gaps = [b - e for i, (_, e) in enumerate(sorted(spans)) for b, _ in sorted(spans)[i + 1 :]]
    if any(abs(gap) < 0.02 for gap in gaps):  # touching: either answer will do
        return
    attempts = [an_attempt(f"a{n}", b, seconds=e - b) for n, (b, e) in enumerate(spans)]
    path = written(tmp_path_factory.mktemp("log"), *attempts)
    if min(gaps) < 0:
        with pytest.raises(AuditError, match="overlap"):
            read_ledger([path])
    else:
        assert len(read_ledger([path]).attempts) == len(spans)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": -3.0}, "before it starts at .*: the clock ran backwards"),
        ({"staging_s": -1.0}, r"has staging_s -1\.0"),
        ({"reset_s": -0.5}, r"has reset_s -0\.5"),
        ({"reset_s": 1e9}, "from 0 to a day"),
        ({"source": "dog_recovery"}, "not one of robot_success"),
    ],
)
def test_an_attempt_whose_times_cannot_be_true_is_refused_by_name(tmp_path, changes, message):
    with pytest.raises(AuditError, match=rf"collection\.jsonl: attempt 'odd' of ada .*{message}"):
        read_ledger([written(tmp_path, an_attempt("fine", -100), an_attempt("odd", 0, **changes))])


@pytest.mark.parametrize(("text", "message"), [("yesterday", "is not a time"), ("2026-03-01T10:00:00", "no time zone")])
def test_a_time_that_is_none_is_refused(tmp_path, text, message):
    with pytest.raises(AuditError, match=message):
        read_ledger([written(tmp_path, replace(an_attempt("odd", 0), started_at=text))])


def test_simulated_times_stand_apart_and_are_called_simulated(tmp_path, capsys):
    entries = [
        an_attempt("real", 0),
        an_attempt("made-up", 0, operator="simulated person"),
        an_attempt("made-up-too", 1, operator="simulated person"),  # made-up calendars may overlap
    ]
    measured, simulated = audit(read_ledger([written(tmp_path, *entries)]))
    assert [measured.simulated, simulated.simulated] == [False, True]
    assert [sum(a.accepted for a in one.accounts) for one in (measured, simulated)] == [1, 2]
    main(["audit", str(tmp_path)])
    before, marked = capsys.readouterr().out.split("SIMULATED operator times", 1)
    assert "accepted demonstrations" in before
    assert "All of the above is SIMULATED" in marked


def test_an_attempt_in_the_recorders_log_and_in_the_store_counts_once_and_the_refusal_holds(tmp_path):
    kept, refused = an_attempt("kept", 0), an_attempt("refused", 20)
    (tmp_path / "raw").mkdir()
    raw = written(tmp_path / "raw", kept, refused)
    store = EpisodeStore.create(tmp_path / "store")
    store.collection.add(kept)
    store.collection.add(replace(refused, accepted=False, reasons=("black pictures",)))
    for paths in ([raw, store.root], [store.root, raw]):
        ledger = read_ledger(paths)
        assert {attempt.episode: attempt.accepted for attempt in ledger.attempts} == {"kept": True, "refused": False}


def test_an_episode_that_its_annotator_discarded_is_not_accepted(tmp_path):
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        writer.add(make_episode("good"))
        writer.add(make_episode("bad", provenance=replace(make_episode().provenance, operator="grace")))
    annotation = Annotation(episode="bad", boundary=None, annotator="ada", discard=True)
    AnnotationJournal(store.annotations_path).save(annotation, n_frames=40, seen_revision=0)
    assert {a.episode: a.accepted for a in read_ledger([store.root]).attempts} == {"good": True, "bad": False}


def test_a_place_without_a_log_is_refused(tmp_path, capsys):
    assert main(["audit", str(tmp_path)]) == 2
    assert "no collection.jsonl there" in capsys.readouterr().err


def test_no_attempts_give_no_tables_and_no_error(tmp_path, capsys):
    assert audit(Ledger(attempts=(), activities=(), read=())) == []
    (tmp_path / "collection.jsonl").touch()
    assert main(["audit", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["audits"] == []


def test_without_matplotlib_the_picture_is_refused_before_anything_is_written(tmp_path, capsys, monkeypatch):
    written(tmp_path, an_attempt("a", 0))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["audit", str(tmp_path), "--out", str(tmp_path / "audit")]) == 2
    assert "egorecovery[policy]" in capsys.readouterr().err
    assert not (tmp_path / "audit").exists()
    assert main(["audit", str(tmp_path)]) == 0
