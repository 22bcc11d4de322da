"""A real policy server on loopback, in a thread of this process."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from websockets.sync.client import ClientConnection, connect

from egorecovery.serving import wire
from egorecovery.serving.metadata import ServerMetadata
from egorecovery.serving.served_policy import ServedPolicy
from egorecovery.serving.server import PolicyServer, serving
from egorecovery.serving.server_settings import ServerSettings


class Served:
    """Where a server listens, and what is done on its loop."""

    def __init__(self, server: PolicyServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.port = server.port
        self.url = f"ws://127.0.0.1:{self.port}"
        self._loop = loop

    def on_loop(self, awaitable):
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(60)

    @contextmanager
    def client(self, **options) -> "Iterator[Client]":
        with connect(self.url, compression=None, max_size=None, **options) as connection:
            yield Client(connection)


class Client:
    """The plainest client: one observation, one reply."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.metadata = ServerMetadata.from_message(wire.decode(connection.recv(timeout=30)))

    def ask(self, observation):
        self.connection.send(observation if isinstance(observation, bytes) else wire.encode(observation))
        return self.reply()

    def reply(self):
        reply = self.connection.recv(timeout=30)
        return reply if isinstance(reply, str) else wire.decode(reply)


@contextmanager
def served(policy: ServedPolicy, **settings) -> Iterator[Served]:
    ready: Future[Served] = Future()
    end = threading.Event()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        try:
            async with serving(policy, ServerSettings(**{"port": 0, **settings})) as server:
                ready.set_result(Served(server, loop))
                threading.Thread(target=lambda: (end.wait(), loop.call_soon_threadsafe(over.set)), daemon=True).start()
                await over.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    try:
        yield ready.result(60)
    finally:
        end.set()
        thread.join(30)
        assert not thread.is_alive()
