"""Closed-loop evaluation: the protocol is kept, bad policies do no harm, and only the policy decides outcomes."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from egorecovery.episodes import Camera, JpegFrames
from egorecovery.errors import RecipeError
from egorecovery.evaluation import (
    BatchedPolicy,
    Evaluation,
    EvaluationProtocol,
    PolicyCrashed,
    ResultFile,
    RolloutPool,
    Subject,
    bench_protocol,
    evaluate,
    paper_protocol,
    starts,
)
from egorecovery.evaluation.baselines import HoldStill, Replay
from egorecovery.evaluation.batched_policy import ActionChunk, Observation, RejectedAction
from egorecovery.evaluation.chunks import ChunkExecution, ensemble
from egorecovery.evaluation.protocol import draw_start
from egorecovery.evaluation.rollout import Attempts, RolloutJob, attempt, drops_state, look
from egorecovery.workcell.demonstration import RobotDemonstrator
from egorecovery.workcell.render import Cameras
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.workcell import StagingFailed, Workcell
from evaluation_fakes import Assassin, Spoiler, Swayer

SHORT = EvaluationProtocol(name="test", rollouts=2, time_limit_s=2.4, stable_s=1.0, starts_seed="tests")


def plan(source, protocol=SHORT, **changes) -> Evaluation:
    how = {"task": "cube_stack", "protocol": protocol, "batch_rows": 2, **changes}
    return Evaluation(subject=Subject(policy=source.name), **how)


def with_tests_on_the_path() -> str:
    """For other processes, which must find the fakes."""
    return os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))


def question(source, brightness=0):
    views, size = len(source.cameras), source.image_size
    return Observation(np.full((views, size, size, 3), brightness, np.uint8), np.zeros(14, np.float32))


# The protocol


def test_the_papers_protocol_has_20_starts_five_minutes_and_three_stable_seconds():
    protocol = paper_protocol()
    assert (protocol.rollouts, protocol.time_limit_s, protocol.stable_s) == (20, 300.0, 3.0)
    assert bench_protocol("cube_stack").time_limit_s < bench_protocol("table_sweep").time_limit_s < 300.0


def test_starts_repeat_and_more_of_them_begin_with_the_same():
    few, many = (starts(replace(SHORT, rollouts=count), "cup_brush", "recovery") for count in (3, 6))
    assert few == many[:3]
    assert few == starts(replace(SHORT, rollouts=3, time_limit_s=9.0), "cup_brush", "recovery")


def test_validation_shares_no_start_with_the_comparison():
    drawn = [
        tuple(start.parameters.values())
        for seed in ("comparison", "validation")
        for regime in ("initial", "recovery")
        for start in starts(replace(SHORT, starts_seed=seed, rollouts=20), "round_disk", regime)
    ]
    assert len(set(drawn)) == len(drawn)


def test_failure_modes_come_as_often_as_the_task_says():
    drawn = starts(replace(SHORT, rollouts=300), "cube_stack", "recovery")
    assert sum(start.mode == "held" for start in drawn) / 300 == pytest.approx(0.3, abs=0.08)


def test_a_redrawn_start_keeps_its_failure_mode():
    scene = scene_named("cup_brush")
    for index in range(5):
        modes = {draw_start(SHORT, scene, "recovery", index, redraw).mode for redraw in range(4)}
        assert len(modes) == 1


def test_a_plain_room_is_plain():
    assert {start.appearance for start in starts(replace(SHORT, varied_appearance=False), "cube_stack", "initial")} == {
        0
    }
    assert 0 not in {start.appearance for start in starts(SHORT, "cube_stack", "initial")}


def test_too_few_rollouts_or_steps_are_refused_by_the_name_of_their_option():
    with pytest.raises(RecipeError, match=r"^--rollouts must be at least 1, got 0$"):
        EvaluationProtocol(rollouts=0)
    with pytest.raises(RecipeError, match=r"^--replan must be at least 1, got 0$"):
        EvaluationProtocol(replan_steps=0)


@pytest.mark.parametrize(
    "nonsense",
    [{"rollouts": 0}, {"replan_steps": 0}, {"starts_seed": ""}, {"time_limit_s": 1.0}, {"ensemble_decay": -1.0}],
)
def test_a_protocol_without_sense_is_refused(nonsense):
    with pytest.raises(RecipeError):
        EvaluationProtocol(**nonsense)


# Executing chunks


def chunk(value, steps=5):
    return np.full((steps, 14), float(value))


def test_a_chunk_is_executed_up_to_the_replan_interval():
    execution = ChunkExecution(replace(SHORT, replan_steps=2))
    execution.add(np.arange(5.0)[:, None] * np.ones(14))
    assert [execution.next_action()[0] for _ in range(2)] == [0.0, 1.0]
    assert execution.wants_chunk


def test_a_chunk_shorter_than_the_replan_interval_is_not_overrun():
    execution = ChunkExecution(replace(SHORT, replan_steps=20))
    execution.add(chunk(1, steps=3))
    for _ in range(3):
        assert not execution.wants_chunk
        execution.next_action()
    assert execution.wants_chunk


def test_temporal_ensembling_weighs_all_chunks_of_a_step_as_act_does():
    execution = ChunkExecution(replace(SHORT, replan_steps=1, ensemble=True, ensemble_decay=0.5))
    values = [1.0, 4.0, 7.0]
    for value in values:
        execution.add(chunk(value))
        action = execution.next_action()
    weights = np.exp(-0.5 * np.arange(3))  # the oldest first
    np.testing.assert_allclose(action, weights @ values / weights.sum())


def test_chunks_that_agree_are_left_as_they_are_by_ensembling():
    np.testing.assert_allclose(ensemble([np.full(14, 0.3)] * 7, decay=0.01), 0.3)


def test_chunks_that_are_over_have_no_say():
    execution = ChunkExecution(replace(SHORT, replan_steps=1, ensemble=True))
    execution.add(chunk(100, steps=1))
    execution.next_action()
    execution.add(chunk(1))
    np.testing.assert_allclose(execution.next_action(), 1.0)


# Asking the policy


def test_every_batch_has_the_same_number_of_rows():
    seen = []

    class Counting(Swayer):
        def infer(self, images_BVHW3, state_BA):
            seen.append(len(state_BA))
            return super().infer(images_BVHW3, state_BA)

    source = Counting()
    answers = BatchedPolicy(source, batch_rows=4).ask(
        [question(source, brightness) for brightness in (10, 60, 110, 160, 210)]
    )
    assert seen == [4, 4]
    assert [round(answer.gate * 255) for answer in answers] == [10, 60, 110, 160, 210]


def test_an_infinite_row_fails_its_own_rollout_and_no_other():
    source = Spoiler(spoil="infinite")
    first, second = BatchedPolicy(source, batch_rows=2).ask([question(source), question(source)])
    assert isinstance(first, RejectedAction)
    assert isinstance(second, ActionChunk)


@dataclass(frozen=True, kw_only=True)
class Babbler(Swayer):
    """Says what `babble` makes of a good decision."""

    babble: Callable

    def infer(self, images_BVHW3, state_BA):
        return self.babble(super().infer(images_BVHW3, state_BA))


def but(**changes):
    """A decision, with some parts made from the good one."""
    return lambda good: SimpleNamespace(**{**vars(good), **{name: make(good) for name, make in changes.items()}})


def ragged(good):
    rows = good.action_BHA.tolist()
    rows[0][1] = rows[0][1][:5]
    return rows


SPOILT = ["nan", "infinite", "short rows", "no steps", "one chunk", "integers", "bad gate", "gate column"]
BABBLE = {
    "ragged": (but(action_BHA=ragged), r"actions list, wanted floats \[1, steps, 14\]"),
    "no actions": (but(action_BHA=lambda good: None), "actions NoneType, wanted floats"),
    "absurd size": (but(action_BHA=lambda good: good.action_BHA * np.float32(1e30)), r"a target of .*e\+\d+ in step 0"),
    "text gate": (but(gate_B=lambda good: "open"), r"gate str, wanted floats \[1\]"),
    "text gates": (but(gate_B=lambda good: ["open"]), "gate list, wanted floats"),
    "text intent": (but(intent_BC=lambda good: [["up"]]), r"intent list, wanted floats \[1, coefficients\]"),
    "bare array": (lambda good: good.action_BHA, "a ndarray, wanted a PolicyOutput"),
    "None": (lambda good: None, "a NoneType, wanted a PolicyOutput"),
}


def refused_at_once(source, monkeypatch, tmp_path):
    """The reason on record, having made sure that the simulator was given nothing."""

    def forbidden(self, action):
        raise AssertionError("the simulator was given the action")

    monkeypatch.setattr(Workcell, "step", forbidden)
    evaluation = plan(source, replace(SHORT, rollouts=1), regimes=("initial",), batch_rows=1)
    [record] = evaluate(evaluation, lambda: source, ResultFile(tmp_path / "results"))
    assert ResultFile(tmp_path / "results").records() == [record]
    assert record.outcome == "failure"
    assert (record.duration_s, record.decisions) == (0.0, 1)
    return record.reason


@pytest.mark.parametrize("spoil", SPOILT)
def test_actions_that_are_none_are_a_failure_and_never_reach_the_simulator(spoil, monkeypatch, tmp_path):
    assert refused_at_once(Spoiler(spoil=spoil), monkeypatch, tmp_path).startswith("policy: ")


@pytest.mark.parametrize("kind", BABBLE)
def test_what_is_no_decision_is_a_failure_with_its_reason_and_never_reaches_the_simulator(kind, monkeypatch, tmp_path):
    babble, reason = BABBLE[kind]
    assert re.match(f"policy: {reason}", refused_at_once(Babbler(babble=babble), monkeypatch, tmp_path))


def test_lists_of_floats_are_as_good_as_arrays():
    lists = but(action_BHA=lambda good: good.action_BHA.tolist(), gate_B=lambda good: good.gate_B.tolist())
    source = Babbler(babble=lists)
    [said], [meant] = (BatchedPolicy(asked).ask([question(asked, 90)]) for asked in (source, Swayer()))
    np.testing.assert_array_equal(said.actions, meant.actions)
    assert (said.gate, said.intent) == (meant.gate, meant.intent)


def test_an_absurd_row_fails_its_own_rollout_and_no_other():
    source = Babbler(babble=lambda good: replace(good, action_BHA=good.action_BHA * np.float32([[[1e3]], [[1]]])))
    first, second = BatchedPolicy(source, batch_rows=2).ask([question(source, 30), question(source, 30)])
    assert isinstance(first, RejectedAction)
    assert isinstance(second, ActionChunk)


def test_a_policy_that_raises_stops_the_evaluation_and_what_was_done_stays(tmp_path):
    done = evaluate(plan(Swayer(), regimes=("initial",)), Swayer(), ResultFile(tmp_path / "results"))
    broken = Spoiler(spoil="raises", name="swayer")
    with pytest.raises(PolicyCrashed, match=r"swayer.*ZeroDivisionError"):
        evaluate(plan(broken), lambda: broken, ResultFile(tmp_path / "results"))
    assert ResultFile(tmp_path / "results").records() == done


# Rollouts


def test_a_demonstration_replayed_from_its_own_start_succeeds_and_one_that_holds_still_does_not():
    protocol = replace(bench_protocol("cube_stack"), rollouts=1, replan_steps=10_000, starts_seed="tests")
    scene = scene_named("cube_stack")
    demonstrator = RobotDemonstrator(scene, image_size=16)
    shown = demonstrator.attempt(starts(protocol, "cube_stack", "recovery")[0], np.random.default_rng(0))
    demonstrator.close()
    assert shown.motion is not None
    replay = Replay(actions=shown.motion.action, steps=protocol.longest_steps, image_size=16)
    [record] = evaluate(plan(replay, protocol, regimes=("recovery",)), replay)
    assert (record.outcome, record.reason) == ("success", "goal held")
    assert record.decisions == 1
    assert 3.0 < record.duration_s < 15.0
    still = HoldStill(image_size=16)
    [record] = evaluate(plan(still, replace(SHORT, rollouts=1), regimes=("recovery",)), still)
    assert (record.outcome, record.reason, record.duration_s) == ("failure", "time limit", 2.4)


def test_pictures_are_made_only_when_the_policy_is_asked_and_only_of_its_cameras(monkeypatch):
    rendered = []
    render = Cameras.render
    monkeypatch.setattr(Cameras, "render", lambda *a: rendered.append(a[2]) or render(*a))
    source = Swayer(cameras=(Camera.LEFT_WRIST,))
    [record] = evaluate(plan(source, replace(SHORT, rollouts=1), regimes=("initial",)), source)
    assert record.decisions == len(record.gate_trace) == len(record.intent_trace) == 4
    assert rendered == [Camera.LEFT_WRIST] * 4


def test_a_share_of_decisions_is_made_without_proprioception_the_same_ones_every_time():
    def seen(**changes) -> list[bool]:
        source = Swayer()
        [job] = plan(source, replace(SHORT, rollouts=1, **changes), regimes=("initial",)).jobs(source)
        return [drops_state(job, decision) for decision in range(400)]

    assert not any(seen())
    assert all(seen(state_dropout=1.0))
    assert 0.2 < np.mean(seen(state_dropout=0.3)) < 0.4
    assert seen(state_dropout=0.3) == seen(state_dropout=0.3)
    assert "state_dropout" not in EvaluationProtocol().identity()  # older results keep theirs
    assert EvaluationProtocol(state_dropout=0.3).identity()["state_dropout"] == 0.3


def test_with_ensembling_the_policy_is_asked_at_every_step():
    source = Swayer()
    protocol = replace(SHORT, rollouts=1, replan_steps=1, ensemble=True)
    [record] = evaluate(plan(source, protocol, regimes=("initial",)), source)
    assert record.decisions == round(record.duration_s * 25) + 1


def test_a_start_that_cannot_be_staged_is_replaced_by_another_of_its_mode(monkeypatch):
    reset, tried = Workcell.reset, []

    def refusing_the_first(self, start):
        tried.append(start)
        if len(tried) == 1:
            raise StagingFailed("on purpose")
        reset(self, start)

    monkeypatch.setattr(Workcell, "reset", refusing_the_first)
    source = Swayer()
    [record] = evaluate(plan(source, replace(SHORT, rollouts=1), regimes=("recovery",)), source)
    assert tried[0] != tried[1]
    assert tried[0].mode == tried[1].mode == record.mode
    assert record.start == tried[1].record()


def test_what_breaks_in_the_simulator_is_an_error_on_record(monkeypatch):
    def broken(self, start):
        raise ValueError("no such body")

    monkeypatch.setattr(Workcell, "reset", broken)
    source = Swayer()
    records = evaluate(plan(source), source)
    assert {(record.outcome, record.reason) for record in records} == {("error", "ValueError: no such body")}
    assert not any(record.succeeded for record in records)


@pytest.mark.parametrize(
    ("mode", "openings", "retries"),
    [
        ("fallen", [1.0, 0.0, 0.0, 0.4, 0.0, 1.0], 0),  # one grasp; a twitch is no second one
        ("fallen", [1.0, 0.0, 0.8, 0.1, 0.9, 0.2], 2),
        ("held", [0.0, 1.0], 0),  # in its first attempt when it starts
        ("held", [0.0, 1.0, 0.0], 1),
        ("fallen", [1.0, 1.0], 0),
    ],
)
def test_retries_are_grasps_begun_again(mode, openings, retries):
    scene = scene_named("cube_stack")
    with Workcell(scene, image_size=16) as cell:
        cell.reset(scene.draw_failure(np.random.default_rng(0), mode))
        hands = Attempts(cell)
        for opening in openings:
            hands.watch(np.append(np.zeros(13), opening))
        assert hands.retries == retries


# Nothing but the policy decides


def test_one_process_and_two_workers_give_identical_results(tmp_path):
    source = Swayer()
    alone = evaluate(plan(source), source, ResultFile(tmp_path / "alone"))
    together = evaluate(plan(source), source, ResultFile(tmp_path / "together"), workers=2)
    assert alone == together
    assert sorted(Path(tmp_path / "alone").read_text().splitlines()) == sorted(
        Path(tmp_path / "together").read_text().splitlines()
    )
    assert len({record.gate_trace for record in alone}) == len(alone)  # they are different rollouts


@pytest.mark.slow
def test_a_local_ray_cluster_gives_identical_results(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", with_tests_on_the_path())
    source = Swayer()
    evaluation = plan(source, replace(SHORT, rollouts=1))
    assert evaluate(evaluation, source) == evaluate(evaluation, source, workers=2, executor="ray")


@pytest.mark.fault
def test_a_killed_worker_is_replaced_and_its_rollout_repeated():
    source = Swayer()
    killer = Assassin(kills=[1])
    unbroken = evaluate(plan(source, regimes=("recovery",)), source)
    with RolloutPool(2) as pool:
        assert evaluate(plan(source, regimes=("recovery",)), lambda: killer, pool=pool) == unbroken
    assert not killer.kills


@pytest.mark.fault
def test_a_rollout_whose_worker_dies_twice_is_an_error_and_the_others_go_on():
    killer = Assassin(kills=[1, 1])
    protocol = replace(SHORT, rollouts=1)
    with RolloutPool(2) as pool:
        [lost] = evaluate(plan(killer, protocol, regimes=("recovery",)), lambda: killer, pool=pool)
        [fine] = evaluate(plan(killer, protocol, regimes=("initial",)), lambda: killer, pool=pool)
    assert (lost.outcome, lost.reason) == ("error", "the worker process died")
    assert lost.mode in scene_named("cube_stack").modes
    assert fine.outcome == "failure"


@pytest.mark.fault
def test_an_evaluation_killed_in_the_middle_resumes_to_the_results_of_an_unbroken_one(tmp_path):
    source, protocol = Swayer(), replace(SHORT, rollouts=6, time_limit_s=4.0)
    unbroken = evaluate(plan(source, protocol), source)
    script = (
        "if __name__ == '__main__':\n"
        "    from dataclasses import replace; from pathlib import Path; from evaluation_fakes import Swayer\n"
        "    from egorecovery.evaluation import *\n"
        f"    protocol = EvaluationProtocol(**{vars(protocol)!r})\n"
        "    job = Evaluation(subject=Subject(policy='swayer'), task='cube_stack', protocol=protocol, batch_rows=2)\n"
        f"    evaluate(job, Swayer(), ResultFile(Path({str(tmp_path / 'broken')!r})), workers=2)\n"
    )
    (tmp_path / "run.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": with_tests_on_the_path()}
    with subprocess.Popen([sys.executable, tmp_path / "run.py"], env=environment) as run:
        deadline_s = time.monotonic() + 120
        while not (tmp_path / "broken").exists() or (tmp_path / "broken").read_bytes().count(b"\n") < 3:
            assert time.monotonic() < deadline_s
            assert run.poll() is None, "it ended before it could be killed"
            time.sleep(0.005)
        os.kill(run.pid, signal.SIGKILL)
    there = len(ResultFile(tmp_path / "broken").records())
    assert 3 <= there < 12
    done = []
    resumed = evaluate(
        plan(source, protocol), source, ResultFile(tmp_path / "broken"), on_progress=lambda *counts: done.append(counts)
    )
    assert resumed == unbroken
    assert done == [(count, 12) for count in range(there, 13)]


def test_asking_for_more_rollouts_runs_only_the_new_ones(tmp_path):
    source, counts = Swayer(), []
    for rollouts in (1, 2):
        records = evaluate(
            plan(source, replace(SHORT, rollouts=rollouts), regimes=("initial",)),
            source,
            ResultFile(tmp_path / "results"),
            on_progress=lambda done, total: counts.append((done, total)),
        )
        assert len(records) == rollouts
    assert counts == [(0, 1), (1, 1), (1, 2), (2, 2)]


# Films


def test_a_film_shows_every_step_and_the_rollout_goes_as_without_it(tmp_path):
    import av

    from egorecovery.evaluation.video import render_video

    source = Swayer()
    [job] = plan(source, replace(SHORT, rollouts=1), regimes=("recovery",)).jobs(source)
    inquiry = BatchedPolicy(source)
    filmed = render_video(job, inquiry, tmp_path / "film.mp4")
    assert filmed == attempt(job, lambda asked: inquiry.ask([asked])[0])
    with av.open(str(tmp_path / "film.mp4")) as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(pictures) == filmed.steps + 38  # the last one stays for a moment
    assert pictures[0].shape[1] == pytest.approx(2 * 240, abs=4)
    assert np.abs(pictures[0].astype(int) - pictures[-1]).mean() > 1


def test_a_policy_sees_the_cameras_of_its_job_through_jpeg_as_in_training():
    job = RolloutJob(
        task="cube_stack", regime="initial", index=0, protocol=SHORT, cameras=(Camera.HEAD,), image_size=24
    )
    with Workcell(scene_named("cube_stack"), image_size=24) as cell:
        cell.reset(starts(SHORT, "cube_stack", "initial")[0])
        seen = look(job, cell).images
        rendered = cell.cameras.render(cell.robot.data, Camera.HEAD)[None]
    assert seen.shape == (1, 24, 24, 3)
    np.testing.assert_array_equal(seen, JpegFrames.encode(rendered).decode())  # as all pictures of a store
    assert (seen != rendered).any()
