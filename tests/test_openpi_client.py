"""openpi's own client, as robots have it, talks to the server; `make test` makes the environment it needs."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from egorecovery.serving.access import AccessRules  # noqa: E402 - torch is an extra
from egorecovery.serving.served_policy import at_client_rate  # noqa: E402
from policy_server import served  # noqa: E402
from tiny_served import HORIZON, aloha_observation, decided, tiny_served, tiny_source  # noqa: E402

PYTHON = Path(__file__).parent.parent / ".interop" / "openpi" / "bin" / "python"
ROBOT = Path(__file__).with_name("openpi_robot.py")
KEY = "a-key-of-a-robot-in-a-lab"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="make .interop/openpi/.installed")


def play(port: int, observation: dict, folder: Path, chunks: int = 2, key: str | None = None) -> dict:
    np.savez(folder / "observation.npz", state=observation["state"], **observation["images"])
    command = [PYTHON, ROBOT, str(port), folder / "observation.npz", str(chunks), *([key] if key else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_its_broker_plays_whole_chunks_at_50_hz_as_the_policy_decided_them(tmp_path, rng):
    source, observation = tiny_source(), aloha_observation(rng)
    decision = decided(source, observation)
    with served(tiny_served(source, client_hz=50.0), access=AccessRules(api_key=KEY)) as server:
        seen = play(server.port, observation, tmp_path, chunks=2, key=KEY)
    assert seen["error"] is None
    assert seen["metadata"]["horizon"] == 2 * HORIZON
    played = seen["played"]
    wanted = at_client_rate(decision.action_BHA[0], 50.0)
    np.testing.assert_allclose([step["actions"] for step in played], np.concatenate([wanted, wanted]), rtol=1e-6)
    assert [step["chunk_id"] for step in played] == [1] * 2 * HORIZON + [2] * 2 * HORIZON
    np.testing.assert_allclose([step["gate"] for step in played], decision.gate_B[0], rtol=1e-6)
    np.testing.assert_allclose(
        [step["intent"] for step in played], np.tile(decision.intent_BC[0], (4 * HORIZON, 1)), rtol=1e-6
    )


def test_it_reads_pictures_with_channels_last_and_four_cameras_as_well(tmp_path, rng):
    observation = aloha_observation(rng, chw=False)
    observation["images"]["cam_low"] = np.zeros((480, 640, 3), np.uint8)
    with served(tiny_served()) as server:
        seen = play(server.port, observation, tmp_path, chunks=1)
    assert seen["error"] is None
    assert len(seen["played"]) == HORIZON


def test_it_shows_the_reason_why_an_observation_is_refused(tmp_path, rng):
    observation = aloha_observation(rng)
    del observation["images"]["cam_left_wrist"]
    with served(tiny_served()) as server:
        seen = play(server.port, observation, tmp_path)
    assert "lacks camera 'left_wrist'" in seen["error"]
    assert "Traceback" not in seen["error"]
