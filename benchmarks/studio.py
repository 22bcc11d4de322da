"""A scripted annotator goes through clips of three 640x480 cameras in a real browser; says where the time goes.

python benchmarks/studio.py [--clips 500] [--confirmed 100] [--json PATH]

Needs Chromium (tools/browser.py). All times are taken inside the page, from the key press to the moment when the
canvases of all cameras hold the new pictures.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from egorecovery.episodes import (
    PAPER_TASKS,
    RATE_HZ,
    Camera,
    CameraStream,
    Episode,
    EpisodeStore,
    Intrinsics,
    JpegFrames,
    Provenance,
    Source,
    episode_id,
)

WIDTH, HEIGHT = 640, 480
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

# Resolves, in milliseconds since the key press, once all canvases show what is wanted.
MEASURE = """([wanted]) => new Promise((done, failed) => {
  setTimeout(() => failed(new Error(`nothing was shown for a minute, wanted ${wanted}`)), 60000);
  const canvases = () => [...document.querySelectorAll("#cameras canvas")];
  const pressed = new Promise(begin =>
    document.addEventListener("keydown", () => begin(performance.now()), {capture: true, once: true}));
  const before = canvases()[0].dataset.clip;
  const reached = () => canvases().every(canvas => wanted === null
    ? canvas.dataset.clip !== before : canvas.dataset.frame === wanted);
  const watch = new MutationObserver(async () => {
    if (!reached()) return;
    watch.disconnect();
    const shown = performance.now();
    done(shown - await pressed);
  });
  watch.observe(document.querySelector("#cameras"), {subtree: true, attributes: true});
})"""
# From the input event to the second frame after it: the list is drawn by then.
FILTER = """() => new Promise(done => document.querySelector("#filter-text").addEventListener("input", () => {
  const typed = performance.now();
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - typed)));
}, {capture: true, once: true}))"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How much there is, and how much of it is gone through."""

    clips: int = 500
    frames: int = 75
    """Of a clip: three seconds."""
    confirmed: int = 100
    """Clips that the scripted annotator confirms without a pause."""
    looked_at: int = 30
    """Clips that are opened once the next ones have been fetched ahead, as when a person watches each."""
    store: Path | None = None
    """Use, or make and keep, the store here."""
    json: Path | None = None
    """Also write all numbers there."""


def film(rng: np.random.Generator, frames: int) -> JpegFrames:
    """Textured table, moving discs, noise of two grey levels."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    table = 110 + 25 * np.sin(columns / 23) * np.sin(rows / 31) + rng.normal(0, 3, (HEIGHT, WIDTH))
    pictures = []
    for frame in range(frames):
        picture = np.repeat(table[..., None], 3, axis=2)
        for disc in range(4):
            centre = np.array([240 + 120 * np.sin(frame / 15 + disc), 320 + 200 * np.cos(frame / 20 + 2 * disc)])
            inside = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < (30 + 12 * disc) ** 2
            picture[inside] = rng.uniform(20, 235, 3) if frame == 0 else (60 + 40 * disc, 200 - 40 * disc, 90)
        pictures.append(np.clip(picture + rng.normal(0, 2, picture.shape), 0, 255).astype(np.uint8))
    return JpegFrames.encode(pictures)


def build(root: Path, options: Options) -> EpisodeStore:
    """Recovery clips with the same three films and motion of their own."""
    store = EpisodeStore.create(root)
    if len(store) >= options.clips:
        return store
    rng = np.random.default_rng(0)
    films = [film(rng, options.frames) for _ in Camera]
    times = np.arange(options.frames) / RATE_HZ
    intrinsics = Intrinsics(width=WIDTH, height=HEIGHT, fx=500.0, fy=500.0, cx=WIDTH / 2, cy=HEIGHT / 2)
    with store.writing() as writer:
        for number in range(len(store), options.clips):
            state = np.cumsum(rng.normal(0, 0.01, (options.frames, 14)), axis=0).astype(np.float32)
            pause = rng.integers(options.frames // 4, 3 * options.frames // 4)
            speed = np.abs(np.arange(options.frames) - pause)[:, None, None] * rng.uniform(0.5, 1.5, (1, 2, 3)) / 500
            writer.add(
                Episode(
                    id=episode_id(f"clip-{number:04d}"),
                    task=list(PAPER_TASKS.values())[number % 4],
                    source=(Source.HUMAN_RECOVERY, Source.ROBOT_RECOVERY)[number % 2],
                    timestamps_s=times,
                    state=state,
                    action=state,
                    effector_m=np.cumsum(speed, axis=0).astype(np.float32),
                    reliable=np.ones((options.frames, 2), bool),
                    cameras={
                        camera: CameraStream(frames=frames, timestamps_s=times, intrinsics=intrinsics)
                        for camera, frames in zip(Camera, films, strict=True)
                    },
                    provenance=Provenance(operator="benchmark", started_at="2026-01-01T09:00:00+00:00", stopped_at=""),
                )
            )
    return store


@contextmanager
def app(store: EpisodeStore) -> Iterator[str]:
    """The verb as a user starts it; yields its address."""
    command = [sys.executable, "-m", "egorecovery", "annotate", str(store.root), "--no-browser", "--port", "0"]
    with subprocess.Popen([*command, "--annotator", "script"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(line.strip() for line in process.stdout if line.startswith("http"))
        finally:
            process.terminate()


def timed_press(page: Page, key: str, wanted: str | None) -> float:
    """Milliseconds from the key to the pictures: of another clip (None) or of this frame."""
    measured = page.evaluate_handle(f"wanted => ({{time: ({MEASURE})([wanted])}})", wanted)
    page.keyboard.press(key)
    return page.evaluate("held => held.time", measured)


def open_first(page: Page) -> None:
    page.keyboard.press("n")
    page.wait_for_selector("body[data-fetched-ahead]")


def shown_frame(page: Page) -> int:
    frame = page.locator("#cameras canvas").first.get_attribute("data-frame")
    assert frame is not None
    return int(frame)


def watched(page: Page, clips: int, frames: int) -> dict[str, list[float]]:
    """Each clip is opened when it has been fetched ahead, then scrubbed."""
    times: dict[str, list[float]] = {"next clip": [], "one frame on": [], "ten frames on": []}
    for _ in range(clips):
        current = page.locator("#clip-name").text_content()
        page.wait_for_selector(f'body[data-fetched-ahead="{current}"]')
        times["next clip"].append(timed_press(page, "Enter", None))
        frame, middle = shown_frame(page), frames // 2
        step, arrow = (1, "ArrowRight") if frame < middle else (-1, "ArrowLeft")
        times["ten frames on"].append(timed_press(page, f"Shift+{arrow}", str(frame + 10 * step)))
        times["one frame on"].append(timed_press(page, arrow, str(frame + 11 * step)))
    return times


def hurried(page: Page, clips: int) -> tuple[float, list[float]]:
    """Without any pause: the boundary is nudged, the clip confirmed, the next one shown."""
    times = []
    began = time.perf_counter()
    for _ in range(clips):
        page.keyboard.press("]")
        page.keyboard.press("]")
        page.keyboard.press("[")
        times.append(timed_press(page, "Enter", None))
    return time.perf_counter() - began, times


def filtered(page: Page, texts: Sequence[str]) -> list[float]:
    times = []
    page.focus("#filter-text")
    for text in texts:
        measured = page.evaluate_handle(f"() => ({{time: ({FILTER})()}})")
        page.keyboard.insert_text(text)
        times.append(page.evaluate("held => held.time", measured))
        page.evaluate("() => document.querySelector('#filter-text').select()")
    return times


def measure(store: EpisodeStore, options: Options) -> dict[str, Any]:
    with app(store) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        opened_s = time.perf_counter() - began
        typed = filtered(page, [f"clip-0{number:02d}" for number in range(30)])
        page.fill("#filter-text", "")
        page.keyboard.press("Enter")
        open_first(page)
        times = watched(page, options.looked_at, options.frames)
        total_s, in_a_hurry = hurried(page, options.confirmed)
        browser.close()
    saved = len(store.annotations_path.read_bytes().splitlines())
    assert saved == options.looked_at + options.confirmed, saved
    return {
        "list filtered": typed,
        **times,
        "next clip, no pause": in_a_hurry,
        "opened_s": opened_s,
        "overhead_per_clip_s": total_s / options.confirmed,
    }


def main(options: Options) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        store = build(options.store or Path(scratch) / "store", options)
        store.annotations_path.unlink(missing_ok=True)
        sizes = [np.diff(store.frames(store.ids()[0], camera).offsets).mean() / 1000 for camera in Camera]
        found = measure(store, options)
    table = Table(title=f"{options.clips} clips of {options.frames} frames, 3 cameras {WIDTH}x{HEIGHT}")
    for name in ("milliseconds", "median", "90%", "most", "n"):
        table.add_column(name, justify="left" if name == "milliseconds" else "right")
    for name, times in found.items():
        if isinstance(times, list):
            most = sorted(times)
            row = (statistics.median(most), most[int(0.9 * len(most))], most[-1])
            table.add_row(name, *(f"{value:.0f}" for value in row), str(len(most)))
    console = Console()
    console.print(table)
    console.print(
        f"list of {options.clips} opened in {found['opened_s']:.2f} s; overhead of a confirmed clip "
        f"{found['overhead_per_clip_s']:.3f} s over {options.confirmed} clips; a frame is {np.mean(sizes):.0f} kB; "
        f"{os.cpu_count()} cores"
    )
    if options.json:
        options.json.write_text(json.dumps({"options": asdict(options), **found}, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
