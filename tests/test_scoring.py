"""Blind scoring without a browser: sessions, ratings, adjudication, unblinding."""

import csv
import json
import os
import shutil
import stat
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.cli.score import show_verdicts
from egorecovery.errors import StoreDamaged
from egorecovery.evaluation import Subject, compare, load, rates
from egorecovery.evaluation.rollout_videos import filmed_beside, rollout_videos
from egorecovery.studio.scoring import (
    Plan,
    Rating,
    Ratings,
    ScoringError,
    StaleRating,
    clips_of,
    create_session,
    criteria_for,
    open_session,
    unblind,
    write_export,
)
from egorecovery.studio.scoring.export import Agreements, Scored, Unblinded
from egorecovery.studio.scoring.neutral_video import VideoFacts
from egorecovery.studio.scoring.session import BlindVideo
from filmed_runs import evaluated_run, rollout, write_video

FACTS = VideoFacts(frames=10, rate_hz=25.0, width=64, height=48)
IDS = ("aa", "bb", "cc", "dd")
NOW = "2026-03-01T10:00:00+00:00"


def plan(raters=2, ids=IDS, tasks=("cube_stack",), seed=0):
    videos = tuple(
        BlindVideo(id=name, task=tasks[number % len(tasks)], facts=FACTS, bytes=1) for number, name in enumerate(ids)
    )
    return Plan(
        created_at=NOW, seed=seed, raters=raters, criteria=criteria_for(tasks), videos=videos, key_digest="unread"
    )


class Table:
    """A session's journal in memory, with the same rules."""

    def __init__(self, **how):
        self.plan, self.lines = plan(**how), []

    @property
    def now(self):
        return Ratings(self.plan, self.lines)

    def rate(self, by, video, verdict, role="rater", note=""):
        rating = Rating(video=video, by=by, verdict=verdict, role=role, note=note)
        self.lines.append(self.now.next_rating(rating, self.now.revision(by, video, role)))

    def undo(self, by, role="rater"):
        self.lines.append(self.now.next_undo(by, role, NOW))

    def rate_all(self, by, verdicts):
        for video, verdict in zip(IDS, verdicts, strict=True):
            self.rate(by, video, "success" if verdict else "failure")

    def adjudicate(self):
        self.lines.append(self.now.next_adjudication("eve", NOW))


# Ratings

OPERATIONS = st.lists(st.tuples(st.sampled_from(["ada", "bob"]), st.sampled_from(IDS), st.booleans()), max_size=25)


@settings(max_examples=25, deadline=None)
@given(OPERATIONS)
def test_undoing_every_rating_one_by_one_goes_back_through_every_state(operations):
    table, states = Table(), []
    for by, video, verdict in operations:
        states.append((by, table.now.of(by)))
        table.rate(by, video, "success" if verdict else "failure")
    for by, before in reversed(states):
        table.undo(by)
        assert table.now.of(by) == before
    assert table.now.raters == []


@settings(max_examples=25, deadline=None)
@given(OPERATIONS, st.integers(0, 25))
def test_what_one_rater_does_leaves_the_other_alone(operations, undos):
    table = Table()
    table.rate_all("bob", [1, 0, 1, 0])
    theirs = table.now.of("bob")
    for _, video, verdict in operations:
        table.rate("ada", video, "success" if verdict else "failure")
    for _ in range(min(undos, len(operations))):
        table.undo("ada")
    assert table.now.of("bob") == theirs


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=4, max_size=4))
def test_a_final_verdict_is_the_common_one_or_the_adjudicators(pairs):
    table = Table()
    ours, theirs = zip(*pairs, strict=True)
    table.rate_all("ada", ours)
    table.rate_all("bob", theirs)
    unlike = [video for video, (one, other) in zip(IDS, pairs, strict=True) if one != other]
    assert sorted(table.now.disagreements) == unlike
    assert [table.now.final(video) for video in unlike] == [None] * len(unlike)
    table.adjudicate()
    for video in unlike:
        table.rate("eve", video, "success", role="adjudicator")
    wanted = ["success" if one or other else "failure" for one, other in pairs]
    assert [table.now.final(video) for video in IDS] == wanted
    assert table.now.lacking() == []


def test_two_windows_of_one_rater_do_not_overwrite_each_other():
    table = Table()
    table.rate("ada", "aa", "success")
    with pytest.raises(StaleRating, match="'success' in another window"):
        table.now.next_rating(Rating(video="aa", by="ada", verdict="failure"), seen_revision=0)


def test_a_third_rater_is_turned_away_until_somebody_took_back_everything():
    table = Table()
    table.rate("ada", "aa", "success")
    table.rate("typo", "aa", "success")
    with pytest.raises(ScoringError, match="its 2 raters, ada and typo"):
        table.rate("bob", "aa", "success")
    table.undo("typo")
    table.rate("bob", "aa", "success")
    assert table.now.raters == ["ada", "bob"]


def test_adjudication_waits_for_all_ratings_and_then_closes_them():
    table = Table()
    table.rate_all("ada", [1, 1, 0, 0])
    with pytest.raises(ScoringError, match="1 of 2 raters have not begun"):
        table.adjudicate()
    table.rate_all("bob", [1, 0, 0, 0])
    with pytest.raises(ScoringError, match="adjudication has not begun"):
        table.rate("eve", "bb", "success", role="adjudicator")
    table.adjudicate()
    with pytest.raises(ScoringError, match="ratings are closed"):
        table.rate("ada", "bb", "failure")
    with pytest.raises(ScoringError, match="ratings are closed"):
        table.undo("ada")
    with pytest.raises(ScoringError, match="agree on this video"):
        table.rate("eve", "aa", "failure", role="adjudicator")
    table.rate("eve", "bb", "success", role="adjudicator")
    table.undo("eve", role="adjudicator")
    assert table.now.lacking() == ["1 disagreements are not adjudicated"]


def test_adjudicators_speak_as_one():
    table = Table()
    table.rate_all("ada", [1, 1, 0, 0])
    table.rate_all("bob", [0, 0, 0, 0])
    table.adjudicate()
    table.rate("eve", "aa", "success", role="adjudicator")
    stale = Rating(video="aa", by="ada", verdict="failure", role="adjudicator")
    with pytest.raises(StaleRating):
        table.now.next_rating(stale, seen_revision=0)
    table.rate("ada", "aa", "failure", role="adjudicator")
    assert table.now.decision("aa").by == "ada"


def test_ratings_of_two_copies_of_a_session_are_joined_by_appending_one_to_the_other():
    first, second = Table(), Table()
    first.rate_all("ada", [1, 1, 0, 0])
    second.rate_all("bob", [1, 0, 0, 0])
    first.lines += second.lines
    assert first.now.is_complete
    assert first.now.disagreements == ["bb"]


@pytest.mark.parametrize("name", ["", " ", " ada", "a\nb", "x" * 81, "\x00"])
def test_a_name_that_cannot_be_shown_is_refused(name):
    with pytest.raises(ScoringError, match="visible characters"):
        Table().rate(name, "aa", "success")


@pytest.mark.parametrize("name", ["role", "at", "revision"])
def test_a_saved_rating_says_who_when_and_which(name):
    table = Table()
    table.rate("ada", "aa", "success")
    del table.lines[0][name]
    with pytest.raises(StoreDamaged, match=f"line 1 of the ratings: {name} is missing; copy the session again"):
        _ = table.now


def test_nonsense_is_refused():
    table = Table()
    with pytest.raises(ScoringError, match="no video of that name"):
        table.rate("ada", "../key.json", "success")
    with pytest.raises(ScoringError, match="at most 2000"):
        table.rate("ada", "aa", "success", note="x" * 2001)
    with pytest.raises(ScoringError, match="nothing to undo"):
        table.undo("ada")


# Order

MANY = tuple(f"{number:02x}" for number in range(24))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 5), st.text("abc", min_size=1, max_size=3))
def test_an_order_has_every_video_once_task_by_task_and_is_always_the_same(seed, rater):
    made = plan(ids=MANY, tasks=("cube_stack", "cup_brush"), seed=seed)
    order = made.order(rater)
    assert sorted(video.id for video in order) == sorted(MANY)
    tasks = [video.task for video in order]
    assert sum(one != other for one, other in pairwise(tasks)) == 1
    assert order == made.order(rater)


def test_raters_and_seeds_have_orders_of_their_own():
    orders = {
        tuple(video.id for video in plan(ids=MANY, seed=seed).order(rater))
        for seed in (0, 1)
        for rater in ("ada", "bob")
    }
    assert len(orders) == 4


# Sessions on disk

METHODS = ("direct_mix", "egorecovery")
OUTCOMES = {"direct_mix": [0, 0, 1, 0, 1], "egorecovery": [1, 1, 1, 0, 1]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    for method, outcomes in OUTCOMES.items():
        records = [rollout(index, bool(ok), policy=method) for index, ok in enumerate(outcomes)]
        evaluated_run(home / method, records)
    return home


@pytest.fixture(scope="module")
def made(runs, tmp_path_factory):
    clips, notes = clips_of([runs / method for method in METHODS])
    assert notes == []
    root = tmp_path_factory.mktemp("sessions") / "scoring"
    create_session(root, clips, criteria=criteria_for(["cube_stack"]), created_at=NOW, seed=3)
    return root


@pytest.fixture
def session(made, tmp_path):
    shutil.copytree(made, tmp_path / "scoring")
    return open_session(tmp_path / "scoring")


def rate_all(session, by, wanted):
    """`wanted` by the source that only the key knows: a test may look."""
    for video in session.plan.videos:
        session.journal.append_after(
            lambda lines, video=video: Ratings(session.plan, lines).next_rating(
                Rating(video=video.id, by=by, verdict=wanted(video.id)), seen_revision=0
            )
        )


def truth(session):
    key = json.loads((session.root / "key.json").read_text())["videos"]
    return {name: known["rollout"]["outcome"] for name, known in key.items()}


def test_nothing_but_the_key_names_a_method(made):
    for path in made.rglob("*"):
        if path.is_file() and path.name != "key.json":
            payload = path.read_bytes()
            for word in (*METHODS, "tilted_over", "recovery-0", "results-"):
                assert word.encode() not in payload, f"{word} in {path}"
                assert word not in str(path.relative_to(made))
    assert stat.S_IMODE((made / "key.json").stat().st_mode) == 0o600


def test_the_rows_that_name_the_method_are_cut_off(made):
    import av

    name, known = next(iter(json.loads((made / "key.json").read_text())["videos"].items()))
    film, copy = known["source"], made / "videos" / f"{name}.mp4"
    with av.open(film) as whole, av.open(str(copy)) as cut:
        before, after = (next(each.decode(video=0)).to_ndarray(format="gray").astype(int) for each in (whole, cut))
    assert before.shape[0] - after.shape[0] == 122
    assert before[:122].max() - before[:122].min() > 150  # black letters on white
    assert abs(before[122:] - after).mean() < 6  # what is left is the same picture, encoded again


def test_names_of_videos_are_new_each_time(runs, tmp_path):
    clips, _ = clips_of([runs / "direct_mix"])
    names = []
    for place in ("one", "two"):
        made = create_session(tmp_path / place, clips[:2], criteria={}, created_at=NOW, seed=3)
        names += [video.id for video in made.plan.videos]
    assert len(set(names)) == 4


def test_a_session_is_opened_as_it_was_made_and_damage_is_noticed(session):
    assert open_session(session.root).plan == session.plan
    video = session.video_file(session.plan.videos[0])
    video.write_bytes(video.read_bytes()[:-1])
    with pytest.raises(StoreDamaged, match="copy the whole session"):
        open_session(session.root)


def test_a_session_that_cannot_be_made_leaves_nothing(tmp_path, runs):
    clips, _ = clips_of([runs / "direct_mix"])
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    with pytest.raises(ScoringError, match="cannot be read as a video"):
        create_session(tmp_path / "scoring", [*clips[:1], replace(clips[1], video=broken)], criteria={}, created_at=NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["broken.mp4"]


def test_unblinding_is_refused_before_the_key_is_read(session, monkeypatch):
    monkeypatch.setattr("egorecovery.studio.scoring.export.read_key", lambda *_: pytest.fail("the key was read"))
    rate_all(session, "ada", truth(session).get)
    with pytest.raises(ScoringError, match="1 of 2 raters have not begun"):
        unblind(session, NOW)


def test_an_export_is_read_by_the_evaluators_statistics_and_closes_the_ratings(session, runs, tmp_path):
    right = truth(session)
    rate_all(session, "ada", right.get)
    rate_all(session, "bob", right.get)
    found = unblind(session, NOW)
    results, summary, table, _ = write_export(found, tmp_path / "export")
    by_people = load([results])
    by_rules = load([runs / method / "results.jsonl" for method in METHODS])
    key = lambda record: record.subject.policy  # noqa: E731 - as `rates` takes it
    assert rates(by_people, by=key) == rates(by_rules, by=key)
    assert {record.protocol["scored_by"] for record in by_people} == {"people"}
    assert not {record.key for record in by_people} & {record.key for record in by_rules}

    sides = [[record for record in by_people if record.subject.policy == method] for method in METHODS]
    compared = compare(*sides, np.random.default_rng(0))
    assert (compared.starts, compared.only_first, compared.only_second) == (5, 0, 2)

    shown = rollout_videos(tmp_path / "export").rollouts  # what `watch` shows of an export
    assert {one.record.key for one in shown} == {record.key for record in by_people}
    assert all(f"/{one.record.subject.policy}/" in str(one.film) for one in shown)

    assert json.loads(summary.read_text())["with_automatic_verdict"]["kappa"] == 1
    assert len(list(csv.DictReader(table.open()))) == 10
    with pytest.raises(ScoringError, match="has been unblinded"):
        Ratings(session.plan, session.journal.records()).next_undo("ada", "rater", NOW)
    assert unblind(session, NOW) == found  # again, with nothing new


def test_verdicts_on_two_trainings_of_one_name_are_not_summed(capsys):
    """As of the recipes demo and bench: the same method, task and step."""
    name = "robot recovery; cube stack; step 2,000"
    records = [
        rollout(index, succeeded, policy="", subject=Subject(policy=name, policy_hash=weights, seed=0))
        for weights, succeeded in (("aaaaaaaa11", True), ("bbbbbbbb22", False))
        for index in range(3)
    ]
    scored = [
        Scored(video="", source="", record=record, automatic=None, verdicts={}, notes={}, adjudicated_by=None)
        for record in [*records, rollout(9, True, policy="hold still")]
    ]
    none = Agreements(raters=None, automatic=None, automatic_by_rater={}, unlike=[])
    show_verdicts(Unblinded(scored=scored, agreements=none))
    said = " ".join(capsys.readouterr().out.split())
    assert "weights aaaaaaaa" in said
    assert "3/3" in said
    assert "weights bbbbbbbb" in said
    assert "0/3" in said
    assert "hold still 1/1" in said  # alone under its name, it needs no weights


def test_agreement_is_reported_between_raters_and_with_the_rules(session, tmp_path):
    right = truth(session)
    wrong = {"success": "failure", "failure": "success"}
    one, two = list(right)[:2]
    rate_all(session, "ada", right.get)
    rate_all(session, "bob", lambda video: wrong[right[video]] if video in (one, two) else right[video])
    lines = Ratings(session.plan, session.journal.records())
    session.journal.append(lines.next_adjudication("eve", NOW))
    for video, verdict in ((one, right[one]), (two, wrong[right[two]])):
        rating = Rating(video=video, by="eve", verdict=verdict, role="adjudicator", note="=HYPERLINK(1)")
        session.journal.append_after(lambda lines, r=rating: Ratings(session.plan, lines).next_rating(r, 0))
    found = unblind(session, NOW)
    assert (found.agreements.raters.agreed, found.agreements.raters.rollouts) == (8, 10)
    assert found.agreements.automatic.agreed == 9
    assert {name: each.agreed for name, each in found.agreements.automatic_by_rater.items()} == {"ada": 10, "bob": 8}
    assert [each.video for each in found.agreements.unlike] == [two]
    assert [each.record.reason for each in found.scored if each.video == two] == ["=HYPERLINK(1)"]
    _, _, table, _ = write_export(found, tmp_path / "export")
    rows = {row["video"]: row for row in csv.DictReader(table.open())}
    assert rows[two]["adjudicated_by"] == "eve"
    with pytest.raises(ScoringError, match="exists already"):
        write_export(found, tmp_path / "export")


def test_a_key_kept_elsewhere_is_needed_at_the_end_and_must_be_the_right_one(runs, tmp_path):
    clips, _ = clips_of([runs / "direct_mix"])
    how = {"criteria": {}, "created_at": NOW, "raters": 1}
    kept, other = tmp_path / "safe" / "kept.json", tmp_path / "other.json"
    made = create_session(tmp_path / "a", clips[:1], key_file=kept, **how)
    create_session(tmp_path / "b", clips[:1], key_file=other, **how)
    assert not (tmp_path / "a" / "key.json").exists()
    rate_all(made, "ada", lambda _: "success")
    with pytest.raises(ScoringError, match="name it with --key"):
        unblind(made, NOW)
    with pytest.raises(ScoringError, match="key of another session"):
        unblind(made, NOW, other)
    assert len(made.journal.records()) == 1  # neither attempt closed the ratings
    assert unblind(made, NOW, kept).scored[0].record.outcome == "success"


# What is to be scored


def test_films_of_an_experiment_are_found_with_their_cells(tmp_path):
    cell = tmp_path / "cells" / "cube_stack-full-s0"
    record = rollout(3, True, policy="full")
    evaluated_run(cell, [record], stem="rollouts")
    film = next(cell.glob("*.mp4"))
    (cell / "films").mkdir()
    film.rename(cell / "films" / "recovery_003_held_success.mp4")
    shutil.copy(cell / "films" / "recovery_003_held_success.mp4", cell / "films" / "recovery_004_failure.mp4")
    (cell / "films" / "mine.mp4").write_bytes(b"")
    found = rollout_videos(tmp_path)
    assert [one.record for one in found.rollouts] == [record]
    assert found.left_out == (
        f"{cell / 'films' / 'recovery_004_failure.mp4'}: its rollout is not in {cell / 'rollouts.jsonl'}",
    )


def test_films_beside_a_run_are_found_however_the_run_is_named(tmp_path, monkeypatch):
    evaluated_run(tmp_path, [rollout(0, True, policy="full")], stem="theirs")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert filmed_beside(Path("run")) == filmed_beside(Path("run/checkpoints/..")) == [Path("theirs.jsonl")]
    assert filmed_beside(tmp_path / "run") == [tmp_path / "theirs.jsonl"]
    monkeypatch.chdir(tmp_path / "run")
    assert filmed_beside(Path(".")) == [Path("../theirs.jsonl")]
    monkeypatch.chdir(tmp_path / "run" / "checkpoints")
    assert filmed_beside(Path("..")) == [Path("../../theirs.jsonl")]


def test_films_of_two_policies_in_one_result_file_are_told_apart(tmp_path):
    records = [rollout(0, True, policy="one"), rollout(0, False, policy="two")]
    evaluated_run(tmp_path, records)
    found = rollout_videos(tmp_path)
    assert found.left_out == ()
    assert sorted(one.record.subject.policy for one in found.rollouts) == ["one", "two"]
    assert len({one.film for one in found.rollouts}) == 2


def test_a_damaged_result_file_is_left_out_and_the_others_films_are_found(tmp_path):
    evaluated_run(tmp_path / "good", [rollout(0, True, policy="one")])
    evaluated_run(tmp_path / "bad", [rollout(0, True, policy="two")])
    results = tmp_path / "bad" / "results.jsonl"
    results.write_bytes(results.read_bytes().replace(b"two", b"tow"))
    found = rollout_videos(tmp_path)
    assert [one.record.subject.policy for one in found.rollouts] == ["one"]
    assert str(results) in found.left_out[0]


def test_a_film_is_left_out_where_it_is_not_clear_whose_it_is_or_ends_otherwise(tmp_path):
    records = [rollout(0, True, policy="one"), rollout(0, False, policy="two")]
    evaluated_run(tmp_path / "both", records)
    one, two = sorted((tmp_path / "both").glob("*.mp4"))
    one.rename(two.with_name(two.name[: -len("-01234567.mp4")] + ".mp4"))  # as films were named once
    two.unlink()
    assert "does not say which one it shows" in rollout_videos(tmp_path / "both").left_out[0]
    evaluated_run(tmp_path / "cell", records[:1], stem="rollouts")
    (tmp_path / "cell" / "films").mkdir()
    next((tmp_path / "cell").glob("*.mp4")).rename(tmp_path / "cell" / "films" / "recovery_000_failure.mp4")
    assert "ends in failure, on record is success" in rollout_videos(tmp_path / "cell").left_out[0]
    with pytest.raises(ScoringError, match="evaluate with --film N"):
        clips_of([tmp_path / "both"])


def test_a_film_whose_names_cannot_be_cut_off_is_refused(tmp_path):
    evaluated_run(tmp_path, [rollout(0, True, policy="one")])
    write_video(next(tmp_path.glob("*.mp4")), size=(320, 240))
    with pytest.raises(ScoringError, match="film the rollout again"):
        clips_of([tmp_path])


TABLE = "video,task,method,start,regime,mode,seed,verdict,operator\n"


def table_of(tmp_path, *lines, head=TABLE):
    for name in ("a.mp4", "b.mp4"):
        write_video(tmp_path / "takes" / name)
    path = tmp_path / "videos.csv"
    path.write_text("\ufeff" + head + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_table_of_real_videos_becomes_records_of_the_evaluators_kind(tmp_path):
    lines = ("takes/a.mp4,cup_brush,ours,3,recovery,on_rim,7,failure,eve", "takes/b.mp4,cup_brush,base,3,initial,,,,")
    clips, notes = clips_of([table_of(tmp_path, *lines)])
    assert notes == [f"{tmp_path / 'videos.csv'}: columns that are not used: operator"]
    first, second = clips
    assert (first.rollout.subject.policy, first.rollout.subject.seed, first.automatic) == ("ours", 7, "failure")
    assert (first.rollout.start, second.rollout.start) == ({"mode": "on_rim"}, {"mode": "nominal"})
    assert second.automatic is None
    session = create_session(tmp_path / "s", clips, criteria=criteria_for(["cup_brush"]), created_at=NOW, raters=1)
    rate_all(session, "ada", lambda _: "success")
    found = unblind(session, NOW)
    assert [record.duration_s for record in found.records] == [0.48, 0.48]
    assert found.agreements.automatic.rollouts == 1
    assert rates(found.records, by=lambda record: record.subject.policy)["ours"].value == 1


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("takes/none.mp4,cup_brush,ours,3,recovery,,,,", "line 2: there is no file"),
        ("takes/a.mp4,cup_brush,ours,three,recovery,,,,", "line 2: start is 'three', wanted a whole number"),
        ("takes/a.mp4,cup_brush,ours,3,later,,,,", "regime is 'later', wanted initial or recovery"),
        ("takes/a.mp4,cup_brush,,3,recovery,,,,", "method is '', wanted a text"),
        ("takes/a.mp4,cup_brush,ours,3,recovery,,,maybe,", "verdict is 'maybe'"),
    ],
)
def test_a_wrong_line_of_a_table_is_named(tmp_path, line, complaint):
    with pytest.raises(ScoringError, match=complaint):
        clips_of([table_of(tmp_path, line)])


def test_a_rollout_or_a_video_twice_is_refused(tmp_path):
    same = "cup_brush,ours,3,recovery,,,,"
    with pytest.raises(ScoringError, match=r"both listed as cup_brush, recovery start 3 of 'ours'"):
        clips_of([table_of(tmp_path, f"takes/a.mp4,{same}", f"takes/b.mp4,{same}")])
    with pytest.raises(ScoringError, match="listed twice"):
        clips_of([table_of(tmp_path, f"takes/a.mp4,{same}", "takes/a.mp4,cup_brush,base,3,recovery,,,,")])


def test_something_must_be_named_and_exist(tmp_path):
    with pytest.raises(ScoringError, match="name what to score"):
        clips_of([])
    with pytest.raises(ScoringError, match="does not exist"):
        clips_of([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ScoringError, match="no videos named"):
        clips_of([tmp_path / "empty"])


def test_a_table_without_its_columns_says_which(tmp_path):
    with pytest.raises(ScoringError, match="lacks the columns method, start, regime"):
        clips_of([table_of(tmp_path, head="video,task\n")])


def test_a_folder_named_by_method_needs_no_table(tmp_path):
    for method in METHODS:
        write_video(tmp_path / method / "cup_brush-recovery-003.mp4")
    clips, _ = clips_of([tmp_path])
    assert [clip.rollout.subject.policy for clip in clips] == list(METHODS)
    write_video(tmp_path / "ours" / "take 3.mp4")
    with pytest.raises(ScoringError, match=r"METHOD/TASK-REGIME-START\.mp4"):
        clips_of([tmp_path])


def test_a_task_needs_written_criteria_and_own_ones_can_be_given(tmp_path):
    assert set(criteria_for(["cup_brush", "table_sweep", "round_disk", "cube_stack"])) == {
        "cup_brush",
        "table_sweep",
        "round_disk",
        "cube_stack",
    }
    with pytest.raises(ScoringError, match="no written success criteria for fold_towel"):
        criteria_for(["fold_towel"])
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"tasks": {"fold_towel": {"title": "Towel", "success": ["Folded."], "failure": []}}}))
    assert criteria_for(["fold_towel"], own)["fold_towel"].success == ("Folded.",)
    own.write_text('{"tasks": {"fold_towel": {"title": "Towel", "success": "Folded.", "failure": []}}}')
    with pytest.raises(
        ScoringError, match=r"own\.json: tasks\.fold_towel\.success must be a list, got 'Folded\.'; wanted is"
    ):
        criteria_for(["fold_towel"], own)


def test_writing_dates_of_the_copies_follow_their_random_names(made):
    copies = sorted((made / "videos").glob("*.mp4"))
    assert copies == sorted(copies, key=os.path.getmtime)
