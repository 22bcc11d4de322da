"""Draws docs/pictures/terminal_demo.png and demo_page.png: what `make demo-quick` shows, in a terminal and as a page.

python tools/page_pictures.py [--out docs/pictures] [--after 14]

Needs tmux, Chromium and the extra 'dev'. The terminal has 80 columns; its upper screen is taken while the demo runs.
"""

import io
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tyro
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS, LINES = 80, 30
COLOURS = 256  # of the pictures; chosen so that no colour is off by much, lines of one pixel included
THEME = TerminalTheme((255, 255, 255), (30, 34, 40), [(30, 34, 40), (180, 40, 40), (40, 140, 60), (150, 110, 20),
    (40, 90, 170), (160, 50, 130), (20, 120, 130), (90, 95, 100)])  # fmt: skip
PAGE = """<meta charset="utf-8"><style>
body {{ margin: 0; padding: 14px; background: #e9ebee; width: max-content; font: 13px "DejaVu Sans", sans-serif }}
pre {{ margin: 6px 0 14px; padding: 12px 14px; background: #fff; border: 1px solid #c5cad1; border-radius: 6px;
       font: 14px/1.3 "DejaVu Sans Mono", monospace }}
pre:last-child {{ margin-bottom: 0 }}
</style>{body}"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where to draw, and what."""

    out: Path = Path("docs/pictures")
    after: int = 14
    """How many rollouts of a policy are done when the demo's terminal is drawn while it works."""


class Terminal:
    """A shell in tmux."""

    def __init__(self, socket: str, where: Path) -> None:
        self._tmux = ["tmux", "-L", socket]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        self._do("new-session", "-d", "-s", "demo", *size, "-c", str(where), "env", "PS1=$ ", "bash", "--norc")

    def _do(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True).stdout

    def type(self, line: str) -> None:
        self._do("send-keys", "-t", "demo", "-l", line)
        self._do("send-keys", "-t", "demo", "Enter")

    def screen(self) -> str:
        """With its colours."""
        return self._do("capture-pane", "-e", "-p", "-t", "demo").rstrip()

    def wait_for(self, words: str) -> None:
        while words not in self.screen():
            time.sleep(0.3)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)


@contextmanager
def terminal(where: Path) -> Iterator[Terminal]:
    shell = Terminal(f"picture-{time.time_ns()}", where)
    try:
        yield shell
    finally:
        shell.close()


def as_html(screen: str) -> str:
    page = Console(record=True, width=COLUMNS, file=io.StringIO())
    page.print(Text.from_ansi(screen), soft_wrap=True)
    return f"<pre>{page.export_html(theme=THEME, inline_styles=True, code_format='{code}')}</pre>"


def draw(browser: Browser, url: str, path: Path, width: int, height: int | None = None) -> None:
    """The whole page, or its upper part."""
    page = browser.new_page(viewport={"width": width, "height": height or 400})
    page.goto(url)
    page.wait_for_timeout(2500)  # films begin to play
    whole = {"full_page": True} if height is None else {}
    picture = Image.open(io.BytesIO(page.screenshot(**whole))).convert("RGB")
    page.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=40, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(f"wrote: {path}, {picture.width} x {picture.height}, {path.stat().st_size / 1e3:.0f} kB")


def main(options: Options) -> None:
    with tempfile.TemporaryDirectory() as folder, terminal(Path(folder)) as shell, sync_playwright() as player:
        python = shlex.quote(sys.executable)
        shell.type(f'egorecovery() {{ {python} -m egorecovery "$@"; }}; clear')
        time.sleep(1)
        shell.type("egorecovery demo --quick")
        shell.wait_for(f"{options.after} of ")
        screens = [("While it runs", shell.screen())]
        shell.wait_for("next: open")
        screens.append(("At its end", shell.screen().removesuffix("$").rstrip()))
        body = "".join(f"{title}{as_html(screen)}" for title, screen in screens)
        picture = Path(folder) / "terminal.html"
        picture.write_text(PAGE.format(body=body))
        browser = player.chromium.launch(executable_path="/usr/bin/chromium")
        draw(browser, picture.as_uri(), options.out / "terminal_demo.png", 760)
        page = Path(folder) / "runs/demo-quick/index.html"
        draw(browser, page.as_uri(), options.out / "demo_page.png", 1000, 826)
        browser.close()


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
