"""A client of the policy server, for the robot's computer. It needs only numpy, msgpack and websockets."""

import math
import socket
import struct
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.http11 import Response
from websockets.sync.client import ClientConnection, connect

from egorecovery.errors import ServerError, ServerSilent, WireError
from egorecovery.serving.metadata import ServerMetadata
from egorecovery.serving.wire import DEFAULT_LIMITS, decode, encode

OPEN_S = 10.0  # for the connection and the server's first message
SEND_S = 2.0  # for the server to accept more of an observation
CLOSE_S = 1.0
SHOWN = 200  # characters of a server's own text


@dataclass(frozen=True, eq=False)
class Reply:
    """One chunk of actions with gate and intent; every number is finite."""

    actions: NDArray[np.float64]  # (H, A)
    gate: float | None = None  # probability that correction is needed; None for policies without a gate
    intent: tuple[float, ...] | None = None
    chunk_id: int | None = None


class PolicyClient:
    """One connection, for one thread. It is closed after any error, because a late answer may still arrive."""

    def __init__(self, url: str, *, api_key: str | None = None, open_s: float = OPEN_S) -> None:
        self.url = url
        self._open = ExitStack()
        headers = {"Authorization": f"Api-Key {api_key}"} if api_key else None
        try:
            self._socket: ClientConnection = self._open.enter_context(
                connect(
                    url,
                    additional_headers=headers,
                    compression=None,  # pictures do not compress further, and trying costs milliseconds
                    max_size=DEFAULT_LIMITS.bytes,
                    open_timeout=open_s,
                    close_timeout=CLOSE_S,
                    proxy=None,  # a robot's commands must not go through a proxy set in the environment
                )
            )
        except InvalidStatus as error:
            raise ServerError(f"{url}: {_refusal(error.response)}") from None
        except (InvalidURI, InvalidHandshake, OSError) as error:
            raise ServerError(
                f"{url}: no policy server answers there ({_reason(error)}); start one with "
                "'egorecovery serve RUN --client-hz 25' (the workcell's rate; for other robots theirs), "
                "and give its address as ws://HOST:PORT"
            ) from None
        # Without this, a server that stops reading would block `send` forever.
        self._socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(SEND_S), 0))
        try:
            self.metadata = ServerMetadata.from_message(self._received(open_s))
        except WireError as error:
            self.close()
            raise ServerError(f"{url}: {error}") from None
        except ServerError:
            self.close()
            raise

    def infer(self, observation: Mapping[str, Any], timeout_s: float) -> Reply:
        """The server's reply to a map of `state`, `images` and, optionally, `prompt`."""
        try:
            self._socket.send(encode(dict(observation)))
            answer = self._received(timeout_s)
            return _reply(answer, self.metadata)
        except ConnectionClosed as error:
            raise self._broken(f"the server is gone ({_reason(error)})") from None
        except WireError as error:
            raise self._broken(str(error)) from None
        except ServerError:
            self._abandon()
            raise

    def _broken(self, why: str) -> ServerError:
        self._abandon()
        return ServerError(f"{self.url}: {why}")

    def _abandon(self) -> None:
        """Closes without the closing handshake, which would delay a robot that must stop."""
        with suppress(OSError):
            self._socket.socket.shutdown(socket.SHUT_RDWR)
        self.close()

    def _received(self, timeout_s: float) -> Any:
        try:
            message = self._socket.recv(timeout=timeout_s)
        except TimeoutError:
            raise ServerSilent(f"{self.url}: no answer within {timeout_s:g} s") from None
        except ConnectionClosed as error:
            raise ServerError(f"{self.url}: the server is gone ({_reason(error)})") from None
        if isinstance(message, str):  # how this protocol reports errors
            raise ServerError(f"{self.url}: the server says: {_printable(message)}")
        return decode(message)

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> "PolicyClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _refusal(response: Response) -> str:
    """Why a running server refused the connection."""
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        return "the server wants an API key: give the one it was started with, by --api-key-file FILE"
    text = _printable((response.body or b"").decode("utf-8", "replace"))
    return f"the server refused the connection (HTTP {response.status_code}{': ' * bool(text)}{text})"


def _reply(answer: object, metadata: ServerMetadata) -> Reply:
    """The reply, checked. Anything that must not be executed is refused."""
    if not isinstance(answer, Mapping):
        raise WireError(f"an answer is a map, got {type(answer).__name__}")
    actions = answer.get("actions")
    if not isinstance(actions, np.ndarray) or actions.dtype.kind != "f" or actions.ndim != 2:
        raise WireError(f"actions must be an array of floats with two axes, got {_kind(actions)}")
    if actions.shape != (metadata.horizon, metadata.action_dim):
        raise WireError(
            f"actions must be {metadata.horizon} steps of {metadata.action_dim} numbers as the server announced, "
            f"got {actions.shape[0]} of {actions.shape[1]}"
        )
    finite = np.isfinite(actions)
    if not finite.all():
        step = int(np.argmin(finite.all(axis=1)))
        raise WireError(f"{(~finite).sum()} of {finite.size} actions are not finite, the first in step {step}")
    gate, intent, chunk_id = answer.get("gate"), answer.get("intent"), answer.get("chunk_id")
    if gate is not None and not _finite(gate):
        raise WireError(f"gate must be a finite number, got {gate!r:.40}")
    if intent is not None and not (isinstance(intent, list) and all(map(_finite, intent))):
        raise WireError(f"intent must be a list of finite numbers, got {intent!r:.40}")
    return Reply(
        actions=actions.astype(np.float64),
        gate=None if gate is None else float(gate),
        intent=None if intent is None else tuple(float(value) for value in intent),
        chunk_id=chunk_id if type(chunk_id) is int else None,
    )


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _kind(value: object) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def _reason(error: Exception) -> str:
    return _printable(str(error)) or type(error).__name__


def _printable(text: str) -> str:
    """A server's text made safe for the terminal: one line, no control characters."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[:SHOWN])
    return line.strip()
