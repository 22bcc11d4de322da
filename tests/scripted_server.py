"""A policy server that follows a script, for the client's faults; `scripted_server.py SCRIPT` runs one as a process."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from egorecovery.serving.metadata import ServerMetadata
from egorecovery.serving.wire import decode, encode

HORIZON = 20
Answer = bytes | str | None  # None: silence


def metadata(**changes: Any) -> ServerMetadata:
    known: dict[str, Any] = {
        "action_hz": 25.0,
        "policy_hz": 25.0,
        "horizon": HORIZON,
        "action_space": "joint",
        "action_dim": 14,
        "state_dim": 14,
        "cameras": ("head",),
        "image_size": 16,
        "picture_fit": "exact",
        "hidden_embodiment": False,
        "model": "scripted",
        "checkpoint": "0" * 64,
    }
    return ServerMetadata(**{**known, **changes})


def smooth(state: np.ndarray, per_step: float = 0.01) -> np.ndarray:
    """All joints move on a little; grippers stay."""
    steps = per_step * np.arange(HORIZON)[:, None]
    return state + steps * np.where(np.arange(14) % 7 == 6, 0.0, 1.0)


def reply(actions: np.ndarray, **more: Any) -> bytes:
    return encode({"actions": actions.astype(np.float32), "gate": 0.3, "intent": [0.1, 0.2], "chunk_id": 1, **more})


def script(name: str) -> Callable[[int, np.ndarray], Answer]:
    """What is answered to the k-th observation of a connection: three good chunks, then as the name says."""

    def answer(number: int, state: np.ndarray) -> Answer:
        good = smooth(state)
        spoiled = good.copy()
        spoiled[5, 3] = np.nan
        jump = good.copy()
        jump[4:, 2] -= 0.9
        beyond = good.copy()
        beyond[:, 5] = state[5] + 0.1 * np.arange(HORIZON)  # 2.5 rad/s, as far as it goes and on
        # The client decides what is a fault here: only these make a message that the wire itself allows.
        scripts: dict[str, Answer] = {
            "good": reply(good),
            "nan": reply(spoiled),
            "jump": reply(jump),
            "beyond": reply(beyond),
            "silent": None,
            "shape": reply(good[:, :13]),
            "short": reply(good[:5]),
            "integers": encode({"actions": good.astype(np.int64)}),
            "bad gate": reply(good, gate=float("nan")),
            "no actions": encode({"gate": 0.5}),
            "not a map": encode([1, 2, 3]),
            "garbage": b"\xc1\xc1\xc1",
            "error": "ServingError: the observation lacks camera 'head'\n\x1b[31mline two",
            "close": b"",
        }
        return scripts["good"] if number < 3 and name != "beyond" else scripts[name]

    return answer


class ScriptedServer:
    """Listens on loopback in threads of this process; remembers the observations."""

    def __init__(self, name: str = "good", **told: Any) -> None:
        self.observations: list[dict] = []
        self.headers: list[Any] = []
        self._answer, self._told = script(name), metadata(**told).to_message()
        self._server = serve(self._talk, "127.0.0.1", 0, compression=None)
        self.port = self._server.socket.getsockname()[1]
        self.url = f"ws://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _talk(self, connection) -> None:
        self.headers.append(connection.request.headers)
        connection.send(encode(self._told))
        number = 0
        while True:
            try:
                observation = decode(connection.recv())
                self.observations.append(observation)
                answer = self._answer(number, np.asarray(observation["state"], float))
                number += 1
                if answer == b"":
                    connection.close()
                    return
                if answer is not None:
                    connection.send(answer)
            except ConnectionClosed:
                return

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()

    def __enter__(self) -> "ScriptedServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if __name__ == "__main__":
    server = ScriptedServer(sys.argv[1])
    print(server.url, flush=True)
    sys.stdin.read()
