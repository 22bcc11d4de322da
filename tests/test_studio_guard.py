"""Attacks on a local app: every one is refused before any route runs, and nothing is written."""

import http.client
import json
import socket
from urllib.parse import quote

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from egorecovery.errors import StudioError
from egorecovery.studio.access import Access, access_for
from egorecovery.studio.annotating.routes import annotate_app
from egorecovery.studio.guard import MAX_BODY_BYTES, SECURITY_HEADERS
from egorecovery.studio.server import Serving, serve
from studio_browser import root_of, served, token_of
from studio_store import painted_store

CHANGES = [("POST", "/api/clips/clip-0/annotation"), ("POST", "/api/clips/clip-0/undo")]
MUTATING = ("POST", "PUT", "PATCH", "DELETE")
SAVE = {"annotator": "mallory", "seen_revision": 0, "boundary": 5}


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    return painted_store(tmp_path_factory.mktemp("guarded") / "store", recoveries=2, successes=0)


@pytest.fixture(scope="module")
def address(clips):
    with served(lambda access: annotate_app(clips, access)) as address:
        yield address


@pytest.fixture(autouse=True)
def _nothing_is_written(clips):
    yield
    assert not clips.annotations_path.exists()


def never_made(access: Access):
    raise AssertionError("the app was made")


async def never_asked(*_):
    raise AssertionError("nobody asks")


def ask(address, method, path, body=None, **headers):
    """One raw request with only these headers; a header given as None is left out."""
    host = root_of(address).removeprefix("http://")
    usual = {"host": host, "x-egorecovery-token": token_of(address)}
    if method not in ("GET", "HEAD"):
        usual |= {"origin": root_of(address), "content-type": "application/json"}
    wanted = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    payload = json.dumps(body).encode() if isinstance(body, dict) else body
    if payload is not None:
        wanted.setdefault("content-length", str(len(payload)))
    for name, value in wanted.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(payload)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(errors="replace"), answer.headers


def test_a_request_with_everything_right_is_answered(address):
    status, body, _ = ask(address, "GET", "/api/clips")
    assert status == 200
    assert [row["id"] for row in json.loads(body)["clips"]] == ["clip-0", "clip-1"]


@pytest.mark.parametrize("path", ["/", "/static/shell/shell.css", "/api/clips", "/api/clips/clip-0/frames", "/nowhere"])
@pytest.mark.parametrize("token", [None, "", "wrong", "ä"])
def test_without_the_token_nothing_is_shown(address, path, token):
    sent = token.encode("latin-1") if token else token
    status, body, _ = ask(address, "GET", path, x_egorecovery_token=sent)
    assert status == 403
    assert "open the whole address" in body


def test_a_wrong_token_in_the_address_sets_no_cookie(address):
    status, _, headers = ask(address, "GET", "/?token=" + "x" * 43, x_egorecovery_token=None)
    assert status == 403
    assert headers["set-cookie"] is None


def test_the_printed_address_leaves_its_token_in_a_cookie_and_not_in_the_address_bar(address):
    status, _, headers = ask(address, "GET", "/?token=" + token_of(address), x_egorecovery_token=None)
    assert status == 303
    assert headers["location"] == "/"
    assert headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Lax")
    cookie = headers["set-cookie"].partition(";")[0]
    for said in (cookie, f'theirs={{"a": "b"}}; {cookie}'):  # another app's cookie that breaks the rules
        assert ask(address, "GET", "/api/clips", x_egorecovery_token=None, cookie=said)[0] == 200


def test_a_ticket_lets_one_browser_in_and_no_second_one(clips):
    apps = []

    def make_app(access):
        apps.append(annotate_app(clips, access))
        return apps[0]

    with served(make_app) as address:
        ticket = apps[0].ticket()
        assert ticket not in address
        for expected in (303, 403):
            status, _, headers = ask(address, "GET", f"/?ticket={ticket}", x_egorecovery_token=None)
            assert status == expected
            assert (token_of(address) in (headers["set-cookie"] or "")) == (expected == 303)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", None, "[::2]:80"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_host_is_refused(address, method, host):
    """DNS rebinding: the browser believes that this app is another site."""
    status, _, _ = ask(address, method, "/api/clips", {} if method == "POST" and host else None, host=host)
    assert status in (400, 421)  # 400: the HTTP parser itself wants a host


@pytest.mark.parametrize("method", MUTATING)
@pytest.mark.parametrize("origin", [None, "", "null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_a_change_from_a_foreign_or_no_origin_is_refused(address, method, origin):
    for _, path in CHANGES:
        status, body, _ = ask(address, method, path, SAVE, origin=origin)
        assert status == 403
        assert "own page" in body


@pytest.mark.parametrize("method", MUTATING)
def test_a_change_without_the_token_is_refused(address, method):
    assert ask(address, method, CHANGES[0][1], SAVE, x_egorecovery_token=None)[0] == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_sites_page_may_not_even_embed_a_picture(address, site):
    assert ask(address, "GET", "/api/clips/clip-0/thumbnail", sec_fetch_site=site)[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": None},
        {"x-egorecovery-token": "wrong"},
        {"x-egorecovery-token": None},
        {"host": "evil.example"},
    ],
)
def test_a_websocket_is_refused_for_the_same_reasons(address, headers):
    host = root_of(address).removeprefix("http://")
    right = {"host": host, "origin": root_of(address), "x-egorecovery-token": token_of(address)}
    assert upgraded(host, right) == 101
    assert upgraded(host, right | headers) == 403


def upgraded(host, headers):
    """The status of a WebSocket handshake with exactly these headers."""
    name, _, port = host.partition(":")
    lines = ["GET /api/changes HTTP/1.1", "connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13"]
    lines += ["sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="]
    lines += [f"{header}: {value}" for header, value in headers.items() if value is not None]
    with socket.create_connection((name, int(port)), timeout=30) as peer:
        peer.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(peer.recv(64).split()[1])


def test_a_websocket_client_with_a_foreign_origin_never_connects(address):
    url = root_of(address).replace("http", "ws") + "/api/changes"
    with pytest.raises(InvalidStatus), connect(url, origin="http://evil.example"):
        pass


TRAVERSALS = [
    "../store.json",
    "..%2fstore.json",
    "%2e%2e/store.json",
    "%2e%2e%2fstore.json",
    "..%5cstore.json",
    "%252e%252e%252fstore.json",
    "clip-0%00",
    "clip-0/../clip-1",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "clip-0\\..\\..",
    "%c0%ae%c0%ae%c0%afstore.json",
]


@pytest.mark.parametrize("name", TRAVERSALS)
@pytest.mark.parametrize("place", ["/static/", "/static/shell/", "/api/clips/"])
def test_no_path_leads_out_of_the_index(address, place, name):
    for tail in ("", "/frames", "/thumbnail"):
        status, body, _ = ask(address, "GET", place + name + tail)
        assert status in (400, 404, 422)
        assert "egorecovery-store" not in body
        assert "root:" not in body


@pytest.mark.parametrize("name", TRAVERSALS)
def test_no_path_leads_out_of_the_index_when_saving(address, name):
    assert ask(address, "POST", f"/api/clips/{name}/annotation", SAVE)[0] in (400, 404, 422)


SCRIPT = "<script>document.title='owned'</script>"


def test_an_unknown_id_with_a_script_is_neither_echoed_as_markup_nor_found(address):
    status, body, headers = ask(address, "GET", f"/api/clips/{quote(SCRIPT, safe='')}")
    assert status in (404, 422)
    assert headers["content-type"] == "application/json"
    assert "<script" not in body


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 50_000_000])
def test_a_body_that_announces_too_much_is_refused_unread(address, size):
    status, body, _ = ask(address, "POST", CHANGES[0][1], b"{}", content_length=str(size))
    assert status == 413
    assert str(MAX_BODY_BYTES) in body


def test_a_body_that_grows_too_long_without_saying_so_is_refused(address):
    host = root_of(address).removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    headers = {"x-egorecovery-token": token_of(address), "origin": root_of(address), "content-type": "application/json"}
    chunks = (b" " * 8192 for _ in range(MAX_BODY_BYTES // 8192 + 1))
    connection.request("POST", CHANGES[0][1], chunks, headers, encode_chunked=True)
    assert connection.getresponse().status == 413


@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"]
)
def test_a_change_in_another_content_type_is_refused(address, kind):
    """A form of another site can send those without asking the browser's permission."""
    assert ask(address, "POST", CHANGES[0][1], SAVE, content_type=kind)[0] == 415


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff\xfe",
        {**SAVE, "boundary": 1e9},
        {**SAVE, "boundary": -1},
        {**SAVE, "boundary": "5"},
        {**SAVE, "boundary": None},
        {**SAVE, "annotator": ""},
        {**SAVE, "annotator": " "},
        {**SAVE, "annotator": "x" * 81},
        {**SAVE, "note": "x" * 2001},
        {**SAVE, "quality": "superb"},
        {**SAVE, "seen_revision": -1},
        {**SAVE, "path": "/etc/passwd"},
        {"annotator": "mallory"},
    ],
)
def test_a_save_that_makes_no_sense_is_refused_in_words(address, body):
    status, answer, _ = ask(address, "POST", CHANGES[0][1], body)
    assert status == 422
    assert json.loads(answer)["error"]
    assert "Traceback" not in answer


@pytest.mark.parametrize("path", ["/", "/api/clips", "/nowhere", "/api/clips/nobody"])
def test_every_answer_carries_the_security_headers(address, path):
    _, _, headers = ask(address, "GET", path)
    for name, value in SECURITY_HEADERS:
        assert headers.get_all(name.decode()) == [value.decode()]
    assert "'unsafe" not in headers["content-security-policy"]


def test_frames_beyond_the_clip_are_refused(address):
    for query in ("first=-1", "first=60", "first=0&count=0", "first=0&count=65", "first=x"):
        assert ask(address, "GET", f"/api/clips/clip-0/frames?{query}")[0] == 422


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "2001:db8::1", "example.org"])  # noqa: S104
def test_an_address_that_others_can_reach_without_a_token_refuses_to_start(host):
    with pytest.raises(StudioError, match="--host"):
        serve(never_made, Serving(host=host, port=0, browser=False), print)


def test_a_short_token_is_refused_and_a_long_one_opens_one_name_only(tmp_path):
    token = tmp_path / "token"
    token.write_text("short\n")
    with pytest.raises(StudioError, match="at least 16"):
        Serving(host="192.168.1.5", token_file=token).access()
    token.write_text("long-enough-to-guess-never\n")
    access = Serving(host="192.168.1.5", token_file=token).access()
    assert access.knows_host("192.168.1.5:8765")
    assert not access.knows_host("localhost:8765")
    assert access.admits("long-enough-to-guess-never")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_an_app_on_loopback_answers_to_the_name_in_its_address_and_to_localhost(host):
    named = f"[{host}]" if ":" in host else host
    assert access_for(host).knows_host(f"{named}:8765")
    assert access_for(host).knows_host("localhost:8765")
    assert not access_for(host).knows_host("evil.example:8765")


def test_ctrl_c_right_after_the_address_was_printed_is_a_clean_end():
    announced = []

    def announce(address):
        announced.append(address)
        raise KeyboardInterrupt

    serve(lambda access: never_asked, Serving(port=0, browser=False), announce)
    assert len(announced) == 1


def test_two_apps_have_different_tokens():
    assert access_for("127.0.0.1").token != access_for("127.0.0.1").token
    assert len(access_for("127.0.0.1").token) >= 43


def test_a_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StudioError, match=f"127.0.0.1:{port} cannot be listened on"):
            serve(never_made, Serving(port=port, browser=False), print)
