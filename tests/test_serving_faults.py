"""What breaks clients and checkpoints must not break the server, nor hold up other robots."""

import asyncio
import gc
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tracemalloc

import msgpack
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402 - torch is an extra
from websockets.sync.client import connect  # noqa: E402

from egorecovery.episodes import Camera  # noqa: E402
from egorecovery.errors import ServerError  # noqa: E402
from egorecovery.serving.client import PolicyClient  # noqa: E402
from egorecovery.serving.loading import PolicySettings, load_served  # noqa: E402
from egorecovery.serving.server import serving  # noqa: E402
from egorecovery.serving.server_settings import ServerSettings  # noqa: E402
from egorecovery.serving.wire import Limits, encode  # noqa: E402
from evaluation_fakes import Spoiler, Swayer  # noqa: E402
from policy_server import Client, served  # noqa: E402
from tiny_checkpoint import save_tiny  # noqa: E402
from tiny_served import HORIZON, Held, aloha_observation, tiny_served  # noqa: E402

pytestmark = pytest.mark.fault
SWAYER = Swayer(cameras=tuple(Camera), steps=HORIZON)


@pytest.fixture(scope="module")
def server():
    with served(tiny_served(SWAYER)) as running:
        yield running


@pytest.fixture(scope="module")
def robot(server):
    """Another robot, connected all the while."""
    with server.client() as client:
        yield client


@pytest.fixture
def observation(rng):
    return aloha_observation(rng)


def array(**changes) -> dict:
    return {b"__ndarray__": True, b"data": b"\0" * 112, b"dtype": "<f8", b"shape": [14], **changes}


MALFORMED = {
    "cut": (encode({"state": np.zeros(14)})[:-5], "ends in the middle"),
    "nested": (b"\x91" * 5000 + b"\xc0", "nested deeper than 8"),
    "lying length": (b"\xdd\xff\xff\xff\xff", "claims 4294967295 values"),
    "lying shape": (msgpack.packb({"state": array(**{"shape": [2**40]}), "images": {}}), None),
    "objects": (msgpack.packb({"state": {**array(), b"dtype": "|O"}, "images": {}}), "booleans, integers or floats"),
    "noise": (bytes(range(256)), None),
    "no map": (encode([1, 2]), "must be a map"),
    "empty": (b"", "ends in the middle"),
    "nothing in it": (encode({}), "must have 'images'"),
    "episode control": (encode({"__ctrl__": "episode_start"}), "must have 'images'"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_message_ends_its_connection_with_the_reason_and_no_other(server, robot, observation, name):
    message, word = MALFORMED[name]
    assert_refused(server, message, word or "")
    assert robot.ask(observation)["actions"].shape == (HORIZON, 14)


def assert_refused(server, message, word: str) -> None:
    """As openpi's server does it: a text frame, then close code 1011; without a traceback."""
    with server.client() as client:
        reply = client.ask(message)
        assert isinstance(reply, str)
        assert word in reply
        assert "Traceback" not in reply
        assert 'File "' not in reply
        with pytest.raises(ConnectionClosed) as closed:
            client.reply()
    assert closed.value.rcvd.code == 1011


def changed(observation: dict, camera: str = "cam_high", **changes) -> dict:
    picture = changes.pop("picture", None)
    images = {**observation["images"], camera: picture} if picture is not None else observation["images"]
    return {**observation, "images": images, **changes}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"state": np.full(14, np.nan)}, "not finite, at 0"),
        ({"state": np.r_[np.zeros(13), np.inf]}, "not finite, at 13"),
        ({"state": np.zeros(7)}, "array of 14 numbers"),
        ({"state": np.zeros((1, 14))}, "array of 14 numbers"),
        ({"state": np.zeros(14, bool)}, "array of 14 numbers"),
        ({"state": [0.0] * 14}, "array of 14 numbers"),
        ({"images": [1, 2]}, "must have 'images'"),
        ({"images": {}}, "lacks camera 'head'"),
        ({"camera": "cam_front", "picture": np.zeros((3, 16, 16), np.uint8)}, "no camera 'cam_front'"),
        ({"camera": "head", "picture": np.zeros((3, 16, 16), np.uint8)}, "two pictures are of camera 'head'"),
        ({"picture": np.zeros((3, 16, 16), np.float32)}, "must be uint8"),
        ({"picture": np.zeros((16, 16), np.uint8)}, "must be uint8"),
        ({"picture": np.zeros((16, 16, 4), np.uint8)}, "must be uint8"),
        ({"picture": np.zeros((3, 0, 16), np.uint8)}, "sides of 1..4096"),
        ({"picture": np.zeros((3, 1, 5000), np.uint8)}, "sides of 1..4096"),
        ({"picture": np.zeros((3, 24, 32), np.uint8)}, "32 x 24 pixels, 16 x 16 are wanted"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused_saying_what_is_wanted(server, observation, change, word):
    assert_refused(server, encode(changed(observation, **change)), word)


def test_text_is_no_observation(server):
    with server.client() as client:
        client.connection.send("hello")
        assert "binary messages" in client.reply()


def test_a_message_over_the_limit_is_refused_while_it_arrives(observation):
    with served(tiny_served(SWAYER), limits=Limits(bytes=10_000)) as server, server.client() as robot:
        with server.client() as client, pytest.raises(ConnectionClosed) as closed:
            client.ask(b"\0" * 10_001)
        assert closed.value.rcvd.code == 1009
        assert robot.ask(observation)["chunk_id"] == 1


@pytest.mark.parametrize(
    ("spoil", "word"), [("nan", "not finite"), ("infinite", "not finite"), ("raises", "internal error")]
)
def test_a_policy_that_breaks_sends_no_action_and_no_traceback(observation, spoil, word):
    good = tiny_served(SWAYER)
    with served(good) as server:
        broken = tiny_served(Spoiler(cameras=tuple(Camera), steps=HORIZON, spoil=spoil))
        server.server._queue.policy = broken  # past the warm start, where it would have been refused
        assert_refused(server, encode(observation), word)
        server.server._queue.policy = good
        with server.client() as client:
            assert client.ask(observation)["chunk_id"] == 1


def test_a_policy_that_breaks_at_once_is_not_served():
    with pytest.raises(ZeroDivisionError), served(tiny_served(Spoiler(cameras=tuple(Camera), spoil="raises"))):
        pass


def slow_reader(server):
    """A socket that takes little, of a client that reads nothing."""
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plug.connect(("127.0.0.1", server.port))
    return connect(server.url, sock=plug, compression=None, max_size=None, max_queue=1)


def send_many(connection, message: bytes, count: int) -> None:
    for _ in range(count):
        connection.send(message)


LONG = Swayer(cameras=tuple(Camera), steps=20_000)  # replies of a megabyte


def test_a_client_that_takes_no_replies_is_dropped_and_its_messages_wait_in_its_own_socket(observation):
    message = encode(observation)
    with served(tiny_served(LONG, horizon=20_000), send_timeout_s=0.5) as server:
        with slow_reader(server) as connection, pytest.raises(ConnectionClosed):
            send_many(connection, message, 100_000)  # 250 MB: blocks long before, until the server has had enough
        server.on_loop(gone(server))
        assert server.server.metrics.requests["slow"] == 1
        with server.client() as client:
            assert client.ask(observation)["chunk_id"] == 1


async def gone(server) -> None:
    import asyncio

    while server.server.metrics.clients:
        await asyncio.sleep(0.001)


def test_a_robot_is_answered_while_another_client_stalls(observation):
    with (
        served(tiny_served(LONG, horizon=20_000), send_timeout_s=60.0) as server,
        server.client() as robot,
        slow_reader(server) as stalled,
    ):
        send_many(stalled, encode(observation), 30)
        answered = [robot.ask(observation)["chunk_id"] for _ in range(10)]
        assert server.server.metrics.clients == 2  # it stalls still
        stalled.socket.close()
    assert answered == list(range(1, 11))


def test_a_client_that_floods_is_answered_in_order_and_does_not_starve_others(server, robot, observation):
    message, count = encode(observation), 300
    with server.client() as flood:
        flood.connection.send(message)
        before = robot.ask(observation)["chunk_id"]
        send_many(flood.connection, message, count - 1)
        assert robot.ask(observation)["chunk_id"] == before + 1
        assert server.server.waiting <= 2  # one of each client
        assert [flood.reply()["chunk_id"] for _ in range(count)] == list(range(1, count + 1))


def test_a_client_that_goes_away_while_its_chunk_is_computed_leaves_nothing_behind(observation):
    source = Held(SWAYER)
    with served(tiny_served(source)) as server:
        source.holding = True
        with server.client() as client:
            client.connection.send(encode(observation))
            assert source.asked.acquire(timeout=30)
            client.connection.socket.shutdown(socket.SHUT_RDWR)
        source.holding = False
        source.go.release()
        server.on_loop(gone(server))
        with server.client() as another:
            assert another.ask(observation)["chunk_id"] == 1
        assert not server.server.waiting


def test_robots_beyond_the_limit_are_told_so_and_a_place_that_is_free_is_given_again(observation):
    with served(tiny_served(SWAYER), clients=1) as server:
        with server.client() as robot:
            with pytest.raises(InvalidStatus, match="503"), server.client():
                pass
            with pytest.raises(ServerError, match=r"refused the connection \(HTTP 503: too many robots"):
                PolicyClient(server.url)
            assert robot.ask(observation)["chunk_id"] == 1
        server.on_loop(gone(server))
        with server.client() as another:
            assert another.ask(observation)["chunk_id"] == 1


def test_memory_does_not_grow_with_requests(rng):
    source = Swayer(cameras=tuple(Camera), steps=HORIZON, image_size=64)
    observation = aloha_observation(rng, size=64)  # 37 kB: two hundred kept would be 7 MB
    with served(tiny_served(source)) as server, server.client() as client:
        tracemalloc.start()
        try:
            for _ in range(20):
                client.ask(observation)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(200):
                client.ask(observation)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
    assert grown < 500_000


def test_clients_that_come_and_go_leave_no_handle_open(observation):
    with served(tiny_served(SWAYER)) as server:

        def visit() -> None:
            with server.client() as client:
                client.ask(observation)
            assert_refused(server, b"\xc1", "")
            with socket.create_connection(("127.0.0.1", server.port)) as other:
                other.sendall(b"no handshake")
            server.on_loop(gone(server))

        visit()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            visit()
        assert len(os.listdir("/proc/self/fd")) < before + 10  # ten visits open thirty


def test_a_new_checkpoint_answers_from_its_reload_on(tmp_path, observation):
    save_tiny(tmp_path, step=20, seed=0)
    serving = PolicySettings(run=tmp_path, device="cpu", client_hz=25.0)
    with served(load_served(serving, None)) as server, server.client() as robot:
        old = robot.ask(observation)["actions"]
        save_tiny(tmp_path, step=40, seed=1)
        assert server.on_loop(server.server.reload(lambda: load_served(serving, None)))
        new = robot.ask(observation)["actions"]
        with server.client() as later:
            assert later.metadata.checkpoint != robot.metadata.checkpoint
            np.testing.assert_array_equal(later.ask(observation)["actions"], new)
    assert np.abs(new - old).max() > 1e-3


def spoil_weights(step):
    path = step / "policy.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def spoil_card(step):
    (step / "checkpoint.json").write_bytes(b'{"format": "egorecovery checkpoint 1"}')


def remove_it(step):
    shutil.rmtree(step.parent.parent)


@pytest.mark.parametrize("spoil", [spoil_weights, spoil_card, remove_it])
def test_a_checkpoint_that_is_damaged_is_refused_and_the_old_one_goes_on(tmp_path, observation, spoil):
    save_tiny(tmp_path / "run", step=20, seed=0)
    serving = PolicySettings(run=tmp_path / "run", device="cpu", client_hz=25.0)
    with served(load_served(serving, None)) as server, server.client() as robot:
        old = robot.ask(observation)["actions"]
        spoil(save_tiny(tmp_path / "run", step=40, seed=1))
        assert not server.on_loop(server.server.reload(lambda: load_served(serving, None)))
        np.testing.assert_array_equal(robot.ask(observation)["actions"], old)
        assert server.server.metrics.reloads["refused"] == 1


@pytest.mark.parametrize(
    "changes", [{"horizon": 7}, {"image_size": 32}, {"cameras": (Camera.HEAD,)}], ids=["horizon", "size", "cameras"]
)
def test_a_checkpoint_that_would_break_what_robots_were_told_is_refused(tmp_path, observation, changes):
    save_tiny(tmp_path, step=20)
    serving = PolicySettings(run=tmp_path, device="cpu", client_hz=25.0)
    with served(load_served(serving, None)) as server, server.client() as robot:
        save_tiny(tmp_path, step=40, **changes)
        assert not server.on_loop(server.server.reload(lambda: load_served(serving, None)))
        assert robot.ask(observation)["actions"].shape == (HORIZON, 14)


def test_people_are_told_where_it_serves_before_the_log_begins(tmp_path, monkeypatch):
    save_tiny(tmp_path, step=20)
    said: list[str] = []
    monkeypatch.setattr("egorecovery.serving.server.log", lambda event, *_, **__: said.append(event))

    async def serve_once() -> None:
        policy = load_served(PolicySettings(run=tmp_path, device="cpu", client_hz=25.0), None)
        async with serving(policy, ServerSettings(port=0), lambda server: said.append(f"on port {server.port}")):
            pass

    asyncio.run(serve_once())
    assert said[0].startswith("on port ")
    assert said[1] == "listening"


def test_the_program_serves_reloads_on_a_signal_refuses_a_bad_one_and_ends_well(tmp_path, observation):
    save_tiny(tmp_path / "run", step=20, seed=0)
    command = [sys.executable, "-m", "egorecovery", "serve", str(tmp_path / "run"), "--port", "0", "--client-hz", "25"]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as program:

        def events(until: str) -> list[dict]:
            """Every line of the log up to an event."""
            found = []
            for line in program.stderr:
                found.append(json.loads(line))
                if found[-1]["event"] == until:
                    return found
            raise AssertionError(f"no '{until}' in {found}")

        try:
            port = events("listening")[-1]["port"]
            with connect(f"ws://127.0.0.1:{port}") as connection:
                robot = Client(connection)
                first = robot.ask(observation)["actions"]
                save_tiny(tmp_path / "run", step=40, seed=1)
                program.send_signal(signal.SIGHUP)
                assert events("reloaded")[-1]["model"].endswith("step 40")
                second = robot.ask(observation)["actions"]
                spoil_weights(save_tiny(tmp_path / "run", step=60, seed=2))
                program.send_signal(signal.SIGHUP)
                refused = events("reload refused")[-1]
                third = robot.ask(observation)["actions"]
                program.send_signal(signal.SIGTERM)
                with pytest.raises(ConnectionClosed) as closed:
                    robot.reply()
            events("stopped")
            shown = program.stdout.read()
            assert program.wait(30) == 0
        finally:
            program.kill()
    assert closed.value.rcvd.code == 1001  # going away
    assert np.abs(second - first).max() > 1e-3
    np.testing.assert_array_equal(third, second)
    assert "missing or damaged" in refused["reason"]
    assert re.search(rf"ws://127.0.0.1:{port}\n", shown)
    assert all(len(line) <= 80 for line in shown.splitlines())
