"""What happens in rollouts, step by step: where fingertips are and are told to go, and where objects are.

python benchmarks/traces.py RUN --task cube_stack --rollouts 60 --out traces.npz

One npz per policy. Arrays are padded to the longest rollout (N rollouts, T steps): `effector` and `target` (N, T, 20)
in effector space, `objects_m` (N, T, O, 3), `steps` (N,), `succeeded` (N,), `first_chunk` (N, H, 20) and `names` of
objects. `--processes` share one GPU.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from tyro.conf import Positional

from egorecovery.evaluation.batched_policy import ActionChunk, BatchedPolicy
from egorecovery.evaluation.closed_loop import Evaluation
from egorecovery.evaluation.protocol import Regime, bench_protocol
from egorecovery.evaluation.results import Subject
from egorecovery.evaluation.rollout import attempt
from egorecovery.kinematics import ActionSpace
from egorecovery.kinematics.bindings import mujoco
from egorecovery.policy.inference import load_action_source
from egorecovery.workcell.kinematics import workcell_arms
from egorecovery.workcell.workcell import Workcell

STREAMS = ("effector", "target", "objects_m")


@dataclass(frozen=True)
class Options:
    run: Positional[Path]
    task: str
    out: Path
    rollouts: int = 40
    regime: Regime = "recovery"
    replan: int | None = None
    processes: int = 4


def free_bodies(cell: Workcell) -> list[int]:
    """Bodies that move freely: the task's objects."""
    model = cell.robot.model
    return [int(model.jnt_bodyid[j]) for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE]


class Recorder:
    """What one rollout did."""

    def __init__(self, space: ActionSpace) -> None:
        self._space, self._arms = space, workcell_arms()
        self._answer: ActionChunk | None = None
        self._step = 0
        self.bodies: list[int] = []
        self.names: list[str] = []
        self.chunks: list[Any] = []
        self.effector: list[Any] = []
        self.target: list[Any] = []
        self.objects_m: list[Any] = []

    def __call__(self, cell: Workcell, answer: ActionChunk) -> None:
        if not self.bodies:
            self.bodies = free_bodies(cell)
            self.names = [cell.robot.model.body(body).name for body in self.bodies]
        if self._answer is not answer:
            self._answer, self._step = answer, 0
            self.chunks.append(answer.actions)
        action = answer.actions[min(self._step, len(answer.actions) - 1)]
        self._step += 1
        self.target.append(self._arms.effector_vectors(action) if self._space == "joint" else action)
        self.effector.append(self._arms.effector_vectors(cell.robot.proprioception()))
        self.objects_m.append([cell.robot.data.xpos[body].copy() for body in self.bodies])


def trace(options: Options, indices: list[int]) -> list[dict[str, Any]]:
    source = load_action_source(options.run)
    protocol = bench_protocol(options.task, source.config.horizon)
    protocol = replace(protocol, starts_seed="validation", replan_steps=options.replan or protocol.replan_steps)
    evaluation = Evaluation(
        subject=Subject(policy="trace"), task=options.task, protocol=protocol, regimes=(options.regime,)
    )
    policy = BatchedPolicy(source)
    made = []
    for job in evaluation.jobs_at(indices, source):
        recorder = Recorder(source.action_space)
        ending = attempt(job, lambda question: policy.ask([question])[0], recorder)
        made.append(
            {
                "index": job.index,
                "mode": ending.start.mode if ending.start else "",
                "reason": ending.reason,
                "succeeded": str(ending.result) == "success",
                "names": recorder.names,
                "first_chunk": np.array(recorder.chunks[:1], np.float32).reshape(-1, 20),
                **{name: np.array(getattr(recorder, name), np.float32) for name in STREAMS},
            }
        )
    return made


def padded(parts: list[Any]) -> Any:
    longest = max(len(part) for part in parts)
    whole = np.full((len(parts), longest, *parts[0].shape[1:]), np.nan, np.float32)
    for row, part in enumerate(parts):
        whole[row, : len(part)] = part
    return whole


def main(options: Options) -> None:
    shares = [list(range(options.rollouts))[first :: options.processes] for first in range(options.processes)]
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        made = [each for part in pool.map(trace, [options] * len(shares), shares) for each in part]
    np.savez_compressed(
        options.out,
        index=[each["index"] for each in made],
        mode=[each["mode"] for each in made],
        reason=[each["reason"] for each in made],
        succeeded=[each["succeeded"] for each in made],
        steps=[len(each["effector"]) for each in made],
        names=made[0]["names"],
        **{name: padded([each[name] for each in made]) for name in (*STREAMS, "first_chunk")},
    )
    print(f"{options.out}: {sum(each['succeeded'] for each in made)} of {len(made)} succeeded")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
