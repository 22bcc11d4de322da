"""Blind scoring in a real browser, and everything that such a page could reach."""

import http.client
import json
import re
import shutil
from contextlib import closing

import pytest

from egorecovery.cli.main import main
from egorecovery.evaluation import load
from egorecovery.studio.scoring import clips_of, create_session, criteria_for, open_session
from egorecovery.studio.scoring.routes import score_app
from filmed_runs import evaluated_run, rollout
from studio_browser import SEEN_MS, chromium, interrupt_when_serving, root_of, served, token_of

pytestmark = pytest.mark.browser
METHODS = {"plain_mixture": [0, 1, 0], "gated_intent": [1, 1, 0]}
SECRETS = (*METHODS, "results-", "tilted_over", "f00d", "goal held", "automatic")  # names, modes, hashes, verdicts
LOOK = """video => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  const pen = canvas.getContext("2d");
  pen.drawImage(video, 0, 0);
  const at = (x, y) => [...pen.getImageData(x, y, 1, 1).data].slice(0, 3);
  return [at(canvas.width / 4, canvas.height / 4), at(3 * canvas.width / 4, 3 * canvas.height / 4)];
}"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    runs = [
        evaluated_run(home / method, [rollout(index, bool(ok), policy=method) for index, ok in enumerate(outcomes)])
        for method, outcomes in METHODS.items()
    ]
    clips, _ = clips_of(runs)
    root = tmp_path_factory.mktemp("sessions") / "scoring"
    create_session(root, clips, criteria=criteria_for(["cube_stack"]), created_at="2026-03-01T10:00:00+00:00")
    return root


@pytest.fixture
def session(made, tmp_path):
    return open_session(shutil.copytree(made, tmp_path / "scoring"))


@pytest.fixture
def address(session):
    with served(lambda access: score_app(session, access)) as address:
        yield address


class Rater:
    """Somebody at a browser of their own, who judges by what the picture shows."""

    def __init__(self, browser, address, name, *, scores=True, **how):
        self.context = browser.new_context(viewport={"width": 1280, "height": 720}, **how)
        self.page = self.context.new_page()
        self.page.set_default_timeout(SEEN_MS)
        self.errors, self.answers = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", lambda answer: self.answers.append(answer))
        self.page.goto(address)
        self.page.wait_for_selector("#name-dialog[open]")
        self.page.keyboard.type(name)
        self.page.keyboard.press("Enter")
        self.says("rater", name)
        if scores:
            self.settled()

    def settled(self):
        self.page.wait_for_selector("#screen[aria-busy=false]")

    def look(self):
        """Where the film is, and whether it is of a success: its corner is yellow or blue, and it darkens."""
        self.settled()
        corner, rest = self.page.locator("#screen video:not([data-hidden])").evaluate(LOOK)
        return round((200 - rest[0]) / 6), corner[0] > corner[2]

    def judge(self, wrong_at=()):
        """All open videos; those of the places in `wrong_at` (from 1) the wrong way."""
        total = self.page.locator("#all button").count()
        for done in range(total):
            place = int(self.page.locator("#all button[aria-current]").inner_text())
            _, succeeded = self.look()
            self.page.keyboard.press("1" if succeeded != (place in wrong_at) else "0")
            self.says("progress-text", f"{done + 1} of {total} scored")

    def says(self, where, text):
        from playwright.sync_api import expect

        expect(self.page.locator(f"#{where}")).to_have_text(re.compile(rf"(^|\W){re.escape(text)}"))

    def leave(self):
        self.context.close()
        assert self.errors == []


def order_of(session, name):
    return [video.id for video in session.plan.order(name)]


def test_two_raters_score_six_rollouts_blind_and_the_export_is_the_evaluators(
    browser, address, session, tmp_path, capsys
):
    ada = Rater(browser, address, "ada")
    ada.judge(wrong_at=(2, 5))
    ada.says("toast", "The other rater's turn")

    ada.page.keyboard.press("u")  # the sixth, and back to it
    ada.says("progress-text", "5 of 6 scored")
    assert ada.page.locator("#all button[aria-current]").inner_text() == "6"
    ada.page.keyboard.press("1" if ada.look()[1] else "0")
    ada.says("progress-text", "6 of 6 scored")
    ada.page.reload()
    ada.says("progress-text", "6 of 6 scored")
    ada.page.click("#to-adjudicate")
    ada.says("message", "when every rater has scored every video")
    ada.says("message", "more rater to begin")

    bob = Rater(browser, address, "bob")
    bob.says("progress-text", "0 of 6 scored")
    assert bob.page.locator("[data-verdict]").count() == 0
    bob.judge()
    unlike = [order_of(session, "ada")[place - 1] for place in (2, 5)]

    eve = Rater(browser, address, "eve", scores=False)
    eve.says("message", "This session has its raters: ada and bob.")
    eve.page.click("#to-adjudicate")
    eve.says("message", "The raters agree on 4 of 6 videos")
    eve.page.click("#begin")
    eve.page.wait_for_selector(".ratings")
    for done in range(2):
        ratings = eve.page.locator(".ratings")
        assert {"ada", "bob"} <= set(ratings.locator("th").all_inner_texts())
        assert set(ratings.locator("td[data-verdict]").all_inner_texts()) == {"success", "failure"}
        eve.page.keyboard.press("1" if eve.look()[1] else "0")
        eve.says("progress-text", f"{done + 1} of 2 adjudicated")
    for person in (ada, bob, eve):
        person.leave()

    assert main(["score", str(session.root), "--export", str(tmp_path / "export")]) == 0
    printed = capsys.readouterr().out
    assert "between raters: 4/6 (66.7%)" in printed
    assert "with the automatic verdict: 6/6 (100.0%), Cohen's kappa 1.00" in printed
    records = load([tmp_path / "export" / "results.jsonl"])
    for method, outcomes in METHODS.items():
        mine = {record.index: record.succeeded for record in records if record.subject.policy == method}
        assert mine == dict(enumerate(map(bool, outcomes)))
    agreement = json.loads((tmp_path / "export" / "agreement.json").read_text())
    assert agreement["adjudicated"] == len(unlike) == 2


def test_nothing_that_the_page_can_reach_names_a_method(browser, address, session):
    ada = Rater(browser, address, "ada")
    for _ in range(3):
        ada.settled()
        ada.page.keyboard.press("1")
        ada.page.keyboard.press("n")
    ada.settled()  # while a rating is being saved the page takes no other click
    ada.page.click("#to-adjudicate")
    ada.says("message", "when every rater")
    said = [ada.page.content(), ada.page.title(), *(cookie["name"] for cookie in ada.context.cookies())]
    for answer in ada.answers:
        said += [answer.url, json.dumps(answer.all_headers()), json.dumps(answer.request.all_headers())]
        said.append(answer.request.post_data or "")
    reachable = {answer.url for answer in ada.answers if answer.request.method == "GET"}
    ada.leave()
    reachable |= {f"{root_of(address)}/api/videos/{video.id}" for video in session.plan.videos}
    reachable |= {f"{root_of(address)}/api/queue?by={name}&role=adjudicator" for name in ("ada", "eve")}
    assert sum("/api/videos/" in url for url in reachable) == 6
    for url in reachable:
        said += fetch(address, url.removeprefix(root_of(address)))[1:]
    for text in said:
        for secret in SECRETS:
            assert secret not in text


def test_films_are_stepped_frame_by_frame_and_seeking_is_exact(browser, address):
    ada = Rater(browser, address, "ada")
    assert ada.look()[0] == 0
    for key, frame in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("Shift+ArrowRight", 11),
        ("ArrowLeft", 10),
    ):
        ada.page.keyboard.press(key)
        ada.says("frame", f"frame {frame}")
        assert ada.look()[0] == frame
    ada.page.keyboard.press("Home")
    ada.says("frame", "0.00 s")
    ada.page.keyboard.press(".")
    assert ada.page.locator("#speed").input_value() == "2"
    ada.page.keyboard.press("Space")
    ada.says("frame", "frame 56")  # it plays to its end
    ada.leave()


def test_keys_are_letters_in_a_note_which_is_shown_as_text_and_kept(browser, address, session):
    ada = Rater(browser, address, "ada")
    note = "10 s: <script>alert(1)</script> NSFU"
    ada.page.keyboard.press("t")
    ada.page.keyboard.type(note)
    ada.page.keyboard.press("Enter")
    ada.says("progress-text", "0 of 6")
    ada.page.keyboard.press("f")
    ada.says("progress-text", "1 of 6")
    [line] = session.journal.records()
    assert (line["note"], line["verdict"], line["video"]) == (note, "failure", order_of(session, "ada")[0])
    ada.page.keyboard.press("p")
    assert ada.page.locator("#note").input_value() == note
    ada.page.fill("#note", "better so")
    ada.page.keyboard.press("Enter")
    ada.says("rater", "ada")
    ada.page.reload()
    ada.page.locator("#all button").first.click()
    assert ada.page.locator("#note").input_value() == "better so"
    ada.leave()


def test_by_mouse_alone_and_with_every_control_named(browser, address):
    ada = Rater(browser, address, "ada", color_scheme="dark")
    ada.page.click("#failure")
    ada.says("progress-text", "1 of 6")
    ada.page.click("#undo")
    ada.says("progress-text", "0 of 6")
    ada.page.click("#all button >> nth=4")
    ada.page.click("#success")
    ada.says("progress-text", "1 of 6")
    assert ada.page.locator("#all button[data-rated]").inner_text() == "5"
    nameless = ada.page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, video, section, aside")]
          .filter((each) => !each.closest("dialog") && !each.textContent.trim() && !each.ariaLabel && !each.title)
          .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    assert ada.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    ada.leave()


def test_two_windows_of_one_rater_meet_a_conflict_and_show_what_is_there(browser, address, session):
    first, second = (Rater(browser, address, "ada") for _ in range(2))
    first.page.keyboard.press("1")
    first.says("progress-text", "1 of 6")
    second.page.keyboard.press("0")
    second.says("toast", "in another window")
    assert second.page.get_attribute("#success", "aria-pressed") == "true"
    assert [line["verdict"] for line in session.journal.records()] == ["success"]
    for window in (first, second):
        window.leave()


# Without a browser: what a hostile page or a curious rater would send.


@pytest.fixture(scope="module")
def untouched(made, tmp_path_factory):
    """A session that is served to all those whose requests change nothing."""
    session = open_session(shutil.copytree(made, tmp_path_factory.mktemp("untouched") / "scoring"))
    with served(lambda access: score_app(session, access)) as address:
        yield session, address


def fetch(address, path, *, method="GET", body=None, **headers):
    """Status, headers and text; the token and the right origin unless told otherwise. The path goes out as it is."""
    usual = {"x-egorecovery-token": token_of(address), "origin": root_of(address), "content-type": "application/json"}
    sent = {name: value for name, value in {**usual, **headers}.items() if value is not None}
    host = root_of(address).removeprefix("http://")
    with closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        connection.request(method, path, json.dumps(body).encode() if body is not None else None, sent)
        answer = connection.getresponse()
        return answer.status, str(answer.headers), answer.read().decode("latin-1")


def ask(address, path, **how):
    status, _, text = fetch(address, path, **how)
    return status, text


RATING = {"by": "ada", "verdict": "success", "note": "", "seen_revision": 0}
CHANGES = {
    "/api/ratings": RATING,
    "/api/undo": {"by": "ada"},
    "/api/adjudication": {"by": "ada", "role": "adjudicator"},
}


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"x-egorecovery-token": None},
        {"x-egorecovery-token": "wrong" * 9},
        {"origin": None},
        {"origin": "http://evil.example"},
        {"host": "evil.example"},
        {"content-type": "text/plain"},
    ],
)
def test_a_change_from_elsewhere_is_refused(untouched, path, headers):
    session, address = untouched
    body = {**CHANGES[path], "video": session.plan.videos[0].id} if path == "/api/ratings" else CHANGES[path]
    status, _ = ask(address, path, method="POST", body=body, **headers)
    assert status in (403, 415, 421)
    assert session.journal.records() == []


@pytest.mark.parametrize(
    "name",
    [
        "../key.json",
        "..%2fkey.json",
        "%2e%2e/key.json",
        "..%5ckey.json",
        "%00",
        "key.json",
        "plan.json",
        "%2fetc%2fpasswd",
        "<script>",
        "x.mp4",
    ],
)
def test_only_videos_of_the_session_can_be_fetched(untouched, name):
    _, address = untouched
    status, text = ask(address, f"/api/videos/{name.replace('<', '%3C').replace('>', '%3E')}")
    assert status in (400, 404)
    assert "cells" not in text
    assert "rollout" not in text
    assert "<script>" not in text


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "maybe"},
        {"video": "../key"},
        {"by": ""},
        {"by": "a\x00b"},
        {"by": "x" * 81},
        {"note": "x" * 2001},
        {"seen_revision": -1},
        {"seen_revision": "0"},
        {"role": "owner"},
        {"more": 1},
    ],
)
def test_nonsense_is_refused_in_words_and_changes_nothing(untouched, change):
    session, address = untouched
    body = {**RATING, "video": session.plan.videos[0].id, **change}
    status, text = ask(address, "/api/ratings", method="POST", body=body)
    assert status == 422
    assert json.loads(text)["error"]
    assert session.journal.records() == []


def test_a_body_that_is_too_large_is_refused(untouched):
    _, address = untouched
    status, _ = ask(address, "/api/ratings", method="POST", body={**RATING, "video": "x", "note": "x" * 100_000})
    assert status == 413


def test_a_rater_does_not_see_the_others_verdicts_before_adjudication(address, session):
    for video in session.plan.videos:
        status, _ = ask(address, "/api/ratings", method="POST", body={**RATING, "video": video.id, "note": "bobs"})
        assert status == 200
    for path in ("/api/session", "/api/queue?by=bob", "/api/queue?by=bob&role=adjudicator"):
        _, text = ask(address, path)
        assert "bobs" not in text
        assert '"verdict":"' not in text


def test_parts_of_a_video_are_served_so_that_a_browser_can_seek(untouched):
    session, address = untouched
    video = session.plan.videos[0]
    whole = session.video_file(video).read_bytes()
    status, text = ask(address, f"/api/videos/{video.id}", range="bytes=100-199")
    assert status == 206
    assert text.encode("latin-1") == whole[100:200]


def test_the_verb_makes_a_session_serves_it_and_says_what_comes_next(made, tmp_path, capsys, monkeypatch):
    key = json.loads((made / "key.json").read_text())["videos"]
    runs = sorted({source.rsplit("/", 1)[0] for source in (known["source"] for known in key.values())})
    session = tmp_path / "scoring"
    interrupt_when_serving(monkeypatch)
    assert main(["score", *runs, "--session", str(session), "--no-browser", "--port", "0"]) == 0
    said = capsys.readouterr().out
    assert "6 videos under random names" in said
    assert "6 videos to score at\nhttp://127.0.0.1:" in said
    assert "2 of 2 raters have not begun" in said
    assert f"next: egorecovery score {session}" in said.replace("\n", " ")
