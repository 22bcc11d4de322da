"""The package `acceleration` may be missing: everything else works without it."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

# In a process of its own, which has imported nothing of it yet.
HIDDEN = """
import pkgutil
import sys
from importlib import import_module

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] == ["egorecovery", "acceleration"]:
            raise ModuleNotFoundError(f"{name} is hidden", name=name)

sys.meta_path.insert(0, Hidden())

import numpy as np
import torch

import egorecovery
from egorecovery import accelerator
from egorecovery.errors import RecipeError
from egorecovery.policy.inference import TrainedPolicy
from egorecovery.policy.policy import Policy
from egorecovery.training import RECIPES, Batch
from egorecovery.training.runtime import seed_initialisation, start
from egorecovery.training.throughput import training_step
from tiny_policy import pictures_and_states, statistics, tiny_config

for package in ("training", "evaluation", "serving", "diagnostics", "cli"):
    folder = import_module(f"egorecovery.{package}")
    for module in pkgutil.iter_modules(folder.__path__):
        try:
            import_module(f"egorecovery.{package}.{module.name}")
        except ModuleNotFoundError as missing:
            if missing.name.split(".")[0] not in ("wandb", "rerun"):  # extras
                raise

from dataclasses import replace

recipe = replace(RECIPES["paper"]("cube_stack"), policy=tiny_config(), batch=Batch(robot=3, human=2))
runtime = start("cpu")
assert not runtime.accelerated
seed_initialisation(0)
policy = Policy(recipe.policy)
step, plans = training_step(recipe, policy, runtime)
for index in range(3):
    step.run(plans(index))
print("loss", step.means()["loss"])
source = TrainedPolicy(policy, statistics(), name="tiny", device=torch.device("cpu"))
print("finite", np.isfinite(source.infer(*pictures_and_states(recipe.policy, 2)).action_BHA).all())

said = []
gpu = torch.device("cuda")
print("on a GPU", accelerator.chosen("auto", gpu, torch.bfloat16, said.append), *said)
try:
    accelerator.chosen("on", gpu, torch.bfloat16)
except RecipeError as error:
    print("refused", error)
print("imported", [name for name in sys.modules if name.startswith("egorecovery.acceleration")])
"""


def test_training_evaluation_serving_and_every_verb_work_with_the_package_hidden(tmp_path):
    script = tmp_path / "hidden.py"
    script.write_text(HIDDEN)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert 0 < float(said["loss"]) < 100
    assert said["finite"] == "True"
    assert "on a GPU False acceleration is off: the package egorecovery.acceleration is not there" in done.stdout
    assert "acceleration 'on' cannot be had: the package egorecovery.acceleration is not there" in said["refused"]
    assert said["imported"] == "[]"
