"""What README and docs tell a reader to type is what the program understands."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from egorecovery.cli.main import main, parse
from training_store import make_made_up_store, training_arguments

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md"]
HISTORY = {"log.md", "results_details.md"}  # commands of their day


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """Every line of a shell block that calls `egorecovery`; those with an ellipsis or a variable show only a part."""
    found = []
    for page in PAGES:
        if page.name in HISTORY:
            continue
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                words = re.match(r"(?:\S*/)?egorecovery (.*)", line.strip())
                if words and not re.search(r"\.\.\.|\$\w", line):
                    found.append((page.name, words.group(1)))
    return found


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_of_the_documentation_has_only_options_that_there_are(page, command):
    arguments = shlex.split(command.split("&&")[0].split("|")[0], comments=True)
    if "--help" in arguments:
        return
    assert parse(arguments) is not None, page


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The store and the run that the README's Python speaks of."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("readme")
    store = make_made_up_store(folder / "runs/cubes")
    assert main(training_arguments(store, folder / "runs/policy", steps=2)) == 0
    return folder


def test_the_readmes_python_runs(finished, monkeypatch):
    monkeypatch.chdir(finished)
    on_stores, on_policies = blocks(ROOT / "README.md", "python")
    seen: dict = {}
    exec(on_stores, seen)  # noqa: S102 - our own README
    assert seen["values"].shape == (len(seen["episode"]), 4)
    assert seen["image"].ndim == 3
    given = {"images": np.zeros((1, 1, 32, 32, 3), np.uint8), "state": np.zeros((1, 14), np.float32)}
    exec(on_policies.replace("(B, 3, S, S, 3)", "(B, V, S, S, 3)"), given)  # noqa: S102
    assert given["decision"].action_BHA.shape[0] == 1


def test_every_link_of_the_documentation_leads_somewhere():
    missing = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if not target.startswith(("http", "mailto")) and not (page.parent / target).exists()
    ]
    assert not missing
