"""Diagnostics of real stores and real, if tiny, policies: what is computed, and what is said of the rest."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tiny_experiment  # noqa: E402 - torch is an extra
from egorecovery.cli.main import main  # noqa: E402
from egorecovery.diagnostics import DiagnosticError, gate_auc  # noqa: E402
from egorecovery.diagnostics.activations import DiagnosedRun, FrozenPolicy, gate_traces  # noqa: E402
from egorecovery.diagnostics.diagnosis import Diagnosis, content_hash, diagnose  # noqa: E402
from egorecovery.diagnostics.store_diagnostics import (  # noqa: E402
    StartCoverage,
    episodes_of,
    labelled,
    object_positions_m,
    target_alignment,
)
from egorecovery.episodes import Embodiment, EpisodeStore, Phase, Source  # noqa: E402
from egorecovery.episodes.reading import FrameReader  # noqa: E402
from egorecovery.experiments import Condition, Suite, diagnosing  # noqa: E402
from egorecovery.experiments.condition import episodes  # noqa: E402
from egorecovery.experiments.folder import FolderError  # noqa: E402
from egorecovery.intent import IntentSpec, data_hash, label_store  # noqa: E402
from egorecovery.policy.frame_batches import AT_ONCE  # noqa: E402
from egorecovery.policy.inference import load_action_source  # noqa: E402
from egorecovery.report import write_report  # noqa: E402
from egorecovery.training.splits import in_order  # noqa: E402
from training_store import BOUNDARY, PER_SOURCE, TASK, annotate, made_up_episode, training_arguments  # noqa: E402

EPISODES = 8  # per source of the store whose episodes say where the object is
FRESH = 2
HELD_OUT = 5  # of them: ten robot episodes, as many as the probe's folds want
SUITE = Suite(
    name="tiny",
    conditions=(
        Condition(method="egorecovery", budget=episodes(1, 1, human_recovery=1)),
        Condition(method="robot_recovery", budget=episodes(1, 1)),
    ),
    tasks=(tiny_experiment.TASK,),
)


def run_diagnosed(out: Path):
    """On two fresh episodes of each source, the fewest that can be diagnosed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosing, "FRESH_EPISODES", FRESH)
        return tiny_experiment.run_tiny(out, suite=SUITE, rollouts=1, diagnostics=True)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory) -> Path:
    """Simulated data, two trainings, and their diagnosis."""
    out = tmp_path_factory.mktemp("diagnosed") / "out"
    outcome = run_diagnosed(out)
    assert outcome.failed == {}
    assert list(outcome.diagnosed) == [TASK]
    return out


@pytest.fixture(scope="module")
def traced(tmp_path_factory) -> EpisodeStore:
    """Made-up episodes that carry where the object was: in the hand."""
    store = EpisodeStore.create(tmp_path_factory.mktemp("traced") / "store")
    with store.writing() as writer:
        for source in Source:
            for number in range(EPISODES):
                made = made_up_episode(source, number)
                details = {"object_m": made.effector_m[:, 0].tolist()}
                writer.add(replace(made, provenance=replace(made.provenance, details=details)))
    annotate(store, BOUNDARY)
    label_store(store)
    return store


@pytest.fixture(scope="module")
def runs(traced, tmp_path_factory) -> dict[str, Path]:
    """With human data, and without."""
    home = tmp_path_factory.mktemp("runs")
    trained = {name: home / name for name in ("egorecovery", "robot_recovery")}
    changes = {"held_out": str(HELD_OUT)}
    assert main(training_arguments(traced, trained["egorecovery"], changes, steps=60)) == 0
    alone = {"method": "robot_recovery", "human_recovery": 0, "steps": 5}
    changes["batch.human"] = "0"
    assert main(training_arguments(traced, trained["robot_recovery"], changes, **alone)) == 0
    return trained


@pytest.fixture(scope="module")
def complete(traced, runs, tmp_path_factory) -> Path:
    """Everything that can be asked, answered."""
    out = tmp_path_factory.mktemp("complete")
    told = ["--run", str(runs["egorecovery"]), "--compare", str(runs["robot_recovery"])]
    assert main(["diagnose", str(traced.root), "--task", TASK, *told, "--out", str(out), "--device", "cpu"]) == 0
    return out


def record_in(folder: Path) -> dict:
    return json.loads((folder / "diagnostics.json").read_text())


def reasons(record: dict) -> dict[str, str]:
    return {one["what"]: one["reason"] for one in record["not_computed"]}


def opened(run: Path, label: str = "it") -> DiagnosedRun:
    return DiagnosedRun.open(run, TASK, label)


def test_a_record_says_what_made_it_and_names_its_figures(complete, traced, runs):
    record = record_in(complete)
    assert record["command"].startswith(f"egorecovery diagnose {traced.root} --task {TASK} --run {runs['egorecovery']}")
    assert len(record["data_hash"]) == len(record["content_hash"]) == 64
    policy = record["policies"]["egorecovery"]
    assert len(policy["policy_hash"]) == 64
    assert policy["held_out"] == {str(source): HELD_OUT for source in Source}
    assert record["compare"]["label"] == "robot_recovery"
    assert set(record["figures"]) == {"ks", "bottleneck", "gate", "probe"}
    for name in record["figures"].values():
        assert (complete / name).read_bytes().startswith(b"\x89PNG")
    assert record["notes"] == []


def test_the_gate_is_aligned_on_held_out_episodes_of_both_embodiments(complete, traced, runs):
    record = record_in(complete)
    held_out = opened(runs["egorecovery"]).pools(traced).held_out
    for who, source in (("robot", Source.ROBOT_RECOVERY), ("human", Source.HUMAN_RECOVERY)):
        gate = record["gate"]["egorecovery"][who]
        assert gate["episodes"] == HELD_OUT
        assert set(gate["chosen"]) == set(held_out[source])
        assert 0 <= gate["auc"] <= 1


def test_the_bottleneck_is_measured_on_frames_with_a_valid_window(complete):
    found = record_in(complete)["bottleneck"]["egorecovery"]
    assert found["feature"]["dimensions"] == 32
    assert found["intent"]["dimensions"] == found["pca"]["dimensions"] == 4
    assert min(found["frames"].values()) > 0
    assert found["feature"]["shrink"] == 1.0


def test_the_probe_compares_both_trunks_on_robot_episodes_that_neither_saw(complete):
    probe = record_in(complete)["probe"]
    assert list(probe["trunks"]) == ["robot_recovery", "egorecovery"]
    for pools in probe["trunks"].values():
        assert set(pools) == {"robot_success", "robot_recovery"}
        assert all(len(pool["episodes"]) == HELD_OUT for pool in pools.values())
        assert all(pool["error_mm"] < pool["unseen_mm"] for pool in pools.values())  # the picture shows the hand
    assert set(probe["gain"]["egorecovery"]) == {"robot_success", "robot_recovery"}


def test_episodes_without_a_recorded_start_have_no_coverage_and_it_is_said_so(complete):
    assert "provenance.details.start" in reasons(record_in(complete))["failure-state coverage"]


def test_observing_gives_the_gates_and_intents_that_the_robot_would_act_on(traced, runs):
    policy = FrozenPolicy(opened(runs["egorecovery"]), "cpu")
    name = policy.run.pools(traced).held_out[Source.ROBOT_RECOVERY][0]
    (seen,) = policy.observe(traced, [(Source.ROBOT_RECOVERY, name)])
    acting = load_action_source(runs["egorecovery"], "cpu")
    with FrameReader(traced, acting.cameras) as reader:
        pictures = reader.read([(name, frame) for frame in range(len(seen.gate_T))])
    decided = acting.infer(pictures, np.asarray(traced.stream(name, "state"), np.float32))
    np.testing.assert_allclose(seen.gate_T, decided.gate_B, atol=1e-5)
    np.testing.assert_allclose(seen.intent_TC, decided.intent_BC, atol=1e-5)


def test_what_is_seen_in_a_frame_does_not_depend_on_the_batch_it_is_in(traced, runs, monkeypatch):
    policy = FrozenPolicy(opened(runs["egorecovery"]), "cpu")
    held_out = in_order(policy.run.pools(traced).held_out)
    chosen = [each for each in held_out if each[0].is_recovery][::HELD_OUT]
    whole = policy.observe(traced, chosen)
    monkeypatch.setattr("egorecovery.policy.frame_batches.AT_ONCE", 7)
    assert AT_ONCE > 7
    for one, other in zip(whole, policy.observe(traced, chosen), strict=True):
        np.testing.assert_allclose(one.feature_TD, other.feature_TD, atol=1e-5)
        np.testing.assert_allclose(one.gate_T, other.gate_T, atol=1e-5)


def test_boundaries_of_gate_traces_are_the_annotated_ones(traced, runs):
    policy = FrozenPolicy(opened(runs["egorecovery"]), "cpu")
    known = [each for each in in_order(policy.run.pools(traced).held_out) if each[0] is Source.HUMAN_RECOVERY]
    traces = gate_traces(policy.observe(traced, known), Embodiment.HUMAN, most=3)
    assert len(traces) == 3
    assert {trace.boundary for trace in traces.values()} == {BOUNDARY}
    assert 0 <= gate_auc(list(traces.values())) <= 1


def test_a_simulated_store_tells_how_well_each_pool_covers_the_failures(experiment):
    starts = StartCoverage(EpisodeStore(experiment / "data" / TASK), TASK)
    record = record_in(experiment / "diagnostics" / TASK)
    told = {*record.get("coverage", {}), *(what.rpartition(", ")[2] for what in reasons(record) if "coverage" in what)}
    assert told == set(starts.modes)
    for mode, found in record.get("coverage", {}).items():
        assert found["robot"]["starts"] + found["human"]["starts"] <= 6
        assert starts.of(mode).human.starts == found["human"]["starts"]


def test_without_human_successes_recovery_is_compared_and_success_is_listed(experiment):
    record = record_in(experiment / "diagnostics" / TASK)
    assert "recovery" in record["ks"]
    assert "no labelled human success episode" in reasons(record)["KS distance, success"]


def test_people_do_not_record_where_the_object_is_and_the_probe_says_what_is_wanted(experiment):
    store = EpisodeStore(experiment / "data" / TASK)
    with pytest.raises(DiagnosticError, match=r"provenance\.details\.object_m"):
        object_positions_m(store, store.ids())


def test_an_object_track_of_another_length_is_refused_by_name(tmp_path):
    store = EpisodeStore.create(tmp_path / "store")
    made = made_up_episode(Source.ROBOT_SUCCESS, 0)
    with store.writing() as writer:
        writer.add(replace(made, provenance=replace(made.provenance, details={"object_m": [[0.0, 0.0, 0.0]]})))
    with pytest.raises(DiagnosticError, match=f"{made.id}.*must be finite numbers of shape"):
        object_positions_m(store, [made.id])


def test_policies_can_be_looked_at_on_a_store_of_fresh_episodes(traced, runs, tmp_path, capsys):
    fresh = EpisodeStore.create(tmp_path / "fresh")
    with fresh.writing() as writer:
        for number in range(100, 106):  # more than were held out
            for source in (Source.ROBOT_RECOVERY, Source.HUMAN_RECOVERY):
                writer.add(made_up_episode(source, number))
    annotate(fresh, BOUNDARY)
    label_store(fresh)
    asked = ["diagnose", str(traced.root), "--task", TASK, "--run", str(runs["egorecovery"]), "--device", "cpu"]
    assert main([*asked, "--fresh", str(fresh.root), "--out", str(tmp_path / "out")]) == 0
    record = record_in(tmp_path / "out")
    (gates,) = record["gate"].values()
    assert {name for who in gates.values() for name in who["chosen"]} == set(map(str, fresh.ids()))
    of_held_out = content_hash(
        data_hash(traced, episodes_of(traced, TASK)), TASK, [opened(runs["egorecovery"], "egorecovery")], None
    )
    assert record["content_hash"] != of_held_out
    assert str(fresh.root) in record["command"]
    capsys.readouterr()
    assert main([*asked, "--fresh", str(traced.root), "--out", str(tmp_path / "none")]) == 2
    assert "is not fresh" in capsys.readouterr().err
    empty = EpisodeStore.create(tmp_path / "empty")
    assert main([*asked, "--fresh", str(empty.root), "--out", str(tmp_path / "none")]) == 2
    assert "no episode at all" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_targets_of_one_path_are_compared_by_phase(made_up):
    known = labelled(made_up, TASK, IntentSpec())
    assert len(known) == 4 * PER_SOURCE
    for phase in Phase:
        found = target_alignment(known, phase)
        assert found.episodes == (PER_SOURCE, PER_SOURCE)
        assert 0 <= found.mean_ks <= 1


def test_without_a_run_the_store_alone_is_diagnosed_and_the_rest_is_listed(made_up, tmp_path, capsys):
    assert main(["diagnose", str(made_up.root), "--task", TASK, "--out", str(tmp_path)]) == 0
    record = record_in(tmp_path)
    assert list(record["figures"]) == ["ks"]
    assert {"bottleneck alignment", "gate alignment", "transfer probe"} <= reasons(record).keys()
    printed = capsys.readouterr().out
    assert "mean KS" in printed
    assert "not computed: gate alignment: no trained policy was given" in printed


def test_a_policy_without_gate_is_listed_with_the_reason(traced, runs):
    found = diagnose(traced, TASK, [opened(runs["robot_recovery"])], device="cpu")
    (reason,) = [one.reason for one in found.missing if one.what.startswith("bottleneck")]
    assert "neither Intent Head nor gate" in reason
    assert "gate" not in found.record


def test_too_few_held_out_episodes_are_listed_with_their_number(made_up, tmp_path):
    assert main(training_arguments(made_up, tmp_path / "run", steps=1)) == 0
    found = diagnose(made_up, TASK, [opened(tmp_path / "run")], opened(tmp_path / "run", "other"), device="cpu")
    told = {one.what: one.reason for one in found.missing}
    assert told["gate alignment, it, human"].startswith("1 unseen human recovery episodes")
    assert "with human data too" in told["transfer probe"]


def test_a_run_of_other_data_is_diagnosed_with_a_note(made_up, runs):
    found = diagnose(made_up, TASK, [opened(runs["egorecovery"])], device="cpu")
    assert "was trained on other episodes or labels" in found.notes[0]


def test_two_policies_stand_side_by_side_under_their_own_names(traced, runs, tmp_path, capsys):
    copy = shutil.copytree(runs["egorecovery"], tmp_path / "copy")
    chosen = ["--run", str(runs["egorecovery"]), str(copy), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main(["diagnose", str(traced.root), "--task", TASK, *chosen]) == 0
    gates = record_in(tmp_path / "out")["gate"]
    assert gates["egorecovery"] == gates["copy"]
    assert "Gate, copy" in capsys.readouterr().out


def test_a_store_without_labels_is_listed_and_nothing_found_is_exit_code_1(tmp_path, capsys):
    store = EpisodeStore.create(tmp_path / "store")
    with store.writing() as writer:
        writer.add(made_up_episode(Source.ROBOT_RECOVERY, 0))
    assert main(["diagnose", str(store.root), "--task", TASK, "--out", str(tmp_path / "out")]) == 1
    assert "egorecovery label" in reasons(record_in(tmp_path / "out"))["KS distance, recovery"]
    assert "egorecovery label" in capsys.readouterr().out


def test_a_run_of_another_task_is_refused_by_both_names(made_up, runs, tmp_path, capsys):
    told = ["--task", "cup_brush", "--run", str(runs["egorecovery"]), "--out", str(tmp_path / "out")]
    assert main(["diagnose", str(made_up.root), *told]) == 2
    assert f"was trained for {TASK}, not for cup_brush" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (["--task", "cup_brush"], f"has no episode of 'cup_brush'; it has {TASK}"),
        (["--task", TASK, "--run", "nowhere"], "nowhere does not exist; name a run or a checkpoint"),
        (["--task", TASK, "--run", "{run}", "{run}"], "the same run is given twice"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused_in_one_line(made_up, runs, capsys, told, message):
    told = [part.format(run=runs["egorecovery"]) for part in told]
    assert main(["diagnose", str(made_up.root), *told]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_pictures_of_an_older_diagnosis_go(tmp_path):
    (tmp_path / "probe.png").write_bytes(b"old")
    Diagnosis(record={"task": TASK}).write(tmp_path)
    assert not (tmp_path / "probe.png").exists()


def test_an_experiment_diagnoses_once_and_again_only_when_something_changed(experiment, tmp_path):
    out = Path(shutil.copytree(experiment, tmp_path / "out"))
    home = out / "diagnostics" / TASK
    before = (home / "diagnostics.json").stat().st_mtime_ns
    assert run_diagnosed(out).diagnosed[TASK].startswith("there already")
    assert (home / "diagnostics.json").stat().st_mtime_ns == before
    (home / "ks.png").unlink()
    assert "figures" in run_diagnosed(out).diagnosed[TASK]
    assert (home / "ks.png").exists()
    assert record_in(home)["content_hash"] == record_in(experiment / "diagnostics" / TASK)["content_hash"]


def test_an_experiments_policies_are_looked_at_on_episodes_made_for_it(experiment):
    record, fresh = record_in(experiment / "diagnostics" / TASK), EpisodeStore(experiment / "data" / f"{TASK}-fresh")
    assert record["fresh"] == {"store": str(fresh.root), "data_hash": data_hash(fresh, episodes_of(fresh, TASK))}
    assert not set(fresh.ids()) & set(EpisodeStore(experiment / "data" / TASK).ids())
    sources = [Source.ROBOT_SUCCESS, Source.ROBOT_RECOVERY, Source.HUMAN_RECOVERY]
    assert sorted(fresh.card(name).source for name in fresh.ids()) == sorted(sources * FRESH)
    assert f"--fresh {fresh.root}" in record["command"]


def test_an_experiment_whose_training_is_elsewhere_says_so(experiment, tmp_path):
    out = Path(shutil.copytree(experiment, tmp_path / "out", ignore=shutil.ignore_patterns("trainings", "diagnostics")))
    assert "no finished training of egorecovery" in run_diagnosed(out).diagnosed[TASK]
    assert not (out / "diagnostics").exists()


def test_the_report_shows_figures_and_numbers_beside_the_papers(experiment, complete, tmp_path):
    out = Path(shutil.copytree(experiment, tmp_path / "out", ignore=shutil.ignore_patterns("data", "trainings")))
    record = record_in(complete) | {"task": "cup_brush"}
    home = Path(shutil.copytree(complete, out / "diagnostics" / "cup_brush"))
    (home / "diagnostics.json").write_text(json.dumps(record))
    files = write_report(out)
    summary = json.loads(files.json.read_text())["diagnostics"]
    assert list(summary) == ["cup_brush", TASK]
    assert summary["cup_brush"]["content_hash"] == record["content_hash"]
    of_paper = {row["what"]: row["paper"] for row in summary["cup_brush"]["rows"]}
    assert of_paper["mean KS, robot to human, recovery"] == "0.21"
    assert of_paper["rho = W2 recovery / W2 nominal: trunk feature to intent"] == "0.78 to 0.37"
    assert of_paper["AUC of the clock alone, human"] == "0.969"
    html, markdown = files.html.read_text(), files.markdown.read_text()
    figures = len(record["figures"]) + len(record_in(experiment / "diagnostics" / TASK)["figures"])
    assert html.count("data:image/png;base64,") == figures
    assert "Not computed" in html
    assert "## Diagnostics" in markdown
    assert "- not computed: failure-state coverage" in markdown


def test_a_damaged_diagnosis_is_named_and_not_half_shown(experiment, tmp_path):
    out = Path(shutil.copytree(experiment, tmp_path / "out", ignore=shutil.ignore_patterns("data", "trainings")))
    (out / "diagnostics" / TASK / "diagnostics.json").write_text('{"schema": 1, "task"')
    with pytest.raises(FolderError, match=r"diagnostics.json: not JSON"):
        write_report(out)
