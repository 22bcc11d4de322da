"""A diagnosis as lines of a table: the numbers that decide, each beside the paper's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from egorecovery.experiments import paper

SPACES = {  # where the bottleneck is measured: our name, and the paper's
    "intent": ("trained intent", "trained_bottleneck"),
    "random_jl": ("random projection", "random_jl"),
    "pca": ("principal components", "pca4"),
}


@dataclass(frozen=True)
class DiagnosticRow:
    """One number; `paper` is empty where the paper prints none."""

    group: str
    what: str
    here: str
    paper: str = ""


def rows(record: Mapping[str, Any]) -> list[DiagnosticRow]:
    """The numbers that decide, of everything a record holds."""
    task = str(record["task"])
    lines = [*_ks(record.get("ks", {}), task), *_coverage(record.get("coverage", {}))]
    policies = record.get("policies", {})
    for label in policies:
        of_many = f", {label}" if len(policies) > 1 else ""
        lines += _bottleneck(record.get("bottleneck", {}).get(label), task, f"Bottleneck{of_many}")
        lines += _gate(record.get("gate", {}).get(label, {}), task, f"Gate{of_many}")
    return [*lines, *_probe(record.get("probe") or {})]


def _in_paper(*names: str) -> Any:
    """Of the paper's diagnostics; None where it prints nothing, as for two of the four tasks."""
    figures = paper.figures()["diagnostics"]
    for name in names:
        figures = (figures or {}).get(name)
    return figures


def _ks(alignments: Mapping[str, Any], task: str) -> Iterator[DiagnosticRow]:
    for phase, alignment in alignments.items():
        ks, low, high, chance = (_number(alignment[f"mean_{name}"]) for name in ("ks", "low", "high", "chance"))
        here, theirs = f"{ks} [{low}, {high}], chance {chance}", _number(_in_paper("ks", task, phase))
        yield DiagnosticRow("Intent target", f"mean KS, robot to human, {phase}", here, theirs)


def _coverage(modes: Mapping[str, Any]) -> Iterator[DiagnosticRow]:
    group, theirs = "Failure states", paper.figures()["failure_state_coverage_hull_expansion"]
    for name, hulls in modes.items():
        mode = name.replace("_", " ")
        plane, pairs, equal = (_ratio(hulls[f"{which}_ratio"]) for which in ("plane", "pair", "matched"))
        here = f"{plane} (pairs {pairs}, equal count {equal})"
        yield DiagnosticRow(group, f"hull of starts, human over robot, {mode}", here, f"{theirs:.1f}x (space not said)")
        robot, human = (f"{100 * hulls[who]['inside']:.0f}%" for who in ("robot", "human"))
        yield DiagnosticRow(group, f"evaluation starts inside the hull, {mode}", f"robot {robot}, human {human}")


def _bottleneck(spaces: Mapping[str, Any] | None, task: str, group: str) -> Iterator[DiagnosticRow]:
    if not spaces:
        return
    before, after = spaces["feature"], spaces["intent"]
    what = "rho = W2 recovery / W2 nominal: trunk feature to intent"
    theirs = " to ".join(map(_number, _in_paper("rho_before_after", task) or ()))
    yield DiagnosticRow(group, what, f"{_number(before['rho'])} to {_number(after['rho'])}", theirs)
    for name, (words, papers_name) in SPACES.items():
        here = f"{_ratio(spaces[name]['shrink'])} (free of units {_ratio(spaces[name]['relative_shrink'])})"
        theirs = _number(_in_paper("sliced_w2_shrink", papers_name, task), ".1f", "x")
        yield DiagnosticRow(group, f"shrink of the robot-human distance, {words}", here, theirs)
    here = f"trunk {_number(before['relative_w2'])}, intent {_number(after['relative_w2'])}"
    yield DiagnosticRow(group, "distance as a share of the spread (0 coincide, 2 apart)", here)


def _gate(gates: Mapping[str, Any], task: str, group: str) -> Iterator[DiagnosticRow]:
    aucs = _in_paper("gate_auc", task) or {}
    for who, gate in gates.items():
        what, theirs = f"AUC in {gate['episodes']} recovery clips, {who}", _number(aucs.get("gate"), ".4g")
        yield DiagnosticRow(group, what, _number(gate["auc"], ".4f"), theirs)
        theirs = _number(aucs.get(f"phase_only_{who}"), ".4g")
        yield DiagnosticRow(group, f"AUC of the clock alone, {who}", _number(gate["phase_only_auc"], ".3f"), theirs)
        low, high = gate["offset_iqr"]
        here = f"median {gate['median_offset']:g}, IQR [{low:g}, {high:g}], "
        here += f"{gate['within_one_frame']}/{gate['episodes']} within 1"
        here += f", {gate['never_below']} never below" if gate["never_below"] else ""
        theirs = _in_paper("gate_crossing_offset_frames", task) or ""
        yield DiagnosticRow(group, f"offset of the 0.5 crossing, {who}, frames", here, theirs)


def _probe(probe: Mapping[str, Any]) -> Iterator[DiagnosticRow]:
    group = "Transfer probe"
    for label, pools in probe.get("trunks", {}).items():
        for pool, probed in pools.items():
            error, low, high, unseen = (
                _number(probed[f"{name}_mm"], ".1f") for name in ("error", "low", "high", "unseen")
            )
            here = f"{error} [{low}, {high}], R2 {_number(probed['r2'])}, without looking {unseen}"
            yield DiagnosticRow(group, f"object position error, {label}, {pool.replace('_', ' ')}, mm", here)
    for label, pools in probe.get("gain", {}).items():
        for pool, measured in pools.items():
            gain, low, high = (_number(measured[f"{name}_mm"], "+.1f") for name in ("gain", "low", "high"))
            what = f"gain of {label} by human data, {pool.replace('_', ' ')}, mm"
            yield DiagnosticRow(group, what, f"{gain} [{low}, {high}]")


def _number(value: float | None, shape: str = ".2f", unit: str = "") -> str:
    return "" if value is None else f"{value:{shape}}{unit}"


def _ratio(value: float | None) -> str:
    """JSON holds no infinity: a ratio over nothing is null there."""
    return "not finite" if value is None else f"{value:.1f}x"
