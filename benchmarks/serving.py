"""What the policy server adds to an inference, beside a bare echo and openpi's own server class, in one run.

python benchmarks/serving.py [--openpi FILE] [--requests 10000] [--json PATH]

FILE is `src/openpi/serving/websocket_policy_server.py` of a checkout of openpi; it runs in the environment that
`make .interop/openpi/.installed` makes. Each server is a process of its own (serving_processes.py), its clients are
another; servers take turns block by block, so noise hits them alike; the median of the quietest block is what other
programs disturbed least. Observations have three pictures of 224 x 224 and a state, chunks 100 steps. The stub sleeps,
as one waits for a GPU.

Three measurements: one client's round trips minus the inference that the server itself reports; eight clients that
ask five times a second; and the memory of our server over many requests, half of them beside a client that stalls.
"""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import connect as connect_async
from websockets.sync.client import connect

from egorecovery.serving.wire import decode, encode
from serving_processes import OPENPI_SERVER, SIDE, free_port, server

ROOT = Path(__file__).parent.parent
OPENPI_PYTHON = ROOT / ".interop" / "openpi" / "bin" / "python"
PROCESSES = Path(__file__).with_name("serving_processes.py")
CLIENTS, ASK_S, TURNS = 8, 0.2, 8
STALLS = 20  # of another client, in turns with none


@dataclass(frozen=True, kw_only=True)
class Options:
    openpi: Path | None = None
    """Their server's file; without it only ours and the echo are measured."""
    inference_ms: float = 5.0
    """How long the stub sleeps."""
    rounds: int = 10
    """Blocks of round trips of each server."""
    block: int = 50
    seconds: float = 20.0
    """How long eight clients ask each server."""
    requests: int = 10_000
    """Of the memory measurement; 0 leaves it out."""
    json: Path | None = None


def observation() -> bytes:
    rng = np.random.default_rng(0)
    names = ("cam_high", "cam_left_wrist", "cam_right_wrist")
    images = {name: rng.integers(0, 256, (3, SIDE, SIDE), dtype=np.uint8) for name in names}
    return encode({"state": rng.normal(size=14), "images": images, "prompt": "stack the cubes"})


def commands(options: Options, seconds: float) -> dict[str, tuple[list[str], int]]:
    found = {}
    for name in ("ours", "echo"):
        port = free_port()
        found[name] = ([sys.executable, str(PROCESSES), name, str(port), str(seconds)], port)
    if options.openpi:
        port = free_port()
        theirs = [str(OPENPI_PYTHON), "-c", OPENPI_SERVER, str(options.openpi), str(port), str(seconds)]
        found["openpi"] = (theirs, port)
    return found


def round_trip_ms(connection, message: bytes) -> tuple[float, float]:
    """The whole, and the server's own inference in it."""
    started_s = time.perf_counter()
    connection.send(message)
    reply = decode(connection.recv())
    whole_ms = (time.perf_counter() - started_s) * 1000
    timing = reply.get("policy_timing") or reply["server_timing"]
    return whole_ms, timing["infer_ms"]


def alone(options: Options) -> dict[str, dict[str, float]]:
    """Round trip minus inference of one client, and what the server's process computed for it."""
    message = observation()
    found: dict[str, list[float]] = {}
    busy_ms: dict[str, list[float]] = {}  # per request, of each block
    planned = commands(options, options.inference_ms / 1000)
    with ExitStack() as servers:
        pids = {name: servers.enter_context(server(command, port)) for name, (command, port) in planned.items()}
        connections = {
            name: servers.enter_context(connect(f"ws://127.0.0.1:{port}", compression=None, max_size=None))
            for name, (_, port) in planned.items()
        }
        for connection in connections.values():
            connection.recv()
            for _ in range(10):
                round_trip_ms(connection, message)
        for _ in range(options.rounds):
            for name, connection in connections.items():
                before_s = processor_s(pids[name])
                for _ in range(options.block):
                    whole_ms, inference_ms = round_trip_ms(connection, message)
                    found.setdefault(name, []).append(whole_ms - inference_ms)
                busy_ms.setdefault(name, []).append((processor_s(pids[name]) - before_s) * 1000 / options.block)
    return {
        name: {
            **quantiles(values),
            "quietest_ms": float(np.median(np.reshape(values, (-1, options.block)), axis=1).min()),
            "processor_ms": float(np.median(busy_ms[name])),
            "least_processor_ms": min(busy_ms[name]),
        }
        for name, values in found.items()
    }


def together(options: Options) -> dict[str, dict[str, float]]:
    """Round trips of eight clients."""
    message = observation()

    async def robot(port: int, index: int, taken: list[float]) -> None:
        async with connect_async(f"ws://127.0.0.1:{port}", compression=None, max_size=None) as connection:
            await connection.recv()
            await asyncio.sleep(ASK_S * index / CLIENTS)
            until_s = time.monotonic() + options.seconds / TURNS
            while time.monotonic() < until_s:
                started_s = time.perf_counter()
                await connection.send(message)
                await connection.recv()
                taken.append((time.perf_counter() - started_s) * 1000)
                await asyncio.sleep(max(0.0, ASK_S - taken[-1] / 1000))

    async def robots(port: int) -> list[float]:
        taken: list[float] = []
        await asyncio.gather(*(robot(port, index, taken) for index in range(CLIENTS)))
        return taken

    found: dict[str, list[float]] = {}
    planned = commands(options, options.inference_ms / 1000)
    with ExitStack() as servers:
        for command, port in planned.values():
            servers.enter_context(server(command, port))
        for _ in range(TURNS):
            for name, (_, port) in planned.items():
                found.setdefault(name, []).extend(asyncio.run(robots(port)))
    return {name: quantiles(values) for name, values in found.items()}


def long_run(options: Options) -> dict[str, float]:
    """Our server's memory, and a client's round trips alone and while another one stalls, in turns."""
    message = observation()
    block = options.requests // (2 * STALLS)
    command, port = commands(Options(), 0.0)["ours"]
    with server(command, port) as pid, connect(f"ws://127.0.0.1:{port}", compression=None) as connection:
        connection.recv()

        def ask(count: int) -> list[float]:
            return [round_trip_ms(connection, message)[0] for _ in range(count)]

        ask(500)
        resident, alone_ms, beside_ms = [resident_mb(pid)], [], []
        for _ in range(STALLS):
            alone_ms.append(ask(block))
            with stalled_client(port, message):
                beside_ms.append(ask(block))
            resident.append(resident_mb(pid))
    return {
        "requests": float(2 * STALLS * block),
        "after_500_mb": resident[0],
        "halfway_mb": resident[STALLS // 2],
        "at_the_end_mb": resident[-1],
        "median_alone_ms": float(np.median(alone_ms)),
        "median_beside_a_stalled_client_ms": float(np.median(beside_ms)),
        "p99_alone_ms": block_p99(alone_ms),
        "p99_beside_a_stalled_client_ms": block_p99(beside_ms),
    }


def block_p99(blocks: list[list[float]]) -> float:
    """The median of the blocks' own: other programs disturb some blocks, and hardly all."""
    return float(np.median(np.quantile(blocks, 0.99, axis=1)))


@contextmanager
def stalled_client(port: int, message: bytes) -> Iterator[None]:
    """A client that has sent the start of a message and never sends its end."""
    with socket.create_connection(("127.0.0.1", port)) as plug:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with connect(f"ws://127.0.0.1:{port}", sock=plug, compression=None, max_queue=1):
            plug.sendall(bytes([0x82, 0xFF]) + len(message).to_bytes(8) + b"\0" * 4 + message[: len(message) // 2])
            yield
            plug.shutdown(socket.SHUT_RDWR)


def processor_s(pid: int) -> float:
    """What the threads of a process have computed so far, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def quantiles(values: list[float]) -> dict[str, float]:
    return {
        "count": float(len(values)),
        "median_ms": float(np.median(values)),
        "p99_ms": float(np.quantile(values, 0.99)),
    }


def main(options: Options) -> None:
    measured = {
        "round trip - inference, 1 client": alone(options),
        f"round trip, {CLIENTS} clients, {1 / ASK_S:g} Hz each": together(options),
    }
    table = Table(title=f"stub of {options.inference_ms:g} ms, 3 x {SIDE} x {SIDE}", box=None)
    for column in ("", "server", "n", "median", "quietest block", "p99", "processor", "least"):
        table.add_column(column, justify="left" if column in ("", "server") else "right")
    for what, servers in measured.items():
        for name, found in servers.items():
            table.add_row(
                what,
                name,
                f"{found['count']:.0f}",
                *(
                    f"{found[key]:.2f} ms" if key in found else ""
                    for key in ("median_ms", "quietest_ms", "p99_ms", "processor_ms", "least_processor_ms")
                ),
            )
    Console(width=100).print(table)
    memory = long_run(options) if options.requests else {}
    for key, value in memory.items():
        print(f"{key.replace('_', ' '):32s} {value:.2f}")
    if options.json:
        record = {"options": {**asdict(options), "json": None, "openpi": None}, **measured, "long_run": memory}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
