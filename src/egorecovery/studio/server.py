"""Serves a local app until Ctrl-C: binds first, prints the address with its token, opens the browser."""

import ipaddress
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from egorecovery.errors import StudioError
from egorecovery.studio.access import Access, access_for
from egorecovery.studio.guard import MAX_BODY_BYTES, Guard

DEFAULT_PORT = 8765
LET_REQUESTS_END_S = 3  # at Ctrl-C


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Address and token of a local app."""

    host: str = "127.0.0.1"
    port: int | None = None  # None: the default, or any free one if that is taken; 0: any free one
    token_file: Path | None = None  # one line; required if others can reach `host`
    browser: bool = True

    def access(self) -> Access:
        return access_for(self.host, _read_token(self.token_file))


def serve(make_app: Callable[[Access], Guard], serving: Serving, announce: Callable[[str], None]) -> None:
    """Runs until Ctrl-C or SIGTERM. Calls `announce` with the address once the port is bound."""
    access = serving.access()
    with _bound(serving) as listener:
        app = make_app(access)
        root = f"http://{_url_host(serving.host)}:{listener.getsockname()[1]}/"
        config = uvicorn.Config(
            app,  # pyright: ignore[reportArgumentType] - ASGI by protocol
            log_level="warning",
            access_log=False,  # addresses may carry the token
            server_header=False,
            proxy_headers=False,
            ws_max_size=MAX_BODY_BYTES,
            timeout_graceful_shutdown=LET_REQUESTS_END_S,
        )
        # After the address is printed, Ctrl-C is a clean end. uvicorn raises the signal again after it has stopped.
        with suppress(KeyboardInterrupt):
            announce(f"{root}?token={access.token}")
            if serving.browser and _has_screen():
                _open_beside(f"{root}?ticket={app.ticket()}")
            uvicorn.Server(config).run(sockets=[listener])
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _bound(serving: Serving) -> socket.socket:
    wanted = [serving.port] if serving.port is not None else [DEFAULT_PORT, 0]
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    for port in wanted:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((serving.host, port))
        except OSError as error:
            listener.close()
            if port == wanted[-1]:
                raise StudioError(
                    f"{serving.host}:{port} cannot be listened on ({error.strerror}); choose another --port"
                ) from error
        else:
            listener.listen()  # a browser that connects before the server runs waits instead of being refused
            return listener
    raise AssertionError("one of the ports was bound or refused")


def _open_beside(address: str) -> None:
    """Opens a browser in a thread, because some commands in $BROWSER return only when the browser is closed."""
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _has_screen() -> bool:
    """Whether there is a display. Without one, Python would open a text browser in the terminal."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _url_host(host: str) -> str:
    return f"[{host}]" if host != "localhost" and ipaddress.ip_address(host).version == 6 else host


def _read_token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StudioError(f"--token-file {path} cannot be read: {error}") from error
    token = text.strip()
    if not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise StudioError(f"--token-file {path}: a token is one line of letters, digits, '-' and '_'")
    return token
