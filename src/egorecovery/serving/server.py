"""The policy server: openpi's WebSocket protocol, with limits on everything a client can send."""

import asyncio
import errno
import http
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from egorecovery.errors import EgoRecoveryError, ServingError
from egorecovery.serving.access import Refusal
from egorecovery.serving.client_session import ClientSession, peer_of
from egorecovery.serving.inference_queue import InferenceQueue
from egorecovery.serving.json_log import log
from egorecovery.serving.metrics import Metrics
from egorecovery.serving.observation import CameraNames, Observation, observation_of
from egorecovery.serving.served_policy import Chunk, Prepared, ServedPolicy
from egorecovery.serving.server_settings import ServerSettings
from egorecovery.serving.wire import decode

FRAMES_AHEAD = 2  # messages of one client read before they are answered; then TCP makes the client wait
WRITE_AHEAD_BYTES = 256 * 2**10  # replies of one client in memory; beyond it, the client counts as slow


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
            where = f"port {settings.port} of {settings.host}"
            if error.errno == errno.EADDRINUSE:
                raise ServingError(
                    f"{where} is in use, perhaps by another 'egorecovery serve'; give --port N"
                ) from None
            if error.errno == errno.EACCES:
                raise ServingError(f"you may not listen on {where}; give --port N, above 1023") from None
            raise
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
        log("refused", logging.WARNING, peer=peer_of(connection), reason=refusal.reason, path=request.path[:100])
        return connection.respond(refusal.status, f"{refusal.text}\n")

    async def _connected(self, connection: ServerConnection) -> None:
        client = ClientSession(connection, self)
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


def _plain(status: http.HTTPStatus, text: str) -> Response:
    body = text.encode()
    headers = Headers(
        [("Content-Type", "text/plain; version=0.0.4"), ("Content-Length", str(len(body))), ("Connection", "close")]
    )
    return Response(status.value, status.phrase, headers, body)
