"""One robot's connection to the policy server: observation, chunk, observation, chunk."""

import contextlib
import logging
import time
from typing import TYPE_CHECKING

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from egorecovery.errors import EgoRecoveryError, ServingError
from egorecovery.serving.json_log import log
from egorecovery.serving.served_policy import Chunk
from egorecovery.serving.wire import encode

if TYPE_CHECKING:
    from egorecovery.serving.server import PolicyServer


class ClientSession:
    """One connection and its state."""

    def __init__(self, connection: ServerConnection, server: "PolicyServer") -> None:
        self._connection = connection
        self._server = server
        self._last_total_s: float | None = None
        self.peer = peer_of(connection)
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


def peer_of(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if address else "unknown"
