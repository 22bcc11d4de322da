"""The evaluation through a policy server and the robot client: the same rollouts as in one process."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from egorecovery.episodes import Embodiment  # noqa: E402 - torch is an extra
from egorecovery.evaluation import BatchedPolicy, bench_protocol  # noqa: E402
from egorecovery.evaluation.pool import run_here  # noqa: E402
from egorecovery.evaluation.rollout import RolloutJob  # noqa: E402
from egorecovery.kinematics.action_space import anchored_dims  # noqa: E402
from egorecovery.policy import CorrectionConfig  # noqa: E402
from egorecovery.policy.inference import TrainedPolicy  # noqa: E402
from egorecovery.policy.normaliser import Normaliser  # noqa: E402
from egorecovery.robot.served_rollout import roll_served  # noqa: E402
from egorecovery.serving.client import PolicyClient  # noqa: E402
from egorecovery.workcell.kinematics import HOME, workcell_arms  # noqa: E402
from policy_server import served  # noqa: E402
from robot_limits import unbound_limits, workcell_limits  # noqa: E402
from tiny_policy import statistics, tiny_policy  # noqa: E402
from tiny_served import tiny_served  # noqa: E402

HORIZON = 20
SHARED = {"action_space": "effector", "action_dim": 20, "decoders": "shared", "relative_actions": True}
PROTOCOL = replace(bench_protocol("cube_stack", HORIZON), time_limit_s=3.2, starts_seed="tests")


def lively_source(seed: int = 1) -> TrainedPolicy:
    """Random weights whose actions are joint targets around home, so that the arms move and hit things."""
    policy = tiny_policy(seed=seed, horizon=HORIZON)
    known = statistics()
    for normaliser in known.action.values():
        normaliser.centre_A[:], normaliser.spread_A[:] = HOME, 0.3
    for normaliser in known.state.values():
        normaliser.centre_A[:], normaliser.spread_A[:] = HOME, 0.2
    assert isinstance(next(iter(known.action.values())), Normaliser)
    return TrainedPolicy(policy, known, name="lively", device=torch.device("cpu"))


def jobs(source, protocol, count=1):
    return [
        RolloutJob(
            task="cube_stack",
            regime=regime,
            index=index,
            protocol=protocol,
            cameras=source.cameras,
            image_size=source.image_size,
        )
        for regime in ("initial", "recovery")
        for index in range(count)
    ]


@pytest.mark.parametrize("ensemble", [False, True])
def test_the_evaluation_through_server_and_robot_client_gives_the_outcomes_of_one_process(ensemble):
    protocol = replace(PROTOCOL, ensemble=ensemble, replan_steps=5 if ensemble else PROTOCOL.replan_steps)
    source = lively_source()
    here = [ending for _, ending in run_here(jobs(source, protocol), BatchedPolicy(source))]
    with served(tiny_served(source, horizon=HORIZON)) as server:
        there = [roll_served(job, lambda: PolicyClient(server.url), unbound_limits()) for job in jobs(source, protocol)]
    for ending, (through, controller) in zip(here, there, strict=True):
        assert through == ending
        assert ending.decisions > 1
        assert controller.status.fault is None
    assert len({ending.gates for ending in here}) == len(here)  # each start was another one


def shared_decoder_source(arms) -> TrainedPolicy:
    """Random weights of a policy in effector space, whose poses stay near those of the arms."""
    correction = CorrectionConfig(film_std=0.5, film_on_human=True)
    policy = tiny_policy(correction, horizon=HORIZON, **SHARED)
    known = statistics(spread=0.01, dimensions=20)
    turned = ~anchored_dims("effector")  # positions count from where the arms are; axes of rotation do not
    known.action[Embodiment.ROBOT].centre_A[turned] = arms.effector_vectors(HOME[None])[0, turned]
    return TrainedPolicy(policy, known, name="shared", device=torch.device("cpu"))


def test_a_policy_in_effector_space_goes_the_same_way_served_as_in_process():
    arms = workcell_arms()
    source = shared_decoder_source(arms)
    planned = [replace(job, action_space="effector") for job in jobs(source, PROTOCOL)]
    here = [ending for _, ending in run_here(planned, BatchedPolicy(source))]
    with served(tiny_served(source, horizon=HORIZON, arms=arms)) as server:
        there = [roll_served(job, lambda: PolicyClient(server.url), unbound_limits()) for job in planned]
    for ending, (through, _) in zip(here, there, strict=True):
        assert through == replace(ending, unreachable=0)  # a client does not count these
        assert len(set(ending.gates)) > 1


def test_a_policy_with_a_shared_decoder_moves_the_arms_through_inverse_kinematics_inside_ordinary_limits():
    arms = workcell_arms()
    source = shared_decoder_source(arms)
    commands = []
    with served(tiny_served(source, horizon=HORIZON, arms=arms)) as server:
        _, controller = roll_served(
            jobs(source, PROTOCOL)[0],
            lambda: PolicyClient(server.url),
            workcell_limits(),
            on_cycle=lambda robot, _: commands.append(robot.cell.robot.target()),
        )
    assert controller.status.fault is None
    assert controller.status.chunks > 1
    assert controller.status.cycles > HORIZON
    assert 0.01 < np.ptp(commands, axis=0)[np.arange(14) % 7 != 6].max() < 0.5
