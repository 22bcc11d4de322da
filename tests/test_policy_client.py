"""The robot's connection to a policy server: light, and it hands on nothing that a robot may not be told."""

import json
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from websockets.server import ServerProtocol

from egorecovery.errors import EgoRecoveryError, ServerError, ServerSilent
from egorecovery.serving.client import PolicyClient
from egorecovery.serving.wire import encode
from scripted_server import HORIZON, ScriptedServer, metadata, smooth

OBSERVATION = {"state": np.zeros(14, np.float32), "images": {"head": np.zeros((16, 16, 3), np.uint8)}}
LIGHT = {"numpy", "msgpack", "websockets", "egorecovery"}


@pytest.mark.parametrize("module", ["egorecovery.serving.client", "egorecovery.robot", "egorecovery.robot.script"])
def test_on_the_robots_computer_numpy_msgpack_and_websockets_are_enough(module):
    code = (
        "import sys, json; before = set(sys.modules)\n"
        f"import {module}\n"
        "loaded = [name for name in sys.modules if name not in before and getattr(sys.modules[name], '__file__', '')]\n"
        "tops = {name.split('.')[0] for name in loaded}\n"
        "print(json.dumps(sorted(tops - set(sys.stdlib_module_names))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foreign = set(json.loads(done.stdout))
    assert foreign <= LIGHT
    assert "egorecovery" in foreign


def test_an_answer_is_a_chunk_with_the_policys_thoughts():
    with ScriptedServer() as server, PolicyClient(server.url) as client:
        answer = client.infer(OBSERVATION, 5.0)
        np.testing.assert_allclose(answer.actions, smooth(np.zeros(14)), atol=1e-6)
        assert (answer.gate, answer.intent, answer.chunk_id) == (0.3, (0.1, 0.2), 1)
        assert answer.actions.dtype == np.float64
        assert (client.metadata.action_hz, client.metadata.horizon) == (25.0, HORIZON)
    np.testing.assert_array_equal(server.observations[0]["state"], OBSERVATION["state"])
    assert server.observations[0]["images"]["head"].shape == (16, 16, 3)


def test_the_api_key_is_sent_where_there_is_one():
    with ScriptedServer() as server:
        PolicyClient(server.url, api_key="secret").close()
        PolicyClient(server.url).close()
    assert [headers.get("Authorization") for headers in server.headers] == ["Api-Key secret", None]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nan", "1 of 280 actions are not finite, the first in step 5"),
        ("shape", "20 of 13"),
        ("short", "got 5 of 14"),
        ("integers", "array of floats with two axes, got int64"),
        ("bad gate", "gate must be a finite number, got nan"),
        ("no actions", "got NoneType"),
        ("not a map", "an answer is a map, got list"),
        ("garbage", "0xc1"),
        ("error", "the server says: ServingError: the observation lacks camera 'head'"),
        ("close", "the server is gone"),
    ],
)
def test_answers_that_no_robot_may_be_told_end_the_connection_with_the_reason(name, words):
    with ScriptedServer(name) as server, PolicyClient(server.url) as client:
        for _ in range(3):
            client.infer(OBSERVATION, 5.0)
        with pytest.raises(ServerError, match=words) as raised:
            client.infer(OBSERVATION, 5.0)
        assert str(raised.value).isprintable()  # a server's words cannot write to the terminal
        with pytest.raises(ServerError):
            client.infer(OBSERVATION, 5.0)


def test_a_silent_server_is_given_up_after_the_time_it_was_given():
    with ScriptedServer("silent") as server, PolicyClient(server.url) as client:
        for _ in range(3):
            client.infer(OBSERVATION, 5.0)
        with pytest.raises(ServerSilent, match=r"no answer within 0.05 s"):
            client.infer(OBSERVATION, 0.05)


def greet_and_read_nothing(listening: socket.socket, let_go: threading.Event) -> None:
    connection, _ = listening.accept()
    with connection:
        protocol = ServerProtocol()
        protocol.receive_data(connection.recv(4096))
        (request,) = protocol.events_received()
        protocol.send_response(protocol.accept(request))
        protocol.send_binary(encode(metadata().to_message()))
        for part in protocol.data_to_send():
            connection.sendall(part)
        let_go.wait(30)


def test_a_server_that_reads_nothing_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("egorecovery.serving.client.SEND_S", 1)
    large = {**OBSERVATION, "images": {"head": np.zeros((4000, 4000, 3), np.uint8)}}  # more than sockets keep
    let_go = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=greet_and_read_nothing, args=(listening, let_go))
        thread.start()
        with (
            PolicyClient(f"ws://127.0.0.1:{listening.getsockname()[1]}") as client,
            pytest.raises(ServerError, match="the server is gone"),
        ):
            client.infer(large, 30.0)
        let_go.set()
        thread.join()


@pytest.mark.parametrize("url", ["ws://127.0.0.1:1", "http://127.0.0.1:1", "nonsense", "ws://"])
def test_where_no_server_answers_it_says_how_to_start_one(url):
    with pytest.raises(ServerError, match=r"no policy server answers there .*egorecovery serve RUN"):
        PolicyClient(url, open_s=2.0)


def test_a_server_of_another_project_is_named_as_such(monkeypatch):
    with ScriptedServer() as server:
        server._told = {"reset_pose": [0.0] * 6}
        with pytest.raises(EgoRecoveryError, match=r"lack action_hz, .*not a server of this project"):
            PolicyClient(server.url)
