"""The policy server over loopback: what it says, what it answers, for whom."""

import errno
import json
import logging
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from websockets.exceptions import InvalidStatus  # noqa: E402 - torch is an extra

from egorecovery.episodes import Camera  # noqa: E402
from egorecovery.errors import ServerError, ServingError  # noqa: E402
from egorecovery.serving.access import AccessRules, read_api_key  # noqa: E402
from egorecovery.serving.client import PolicyClient  # noqa: E402
from egorecovery.serving.json_log import log, write_json_logs  # noqa: E402
from egorecovery.serving.served_policy import at_client_rate, steps_at  # noqa: E402
from egorecovery.serving.server_settings import ServerSettings  # noqa: E402
from egorecovery.workcell.kinematics import HOME, workcell_arms  # noqa: E402
from evaluation_fakes import Swayer  # noqa: E402
from policy_server import served  # noqa: E402
from tiny_served import HORIZON, SIZE, Held, aloha_observation, decided, tiny_served, tiny_source  # noqa: E402

KEY = "a-key-of-a-robot-in-a-lab"
SWAYER = Swayer(cameras=tuple(Camera), steps=HORIZON)  # answers by what it sees, and at once


@pytest.fixture(scope="module")
def source():
    return tiny_source()


@pytest.fixture(scope="module")
def server(source):
    with served(tiny_served(source)) as running:
        yield running


@pytest.fixture(scope="module")
def keyed():
    with served(tiny_served(SWAYER), access=AccessRules(api_key=KEY, hosts=frozenset({"robot.lab"}))) as running:
        yield running


def fetched(server, path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_server_says_on_connecting_what_it_wants_and_what_it_answers(server):
    with server.client() as client:
        metadata = client.metadata
    assert metadata.cameras == ("head", "left_wrist", "right_wrist")
    assert (metadata.action_hz, metadata.horizon, metadata.action_dim, metadata.state_dim) == (25.0, HORIZON, 14, 14)
    assert (metadata.image_size, metadata.picture_fit, metadata.action_space) == (SIZE, "exact", "joint")
    assert (metadata.model, metadata.checkpoint) == ("tiny 0", "0" * 64)


def test_a_chunk_is_what_the_policy_decides_without_a_server(server, source, rng):
    observation = aloha_observation(rng)
    wanted = decided(source, observation)
    with server.client() as client:
        reply = client.ask(observation)
    np.testing.assert_array_equal(reply["actions"], wanted.action_BHA[0])
    assert reply["gate"] == pytest.approx(float(wanted.gate_B[0]))
    assert reply["intent"] == pytest.approx(wanted.intent_BC[0].tolist())


def test_only_actions_are_an_array_because_openpis_client_plays_every_array_step_by_step(server, rng):
    with server.client() as client:
        replies = [client.ask(aloha_observation(rng)) for _ in range(2)]
    assert [key for key, value in replies[0].items() if isinstance(value, np.ndarray)] == ["actions"]
    assert [reply["chunk_id"] for reply in replies] == [1, 2]
    assert replies[0]["policy_timing"]["infer_ms"] > 0
    assert "prev_total_ms" not in replies[0]["server_timing"]
    assert replies[1]["server_timing"]["prev_total_ms"] > 0


def test_pictures_may_have_channels_first_or_last_and_either_name(server, rng):
    first = aloha_observation(rng)
    last = {**first, "images": {name: picture.transpose(1, 2, 0) for name, picture in first["images"].items()}}
    own = {**first, "images": dict(zip(Camera, first["images"].values(), strict=True))}
    with server.client() as client:
        actions = [client.ask(each)["actions"] for each in (first, last, own)]
    np.testing.assert_array_equal(actions[0], actions[1])
    np.testing.assert_array_equal(actions[0], actions[2])


def test_other_camera_names_are_known_where_the_server_was_told(rng):
    observation = aloha_observation(rng)
    observation["images"]["front"] = observation["images"].pop("cam_high")
    with served(tiny_served(SWAYER), camera_names={"front": "head"}) as server, server.client() as client:
        assert client.ask(observation)["actions"].shape == (HORIZON, 14)


def test_pictures_of_another_size_are_fitted_by_the_rule_that_metadata_name(rng):
    observation = aloha_observation(rng)
    padded = {name: np.zeros((3, 2 * SIZE, 4 * SIZE), np.uint8) for name in observation["images"]}
    for name, picture in observation["images"].items():  # a wide picture whose middle is the square, twice as large
        padded[name][:, :, SIZE : 3 * SIZE] = picture.repeat(2, axis=1).repeat(2, axis=2)
    whole = SWAYER.infer(np.stack([each.transpose(1, 2, 0) for each in observation["images"].values()])[None],
                          observation["state"][None].astype(np.float32))  # fmt: skip
    with served(tiny_served(SWAYER, fit="crop")) as server, server.client() as client:
        assert client.metadata.picture_fit == "crop"
        cropped = client.ask({**observation, "images": padded})
    assert cropped["gate"] == pytest.approx(float(whole.gate_B[0]), abs=0.02)
    with served(tiny_served(SWAYER, fit="letterbox")) as server, server.client() as client:
        boxed = client.ask({**observation, "images": padded})
    assert boxed["gate"] == pytest.approx(float(whole.gate_B[0]) / 4, abs=0.02)  # a quarter of the square is picture


def test_observations_that_wait_together_are_answered_in_one_inference_each_its_own(rng):
    source = Held(SWAYER)
    observations = [aloha_observation(rng) for _ in range(5)]
    with served(tiny_served(source), batch=4) as server, ThreadPoolExecutor(5) as robots:
        source.rows.clear()
        source.holding = True

        def ask(observation):
            with server.client() as client:
                return client.ask(observation)["actions"]

        first = robots.submit(ask, observations[0])
        assert source.asked.acquire(timeout=30)
        others = [robots.submit(ask, observation) for observation in observations[1:]]
        server.on_loop(waiting(server, 4))
        source.go.release(2)
        answers = [future.result(30) for future in (first, *others)]
    assert source.rows == [1, 4]
    for observation, actions in zip(observations, answers, strict=True):
        wanted = decided(SWAYER, observation).action_BHA[0]
        np.testing.assert_allclose(actions, wanted, rtol=1e-6)


async def waiting(server, count: int) -> None:
    import asyncio

    while server.server.waiting < count:
        await asyncio.sleep(0.001)


@pytest.fixture(scope="module")
def effector_source():
    return tiny_source(action_space="effector", action_dim=20)


def test_a_policy_in_effector_space_sees_poses_and_answers_with_joint_targets(effector_source, rng):
    observation = {**aloha_observation(rng), "state": HOME + 0.01 * rng.normal(size=14)}
    arms = workcell_arms()
    poses = arms.effector_vectors(observation["state"])
    wanted = arms.joint_chunk(decided(effector_source, {**observation, "state": poses}).action_BHA[0],
                              observation["state"])  # fmt: skip
    with served(tiny_served(effector_source, arms=arms)) as server, server.client() as client:
        assert (client.metadata.action_space, client.metadata.action_dim) == ("joint", 14)
        reply = client.ask(observation)
    np.testing.assert_array_equal(reply["actions"], wanted.joints)
    assert reply["unreachable"] == wanted.unreachable


def test_it_answers_with_poses_where_that_is_asked(effector_source, rng):
    policy = tiny_served(effector_source, arms=workcell_arms(), answer="poses", client_hz=50.0)
    with served(policy) as server, server.client() as client:
        assert (client.metadata.action_space, client.metadata.action_dim) == ("effector", 20)
        actions = client.ask({**aloha_observation(rng), "state": HOME})["actions"]
    axes = actions.reshape(2 * HORIZON, 2, 10)[..., 3:9].reshape(2 * HORIZON, 2, 2, 3)
    np.testing.assert_allclose(np.linalg.norm(axes, axis=-1), 1, atol=1e-9)
    np.testing.assert_allclose((axes[:, :, 0] * axes[:, :, 1]).sum(-1), 0, atol=1e-9)


def test_what_cannot_be_served_is_refused_with_what_to_do(source, effector_source):
    with pytest.raises(ServingError, match="give --robot FILE"):
        tiny_served(effector_source)
    with pytest.raises(ServingError, match="cannot answer with poses"):
        tiny_served(source, answer="poses")
    with pytest.raises(ServingError, match=r"must lie in 1\.\.1000 Hz"):
        tiny_served(source, client_hz=0.5)
    with (
        pytest.raises(ServingError, match=r"'font'.*known are"),
        served(tiny_served(source), camera_names={"a": "font"}),
    ):
        pass


def test_a_port_in_use_is_said_with_what_to_give_and_nothing_has_stopped(server, source, monkeypatch):
    logged = []
    monkeypatch.setattr("egorecovery.serving.server.log", lambda event, *rest, **fields: logged.append(event))
    with (
        pytest.raises(ServingError, match=rf"port {server.port} of 127\.0\.0\.1 is in use.*give --port N"),
        served(tiny_served(source), port=server.port),
    ):
        pass
    assert logged == []


def test_a_port_that_needs_privileges_is_said_with_what_to_give(source, monkeypatch):
    async def refuses(*args, **options):
        raise PermissionError(errno.EACCES, "error while attempting to bind on address: permission denied")

    monkeypatch.setattr("egorecovery.serving.server.serve", refuses)  # the tests may run as root
    with (
        pytest.raises(ServingError, match=r"may not listen on port 80 of 127\.0\.0\.1; give --port N, above 1023"),
        served(tiny_served(source), port=80),
    ):
        pass


chunks = st.integers(1, 60).flatmap(
    lambda steps: st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).normal(size=(steps, 14)))
)


@given(chunks, st.floats(5, 400))
def test_a_resampled_chunk_lasts_as_long_and_stays_between_its_steps(chunk_HA, client_hz):
    resampled = at_client_rate(chunk_HA, client_hz)
    assert len(resampled) == steps_at(len(chunk_HA), client_hz)
    assert abs(len(resampled) / client_hz - len(chunk_HA) / 25) <= 1 / client_hz
    np.testing.assert_array_equal(resampled[0], chunk_HA[0])
    assert (resampled <= chunk_HA.max(axis=0) + 1e-9).all()
    assert (resampled >= chunk_HA.min(axis=0) - 1e-9).all()


@given(chunks, st.integers(1, 6))
def test_at_a_multiple_of_the_rate_the_policys_own_steps_are_among_the_clients(chunk_HA, times):
    np.testing.assert_allclose(at_client_rate(chunk_HA, 25.0 * times)[::times], chunk_HA, atol=1e-12)


def test_health_needs_no_key_and_metrics_do(keyed):
    assert fetched(keyed, "/healthz") == (200, "OK\n")
    assert fetched(keyed, "/metrics")[0] == 401
    assert fetched(keyed, "/metrics", Authorization=f"Api-Key {KEY}")[0] == 200


def test_metrics_count_what_happened(rng):
    with served(tiny_served(SWAYER)) as server:
        with server.client() as client:
            for _ in range(3):
                client.ask(aloha_observation(rng))
            lines = fetched(server, "/metrics")[1].splitlines()
        assert fetched(server, "/metrics", Host="evil.example")[0] == 403
        after = fetched(server, "/metrics")[1].splitlines()
    assert 'egorecovery_requests_total{outcome="answered"} 3' in lines
    assert "egorecovery_clients 1" in lines
    assert "egorecovery_gate_count 3" in lines
    assert 'egorecovery_gate_bucket{le="+Inf"} 3' in lines
    assert 'egorecovery_model_info{model="swayer",checkpoint="' + "0" * 64 + '"} 1' in lines
    assert 'egorecovery_refused_connections_total{reason="host"} 1' in after


@pytest.mark.parametrize("key", [None, "", f"{KEY}x", KEY[:-1], KEY.upper(), "ä" * 20])
def test_without_the_right_key_there_is_no_connection(keyed, key):
    headers = {"Authorization": f"Api-Key {key}".encode().decode("latin-1")} if key is not None else {}
    assert fetched(keyed, "/metrics", **headers)[0] == 401


def test_a_key_under_another_scheme_is_none(keyed):
    assert fetched(keyed, "/metrics", Authorization=f"Bearer {KEY}")[0] == 401


def test_a_robot_with_the_key_is_let_in_and_one_without_is_told_what_to_send(keyed):
    with keyed.client(additional_headers={"Authorization": f"Api-Key {KEY}"}) as client:
        assert client.metadata.model == "swayer"
    with pytest.raises(InvalidStatus, match="401") as refused, keyed.client():
        pass
    assert b"Authorization: Api-Key KEY" in refused.value.response.body
    for key in (None, f"{KEY}x"):  # our own client names its option
        with pytest.raises(ServerError, match=r"wants an API key.*--api-key-file"):
            PolicyClient(keyed.url, api_key=key)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8000", 200),
        ("0.0.0.0:8000", 200),  # the stock client
        ("[::1]:8000", 200),
        ("robot.lab", 200),  # allowed by name
        ("ROBOT.lab:80", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.1.77", 403),  # not the address that the request came in on
        ("evil.example@127.0.0.1", 400),
        ("127.0.0.1/x", 400),
        ("127.0.0.1:port", 400),
        ("", 400),
    ],
)
def test_requests_addressed_to_other_hosts_are_refused(keyed, host, status):
    assert fetched(keyed, "/healthz", Host=host)[0] == status


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1:1", "null", "http://[", "http://localhost"]
)
def test_web_pages_of_other_origins_are_refused(server, origin):
    with pytest.raises(InvalidStatus, match="403"), server.client(origin=origin):
        pass


def test_a_page_of_the_servers_own_origin_passes(server):
    with server.client(origin=f"http://127.0.0.1:{server.port}") as client:
        assert client.metadata.horizon == HORIZON


def test_no_other_machine_is_listened_to_without_a_key():
    for host in ("0.0.0.0", "::", "192.168.1.5", "robot.lab"):  # noqa: S104
        with pytest.raises(ServingError, match="give --api-key-file FILE"):
            ServerSettings(host=host)
        ServerSettings(host=host, access=AccessRules(api_key=KEY))
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.2"):
        ServerSettings(host=host)


@pytest.mark.parametrize("text", ["", "short", "two words of a key file", "line one of the key\nline two", "ä" * 20])
def test_a_key_file_must_hold_one_long_word(tmp_path, text):
    (tmp_path / "key").write_text(text)
    with pytest.raises(ServingError, match="one line of at least 16"):
        read_api_key(tmp_path / "key")
    (tmp_path / "key").write_text(f"{KEY}\n")
    assert read_api_key(tmp_path / "key") == KEY


@pytest.mark.parametrize("people", [True, False])
def test_a_terminal_gets_words_and_anything_else_gets_json(people, tmp_path):
    logger = logging.getLogger("egorecovery.serving")
    before = logger.handlers, logger.propagate, logger.level
    stream = (tmp_path / "log").open("w+")
    stream.isatty = lambda: people
    try:
        write_json_logs(stream)
        log("connected", peer="127.0.0.1:9\x1b[2J", clients=1)
    finally:
        logger.handlers, logger.propagate, logger.level = before
        stream.close()
    said = (tmp_path / "log").read_text()
    if people:
        assert said.split(" ", 1)[1].startswith("connected, peer 127.0.0.1:9")
        assert "\x1b" not in said
    else:
        assert json.loads(said)["clients"] == 1
