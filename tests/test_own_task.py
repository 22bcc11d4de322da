"""The task of docs/tutorial_task.md: installed as its reader would, it is collected, judged and evaluated."""

import re
from pathlib import Path

import pytest

from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore
from egorecovery.errors import RecipeError
from egorecovery.evaluation import ResultFile
from egorecovery.workcell.tasks import scene_named

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/own_task"


def install(folder: Path, names: str, monkeypatch) -> None:
    """What pip leaves of a package that has entry points."""
    metadata = folder / "my_tasks-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tasks\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(f"[egorecovery.tasks]\n{names}\n")
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    named = re.search(r'^block_on_pad = "(.*)"$', (EXAMPLE / "pyproject.toml").read_text(), re.MULTILINE)
    assert named
    install(tmp_path, f"block_on_pad = {named[1]}", monkeypatch)
    monkeypatch.syspath_prepend(EXAMPLE)


@pytest.mark.parametrize("source", ["robot_recovery", "human_recovery"])
def test_the_tutorials_task_is_demonstrated_by_robot_and_person(source, installed, tmp_path):
    order = ["--task", "block_on_pad", "--source", source, "--episodes", "1", "--image-size", "32", "--workers", "1"]
    assert main(["simulate", *order, "--out", str(tmp_path / "store")]) == 0
    store = EpisodeStore(tmp_path / "store")
    [name] = store.ids()
    episode = store.read(name)
    assert episode.task.name == "block_on_pad"
    assert 0.2 < episode.provenance.details["true_boundary_s"] < len(episode) / 25 - 2


def test_a_policy_that_does_nothing_fails_at_the_tutorials_task(installed, tmp_path):
    results = tmp_path / "results.jsonl"
    arguments = ["--task", "block_on_pad", "--rollouts", "1", "--workers", "1", "--out", str(results)]
    assert main(["evaluate", "hold_still", *arguments]) == 0
    assert [record.succeeded for record in ResultFile(results).records()] == [False, False]


def test_the_tutorial_shows_what_the_example_says():
    code = (EXAMPLE / "block_on_pad.py").read_text()
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "docs/tutorial_task.md").read_text(), re.DOTALL)
    assert shown
    assert [block for block in shown if block not in code] == []


def test_a_task_that_is_not_installed_is_answered_with_those_that_are(installed):
    with pytest.raises(RecipeError, match=r"no task 'block_on_pat'; it has cup_brush, .*, block_on_pad"):
        scene_named("block_on_pat")


def test_a_task_without_rules_is_refused_with_what_it_lacks(tmp_path, monkeypatch):
    (tmp_path / "half_a_task.py").write_text("class Half:\n    modes = {}\n")
    install(tmp_path, "half = half_a_task:Half", monkeypatch)
    with pytest.raises(RecipeError, match=r"task 'half' .* lacks task, .* goal, terminal"):
        scene_named("half")
