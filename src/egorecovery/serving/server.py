"""The policy server: openpi's WebSocket protocol, with limits on everything a client can send."""

import asyncio
import contextlib
import errno
import http
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from egorecovery.errors import EgoRecoveryError, ServingError
from egorecovery.serving.access import AccessRules, Refusal, require_key_off_loopback
from egorecovery.serving.inference_queue import InferenceQueue
from egorecovery.serving.json_log import log
from egorecovery.serving.metrics import Metrics
from egorecovery.serving.observation import CameraNames, Observation, observation_of
from egorecovery.serving.served_policy import Chunk, Prepared, ServedPolicy
from egorecovery.serving.wire import DEFAULT_LIMITS, Limits, decode, encode

FRAMES_AHEAD = 2  # messages of one client read before they are answered; then TCP makes the client wait
WRITE_AHEAD_BYTES = 256 * 2**10  # replies of one client in memory; beyond it, the client counts as slow


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Address, access rules and limits per client."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    access: AccessRules = field(default_factory=AccessRules)
    camera_names: dict[str, str] = field(default_factory=dict)  # on the wire, to the policy's
    limits: Limits = DEFAULT_LIMITS
    clients: int = 32  # connected at once
    batch: int = 1  # observations in one inference at most
    send_timeout_s: float = 5.0  # for a client to take a reply
    handshake_timeout_s: float = 5.0
    ping_s: float = 10.0  # between two pings, and to answer one

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ServingError(f"--port must lie in 0..65535, got {self.port}")
        for name in ("clients", "batch", "send_timeout_s", "handshake_timeout_s", "ping_s"):
            if not getattr(self, name) > 0:
                raise ServingError(f"{name} must be positive, got {getattr(self, name)}")
        require_key_off_loopback(self.host, self.access.api_key)


class PolicyServer:
    """A running server. `serving` makes one."""

    def __init__(self, policy: ServedPolicy, settings: ServerSettings) -> None:
        self._settings = settings
        self._cameras = CameraNames(cameras=policy.metadata.cameras, names=settings.camera_names)
        self.metrics = Metrics()
        self._queue = InferenceQueue(policy, batch=settings.batch, room=settings.clients, metrics=self.metrics)
        self._listening: Server | None = None

    @property
    def policy(self) -> ServedPolicy:
        """The current policy."""
        return self._queue.policy

    @property
    def waiting(self) -> int:
        """The number of observations in the queue."""
        return self._queue.waiting

    @property
    def port(self) -> int:
        assert self._listening is not None
        return next(iter(self._listening.sockets)).getsockname()[1]

    async def start(self, announce: "Callable[[PolicyServer], None]" = lambda server: None) -> None:
        """`announce` is called before the first line of the log."""
        settings = self._settings
        await self._queue.start()
        try:
            self._listening = await self._listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise ServingError(
                f"port {settings.port} of {settings.host} is in use, perhaps by another 'egorecovery serve'; "
                "give --port N"
            ) from None
        announce(self)
        log("listening", host=settings.host, port=self.port, **self.policy.metadata.to_message())

    async def _listen(self) -> Server:
        settings = self._settings
        return await serve(
            self._connected,
            settings.host,
            settings.port,
            process_request=self._request,
            compression=None,  # pictures do not compress, and a small message must not inflate to a large one
            max_size=settings.limits.bytes,
            max_queue=FRAMES_AHEAD,
            write_limit=WRITE_AHEAD_BYTES,
            open_timeout=settings.handshake_timeout_s,
            ping_interval=settings.ping_s,
            ping_timeout=settings.ping_s,
            close_timeout=settings.send_timeout_s,
            server_header=None,
        )

    async def stop(self) -> None:
        if self._listening:
            self._listening.close(code=CloseCode.GOING_AWAY, reason="the server stops")
            await self._listening.wait_closed()
        await self._queue.stop()
        if self._listening:
            log("stopped")

    async def reload(self, load: Callable[[], ServedPolicy]) -> bool:
        """Loads another checkpoint's policy. If that fails, the old policy stays."""
        try:
            policy = await asyncio.to_thread(load)
            self._require_same_metadata(policy)
            await self._queue.replace(policy)
        except EgoRecoveryError as error:
            reason = str(error)
        except Exception as error:  # a bad checkpoint must not end a server that robots depend on
            reason = f"{type(error).__name__}: {error}"
        else:
            self.metrics.reloads["loaded"] += 1
            log("reloaded", model=policy.metadata.model, checkpoint=policy.metadata.checkpoint)
            return True
        self.metrics.reloads["refused"] += 1
        log("reload refused", logging.ERROR, reason=reason, still=self.policy.metadata.checkpoint)
        return False

    def _require_same_metadata(self, policy: ServedPolicy) -> None:
        """Refuses a policy whose metadata differ, because connected robots rely on what they received."""
        old, new = self.policy.metadata.to_message(), policy.metadata.to_message()
        for name in old:
            if name not in ("model", "checkpoint") and old[name] != new[name]:
                raise ServingError(
                    f"{name} is {new[name]}, connected clients expect {old[name]}; restart the server for it"
                )

    def _request(self, connection: ServerConnection, request: Request) -> Response | None:
        health = request.path == "/healthz"  # for load balancers, which have no key
        local = connection.local_address[0]
        refusal = self._settings.access.refusal(request.headers, local, needs_key=not health)
        if refusal is None and health:
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        if refusal is None and request.path == "/metrics":
            metadata = self.policy.metadata
            return _plain(http.HTTPStatus.OK, self.metrics.text(metadata.model, metadata.checkpoint, self.waiting))
        if refusal is None and self.metrics.clients >= self._settings.clients:
            refusal = Refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, "full", "too many robots are connected")
        if refusal is None:
            return None
        self.metrics.refusals[refusal.reason] += 1
        log("refused", logging.WARNING, peer=_peer(connection), reason=refusal.reason, path=request.path[:100])
        return connection.respond(refusal.status, f"{refusal.text}\n")

    async def _connected(self, connection: ServerConnection) -> None:
        client = Client(connection, self)
        self.metrics.clients += 1
        log("connected", peer=client.peer, clients=self.metrics.clients)
        try:
            await client.serve()
        except ConnectionClosed:
            pass
        except TimeoutError:
            self.metrics.requests["slow"] += 1
            log("dropped", logging.WARNING, peer=client.peer, reason="it reads no replies")
            connection.transport.abort()
        finally:
            self.metrics.clients -= 1
            log("disconnected", peer=client.peer, chunks=client.chunks, clients=self.metrics.clients)

    async def answered(self, message: str | bytes) -> Chunk:
        """The chunk of one message."""
        if isinstance(message, str):
            raise ServingError("observations are binary messages, this one is text")
        observation = observation_of(
            decode(message, self._settings.limits), self._cameras, self.policy.metadata.state_dim
        )
        return await self._queue.answer(await self._prepared(observation))

    async def _prepared(self, observation: Observation) -> Prepared:
        policy = self.policy
        side = policy.metadata.image_size
        if all(picture.shape[:2] == (side, side) for picture in observation.pictures):
            return policy.prepare(observation)
        return await asyncio.to_thread(policy.prepare, observation)  # resizing takes milliseconds

    async def send(self, connection: ServerConnection, message: str | bytes) -> None:
        async with asyncio.timeout(self._settings.send_timeout_s):
            await connection.send(message)


class Client:
    """One connection and its state."""

    def __init__(self, connection: ServerConnection, server: PolicyServer) -> None:
        self._connection = connection
        self._server = server
        self._last_total_s: float | None = None
        self.peer = _peer(connection)
        self.chunks = 0

    async def serve(self) -> None:
        """Observation, chunk, observation, chunk; ends with the connection, or at the first bad observation."""
        await self._server.send(self._connection, encode(self._server.policy.metadata.to_message()))
        while True:
            message = await self._connection.recv()
            arrived_s = time.perf_counter()
            outcome, problem = "error", None
            try:
                chunk = await self._server.answered(message)
                del message  # half a megabyte, free while the robot waits
                await self._server.send(self._connection, encode(self._reply(chunk, arrived_s)))
                outcome = "answered"
            except ServingError as error:
                outcome, problem = "refused", str(error)
            except EgoRecoveryError as error:
                outcome, problem = "malformed", str(error)
            except (ConnectionClosed, TimeoutError):
                outcome = "lost"
                raise
            except Exception:
                log("internal error", logging.ERROR, exc_info=True, peer=self.peer)
                problem = "internal error; the server's log says more"
            finally:
                self._server.metrics.requests[outcome] += 1
            if problem is not None:
                await self._refuse(outcome, problem)
                return
            self._last_total_s = time.perf_counter() - arrived_s
            self._server.metrics.request_s.add(self._last_total_s)

    def _reply(self, chunk: Chunk, arrived_s: float) -> dict[str, object]:
        """Arrays are per step: openpi's client plays every array of a reply step by step."""
        self.chunks += 1
        if chunk.gate is not None:
            self._server.metrics.gate.add(chunk.gate)
        timing = {
            "infer_ms": chunk.answering_s * 1000,
            "wait_ms": (time.perf_counter() - arrived_s - chunk.answering_s) * 1000,
        }
        if self._last_total_s is not None:
            timing["prev_total_ms"] = self._last_total_s * 1000
        return {
            "actions": chunk.actions_HA,
            "gate": chunk.gate,
            "intent": chunk.intent,
            "chunk_id": self.chunks,
            "unreachable": chunk.unreachable,
            "policy_timing": {"infer_ms": chunk.inference_s * 1000},
            "server_timing": timing,
        }

    async def _refuse(self, outcome: str, problem: str) -> None:
        """Sends the problem as text, then closes with the code of openpi's server."""
        log("bad request", logging.WARNING, peer=self.peer, outcome=outcome, reason=problem)
        with contextlib.suppress(ConnectionClosed):
            await self._server.send(self._connection, problem)
        await self._connection.close(CloseCode.INTERNAL_ERROR, outcome)


@asynccontextmanager
async def serving(
    policy: ServedPolicy,
    settings: ServerSettings,
    announce: Callable[[PolicyServer], None] = lambda server: None,
) -> AsyncIterator[PolicyServer]:
    """Runs a server while the block runs."""
    server = PolicyServer(policy, settings)
    try:
        await server.start(announce)
        yield server
    finally:
        await server.stop()


def _peer(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if address else "unknown"


def _plain(status: http.HTTPStatus, text: str) -> Response:
    body = text.encode()
    headers = Headers(
        [("Content-Type", "text/plain; version=0.0.4"), ("Content-Length", str(len(body))), ("Connection", "close")]
    )
    return Response(status.value, status.phrase, headers, body)
