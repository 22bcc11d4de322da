"""A diagnosis as lines of a table: the numbers that decide, each beside the paper's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from egorecovery.experiments import paper


@dataclass(frozen=True, kw_only=True)
class DiagnosticRow:
    """One number; `paper` is empty where the paper prints none."""

    group: str
    what: str
    here: str
    paper: str = ""


def rows(record: Mapping[str, Any]) -> list[DiagnosticRow]:
    """The numbers that decide, of everything a record holds."""
    theirs = _Paper(str(record["task"]))
    lines = [*_ks(record, theirs), *_coverage(record, theirs)]
    for label in record.get("policies", {}):
        of_many = f", {label}" if len(record["policies"]) > 1 else ""
        lines += _bottleneck(record.get("bottleneck", {}).get(label), theirs, of_many)
        lines += _gate(record.get("gate", {}).get(label, {}), theirs, of_many)
    return [*lines, *_probe(record.get("probe"))]


class _Paper:
    """The paper's numbers on one task; most exist for two of the four."""

    def __init__(self, task: str) -> None:
        self._all, self._task = paper.figures(), task

    def ks(self, phase: str) -> str:
        return _number(self._all["diagnostics"]["ks"].get(self._task, {}).get(phase))

    def rho(self, after: bool) -> str:
        both = self._all["diagnostics"]["rho_before_after"].get(self._task)
        return _number(both and both[after])

    def shrink(self, space: str) -> str:
        return _number(self._all["diagnostics"]["sliced_w2_shrink"][space].get(self._task), ".1f", "x")

    def auc(self, name: str) -> str:
        return _number(self._all["diagnostics"]["gate_auc"].get(self._task, {}).get(name), ".4g")

    @property
    def offset(self) -> str:
        return str(self._all["diagnostics"]["gate_crossing_offset_frames"].get(self._task, ""))

    @property
    def hull(self) -> str:
        return _number(self._all["failure_state_coverage_hull_expansion"], ".1f", "x (space not said)")


def _ks(record: Mapping[str, Any], theirs: _Paper) -> Iterator[DiagnosticRow]:
    for phase, alignment in record.get("ks", {}).items():
        span = f"[{_number(alignment['mean_low'])}, {_number(alignment['mean_high'])}]"
        yield DiagnosticRow(
            group="Intent target",
            what=f"mean KS, robot to human, {phase}",
            here=f"{_number(alignment['mean_ks'])} {span}, chance {_number(alignment['mean_chance'])}",
            paper=theirs.ks(phase),
        )


def _coverage(record: Mapping[str, Any], theirs: _Paper) -> Iterator[DiagnosticRow]:
    for mode, hulls in record.get("coverage", {}).items():
        plane, pairs, equal = (_ratio(hulls[name], ".1f") for name in ("plane_ratio", "pair_ratio", "matched_ratio"))
        yield DiagnosticRow(
            group="Failure states",
            what=f"hull of starts, human over robot, {mode.replace('_', ' ')}",
            here=f"{plane} (pairs {pairs}, equal count {equal})",
            paper=theirs.hull,
        )
        robot, human = (f"{100 * hulls[who]['inside']:.0f}%" for who in ("robot", "human"))
        yield DiagnosticRow(
            group="Failure states",
            what=f"evaluation starts inside the hull, {mode.replace('_', ' ')}",
            here=f"robot {robot}, human {human}",
        )


def _bottleneck(spaces: Mapping[str, Any] | None, theirs: _Paper, of: str) -> Iterator[DiagnosticRow]:
    if not spaces:
        return
    group = f"Bottleneck{of}"
    before, after = spaces["feature"], spaces["intent"]
    yield DiagnosticRow(
        group=group,
        what="rho = W2 recovery / W2 nominal: trunk feature to intent",
        here=f"{_number(before['rho'])} to {_number(after['rho'])}",
        paper=" to ".join(filter(None, (theirs.rho(False), theirs.rho(True)))),
    )
    for name, words, of_paper in (
        ("intent", "trained intent", "trained_bottleneck"),
        ("random_jl", "random projection", "random_jl"),
        ("pca", "principal components", "pca4"),
    ):
        plain, free = (_ratio(spaces[name][which], ".1f") for which in ("shrink", "relative_shrink"))
        yield DiagnosticRow(
            group=group,
            what=f"shrink of the robot-human distance, {words}",
            here=f"{plain} (free of units {free})",
            paper=theirs.shrink(of_paper),
        )
    yield DiagnosticRow(
        group=group,
        what="distance as a share of the spread (0 coincide, 2 apart)",
        here=f"trunk {_number(before['relative_w2'])}, intent {_number(after['relative_w2'])}",
    )


def _gate(gates: Mapping[str, Any], theirs: _Paper, of: str) -> Iterator[DiagnosticRow]:
    for who, gate in gates.items():
        group = f"Gate{of}"
        yield DiagnosticRow(
            group=group, what=f"AUC in {gate['episodes']} recovery clips, {who}", here=_number(gate["auc"], ".4f"),
            paper=theirs.auc("gate"),
        )  # fmt: skip
        yield DiagnosticRow(
            group=group, what=f"AUC of the clock alone, {who}", here=_number(gate["phase_only_auc"], ".3f"),
            paper=theirs.auc(f"phase_only_{who}"),
        )  # fmt: skip
        low, high = gate["offset_iqr"]
        never = f", {gate['never_below']} never below" if gate["never_below"] else ""
        yield DiagnosticRow(
            group=group,
            what=f"offset of the 0.5 crossing, {who}, frames",
            here=f"median {gate['median_offset']:g}, IQR [{low:g}, {high:g}], "
            f"{gate['within_one_frame']}/{gate['episodes']} within 1{never}",
            paper=theirs.offset,
        )


def _probe(probe: Mapping[str, Any] | None) -> Iterator[DiagnosticRow]:
    for label, pools in (probe or {}).get("trunks", {}).items():
        for pool, probed in pools.items():
            span = f"[{_number(probed['low_mm'], '.1f')}, {_number(probed['high_mm'], '.1f')}]"
            yield DiagnosticRow(
                group="Transfer probe",
                what=f"object position error, {label}, {pool.replace('_', ' ')}, mm",
                here=f"{_number(probed['error_mm'], '.1f')} {span}, R2 {_number(probed['r2'])}, "
                f"without looking {_number(probed['unseen_mm'], '.1f')}",
            )
    for label, pools in (probe or {}).get("gain", {}).items():
        for pool, gain in pools.items():
            span = f"[{_number(gain['low_mm'], '+.1f')}, {_number(gain['high_mm'], '+.1f')}]"
            yield DiagnosticRow(
                group="Transfer probe",
                what=f"gain of {label} by human data, {pool.replace('_', ' ')}, mm",
                here=f"{_number(gain['gain_mm'], '+.1f')} {span}",
            )


def _number(value: float | None, shape: str = ".2f", unit: str = "") -> str:
    return "" if value is None else f"{value:{shape}}{unit}"


def _ratio(value: float | None, shape: str) -> str:
    """JSON holds no infinity: a ratio over nothing is null there."""
    return "not finite" if value is None else f"{value:{shape}}x"
