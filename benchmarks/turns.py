"""Does a policy turn its hand to the handle, or copy the turn of its own hand? Open loop, on demonstrations.

python benchmarks/turns.py RUN STORE

For frames of robot successes of the round disk (the hand begins straight; at frame 35 it is over the handle and turned
as it is) it asks for a chunk and takes the turn at which the hand is to close: with the state as recorded, with the
hand in the state turned back to 0, and with the state hidden. Each figure is the slope of the asked turn over the
handle's: 1 for a hand that turns with the handle, 0 for one that does not. Pictures are as recorded in all three.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from jaxtyping import Float
from numpy import ndarray
from tyro.conf import Positional

from egorecovery.episodes import EpisodeStore
from egorecovery.evaluation.batched_policy import ActionChunk, BatchedPolicy, Observation
from egorecovery.kinematics.effector_space import APPROACH_AXIS, ARM_DIM, OPENING_AXIS
from egorecovery.policy.inference import load_action_source

CLOSES_AT = 45  # frame; the median of robot successes
RIGHT = ARM_DIM


@dataclass(frozen=True)
class Options:
    run: Positional[Path]
    store: Positional[Path]
    frames: tuple[int, ...] = (0, 15, 35)
    episodes: int = 24


def turn_rad(vector: Float[ndarray, " 20"]) -> float:
    """Of the right hand about the vertical."""
    opening = vector[RIGHT + OPENING_AXIS.start : RIGHT + OPENING_AXIS.stop]
    return float(np.arctan2(-opening[0], opening[1]))


def turned_to_0(state: Float[ndarray, " 20"]) -> Float[ndarray, " 20"]:
    turned, by_rad = state.copy(), -turn_rad(state)
    about = np.array([[np.cos(by_rad), -np.sin(by_rad)], [np.sin(by_rad), np.cos(by_rad)]])
    for axis in (OPENING_AXIS, APPROACH_AXIS):
        turned[RIGHT + axis.start : RIGHT + axis.start + 2] = about @ state[RIGHT + axis.start : RIGHT + axis.start + 2]
    return turned


def main(options: Options) -> None:
    source, store = load_action_source(options.run), EpisodeStore(options.store)
    policy = BatchedPolicy(source)
    names = [name for name in store.ids() if "-robot_success-" in name][: options.episodes]
    for frame in options.frames:
        handles, asked = [], []
        for name in names:
            start = store.read(name).provenance.details["start"]
            handles.append(start["parameters"]["disk_yaw"])  # pyright: ignore - JSON
            state = store.stream(name, "effector_state")[frame].astype(np.float32)
            images = np.stack([store.frames(name, camera).decode([frame])[0] for camera in source.cameras])
            ahead = min(max(CLOSES_AT - frame, 5), source.config.horizon - 1)
            row = []
            for seen in (state, turned_to_0(state), np.full_like(state, np.nan)):
                answer = policy.ask([Observation(images, seen)])[0]
                assert isinstance(answer, ActionChunk)
                row.append(turn_rad(answer.actions[ahead]))
            asked.append(row)
        slopes = [np.polyfit(handles, column, 1)[0] for column in np.array(asked).T]
        print(
            f"frame {frame}: {slopes[0]:.2f}, with the hand in the state turned to 0 {slopes[1]:.2f}, "
            f"with the state hidden {slopes[2]:.2f}"
        )


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
