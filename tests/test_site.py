"""The documentation site is built without a broken link and reads nothing from a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOADED = re.compile(r"""<(?:script|img|iframe|source|video)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'> ]*""")
LINKED = re.compile(r"""<link\b[^>]*\bhref=["']?(?:https?:)?//[^"'> ]*""")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_loads_nothing_from_elsewhere(site):
    pages = {path.name: path.read_text() for path in site.glob("*.html")}
    assert {"index.html", "reference.html", "training.html"} <= pages.keys()
    foreign = [found for text in pages.values() for found in (*LOADED.findall(text), *LINKED.findall(text))]
    styles = [path.name for path in site.rglob("*.css") if re.search(r"url\([\"']?https?:", path.read_text())]
    assert foreign == []
    assert styles == []


def test_every_page_of_docs_can_be_reached_by_the_navigation(site):
    index = (site / "index.html").read_text()
    missing = [path.name for path in (ROOT / "docs").glob("*.md") if f'href="{path.stem}.html"' not in index]
    assert missing in ([], ["index.md"])


def test_the_reference_shows_what_programs_use(site):
    reference = (site / "reference.html").read_text()
    names = (
        "episodes.EpisodeStore",
        "intent.targets",
        "policy.inference.load_action_source",
        "workcell.scene.TaskScene",
    )
    assert [name for name in names if f'id="egorecovery.{name}"' not in reference] == []
