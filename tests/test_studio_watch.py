"""The rollout viewer in a real browser: films, traces, playhead, filters."""

import pytest

from egorecovery.cli.main import main
from egorecovery.evaluation.rollout_videos import rollout_videos
from egorecovery.studio.watching import watch_app
from egorecovery.studio.watching.routes import decision_steps
from filmed_runs import RATE_HZ, evaluated_run, rollout
from studio_browser import SEEN_MS, chromium, interrupt_when_serving, served

PLAYHEAD = """canvas => {
  const pen = canvas.getContext("2d");
  const [ink] = getComputedStyle(document.body).color.match(/\\d+/g).map(Number);
  const row = pen.getImageData(0, 1, canvas.width, 1).data;  // above the first frame: nothing but the playhead
  const lit = [...Array(canvas.width).keys()].filter((x) => row[4 * x + 3] > 120 && Math.abs(row[4 * x] - ink) < 60);
  return lit.length ? (lit[0] + lit.at(-1)) / 2 / canvas.width : null;
}"""


@pytest.mark.parametrize(
    ("decisions", "steps", "replan", "expected"),
    [(3, 12, 5, [0, 5, 10]), (4, 20, 5, [0, 5, 10, 15]), (4, 20, 35, [0, 5, 10, 15]), (0, 0, 5, []), (1, 7, None, [0])],
)
def test_decisions_lie_where_the_policy_looked(decisions, steps, replan, expected):
    assert decision_steps(decisions, steps, replan) == expected


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    evaluated_run(home / "a", [rollout(index, index == 1, policy="with_gate") for index in range(2)])
    evaluated_run(home / "b", [rollout(0, True, policy="without", gate_trace=(), intent_trace=())])
    return home


@pytest.fixture(scope="module")
def page(runs):
    with chromium() as browser, served(lambda access: watch_app(rollout_videos(runs).rollouts, access)) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(SEEN_MS)
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda line: page.errors.append(line.text) if "Content Security" in line.text else None)
        page.goto(address)
        yield page
        assert page.errors == []


@pytest.mark.browser
def test_the_playhead_and_the_values_follow_the_film(page):
    from playwright.sync_api import expect

    reading = page.locator("#reading")
    expect(reading).to_have_text("decision 1 of 4; gate 0.90, recovering; intent 0.50 0.20 0.10 0.05")
    start = page.locator("#trace").evaluate(PLAYHEAD)
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#frame")).to_contain_text("frame 10")
    expect(reading).to_have_text("decision 3 of 4; gate 0.50, nominal; intent 0.30 0.20 0.10 0.05")
    middle = page.locator("#trace").evaluate(PLAYHEAD)
    page.keyboard.press("End")
    expect(page.locator("#frame")).to_contain_text(f"frame {round(20 / RATE_HZ * RATE_HZ) - 1}")
    end = page.locator("#trace").evaluate(PLAYHEAD)
    assert (middle - start) / (end - start) == pytest.approx(10 / 19, abs=0.01)
    box = page.locator("#trace").bounding_box()
    page.mouse.click(box["x"] + box["width"] * middle, box["y"] + 20)
    expect(page.locator("#frame")).to_contain_text("frame 10")


@pytest.mark.browser
def test_the_list_is_filtered_and_walked_by_key_and_old_results_have_no_traces(page):
    from playwright.sync_api import expect

    expect(page.locator("#count")).to_have_text("3 of 3")
    page.select_option("#filter-policy", "without")
    expect(page.locator("#count")).to_have_text("1 of 3")
    expect(page.locator("#name")).to_have_text("without")
    expect(page.locator("#reading")).to_have_text("decision 1 of 4")
    page.click("text=Show all")
    expect(page.locator("#count")).to_have_text("3 of 3")
    page.fill("#filter-text", "time limit")
    expect(page.locator("#count")).to_have_text("1 of 3")
    page.fill("#filter-text", "")
    page.locator("#list button").first.click()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#outcome")).to_have_text("success: goal held")


@pytest.mark.browser
def test_only_films_of_the_list_can_be_fetched(page):
    for name in ("9", "..%2f..%2fresults.jsonl", "%2fetc%2fpasswd", "0.mp4"):
        assert page.request.get(f"{page.url}api/films/{name}").status in (400, 404)
    assert page.request.get(f"{page.url}api/films/0").status == 200


@pytest.mark.parametrize("verb", ["watch", "score"])
def test_films_beside_a_run_are_found_by_the_file_that_is_named(verb, tmp_path, monkeypatch, capsys):
    """`evaluate RUN --out RUN.jsonl --film 1` writes both beside the run."""
    monkeypatch.chdir(tmp_path)
    evaluated_run(tmp_path, [rollout(0, True, policy="ours")], stem="policy")
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "log.jsonl").touch()
    assert main([verb, "policy"]) == 2
    assert f"'egorecovery {verb} policy.jsonl'" in capsys.readouterr().err


def test_the_verb_serves_what_it_finds(runs, capsys, monkeypatch):
    interrupt_when_serving(monkeypatch)
    assert main(["watch", str(runs), "--no-browser", "--port", "0"]) == 0
    said = capsys.readouterr().out
    assert "3 rollouts to watch at\nhttp://127.0.0.1:" in said
    assert f"next: egorecovery score {runs}" in said
