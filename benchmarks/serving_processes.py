"""The servers that benchmarks/serving.py compares, each in a process of its own, with one stub policy that sleeps.

python benchmarks/serving_processes.py ours|echo PORT SECONDS

`ours` is the policy server of this project. `echo` is a bare server of the `websockets` library that takes the same
observations without a look inside and sends a reply of the same size, made beforehand: what it needs, every server of
this protocol needs. `OPENPI_SERVER` is a program around openpi's own server class.
"""

import asyncio
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from websockets.asyncio.server import ServerConnection, serve

from egorecovery.episodes import Camera
from egorecovery.policy.action_source import PolicyOutput
from egorecovery.serving.served_policy import ServedPolicy
from egorecovery.serving.server import serving
from egorecovery.serving.server_settings import ServerSettings
from egorecovery.serving.wire import encode

SIDE, HORIZON = 224, 100

# Arguments: the file of their class, port, seconds.
OPENPI_SERVER = """
import importlib.util, sys, time
import numpy as np
spec = importlib.util.spec_from_file_location("websocket_policy_server", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
class Stub:
    def infer(self, observation):
        time.sleep(float(sys.argv[3]))
        return {"actions": np.zeros((100, 14), np.float32)}
module.WebsocketPolicyServer(Stub(), host="127.0.0.1", port=int(sys.argv[2]), metadata={}).serve_forever()
"""


class Stub:
    """A policy that sleeps."""

    name, cameras, image_size = "stub", tuple(Camera), SIDE

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def infer(self, images: np.ndarray, states: np.ndarray) -> PolicyOutput:
        time.sleep(self._seconds)
        rows = len(states)
        return PolicyOutput(
            action_BHA=np.zeros((rows, HORIZON, 14), np.float32),
            gate_B=np.full(rows, 0.5, np.float32),
            intent_BC=np.zeros((rows, 4), np.float32),
        )


async def serve_stub(port: int, seconds: float) -> None:
    policy = ServedPolicy(Stub(seconds), horizon=HORIZON, checkpoint="0" * 64, client_hz=25.0)
    async with serving(policy, ServerSettings(port=port)):
        await asyncio.Event().wait()


async def serve_echo(port: int, seconds: float) -> None:
    reply = encode({"actions": np.zeros((HORIZON, 14), np.float32), "policy_timing": {"infer_ms": 0.0}})

    async def answer(connection: ServerConnection) -> None:
        await connection.send(encode({}))
        async for _ in connection:
            started_s = time.perf_counter()
            time.sleep(seconds)
            inference_ms = (time.perf_counter() - started_s) * 1000
            await connection.send(reply[:-8] + struct.pack(">d", inference_ms))  # msgpack's last value is this number

    async with serve(answer, "127.0.0.1", port, compression=None, max_size=None):
        await asyncio.Event().wait()


@contextmanager
def server(command: list[str], port: int) -> Iterator[int]:
    """The process of a server that listens on a port."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline_s:
                    raise SystemExit(f"server did not start: {' '.join(command[:3])}") from None
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        return plug.getsockname()[1]


if __name__ == "__main__":
    kind, port, seconds = sys.argv[1:]
    asyncio.run({"ours": serve_stub, "echo": serve_echo}[kind](int(port), float(seconds)))
