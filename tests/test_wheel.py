"""The wheel holds all that runs: installed into an environment of its own, every verb works in an empty folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import zipfile
from pathlib import Path

import pytest

from egorecovery import __version__
from training_store import TINY

ROOT = Path(__file__).parent.parent
BUDGET = ["--robot-success", "1", "--robot-recovery", "1", "--human-recovery", "1"]
VERBS = """
import json, sys
from pathlib import Path
import egorecovery
from egorecovery.cli.main import main

assert Path(egorecovery.__file__).is_relative_to(sys.prefix), egorecovery.__file__
for arguments in json.loads(sys.stdin.read()):
    code = main(arguments)
    assert code == 0, (arguments, code)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    kept = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=kept)  # setuptools leaves a build folder where it works
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The `bin` folder of an environment with nothing of its own but the wheel; its libraries are this suite's."""
    home = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        home / "bin/python",
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
    ]
    subprocess.run([*pip, wheel], check=True)
    return home / "bin"


@pytest.fixture
def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_every_file_beside_the_modules_is_in_the_wheel(wheel):
    package = ROOT / "src/egorecovery"
    wanted = {
        str(path.relative_to(ROOT / "src"))
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts
    }
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()
    assert wheel.name.startswith(f"egorecovery-{__version__}-")


@pytest.mark.slow
def test_the_verbs_run_from_an_installed_wheel_in_an_empty_folder(installed, environment, tmp_path):
    settings = [text for pair in TINY.items() for text in pair]
    simulate = ["simulate", "--task", "cube_stack", "--workers", "1", "--image-size", "32", "--out", "store"]
    evaluation = ["--task", "cube_stack", "--rollouts", "1", "--regime", "recovery", "--workers", "1"]
    verbs = [
        [*simulate, "--source", "robot_success", "--episodes", "2"],
        [*simulate, "--source", "robot_recovery", "--episodes", "2"],
        [*simulate, "--source", "human_recovery", "--episodes", "2"],
        ["label", "store", "--workers", "1"],
        ["inspect", "store"],
        ["train", "store", "--task", "cube_stack", "--run", "run", "--steps", "2", *BUDGET, "--set", *settings],
        ["evaluate", "run", *evaluation, "--out", "results.jsonl"],
        ["verify", "store"],
        ["verify", "run"],
        ["verify", "results.jsonl"],
    ]
    subprocess.run(
        [installed / "python", "-c", VERBS],
        input=json.dumps(verbs),
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    record = json.loads((tmp_path / "results.jsonl").read_text().splitlines()[0])
    assert record["task"] == "cube_stack"


def test_the_installed_command_names_its_version_and_verbs(installed, environment, tmp_path):
    def said(*arguments: str) -> str:
        command = [installed / "egorecovery", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout

    assert said("--version").strip() == __version__
    assert "simulate" in said("--help")


def test_the_installed_studio_serves_its_page(installed, environment, tmp_path, store):
    command = [installed / "egorecovery", "annotate", store.root, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as studio:
        assert studio.stdout is not None
        address = next(line for line in studio.stdout if line.startswith("http")).strip()
        try:
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            page = opener.open(address, timeout=20).read().decode()
            script = opener.open(f"{address.split('/?')[0]}/static/annotate/main.js", timeout=20).read()
        finally:
            studio.terminate()
    assert "<html" in page
    assert script
