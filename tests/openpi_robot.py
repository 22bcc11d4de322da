"""A robot that runs openpi's own client and chunk broker; started by test_openpi_client.py in their environment.

openpi_robot.py PORT OBSERVATION.npz CHUNKS [API_KEY] prints one JSON line: the server's metadata, what was played, and
the error, where the server sent one.
"""

import json
import sys

import numpy as np
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.websocket_client_policy import WebsocketClientPolicy


def main(port: str, path: str, chunks: str, api_key: "str | None" = None) -> None:
    arrays = np.load(path, allow_pickle=False)
    observation = {
        "state": arrays["state"],
        "images": {name: arrays[name] for name in arrays.files if name != "state"},
        "prompt": "stack the cubes",
    }
    policy = WebsocketClientPolicy(port=int(port), api_key=api_key)  # host: its default, 0.0.0.0
    metadata = policy.get_server_metadata()
    broker = ActionChunkBroker(policy, metadata["horizon"])
    played, error = [], None
    try:
        for _ in range(int(chunks) * metadata["horizon"]):
            step = broker.infer(observation)
            played.append({key: np.asarray(step[key]).tolist() for key in ("actions", "gate", "intent", "chunk_id")})
    except RuntimeError as refused:
        error = str(refused)
    print(json.dumps({"metadata": metadata, "played": played, "error": error}))


main(*sys.argv[1:])
