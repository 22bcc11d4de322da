"""The policy server over loopback: what it says, what it answers, for whom."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from policy_server import served  # noqa: E402 - torch is an extra
from tiny_served import HORIZON, SIZE, aloha_observation, decided, tiny_served, tiny_source  # noqa: E402


@pytest.fixture(scope="module")
def source():
    return tiny_source()


@pytest.fixture(scope="module")
def server(source):
    with served(tiny_served(source)) as running:
        yield running


def test_a_server_says_on_connecting_what_it_wants_and_what_it_answers(server):
    with server.client() as client:
        told = client.metadata
    assert told.cameras == ("head", "left_wrist", "right_wrist")
    assert (told.action_hz, told.horizon, told.action_dim, told.state_dim) == (25.0, HORIZON, 14, 14)
    assert (told.image_size, told.picture_fit, told.action_space) == (SIZE, "exact", "joint")
    assert (told.model, told.checkpoint) == ("tiny 0", "0" * 64)


def test_a_chunk_is_what_the_policy_decides_without_a_server(server, source, rng):
    observation = aloha_observation(rng)
    wanted = decided(source, observation)
    with server.client() as client:
        reply = client.ask(observation)
    np.testing.assert_array_equal(reply["actions"], wanted.action_BHA[0])
    assert reply["gate"] == pytest.approx(float(wanted.gate_B[0]))
    assert reply["intent"] == pytest.approx(wanted.intent_BC[0].tolist())
