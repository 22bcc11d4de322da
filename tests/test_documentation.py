"""What README and docs tell a reader to type is what the program understands."""

import ast
import json
import re
import shlex
import tomllib
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


SCRIPTS = [
    (page.name, words.group(1), words.group(2))
    for page in PAGES
    if page.name not in HISTORY
    for block in blocks(page, "sh")
    for line in block.replace("\\\n", " ").splitlines()
    if (words := re.match(r"python ((?:tools|benchmarks|examples)/\S+\.py)(.*)", line.strip()))
]


@pytest.mark.parametrize(("page", "script", "arguments"), SCRIPTS)
def test_a_script_of_the_documentation_is_there_and_knows_its_options(page, script, arguments):
    code = (ROOT / script).read_text()
    known = {name.replace("_", "-") for name in re.findall(r"[a-z][a-z_-]+", code)}
    unknown = [name for name in re.findall(r"--([a-z][a-z-]+)", arguments) if name not in known]
    assert unknown == [], page


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


def test_the_readmes_quickstart_runs(tmp_path, monkeypatch):
    """With one episode, two steps and one rollout of each kind."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "README.md").read_text().split("## Quickstart")[1].split("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]
    assert len(lines) == 5
    small = {"--episodes": "1", "--robot-success": "1", "--robot-recovery": "1", "--steps": "2", "--rollouts": "1"}
    for line in lines:
        words = shlex.split(line)[1:]
        words = [small.get(before, word) for before, word in zip(["", *words], words, strict=False)]
        words = [word for number, word in enumerate(words) if "--film" not in words[max(0, number - 1) : number + 1]]
        assert main([*words, *{"simulate": ["--workers", "1"], "train": ["--device", "cpu"]}.get(words[0], [])]) == 0
    assert (tmp_path / "runs/policy.jsonl").exists()


PYTHON = [(page.name, code) for page in PAGES for code in blocks(page, "python") if page.name != "tutorial_task.md"]


@pytest.mark.parametrize(("page", "code"), PYTHON)
def test_python_of_the_documentation_is_python_and_imports_what_there_is(page, code):
    tree = ast.parse(code)
    ours = [
        node for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("egorecovery")
    ]
    for node in ours:
        exec(compile(ast.Module([node], []), page, "exec"), {})  # noqa: S102 - our own pages


def test_the_arms_of_the_kinematics_page_are_read_and_moved(tmp_path, monkeypatch):
    """Its JSON and its Python, with the workcell's own arm for the models that a reader has."""
    pytest.importorskip("mujoco")
    from egorecovery.episodes import Side
    from egorecovery.workcell.arm import add_arm, add_materials
    from egorecovery.workcell.physics import mujoco

    page = ROOT / "docs/kinematics.md"
    described = json.loads(blocks(page, "json")[0])
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_materials(spec)
    add_arm(spec, Side.LEFT, (0.0, 0.0, 0.0))
    spec.compile()
    (tmp_path / "arm.xml").write_text(spec.to_xml())
    for arm in described.values():
        arm.update(model="arm.xml", tool="left/tool", joints={"names": [f"left/joint{n}" for n in range(1, 7)]})
        arm["axes"] = {"approach": "+z", "opening": "+y"}
    (tmp_path / "robot.json").write_text(json.dumps(described))
    monkeypatch.chdir(tmp_path)
    seen: dict = {}
    exec(blocks(page, "python")[0], seen)  # noqa: S102
    assert seen["poses"].position_m.shape == (2, 3)
    assert seen["chunk"].joints.shape == (1, 14)
    assert seen["chunk"].worst_m < 0.01


@pytest.mark.parametrize(("language", "read"), [("json", json.loads), ("toml", tomllib.loads)])
def test_data_of_the_documentation_is_what_it_says(language, read):
    """JSON with placeholders, such as [14 numbers], shows only a part."""
    found = [(page.name, text) for page in PAGES for text in blocks(page, language)]
    assert found
    for _, text in found:
        if not re.search(r"\[[a-z0-9 ,]*[a-z]|4x4|\.\.\.", text):
            read(text)


def literals() -> list[str]:
    """All that the program can say, with blanks for what it fills in."""
    said = []
    for path in (ROOT / "src/egorecovery").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [each.value if isinstance(each, ast.Constant) else "\0" for each in node.values]
                said.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                said.append(node.value)
    return said


def test_messages_of_the_troubleshooting_page_are_messages_of_the_program():
    page = (ROOT / "docs/troubleshooting.md").read_text()
    quoted = [text for line in page.splitlines() if line.startswith("**`") for text in re.findall(r"`([^`]+)`", line)]
    said = "\n".join(literals())
    pieces = [piece.strip(" ';:") for text in quoted for piece in text.split("...")]
    assert len(quoted) > 12
    assert [piece for piece in pieces if len(piece) > 3 and piece not in said] == []


def test_every_link_of_the_documentation_leads_somewhere():
    missing = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if not target.startswith(("http", "mailto")) and not (page.parent / target).exists()
    ]
    assert not missing
