"""A real Chromium and a real server on loopback, for the studio's tests."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import uvicorn

from egorecovery.studio.access import Access
from egorecovery.studio.guard import Guard

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SEEN_MS = 8_000  # for an event to be seen on a machine with other work


@contextmanager
def chromium() -> Iterator:
    """One browser, meant for a whole test module."""
    if not os.path.exists(CHROMIUM):
        pytest.skip("chromium is missing: run tools/browser.py")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=SEEN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def served(make_app: Callable[[Access], Guard]) -> Iterator[str]:
    """The address, with its token, of an app that runs in a thread of this process."""
    access = Access()
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(access), log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/?token={access.token}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def interrupt_when_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb that serves in this process is ended, as by Ctrl-C, when its address is bound and printed."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", interrupted)


class Verb:
    """`egorecovery VERB ...` as a process of its own, up to the address it prints."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "egorecovery", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = ""
        self.address = self._address()

    def _address(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if "http://" in line:
                return line[line.index("http://") :].split()[0]
        self.process.kill()
        raise AssertionError(f"no address was printed: {self.said}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> int:
        """Ctrl-C; returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=60)
        self.said += said
        return self.process.returncode


def token_of(address: str) -> str:
    return address.partition("token=")[2]


def root_of(address: str) -> str:
    return address.partition("/?")[0]
