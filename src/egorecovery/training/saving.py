"""A run's checkpoint: its weights, and what its training state must hold so that a resumed run goes on bit for bit."""

from pathlib import Path

import torch
from torch import Tensor

from egorecovery.policy.checkpoint import save
from egorecovery.storage.typed_json import to_json
from egorecovery.training.resuming import revision
from egorecovery.training.run_setup import RunSetup
from egorecovery.training.runtime import Runtime


def save_run(setup: RunSetup, done: int, robot_gates: list[float]) -> Path:
    """Every process takes part, the first writes; the others wait, or torchrun would end it with them."""
    folder = setup.run / "checkpoints"
    step_state = _averaged_sums(setup.step.state(), setup.runtime)
    if setup.runtime.first:
        _write(setup, folder, done, robot_gates, step_state)
    if setup.runtime.ranks > 1:
        torch.distributed.barrier()
    return folder / f"step_{done:08d}"


def _averaged_sums(state: dict[str, Tensor], runtime: Runtime) -> dict[str, Tensor]:
    """What is logged next is a mean over processes: however many resume, each begins with the mean of now."""
    if runtime.ranks == 1:
        return state
    sums = {name: value.clone() for name, value in state.items() if name.startswith("sums.")}
    for name in sorted(sums):
        torch.distributed.all_reduce(sums[name])
        sums[name] /= runtime.ranks
    return state | sums


def _write(setup: RunSetup, folder: Path, done: int, robot_gates: list[float], step_state: dict[str, Tensor]) -> None:
    weights = setup.weights
    state = {f"master.{name}": value for name, value in weights.master.state_dict().items()} | step_state
    if weights.average is not None:
        state |= {f"average.{index:04d}": value for index, value in enumerate(weights.average)}
    save(
        folder,
        step=done,
        recipe=to_json(setup.recipe),
        statistics=setup.statistics,
        data=setup.data,
        revision=revision(),
        gate_sample=robot_gates,
        computed=setup.runtime.words,
        weights=weights.averaged().state_dict(),
        training_state=state,
    )
