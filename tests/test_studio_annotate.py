"""Browse and Annotate in a real browser: what a person does, and what the journal then says."""

import json
import re
import shutil
from dataclasses import replace

import pytest

from egorecovery.episodes import EpisodeStore
from egorecovery.recovery import AnnotationJournal, candidate_boundary
from egorecovery.studio.annotating.routes import annotate_app
from studio_browser import SEEN_MS, chromium, root_of, served
from studio_store import FRAMES, READ_NUMBERS, painted_store, two_bursts

pytestmark = pytest.mark.browser
CANDIDATE = candidate_boundary(two_bursts(FRAMES)[:, [1]]).frame


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return painted_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def store(made, tmp_path):
    """A store of the test's own; copying is quicker than making."""
    return EpisodeStore(shutil.copytree(made.root, tmp_path / "store"))


@pytest.fixture
def address(store):
    with served(lambda access: annotate_app(store, access)) as address:
        yield address


@pytest.fixture
def visit(browser, address):
    """Opens the app as somebody, in a browser of their own; fails where the page met an error."""
    contexts, errors = [], []

    def open_as(name="ada", context=None, at=address):
        if context is None:
            context = browser.new_context(viewport={"width": 1280, "height": 720})
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SEEN_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
        page.goto(at)
        seen(page, "body[data-ready]")
        if page.locator("#name-dialog[open]").count():
            page.keyboard.type(name)
            page.keyboard.press("Enter")
            expect(page.locator("#annotator")).to_have_text(name)
        return page

    yield open_as
    for context in contexts:
        context.close()
    assert errors == []


def expect(locator):
    from playwright.sync_api import expect

    return expect(locator)


def seen(page, selector):
    return page.wait_for_selector(selector, state="attached")


def annotate(page, clip="clip-0"):
    """Opens a clip and waits until its pictures are shown."""
    page.goto(re.sub("[?#].*", "", page.url) + f"#/clip/{clip}")
    return shown(page, clip)


def shown(page, clip, frame=None):
    at = "" if frame is None else f'[data-frame="{frame}"]'
    for camera in ("head", "left_wrist", "right_wrist"):
        seen(page, f'#cameras canvas[data-camera={camera}][data-clip="{clip}"]{at}')
    return page


def numbers(page):
    """What is painted into the pictures that the canvases show."""
    return [canvas.evaluate(READ_NUMBERS) for canvas in page.locator("#cameras canvas").all()]


def journal(store):
    return [
        (a.episode, a.boundary, a.annotator, a.discard) for a in AnnotationJournal(store.annotations_path).history()
    ]


def saved(page, done):
    """Waits until the page says that this many clips are done."""
    expect(page.locator("#progress-text")).to_have_text(re.compile(f"^{done} of"))


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_the_filters_and_the_keyboard_lead_to_a_clip(visit):
    page = visit()
    cells = page.locator("#grid [role=option]")
    expect(cells).to_have_count(5)
    page.select_option("#filter-source", "robot_recovery")
    expect(cells).to_have_count(2)
    press(page, "/")
    page.keyboard.type("CLIP-3")
    expect(cells).to_have_count(1)
    expect(page.locator("#filter-count")).to_have_text("1 of 5 clips")
    press(page, "Enter", "Enter")  # out of the field, then into the clip
    shown(page, "clip-3")
    press(page, "Escape", "a")
    expect(cells).to_have_count(5)
    page.select_option("#filter-state", "success")
    expect(cells).to_have_text(re.compile("good-0"))


def test_every_frame_that_is_scrubbed_to_is_the_one_all_canvases_show(visit):
    page = annotate(visit(), "clip-2")
    press(page, "Home")
    for key, frame in [
        ("ArrowRight", 1),
        ("Shift+ArrowRight", 11),
        ("ArrowLeft", 10),
        ("End", 59),
        ("Shift+ArrowLeft", 49),
    ]:
        press(page, key)
        shown(page, "clip-2", frame)
        assert numbers(page) == [{"frame": frame, "camera": camera, "clip": 3} for camera in range(3)]


def test_a_click_in_the_curve_shows_that_frame(visit):
    page = annotate(visit())
    box = page.locator("#timeline").bounding_box()
    for frame in (7, 33, 58):
        x = 14 + (frame + 0.5) / FRAMES * (box["width"] - 2 - 28)
        page.locator("#timeline").click(position={"x": x, "y": box["height"] / 3})
        shown(page, "clip-0", frame)
        assert {number["frame"] for number in numbers(page)} == {frame}


def test_playing_runs_to_the_end_and_the_loop_stays_around_the_boundary(visit):
    page = annotate(visit())
    press(page, "End", "Shift+ArrowLeft", "Space")
    shown(page, "clip-0", FRAMES - 1)
    expect(page.locator("#play")).to_contain_text("Play")
    press(page, "Home", ".", ".", ".", "l")  # four times as fast
    expect(page.locator("#loop")).to_have_attribute("aria-pressed", "true")
    frames = page.locator("#cameras canvas").first.evaluate(
        """canvas => new Promise(done => {
          const frames = [];
          let rounds = 0;
          const watch = new MutationObserver(() => {
            const frame = Number(canvas.dataset.frame);
            if (frame < frames.at(-1)) rounds += 1;
            frames.push(frame);
            if (rounds === 2) { watch.disconnect(); done(frames); }
          });
          watch.observe(canvas, { attributes: true, attributeFilter: ["data-frame"] });
        })"""
    )
    assert max(frames) <= min(CANDIDATE + 25, FRAMES - 1)
    assert min(frames) >= max(CANDIDATE - 25, 0)
    press(page, "Enter")  # the next clip opens looping as well
    shown(page, "clip-1")
    expect(page.locator("#play")).to_contain_text("Pause")


def test_by_keyboard_alone_the_boundary_is_moved_confirmed_and_the_next_clip_comes(visit, store):
    page = annotate(visit())
    expect(page.locator("#boundary-frame")).to_have_text(f"boundary {CANDIDATE}")
    press(page, "]", "]", "[", "Enter")
    shown(page, "clip-1", CANDIDATE)
    saved(page, 1)
    press(page, "Home", "Shift+ArrowRight", "b", "q", "t")
    page.keyboard.type("slips [once] d u n")
    press(page, "Enter", "Enter")
    shown(page, "clip-2")
    saved(page, 2)
    press(page, "b", "[", "c", "Enter")
    shown(page, "clip-3")
    saved(page, 3)
    assert journal(store) == [
        ("clip-0", CANDIDATE + 1, "ada", False),
        ("clip-1", 10, "ada", False),
        ("clip-2", CANDIDATE, "ada", False),
    ]
    second = AnnotationJournal(store.annotations_path).history()[1]
    assert (second.quality, second.note, second.candidate) == ("fair", "slips [once] d u n", CANDIDATE)


def test_by_mouse_alone_the_boundary_is_dragged_and_confirmed(visit, store):
    page = visit()
    page.locator("[data-clip=clip-1].cell").click()
    shown(page, "clip-1")
    handle, line = page.locator("#boundary").bounding_box(), page.locator("#timeline").bounding_box()
    per_frame = (line["width"] - 2 - 28) / FRAMES
    page.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + 40)
    page.mouse.down()
    page.mouse.move(handle["x"] + handle["width"] / 2 + 9 * per_frame, handle["y"] + 60, steps=5)
    page.mouse.up()
    expect(page.locator("#boundary-frame")).to_have_text(f"boundary {CANDIDATE + 9}")
    shown(page, "clip-1", CANDIDATE + 9)
    page.click("[data-quality=poor]")
    page.click("[data-action=nudgeBack]")
    page.click("#confirm")
    shown(page, "clip-2")
    saved(page, 1)
    assert journal(store) == [("clip-1", CANDIDATE + 8, "ada", False)]
    page.click("#undo")
    shown(page, "clip-1")
    saved(page, 0)
    page.click("#discard")
    shown(page, "clip-2")
    page.click("#previous")
    shown(page, "clip-1")
    expect(page.locator("#clip-state")).to_have_text("discarded")


def test_after_a_reload_everything_saved_is_there_and_can_still_be_undone(visit, store):
    page = annotate(visit())
    press(page, "]", "Enter")
    shown(page, "clip-1")
    press(page, "d")
    shown(page, "clip-2")
    saved(page, 2)
    page.reload()
    shown(page, "clip-2")
    saved(page, 2)
    press(page, "u")
    shown(page, "clip-1")
    saved(page, 1)
    expect(page.locator("#clip-state")).to_have_text("to annotate")
    press(page, "u")
    shown(page, "clip-0")
    saved(page, 0)
    expect(page.locator("#undo")).to_be_disabled()
    assert len(journal(store)) == 4, "what was undone stays in the journal"


def test_undo_goes_back_step_by_step_through_revisions_of_one_clip(visit, store):
    page = annotate(visit())
    for boundary in (10, 20, 30):
        press(page, "Home", *["Shift+ArrowRight"] * (boundary // 10), "b", "Enter")
        shown(page, "clip-1")
        saved(page, 1)
        if boundary < 30:
            annotate(page, "clip-0")
            expect(page.locator("#clip-state")).to_have_text("annotated")
    for boundary in (20, 10):
        press(page, "u")
        expect(page.locator("#clip-name")).to_have_text("clip-0")
        expect(page.locator("#boundary-frame")).to_have_text(f"boundary {boundary}")
        assert AnnotationJournal(store.annotations_path).latest()["clip-0"].boundary == boundary


def test_a_discarded_clip_is_restored_by_the_same_key(visit, store):
    page = annotate(visit(), "good-0")
    press(page, "d")
    expect(page.locator("#clip-state")).to_have_text("discarded")
    expect(page.locator("#discard")).to_contain_text("Restore")
    press(page, "d")
    expect(page.locator("#clip-state")).to_have_text("no boundary")
    assert not AnnotationJournal(store.annotations_path).latest()["good-0"].discard


def test_of_two_tabs_the_second_sees_a_conflict_with_both_values_and_nothing_is_lost(visit, store):
    first = annotate(visit("ada"))
    second = annotate(visit("grace"))
    press(first, "Home", "Shift+ArrowRight", "b", "Enter")
    saved(first, 1)
    expect(second.locator("#clip-notice")).to_have_text("ada saved boundary 10 meanwhile")
    press(second, "End", "b", "Enter")
    expect(second.locator("#conflict-dialog")).to_be_visible()
    expect(second.locator("[data-mine=boundary]")).to_have_text("59")
    expect(second.locator("[data-theirs=boundary]")).to_have_text("10")
    expect(second.locator("[data-theirs=annotator]")).to_have_text("ada")
    assert journal(store) == [("clip-0", 10, "ada", False)]
    second.click("#keep-theirs")
    for page in (first, second):
        shown(page, "clip-1")
    press(first, "Home", "b", "Enter")
    saved(second, 2)
    press(second, "End", "b", "Enter")
    second.click("#save-mine")
    expect(second.locator("#conflict-dialog")).not_to_be_visible()
    shown(second, "clip-2")
    assert journal(store) == [
        ("clip-0", 10, "ada", False),
        ("clip-1", 0, "ada", False),
        ("clip-1", 59, "grace", False),
    ]


def test_an_undo_that_somebody_elses_save_has_overtaken_is_refused(visit, store):
    first, second = visit("ada"), visit("grace")
    annotate(first)
    press(first, "Enter")
    saved(first, 1)
    saved(second, 1)
    annotate(second)
    press(second, "]", "Enter")
    expect(second.locator("#clip-name")).to_have_text("clip-1")
    press(first, "u")
    expect(first.locator("#toast")).to_contain_text("Not undone: grace has saved clip-0 since")
    assert journal(store)[-1] == ("clip-0", CANDIDATE + 1, "grace", False)


def test_with_the_candidate_hidden_nothing_anchors_the_annotator(visit, store):
    first, second = annotate(visit("ada")), visit("grace")
    press(second, "h")
    expect(second.locator("#independent")).to_be_checked()
    answers = []
    second.on("response", lambda response: answers.append(response) if "/api/clips/clip-0" in response.url else None)
    annotate(second)
    press(first, "Enter")  # after the other page was opened
    saved(first, 1)
    expect(second.locator("#boundary-frame")).to_have_text("not set")
    opened = next(answer for answer in answers if "clip-0?" in answer.url)
    assert json.loads(opened.text())["motion"]["candidate"] is None
    press(second, "Enter")
    expect(second.locator("#toast")).to_contain_text("Set the boundary first")
    press(second, "Home", "Shift+ArrowRight", "b", "Enter")
    saved(second, 1)
    assert journal(store) == [("clip-0", CANDIDATE, "ada", False), ("clip-0", 10, "grace", False)]
    assert AnnotationJournal(store.annotations_path).history()[1].candidate is None
    second.click("#to-agreement")
    expect(second.locator("#agreement")).to_contain_text("ada and grace")
    expect(second.locator("#agreement tbody")).to_have_text(re.compile(rf"clip-0{CANDIDATE}10-{CANDIDATE - 10}"))
    with second.expect_download() as download:
        second.click("text=Export boundary noise")
    noise = json.loads(download.value.path().read_text())
    assert [difference["frames"] for difference in noise["differences"]] == [10 - CANDIDATE]

    annotate(second, "clip-1")
    press(second, "u")  # what the other saved, unseen here, is in force again
    saved(second, 0)
    assert journal(store)[2:] == [("clip-0", None, "grace", True), ("clip-0", CANDIDATE, "ada", False)]
    shown(second, "clip-0")
    press(second, "Home", "b", "Enter")
    saved(second, 1)
    annotations = AnnotationJournal(store.annotations_path)
    adas = replace(annotations.history()[0], boundary=33)
    annotations.save(adas, n_frames=FRAMES, seen_revision=5)
    press(second, "u")
    expect(second.locator("#toast")).to_contain_text("Not undone: ada has saved clip-0 since")
    refused = next(answer for answer in reversed(answers) if "undo" in answer.url)
    assert json.loads(refused.text())["theirs"] == {"annotator": "ada"}


def test_a_clip_that_cannot_be_read_is_left_out_and_the_next_one_comes(visit, store):
    (store.root / "episodes" / "clip-1" / "episode.zarr" / "effector_m" / "zarr.json").write_text("{")
    (store.root / "episodes" / "clip-3" / "episode.zarr" / "zarr.json").write_text("{")
    page = visit()
    expect(page.locator("[data-clip=clip-3]")).to_contain_text("damaged")
    page.click("[data-clip=clip-3]")
    expect(page.locator("#toast")).to_contain_text("egorecovery verify")
    annotate(page)
    press(page, "Enter")
    shown(page, "clip-2")
    expect(page.locator("#toast")).to_contain_text("clip-1 is left out")
    expect(page.locator("#progress-text")).to_have_text("1 of 2 annotated, 2 damaged")
    press(page, "Enter")
    expect(page.locator("#toast")).to_contain_text("Every clip of the list is annotated")
    assert [episode for episode, *_ in journal(store)] == ["clip-0", "clip-2"]


def test_what_was_changed_and_not_saved_is_there_on_return_and_a_held_key_saves_once(visit, store):
    page = annotate(visit())
    page.fill("#note", "look again")
    press(page, "Enter", "]", "q", "PageDown")
    shown(page, "clip-1")
    expect(page.locator("#note")).to_have_value("")
    press(page, "PageUp")
    shown(page, "clip-0")
    expect(page.locator("#toast")).to_contain_text("not saved yet")
    expect(page.locator("#note")).to_have_value("look again")
    for _ in range(3):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    shown(page, "clip-1")
    press(page, "PageDown")
    shown(page, "clip-2")
    [word] = AnnotationJournal(store.annotations_path).history()
    assert (word.boundary, word.quality, word.note) == (CANDIDATE + 1, "fair", "look again")


def test_keys_do_nothing_in_text_fields_or_with_modifiers(visit, store):
    page = annotate(visit())
    press(page, "t")
    page.keyboard.type("dun")
    press(page, "Escape", "Control+d", "Alt+d", "Meta+Enter")
    expect(page.locator("#note")).to_have_value("dun")
    press(page, "Enter")
    shown(page, "clip-1")
    assert journal(store) == [("clip-0", CANDIDATE, "ada", False)]


def test_a_key_can_be_given_to_another_action_and_is_remembered(visit, store):
    page = annotate(visit())
    press(page, "?")
    page.click("[aria-label='Change the key of: confirm and next']")
    press(page, "d")
    expect(page.locator("#help-dialog")).to_contain_text("D: confirm and next. It was the key of: discard")
    press(page, "Escape")
    page.reload()
    shown(page, "clip-0")
    expect(page.locator("#confirm kbd")).to_have_text("D")
    press(page, "d")
    shown(page, "clip-1")
    assert journal(store) == [("clip-0", CANDIDATE, "ada", False)]


NASTY = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"


def test_markup_in_names_and_notes_is_shown_as_text(visit, store):
    page = visit(NASTY[:80])
    expect(page.locator("#annotator")).to_have_text(NASTY[:80])
    annotate(page)
    page.fill("#note", NASTY)
    press(page, "Enter", "Enter")
    saved(page, 1)
    other = annotate(visit("grace"))
    expect(other.locator("#note")).to_have_value(NASTY)
    expect(other.locator("#clip-facts")).to_contain_text("<script>")
    press(other, "]")
    annotate(page)
    press(page, "[", "Enter")
    expect(other.locator("#clip-notice")).to_contain_text("<script>")
    press(other, "Enter")
    expect(other.locator("[data-theirs=note]")).to_have_text(NASTY)
    other.click("#save-mine")
    other.click("#to-agreement")
    expect(other.locator("#agreement h2")).to_contain_text("<script>")
    for each in (page, other):
        assert "owned" not in each.title()
        assert each.locator("script:not([type=module]), img[src=x]").count() == 0


def test_every_control_can_be_named_and_reached_with_tab_and_fits_into_two_window_sizes(visit):
    page = annotate(visit())
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("#clip button, #clip select, #clip input, header button, header input")]
          .filter(each => !(each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length))
          .map(each => each.outerHTML)"""
    )
    assert nameless == []
    reached = set()
    for _ in range(40):
        press(page, "Tab")
        focused = page.evaluate(
            """() => { const each = document.activeElement;
              return [each.id || each.dataset.action || each.dataset.quality, getComputedStyle(each).outlineStyle]; }"""
        )
        reached.add(focused[0])
        assert focused[0] is None or focused[1] != "none", f"{focused[0]} shows no focus"
    assert {"confirm", "discard", "undo", "boundary", "playhead", "speed", "good", "note", "help"} <= reached | {"undo"}
    for width, height in ((1280, 720), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        for name in ("#confirm", "#note", "#timeline", "#intent", "#help"):
            box = page.locator(name).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["y"] + box["height"] <= height
        assert page.locator("#cameras canvas").first.bounding_box()["height"] > height * 0.35


def test_without_the_token_the_page_says_what_to_open(browser, address):
    page = browser.new_page()
    page.goto(root_of(address))
    assert "open the whole address that the terminal shows" in page.content()
    page.close()
