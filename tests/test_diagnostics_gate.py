"""Gate alignment: a perfect gate, a gate that only knows the clock, and gates that are early, late or stuck."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from egorecovery.diagnostics import DiagnosticError, GateTrace, gate_alignment, gate_auc, gate_figure, png
from egorecovery.episodes import Embodiment


def episodes(rng, count=15):
    return [(frames := int(rng.integers(80, 160)), int(rng.uniform(0.3, 0.7) * frames)) for _ in range(count)]


def delayed_gate(frames, boundary, delay=0):
    return GateTrace(gate=np.where(np.arange(frames) <= boundary + delay, 0.98, 0.02), boundary=boundary)


def clock_gate(frames, boundary):
    return GateTrace(gate=1 / (1 + np.exp(9 * (np.arange(frames) / (frames - 1) - 0.5))), boundary=boundary)


def test_a_perfect_gate_has_auc_one_and_offsets_zero(rng):
    found = gate_alignment([delayed_gate(*episode) for episode in episodes(rng)])
    assert found.auc == 1.0
    assert set(found.offsets) == {0}
    assert (found.median_offset, found.offset_iqr, found.within_one_frame) == (0.0, (0.0, 0.0), 15)
    assert found.phase_only_auc < 0.97


@pytest.mark.parametrize("delay", [-12, -1, 1, 7])
def test_a_gate_that_falls_late_or_early_is_off_by_as_many_frames(delay, rng):
    found = gate_alignment([delayed_gate(*episode, delay) for episode in episodes(rng)])
    assert set(found.offsets) == {delay}
    assert found.within_one_frame == (15 if abs(delay) <= 1 else 0)


def test_a_gate_that_only_knows_the_clock_has_the_auc_of_the_phase_only_baseline(rng):
    found = gate_alignment([clock_gate(*episode) for episode in episodes(rng)])
    assert found.auc == pytest.approx(found.phase_only_auc, abs=1e-12)
    assert found.offset_iqr[1] - found.offset_iqr[0] > 5


def test_recoveries_that_all_end_at_the_same_phase_leave_the_clock_nothing_to_miss():
    found = gate_alignment([delayed_gate(100, 49) for _ in range(15)])
    assert found.phase_only_auc == found.auc == 1.0


def test_a_gate_of_pure_noise_knows_nothing(rng):
    traces = [GateTrace(gate=rng.uniform(size=frames), boundary=boundary) for frames, boundary in episodes(rng, 60)]
    assert gate_auc(traces) == pytest.approx(0.5, abs=0.03)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.integers(0, 10_000))
def test_the_auc_is_the_rank_formula_with_ties_counting_half(frames, seed):
    rng = np.random.default_rng(seed)
    trace = GateTrace(gate=rng.integers(0, 4, frames) / 3, boundary=int(rng.integers(0, frames - 1)))
    positives = trace.in_recovery.sum()
    ranks = rankdata(trace.gate)[trace.in_recovery].sum()
    wanted = (ranks - positives * (positives + 1) / 2) / (positives * (frames - positives))
    assert gate_auc([trace]) == pytest.approx(wanted, abs=1e-12)


def test_the_first_frame_below_the_threshold_counts_even_if_the_gate_rises_again():
    gate = np.full(50, 0.9)
    gate[[5, 40]] = 0.4
    assert GateTrace(gate=gate, boundary=29).offset == 5 - 30


def test_a_gate_that_never_falls_counts_as_falling_after_the_end_and_is_reported(rng):
    traces = [delayed_gate(100, 49), GateTrace(gate=np.full(100, 0.9), boundary=49)]
    found = gate_alignment(traces)
    assert found.offsets == (0, 50)
    assert found.never_below == 1


def test_the_aligned_mean_is_the_mean_of_the_episodes_that_reach_the_frame():
    short = GateTrace(gate=np.full(20, 0.2), boundary=9)
    long = GateTrace(gate=np.full(60, 0.6), boundary=29)
    found = gate_alignment([short, long], reach=20)
    at = {frame: value for frame, value in zip(found.frames, found.gate.mean, strict=True)}
    assert at[0] == pytest.approx(0.4)
    assert at[-11] == at[10] == pytest.approx(0.6)
    assert found.gate.low[20] == pytest.approx(0.2)
    assert found.gate.high[20] == pytest.approx(0.6)


def test_frames_that_no_episode_reaches_are_unknown_and_null_in_json():
    found = gate_alignment([delayed_gate(20, 9), delayed_gate(24, 9)], reach=30)
    assert np.isnan(found.gate.mean[0])
    assert json.loads(json.dumps(found.to_json()))["gate"]["low"][0] is None


def test_the_bootstrap_interval_is_that_of_the_mean_over_episodes(rng):
    levels = rng.uniform(size=15)
    found = gate_alignment([GateTrace(gate=np.full(40, level), boundary=19) for level in levels], reach=5)
    loop = [rng.choice(levels, 15).mean() for _ in range(4000)]
    np.testing.assert_allclose([found.gate.low[0], found.gate.high[0]], np.percentile(loop, [2.5, 97.5]), atol=0.02)


def test_logits_wrong_boundaries_and_episodes_without_nominal_frames_are_refused():
    with pytest.raises(DiagnosticError, match="after its sigmoid"):
        GateTrace(gate=np.array([3.0, -2.0]), boundary=0)
    with pytest.raises(DiagnosticError, match=r"outside the trace's frames 0\.\.9"):
        GateTrace(gate=np.zeros(10), boundary=10)
    with pytest.raises(DiagnosticError, match="every frame is in recovery"):
        gate_alignment([GateTrace(gate=np.ones(10), boundary=9)])
    with pytest.raises(DiagnosticError, match="no gate trace"):
        gate_alignment([])


def test_the_figure_is_drawn_with_offsets_beyond_its_edges(rng):
    found = gate_alignment([delayed_gate(200, 60, 100), delayed_gate(200, 60, -55), delayed_gate(200, 60)])
    both = {Embodiment.ROBOT: found, Embodiment.HUMAN: found}
    assert png(gate_figure({"cup_brush": both, "round_disk": both})).startswith(b"\x89PNG")
