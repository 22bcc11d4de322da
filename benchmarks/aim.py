"""Where policies would reach: how far from where the demonstrator goes, in millimetres, from the first look alone.

python benchmarks/aim.py STORE RUN [RUN ...] [--mode fallen] [--arm right] [--gates learned 0 1]

STORE holds robot recoveries that no RUN was trained on, best from anywhere in the family (`egorecovery simulate
--source robot_recovery --across-family`). A policy sees the first frame of each; its chunk says where the tool will be
when the demonstrator closes the hand, or at the chunk's end if that is earlier. Errors are horizontal. Success in
closed loop is yes or no; here every episode gives a length, so fewer trainings tell methods apart. With several gates
the last column says how far the first of them is moved by the others: what the modulation does to the aim.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import tyro
from numpy import ndarray
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from egorecovery.episodes import Episode, EpisodeStore, Side
from egorecovery.policy.action_source import GateUse, Intervention
from egorecovery.policy.inference import TrainedPolicy, load_action_source
from egorecovery.workcell.arm import ARM_JOINTS
from egorecovery.workcell.kinematics import effector_poses
from egorecovery.workcell.starts import Start

NEAR_MM = 20.0
CLOSED_01 = 0.5


@dataclass(frozen=True)
class Options:
    store: Positional[Path]
    runs: Positional[tuple[Path, ...]]
    mode: str | None = None
    """Of failure; all by default."""
    arm: Side = Side.RIGHT
    device: str = "auto"
    gates: tuple[GateUse, ...] = ("learned",)


def mode_of(episode: Episode) -> str:
    return Start.of(cast(dict[str, Any], episode.provenance.details["start"])).mode


def closing_step(episode: Episode, arm: Side, horizon: int) -> int:
    """Of the demonstrator, within a chunk from the first frame."""
    opening = episode.action.reshape(len(episode), 2, ARM_JOINTS + 1)[:, arm.effector, ARM_JOINTS]
    closed = np.flatnonzero((opening[1:] < CLOSED_01) & (opening[:-1] >= CLOSED_01)) + 1
    return min(int(closed[0]) if len(closed) else len(episode) - 1, horizon - 1)


def aims_m(policy: TrainedPolicy, episodes: list[Episode], arm: Side) -> tuple[ndarray, ndarray]:
    """Where the policy would have the tool, and where the demonstrator had it; horizontal."""
    pictures = np.stack([[episode.cameras[camera].frames[0] for camera in policy.cameras] for episode in episodes])
    states = np.stack([episode.state[0] for episode in episodes]).astype(np.float32)
    chunks = policy.infer(pictures, states).action_BHA
    steps = [closing_step(episode, arm, chunks.shape[1]) for episode in episodes]
    commanded = np.array([chunk[step] for chunk, step in zip(chunks, steps, strict=True)], float)
    shown = np.array([episode.action[step] for episode, step in zip(episodes, steps, strict=True)], float)
    tool_m, wanted_m = (effector_poses(joints)[0][:, arm.effector, :2] for joints in (commanded, shown))
    return tool_m, wanted_m


def apart_mm(ones_m: ndarray, others_m: ndarray) -> ndarray:
    return 1000 * np.linalg.norm(ones_m - others_m, axis=1)


def main(options: Options) -> None:
    store = EpisodeStore(options.store)
    episodes = [store.read(name) for name in store.ids()]
    if options.mode:
        episodes = [episode for episode in episodes if mode_of(episode) == options.mode]
    table = Table(title=f"{len(episodes)} episodes of {options.store}", title_justify="left")
    for column in ("policy", "gate", "median, mm", "mean, mm", f"within {NEAR_MM:.0f} mm", "moved, mean mm"):
        table.add_column(column)
    for run in options.runs:
        first_m: ndarray | None = None
        for gate in options.gates:
            policy = load_action_source(run, options.device, Intervention(gate=gate))
            tool_m, wanted_m = aims_m(policy, episodes, options.arm)
            errors_mm = apart_mm(tool_m, wanted_m)
            first_m = tool_m if first_m is None else first_m
            lengths = (np.median(errors_mm), errors_mm.mean(), apart_mm(tool_m, first_m).mean())
            median, mean, moved = (f"{length:.1f}" for length in lengths)
            table.add_row(str(run), gate, median, mean, f"{(errors_mm < NEAR_MM).mean():.0%}", moved)
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
