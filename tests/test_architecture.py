"""The page that says where is what is right, and imports point one way."""

import importlib.util
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "egorecovery"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("import_graph", ROOT / "tools" / "import_graph.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_that_the_page_names_is_there_and_has_what_it_says():
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)(?:: ([a-z_]+))?`", PAGE)
    assert len(named) > 15
    for path, symbol in named:
        assert f"{symbol}" in (SOURCE / path).read_text(), (path, symbol)


def test_every_package_is_on_the_page(tool):
    listed = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in PAGE.splitlines() if "|" in line)))
    assert tool.packages(SOURCE).keys() <= listed


def test_no_package_imports_one_that_imports_it(tool):
    graph = tool.imports(SOURCE, set(tool.packages(SOURCE)))
    height = tool.levels(graph)
    assert [(name, other) for name in graph for other in graph[name] if height[other] >= height[name]] == []


def test_the_command_line_knows_every_suite():
    from egorecovery.cli.experiment import Experiment
    from egorecovery.experiments.suites import NOT_BUILT, SUITES

    (names,) = [part for part in get_args(get_type_hints(Experiment, include_extras=True)["suite"]) if get_args(part)]
    assert set(get_args(names)) == {*SUITES, *NOT_BUILT}
