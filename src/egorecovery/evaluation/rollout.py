"""One rollout: staged, executed step by step, judged. It asks for actions and does not know who answers."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from egorecovery.capture.picture_fit import Fit, PictureFit
from egorecovery.episodes import RATE_HZ, Camera, Side
from egorecovery.episodes.frames import JpegFrames
from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation.batched_policy import ActionChunk, Observation, RejectedAction
from egorecovery.evaluation.chunks import ChunkExecution
from egorecovery.evaluation.protocol import EvaluationProtocol, Regime, draw_start
from egorecovery.kinematics import ActionSpace
from egorecovery.randomness import generator_for
from egorecovery.workcell.arm import ARM_JOINTS
from egorecovery.workcell.kinematics import workcell_arms
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.teleoperator import OutOfReach
from egorecovery.workcell.workcell import StagingFailed, Workcell

MOST_REDRAWS = 20  # of one start, before the task is to blame
CLOSED_01, OPEN_01 = 0.3, 0.5  # of a gripper's target; between them it counts as what it was

Result = Literal["success", "failure", "error"]
Reply = ActionChunk | RejectedAction
OnFrame = Callable[[Workcell, ActionChunk], None]


@dataclass(frozen=True, kw_only=True)
class RolloutJob:
    """All that a worker must know to run one rollout."""

    task: str
    regime: Regime
    index: int  # of the start
    protocol: EvaluationProtocol
    cameras: tuple[Camera, ...]
    image_size: int
    picture_fit: Fit = "exact"  # how the policy's pictures became squares; used where the cameras' are none
    action_space: ActionSpace = "joint"  # of the policy
    hidden_embodiment: bool = False  # the policy wants pictures without arms


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a rollout went."""

    result: Result
    reason: str
    start: Start | None  # None where it could not even be staged
    steps: int = 0
    retries: int = 0
    gates: tuple[float | None, ...] = ()  # one per decision; None for policies without a gate
    intents: tuple[tuple[float, ...] | None, ...] = ()  # likewise
    decisions: int = 0
    unreachable: int = 0  # effector targets out of the arms' reach, replaced by the nearest pose

    @property
    def duration_s(self) -> float:
        return self.steps / RATE_HZ


def attempt(job: RolloutJob, ask: Callable[[Observation], Reply], on_frame: OnFrame | None = None) -> Ending:
    """Runs a job to its end. What breaks in the simulator is an error on record; a policy that raises is not."""
    reply: Reply | None = None
    try:
        cell = workcell_for(
            job.task,
            job.protocol.camera_wh or (job.image_size, job.image_size),
            job.protocol.clutter,
            job.hidden_embodiment,
        )
        rolling = roll(job, cell, on_frame)
    except Exception as error:
        return _broken(error)
    while True:
        try:
            question = next(rolling) if reply is None else rolling.send(reply)
        except StopIteration as ended:
            return ended.value
        except Exception as error:
            return _broken(error)
        reply = ask(question)  # outside: what goes wrong here is not the simulator's


def _broken(error: Exception) -> Ending:
    return Ending(result="error", reason=f"{type(error).__name__}: {error}", start=None)


def roll(job: RolloutJob, cell: Workcell, on_frame: OnFrame | None = None) -> Generator[Observation, Reply, Ending]:
    """Yields questions, is sent answers, returns the ending. Renders only when it asks."""
    cell.protocol = job.protocol.judging()
    start = stage(job, cell)
    execution, hands = ChunkExecution(job.protocol), Attempts(cell)
    gates: list[float | None] = []
    intents: list[tuple[float, ...] | None] = []
    unreachable = 0
    answer: ActionChunk | None = None
    while True:
        if execution.wants_chunk:
            question = look(job, cell)
            reply = yield without_state(question) if drops_state(job, decision=len(gates)) else question
            if isinstance(reply, RejectedAction):
                return Ending(
                    result="failure",
                    reason=reply.reason,
                    start=start,
                    steps=execution.step,
                    retries=hands.retries,
                    gates=tuple(gates),
                    intents=tuple(intents),
                    decisions=len(gates) + 1,
                    unreachable=unreachable,
                )
            answer = reply
            gates.append(answer.gate)
            intents.append(answer.intent)
            chunk, missed = joint_targets(job, cell, answer.actions)
            unreachable += missed
            execution.add(chunk)
        if on_frame is not None and answer is not None:
            on_frame(cell, answer)
        action = execution.next_action()
        hands.watch(action)
        outcome = cell.step(action)
        if outcome is not None:
            return Ending(
                result="success" if outcome.succeeded else "failure",
                reason=outcome.reason,
                start=start,
                steps=outcome.frame,
                retries=hands.retries,
                gates=tuple(gates),
                intents=tuple(intents),
                decisions=len(gates),
                unreachable=unreachable,
            )


def stage(job: RolloutJob, cell: Workcell) -> Start:
    """Brings the job's start about. Which redraw it takes depends on the start alone, so all methods get the same."""
    for redraw in range(MOST_REDRAWS):
        start = draw_start(job.protocol, cell.scene, job.regime, job.index, redraw)
        try:
            cell.reset(start)
        except (StagingFailed, OutOfReach):
            continue
        return start
    raise EgoRecoveryError(f"{job.task} {job.regime} start {job.index} could not be staged in {MOST_REDRAWS} draws")


def look(job: RolloutJob, cell: Workcell) -> Observation:
    """Pictures through JPEG and back, as the policy has seen all others: at 96 pixels that changes edges visibly."""
    fit = PictureFit(job.image_size, job.picture_fit)
    images = [fit.apply(cell.cameras.render(cell.robot.data, camera)) for camera in job.cameras]
    state = cell.robot.proprioception()
    if job.action_space == "effector":
        state = workcell_arms().effector_vectors(state)
    return Observation(JpegFrames.encode(images).decode(), state.astype(np.float32))


def drops_state(job: RolloutJob, decision: int) -> bool:
    """Whether this decision is made without proprioception."""
    share = job.protocol.state_dropout
    if not share:
        return False
    rng = generator_for(
        seed=0, purpose="state dropout", task=job.task, regime=job.regime, index=job.index, decision=decision
    )
    return bool(rng.random() < share)


def without_state(question: Observation) -> Observation:
    """NaN means not known."""
    return Observation(question.images, np.full_like(question.state, np.nan))


def joint_targets(job: RolloutJob, cell: Workcell, actions: np.ndarray) -> tuple[np.ndarray, int]:
    """A chunk as the robot's drives take it, and how many of its targets are out of reach.

    Inverse kinematics runs here, in the rollout's own process, and only for the steps that are executed.
    """
    if job.action_space == "joint":
        return actions, 0
    executed = len(actions) if job.protocol.ensemble else min(job.protocol.replan_steps, len(actions))
    chunk = workcell_arms().joint_chunk(actions[:executed], cell.robot.proprioception())
    return chunk.joints, chunk.unreachable


class Attempts:
    """Counts how often the active hands begin again.

    An attempt begins when an active gripper is commanded to close; a hand that starts closed is in its first attempt
    already. Retries are the attempts after the first, of the hand that made most. New tries with the tool kept in
    the hand (a second insertion, another sweep) do not show in the gripper and are not counted.
    """

    def __init__(self, cell: Workcell) -> None:
        self._grippers = [_gripper(side) for side in cell.scene.task.active]
        self._closed = cell.robot.target()[self._grippers] < OPEN_01
        self._begun = self._closed.astype(int)

    def watch(self, action: np.ndarray) -> None:
        opening_01 = action[self._grippers]
        closing = ~self._closed & (opening_01 < CLOSED_01)
        self._begun += closing
        self._closed = (self._closed | closing) & (opening_01 < OPEN_01)

    @property
    def retries(self) -> int:
        return max(0, int(self._begun.max()) - 1)


def _gripper(side: Side) -> int:
    return side.effector * (ARM_JOINTS + 1) + ARM_JOINTS


@lru_cache(maxsize=1)
def workcell_for(task: str, camera_wh: tuple[int, int], clutter: bool, hidden_embodiment: bool) -> Workcell:
    """Compiling a scene takes a while: once per process and task."""
    width, height = camera_wh
    return Workcell(
        scene_named(task), image_size=height, image_width=width, clutter=clutter, hidden_embodiment=hidden_embodiment
    )
