"""The guard of every route: host, origin, token, size and content type are checked before any route runs."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import cookie_parser

from egorecovery.studio.access import Access, random_token

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "egorecovery_studio"  # followed by the port, because browsers share cookies between ports of a host
TOKEN_HEADER = b"x-egorecovery-token"
MAX_BODY_BYTES = 64 * 1024  # an annotation or a score is below 10 kB
READING = ("GET", "HEAD")
WITHOUT_BODY = (*READING, "DELETE")
POLICY_VIOLATION = 1008  # the WebSocket close code for it
SECURITY_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Refused(Exception):
    """A refused request."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """ASGI middleware around an app."""

    def __init__(self, app: App, access: Access) -> None:
        self.app, self.access = app, access
        self._tickets: set[str] = set()

    def ticket(self) -> str:
        """A ticket that admits one browser once. The token is not used, as other users can read command lines."""
        made = random_token()
        self._tickets.add(made)
        return made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        try:
            self._require_host(headers)
            self._require_origin(headers)
            self._require_token(scope, headers)
        except Refused as refusal:
            await receive()  # the connect message
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": refusal.reason})
            return
        await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        answer = _Answer(send)
        try:
            self._require_host(headers)
            _require_plain_path(scope)
            if scope["method"] not in READING:
                self._require_origin(headers)
            elif headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and scope["path"] != "/":
                raise Refused(HTTPStatus.FORBIDDEN, "another site's page may not read from this app")
            if await self._entered(scope, headers, answer):
                return
            self._require_token(scope, headers)
            if scope["method"] not in WITHOUT_BODY:
                _require_json(headers)
            await self.app(scope, await _whole_body(headers, receive), answer)
        except Refused as refusal:
            if answer.started:
                raise
            await answer.text(refusal.status, refusal.reason)

    def _require_host(self, headers: dict[bytes, bytes]) -> None:
        if not self.access.knows_host(headers.get(b"host", b"").decode("latin-1")):
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST, "this app does not answer to that host name")

    def _require_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuses changes unless their origin is this host and port."""
        if headers.get(b"origin") != b"http://" + headers.get(b"host", b""):
            raise Refused(HTTPStatus.FORBIDDEN, "a change must come from this app's own page")

    async def _entered(self, scope: Scope, headers: dict[bytes, bytes], answer: "_Answer") -> bool:
        """Exchanges the printed address or a ticket for a cookie, and redirects to an address without either."""
        if scope["method"] != "GET" or scope["path"] != "/":
            return False
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        if not asked.keys() & {"token", "ticket"}:
            return False
        ticket = asked.get("ticket", [""])[-1]
        if ticket in self._tickets:
            self._tickets.remove(ticket)
        elif not self.access.admits(asked.get("token", [""])[-1]):
            raise Refused(HTTPStatus.FORBIDDEN, _NO_TOKEN)
        # Lax, not Strict: the address may be opened from another site's page, such as a terminal in the browser. Of
        # such requests only "/" is answered, and changes need this app's origin.
        cookie = f"{cookie_name(headers)}={self.access.token}; Path=/; HttpOnly; SameSite=Lax"
        await answer.text(HTTPStatus.SEE_OTHER, "", ((b"location", b"/"), (b"set-cookie", cookie.encode())))
        return True

    def _require_token(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        given = headers.get(TOKEN_HEADER)
        token = given.decode("latin-1") if given is not None else _cookie(headers)
        if not self.access.admits(token):
            raise Refused(HTTPStatus.FORBIDDEN, _NO_TOKEN)


_NO_TOKEN = "no valid token: open the whole address that the terminal shows"  # noqa: S105 - a message, not a token


_TOO_LARGE = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {MAX_BODY_BYTES} bytes")


class _Answer:
    """`send`, with the security headers on every response."""

    def __init__(self, send: Send) -> None:
        self.send, self.started = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            ours = {name for name, _ in SECURITY_HEADERS}
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in ours]
            message = {**message, "headers": [*kept, *SECURITY_HEADERS]}
        await self.send(message)

    async def text(self, status: HTTPStatus, text: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        body = text.encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            *more,
        ]
        await self({"type": "http.response.start", "status": int(status), "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def cookie_name(headers: dict[bytes, bytes]) -> str:
    """The cookie's name. It includes the port, so that two apps on one machine do not log each other out."""
    port = headers.get(b"host", b"").decode("latin-1").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdigit() else COOKIE


def _cookie(headers: dict[bytes, bytes]) -> str | None:
    # Not http.cookies, which stops at the first malformed cookie, and other apps of this host may set one.
    return cookie_parser(headers.get(b"cookie", b"").decode("latin-1")).get(cookie_name(headers))


def _require_plain_path(scope: Scope) -> None:
    """Refuses paths that no route has, before a route sees them."""
    path = scope["path"]
    if any(ord(letter) < 32 or letter in "\\\x7f" for letter in path) or ".." in path.split("/"):
        raise Refused(HTTPStatus.BAD_REQUEST, "the path is not plain")


def _require_json(headers: dict[bytes, bytes]) -> None:
    kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a change is sent as application/json")


async def _whole_body(headers: dict[bytes, bytes], receive: Receive) -> Receive:
    """Reads the body. Refused by its announced length, or as soon as it is too long."""
    announced = headers.get(b"content-length", b"0").decode("latin-1")
    if not announced.isdigit() or int(announced) > MAX_BODY_BYTES:
        raise Refused(*_TOO_LARGE)
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":  # the peer has disconnected
            return receive
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            raise Refused(*_TOO_LARGE)
    messages = iter([{"type": "http.request", "body": body}])

    async def receive_again() -> Message:
        return next(messages, None) or await receive()

    return receive_again
