"""All diagnostics of one task: from a store alone, and from policies that were trained on it.

FOLDER/*.png               one per figure
FOLDER/diagnostics.json    every number, what could not be computed and why; written last
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from egorecovery.diagnostics import store_diagnostics
from egorecovery.diagnostics.activations import (
    DiagnosedRun,
    FrozenPolicy,
    ObservedEpisode,
    Unseen,
    gate_traces,
    head_frames,
)
from egorecovery.diagnostics.bottleneck_alignment import BottleneckAlignment, bottleneck_alignment
from egorecovery.diagnostics.bottleneck_figure import bottleneck_figure
from egorecovery.diagnostics.coverage import coverage_figure
from egorecovery.diagnostics.episode_bootstrap import SEED, DiagnosticError
from egorecovery.diagnostics.figures import write_figure
from egorecovery.diagnostics.gate_alignment import GateAlignment, gate_alignment, gate_figure
from egorecovery.diagnostics.ks_alignment import ks_figure
from egorecovery.diagnostics.transfer_probe import probe_figure, probe_gain
from egorecovery.diagnostics.trunk_probe import held_out_robots, probe_trunk
from egorecovery.episodes import Embodiment, EpisodeStore, Phase
from egorecovery.errors import EgoRecoveryError, RecipeError
from egorecovery.intent import IntentSpec, data_hash
from egorecovery.storage.atomic_io import sync_directory, write_file
from egorecovery.storage.checksummed_json import digest, file_sha256
from egorecovery.storage.manifest import Manifest
from egorecovery.storage.typed_json import to_json

SCHEMA = 1
COMPUTED_BY = 1  # raised by hand whenever the same store and policies come to give other numbers
RECORD = "diagnostics.json"
FIGURES = ("ks", "coverage", "bottleneck", "gate", "probe")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Something that was asked for and cannot be had."""

    what: str
    reason: str


@dataclass(kw_only=True)
class Diagnosis:
    """Grows as diagnostics are computed; `record` is all of it as JSON."""

    record: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def found(self) -> bool:
        return bool(self.figures)

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """What is refused inside is listed with its reason, and the rest continues."""
        try:
            yield
        except EgoRecoveryError as error:
            self.missing.append(Missing(what=what, reason=str(error)))

    def to_json(self) -> dict[str, Any]:
        return {
            **self.record,
            "figures": {name: f"{name}.png" for name in self.figures},
            "not_computed": to_json(self.missing),
            "notes": self.notes,
        }

    def write(self, folder: Path) -> Path:
        """Pictures, then the record, which makes the diagnosis done. Pictures of an older one go."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RECORD).unlink(missing_ok=True)
        for name in FIGURES:
            if name in self.figures:
                write_figure(self.figures[name], folder / f"{name}.png")
            else:
                (folder / f"{name}.png").unlink(missing_ok=True)
        write_file(folder / RECORD, json.dumps(self.to_json(), indent=1, allow_nan=False).encode() + b"\n")
        names = [RECORD, *(f"{name}.png" for name in self.figures)]
        Manifest(files={name: file_sha256(folder / name) for name in names}).write(folder)
        sync_directory(folder)
        return folder / RECORD


def content_hash(
    data: str, task: str, runs: Sequence[DiagnosedRun], compare: DiagnosedRun | None, fresh: str | None = None
) -> str:
    """Changes if and only if the numbers could; `data` and `fresh` are the `data_hash` of the stores' episodes."""
    policies = {run.label: run.policy_hash for run in runs}
    other = None if compare is None else [compare.label, compare.policy_hash]
    parts = {"computed_by": COMPUTED_BY, "seed": SEED, "task": task, "data": data}
    parts |= {} if fresh is None else {"fresh": fresh}
    return digest({**parts, "policies": policies, "compare": other})


def diagnose(
    store: EpisodeStore,
    task: str,
    runs: Sequence[DiagnosedRun] = (),
    compare: DiagnosedRun | None = None,
    *,
    fresh: EpisodeStore | None = None,
    command: str = "",
    device: str = "auto",
    progress: Progress = lambda what, done, total: None,
) -> Diagnosis:
    """Whatever can be computed, and reasons for the rest. `compare` is a policy trained without human data.

    Policies are looked at on episodes that they never saw: those that were held out, or all of a `fresh` store.
    """
    data, fresh_data = data_hash(store, store_diagnostics.episodes_of(store, task)), None
    unseen = Unseen(store=store)
    if fresh is not None:
        fresh_data, unseen = (
            data_hash(fresh, store_diagnostics.episodes_of(fresh, task)),
            Unseen(store=fresh, fresh=True),
        )
        if known := sorted(set(fresh.ids()) & set(store.ids())):
            raise RecipeError(
                f"{fresh.root} is not fresh: {len(known)} of its episodes are in {store.root} too, as {known[0]}"
            )
    diagnosis = Diagnosis(
        record={
            "schema": SCHEMA,
            "computed_by": COMPUTED_BY,
            "content_hash": content_hash(data, task, runs, compare, fresh_data),
            "command": command,
            "task": task,
            "store": str(store.root),
            "data_hash": data,
            "fresh": fresh_data and {"store": str(unseen.store.root), "data_hash": fresh_data},
            "policies": {run.label: _card(run, store) for run in runs},
            "compare": compare and {"label": compare.label, **_card(compare, store)},
        }
    )
    _of_store(diagnosis, store, task, runs[0].recipe.intent if runs else IntentSpec(), progress)
    observed = _observe(diagnosis, store, unseen, runs, device, progress)
    _bottleneck(diagnosis, task, observed)
    _gate(diagnosis, task, observed)
    _probe(diagnosis, store, unseen, runs, compare, device, progress)
    return diagnosis


def _card(run: DiagnosedRun, store: EpisodeStore) -> dict[str, Any]:
    saved = run.checkpoint
    return {
        "path": str(saved.path),
        "policy_hash": run.policy_hash,
        "data_hash": saved.data,
        "step": saved.step,
        "recipe": run.recipe.name,
        "seed": run.recipe.seed,
        "revision": saved.revision,
        "held_out": {str(source): len(names) for source, names in run.pools(store).held_out.items()},
    }


def _of_store(found: Diagnosis, store: EpisodeStore, task: str, spec: IntentSpec, progress: Progress) -> None:
    progress("intent targets", 0, len(Phase))
    episodes = store_diagnostics.labelled(store, task, spec)
    phases = {}
    for done, phase in enumerate(Phase):
        with found.attempt(f"KS distance, {phase}"):
            phases[phase] = store_diagnostics.target_alignment(episodes, phase)
        progress("intent targets", done + 1, len(Phase))
    if phases:
        found.record["ks"] = {str(phase): each.to_json() for phase, each in phases.items()}
        found.figures["ks"] = ks_figure({task: phases})
    modes = {}
    with found.attempt("failure-state coverage"):
        starts = store_diagnostics.StartCoverage(store, task)
        for mode in starts.modes:
            with found.attempt(f"failure-state coverage, {mode}"):
                modes[mode] = starts.of(mode)
    if modes:
        found.record["coverage"] = {mode: each.to_json() for mode, each in modes.items()}
        found.figures["coverage"] = coverage_figure(modes)


def _observe(
    found: Diagnosis,
    store: EpisodeStore,
    unseen: Unseen,
    runs: Sequence[DiagnosedRun],
    device: str,
    progress: Progress,
) -> dict[str, list[ObservedEpisode]]:
    """Unseen recovery episodes through the eyes of each policy that has the heads to diagnose."""
    if not runs:
        for what in ("bottleneck alignment", "gate alignment"):
            found.missing.append(Missing(what=what, reason="no trained policy was given: name one with --run"))
    observed = {}
    for run in runs:
        if doubt := run.doubt(store):
            found.notes.append(doubt)
        with found.attempt(f"bottleneck and gate alignment, {run.label}"):
            if run.recipe.policy.correction is None:
                raise DiagnosticError("the policy has neither Intent Head nor gate: it was trained by imitation alone")
            recoveries = [each for each in unseen.of(run) if each[0].is_recovery]
            known = [each for each in recoveries if run.saw_humans or not each[0].is_human]
            policy = FrozenPolicy(run, device)
            observed[run.label] = policy.observe(unseen.store, known, lambda *at, run=run: progress(run.label, *at))
            if not run.saw_humans:
                found.notes.append(f"{run.label} was trained without human data: it cannot look at human episodes")
    return observed


def _bottleneck(found: Diagnosis, task: str, observed: dict[str, list[ObservedEpisode]]) -> None:
    aligned: dict[str, BottleneckAlignment] = {}
    for label, episodes in observed.items():
        with found.attempt(f"bottleneck alignment, {label}"):
            robot, human = (head_frames(episodes, who) for who in (Embodiment.ROBOT, Embodiment.HUMAN))
            frames, wanted = len(robot.feature) + len(human.feature), robot.intent.shape[1]
            if frames < wanted:
                raise DiagnosticError(f"{frames} frames have a valid intent window: {wanted} dimensions want more")
            aligned[label] = bottleneck_alignment(robot, human)
    if aligned:
        found.record["bottleneck"] = {label: each.to_json() for label, each in aligned.items()}
        found.figures["bottleneck"] = bottleneck_figure(_titled(aligned, task))


def _gate(found: Diagnosis, task: str, observed: dict[str, list[ObservedEpisode]]) -> None:
    aligned: dict[str, dict[Embodiment, GateAlignment]] = {}
    chosen: dict[str, dict[str, list[str]]] = {}
    for label, episodes in observed.items():
        for who in Embodiment:
            with found.attempt(f"gate alignment, {label}, {who}"):
                traces = gate_traces(episodes, who)
                aligned.setdefault(label, {})[who] = gate_alignment(list(traces.values()))
                chosen.setdefault(label, {})[str(who)] = list(traces)
    if aligned:
        found.record["gate"] = {
            label: {str(who): {**each.to_json(), "chosen": chosen[label][who]} for who, each in both.items()}
            for label, both in aligned.items()
        }
        found.figures["gate"] = gate_figure(_titled(aligned, task))


def _probe(
    found: Diagnosis,
    store: EpisodeStore,
    unseen: Unseen,
    runs: Sequence[DiagnosedRun],
    compare: DiagnosedRun | None,
    device: str,
    progress: Progress,
) -> None:
    with found.attempt("transfer probe"):
        if not runs or compare is None:
            raise DiagnosticError("it needs two policies: --run, and --compare with one trained without human data")
        if compare.saw_humans:
            raise DiagnosticError(f"{compare.label}, given to --compare, was trained with human data too")
        if doubt := compare.doubt(store):
            found.notes.append(doubt)
        robots = held_out_robots(unseen, [*runs, compare])
        position_m = store_diagnostics.object_positions_m(unseen.store, [name for _, name in robots])
        trunks = {
            run.label: probe_trunk(
                FrozenPolicy(run, device).observe(unseen.store, robots, lambda *at, run=run: progress(run.label, *at)),
                position_m,
            )
            for run in (compare, *runs)
        }
        gains = {
            run.label: {pool: probe_gain(trunks[compare.label][pool], each) for pool, each in trunks[run.label].items()}
            for run in runs
        }
        found.record["probe"] = {
            "without_human": compare.label,
            "trunks": {
                label: {pool: each.to_json() for pool, each in pools.items()} for label, pools in trunks.items()
            },
            "gain": {label: {pool: each.to_json() for pool, each in pools.items()} for label, pools in gains.items()},
        }
        found.figures["probe"] = probe_figure(trunks)


def _titled(of_policies: dict[str, Any], task: str) -> dict[str, Any]:
    """A single policy needs no name in a figure: the task's says more."""
    return {task: next(iter(of_policies.values()))} if len(of_policies) == 1 else of_policies
