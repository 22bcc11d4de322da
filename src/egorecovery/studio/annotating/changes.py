"""Notifies open pages that a clip was annotated in another tab, by another annotator or by another process."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fastapi import WebSocket, WebSocketDisconnect

from egorecovery.errors import EgoRecoveryError

LOOK_EVERY_S = 0.5  # polling interval for saves of other processes, such as a second app on the same store


class Changes:
    """Connected pages, and the revisions announced so far."""

    def __init__(self, path: Path, revisions: Callable[[], dict[str, int]]) -> None:
        self._path, self._revisions = path, revisions
        self._announced: dict[str, int] = {}
        self._size = -1
        self._pages: set[WebSocket] = set()
        self._watching: asyncio.Task[None] | None = None

    async def attend(self, page: WebSocket) -> None:
        """Serves a page until it closes."""
        await page.accept()
        self._pages.add(page)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            with suppress(WebSocketDisconnect):
                # Announces saves made between the page's own request and this connection.
                await page.send_json({"revisions": await asyncio.to_thread(self._revisions)})
                while True:
                    await page.receive_text()  # pages only listen; their messages are dropped
        finally:
            self._pages.discard(page)

    async def _watch(self) -> None:
        """Watches the journal while pages are connected. It only grows, so its size reveals every save."""
        while self._pages:
            size = self._path.stat().st_size if self._path.exists() else 0
            if size != self._size:
                self._size = size
                with suppress(EgoRecoveryError):  # a damaged journal: pages get the error with their next list
                    await self._announce(await asyncio.to_thread(self._revisions))
            await asyncio.sleep(LOOK_EVERY_S)

    async def _announce(self, revisions: dict[str, int]) -> None:
        before, self._announced = self._announced, revisions
        news = {clip: revision for clip, revision in revisions.items() if before.get(clip) != revision}
        for page in list(self._pages):
            with suppress(WebSocketDisconnect, RuntimeError):  # the page closed meanwhile
                await page.send_json({"revisions": news})
