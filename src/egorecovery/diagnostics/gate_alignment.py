"""Does the gate see the recovery end, or does it only know the clock?

Paper, "Additional Ablations and Mechanism Analysis", third diagnostic: on 15 robot and 15 human recovery episodes the
gate's probability is aligned to the annotated boundary t_rec; mean over episodes with a 95% bootstrap interval; AUC
against the frame labels; a phase-only baseline, the logistic regression of the label on the normalised frame position;
and for each episode the offset of the first frame whose probability is below 0.5.

Here t_rec is the last frame of the recovery, so a perfect gate is first below 0.5 at t_rec + 1: all times are counted
from that first nominal frame, and a perfect gate has offset 0. A gate that never falls counts as falling just after
the episode's end (a lower bound) and is also counted in `never_below`. A logistic regression of one variable is
monotone, so the baseline's AUC is that of the clock itself and owes nothing to the fit being in-sample.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy import ndarray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from egorecovery.diagnostics.episode_bootstrap import RESAMPLES, SEED, DiagnosticError, times_drawn
from egorecovery.diagnostics.figures import COLOUR, FAINT, NEUTRAL, legend_below, panels, title_of
from egorecovery.diagnostics.result import Result
from egorecovery.episodes import Embodiment
from egorecovery.episodes.vocabulary import RATE_HZ
from egorecovery.randomness import generator_for

EPISODES = 15  # per embodiment and task
THRESHOLD = 0.5
REACH = 40  # frames shown to either side: 1.6 s
_UNREGULARISED = 1e6  # logistic regression must be free to be as steep as the clock allows


@dataclass(frozen=True, kw_only=True, eq=False)
class GateTrace:
    """The gate along one recovery episode."""

    gate: Float[ndarray, " T"]  # p_rec, 0..1
    boundary: int  # t_rec, the last frame of the recovery

    def __post_init__(self) -> None:
        if not 0 <= self.boundary < len(self.gate):
            raise DiagnosticError(f"boundary {self.boundary} is outside the trace's frames 0..{len(self.gate) - 1}")
        if not (np.isfinite(self.gate) & (self.gate >= 0) & (self.gate <= 1)).all():
            raise DiagnosticError("a gate trace holds probabilities: pass the gate after its sigmoid, without NaN")

    @property
    def in_recovery(self) -> Bool[ndarray, " T"]:
        return np.arange(len(self.gate)) <= self.boundary

    @property
    def phase(self) -> Float[ndarray, " T"]:
        """Normalised frame position, 0..1: all that the baseline knows."""
        return np.arange(len(self.gate)) / max(1, len(self.gate) - 1)

    @property
    def offset(self) -> int:
        """Frames from the first nominal frame to the first one below the threshold."""
        below = self.gate < THRESHOLD
        return (int(np.argmax(below)) if below.any() else len(self.gate)) - (self.boundary + 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedCurve(Result):
    """Mean over episodes at each frame around the boundary; NaN where no episode reaches."""

    mean: Float[ndarray, " R"]
    low: Float[ndarray, " R"]
    high: Float[ndarray, " R"]


@dataclass(frozen=True, kw_only=True, eq=False)
class GateAlignment(Result):
    """The gate of one embodiment on one task. Offsets are in frames at 25 Hz."""

    episodes: int
    auc: float
    phase_only_auc: float
    offsets: tuple[int, ...]
    median_offset: float
    offset_iqr: tuple[float, float]
    within_one_frame: int  # episodes
    never_below: int
    frames: tuple[int, ...]  # of the curves, counted from the first nominal frame
    gate: AlignedCurve
    phase_only: AlignedCurve


def gate_auc(traces: Sequence[GateTrace]) -> float:
    """How often a recovery frame has a higher gate than a nominal one, over all frames of all episodes."""
    return _auc(_labels(traces), np.concatenate([trace.gate for trace in traces]))


def gate_alignment(
    traces: Sequence[GateTrace], *, reach: int = REACH, resamples: int = RESAMPLES, seed: int = SEED
) -> GateAlignment:
    """All that the figure shows of one embodiment's episodes."""
    auc = gate_auc(traces)
    label = _labels(traces)
    phase = np.concatenate([trace.phase for trace in traces])[:, None]
    clock = LogisticRegression(C=_UNREGULARISED).fit(phase, label)
    guessed = [clock.predict_proba(trace.phase[:, None])[:, 1] for trace in traces]
    offsets = [trace.offset for trace in traces]
    quartiles = np.percentile(offsets, [25, 50, 75])
    counts = times_drawn(len(traces), resamples, generator_for(seed=seed, purpose="gate bootstrap"))
    return GateAlignment(
        episodes=len(traces),
        auc=auc,
        phase_only_auc=_auc(label, clock.decision_function(phase)),
        offsets=tuple(offsets),
        median_offset=float(quartiles[1]),
        offset_iqr=(float(quartiles[0]), float(quartiles[2])),
        within_one_frame=sum(abs(offset) <= 1 for offset in offsets),
        never_below=sum(not (trace.gate < THRESHOLD).any() for trace in traces),
        frames=tuple(range(-reach, reach + 1)),
        gate=_curve([trace.gate for trace in traces], traces, reach, counts),
        phase_only=_curve(guessed, traces, reach, counts),
    )


def _curve(values: Sequence[ndarray], traces: Sequence[GateTrace], reach: int, counts: ndarray) -> AlignedCurve:
    aligned = np.full((len(traces), 2 * reach + 1), np.nan)
    for row, value, trace in zip(aligned, values, traces, strict=True):
        place = np.arange(len(value)) - (trace.boundary + 1) + reach
        inside = (place >= 0) & (place < len(row))
        row[place[inside]] = value[inside]
    known = np.isfinite(aligned)
    present = known.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean = np.nan_to_num(aligned).sum(axis=0) / present
        # A resample may miss every episode that reaches this far: it then says nothing of the frame.
        boot = (counts @ np.nan_to_num(aligned)) / (counts @ known)
    low, high = np.full((2, len(present)), np.nan)
    reached = present > 0
    low[reached], high[reached] = np.nanpercentile(boot[:, reached], [2.5, 97.5], axis=0)
    return AlignedCurve(mean=mean, low=low, high=high)


def _labels(traces: Sequence[GateTrace]) -> Bool[ndarray, " N"]:
    if not traces:
        raise DiagnosticError("no gate trace: nothing to align")
    label = np.concatenate([trace.in_recovery for trace in traces])
    if label.all():
        raise DiagnosticError("every frame is in recovery: the boundary of each episode is its last frame")
    return label


def _auc(label: Bool[ndarray, " N"], score: Float[ndarray, " N"]) -> float:
    return float(roc_auc_score(label, score))


def gate_figure(tasks: Mapping[str, Mapping[Embodiment, GateAlignment]]) -> Figure:
    """One panel per task: mean gate with its interval, the clock's guess dashed, a tick per episode below."""
    figure, axes = panels(1, len(tasks), width_in=5.0 * len(tasks) + 0.4, height_in=3.8, same_y=True)
    for ax, (task, alignments) in zip(axes[0], tasks.items(), strict=True):
        for row, (who, gate) in enumerate(alignments.items()):
            frames = np.array(gate.frames)
            ax.fill_between(frames, gate.gate.low, gate.gate.high, color=COLOUR[who], alpha=0.22, linewidth=0)
            ax.plot(frames, gate.gate.mean, color=COLOUR[who], linewidth=1.8)
            ax.plot(frames, gate.phase_only.mean, color=COLOUR[who], linewidth=1.2, linestyle="--")
            _ticks(ax, gate, -0.07 - 0.09 * row, COLOUR[who])
        ax.axvline(0, color=NEUTRAL, linewidth=0.9)
        ax.axhline(THRESHOLD, color=FAINT, linewidth=0.9, zorder=0)
        ax.set_ylim(-0.22, 1.04)
        ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
        ax.set_title(
            "\n".join([title_of(task), *(_sentence(who, gate) for who, gate in alignments.items())]), fontsize=8
        )
        ax.set_xlabel(f"frames from the first nominal frame, $t_{{rec}}+1$ ({RATE_HZ:.0f} Hz)")
    axes[0][0].set_ylabel("recovery probability $p_{rec}$")
    embodiments = list(dict.fromkeys(who for alignments in tasks.values() for who in alignments))
    handles = [Line2D([], [], color=COLOUR[who], label=f"{who}: gate, 95% interval") for who in embodiments]
    handles += [Line2D([], [], color=COLOUR[who], linestyle="--", label=f"{who}: phase only") for who in embodiments]
    handles.append(Line2D([], [], linestyle="", marker="|", color="black", label=f"first frame below {THRESHOLD}"))
    legend_below(figure, handles)
    return figure


def _ticks(ax: Axes, gate: GateAlignment, height: float, colour: str) -> None:
    """Offsets beyond the frames shown are drawn at the edge, as arrows."""
    reach = gate.frames[-1]
    offsets = np.array(gate.offsets)
    inside = np.abs(offsets) <= reach
    ax.plot(offsets[inside], np.full(inside.sum(), height), "|", color=colour, markersize=8, markeredgewidth=1.2)
    for side, marker in ((-1, "<"), (1, ">")):
        if (offsets * side > reach).any():
            ax.plot(side * reach, height, marker, color=colour, markersize=5)


def _sentence(who: Embodiment, gate: GateAlignment) -> str:
    low, high = gate.offset_iqr
    return (
        f"{who}: AUC {gate.auc:.3f} (phase only {gate.phase_only_auc:.3f}), "
        f"offset {gate.median_offset:g} [{low:g}, {high:g}], {gate.within_one_frame}/{gate.episodes} within 1"
    )
