"""`egorecovery train`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a policy on a store; under torchrun, on several processes.

    Exit code 75 means that the run was asked to stop (SIGTERM, Ctrl-C), saved, and goes on with --resume.
    """

    store: Annotated[Path, tyro.conf.Positional]
    task: str
    run_folder: Annotated[Path, tyro.conf.arg(name="run")]
    """Where recipe, logs and checkpoints go."""
    recipe: Literal["paper", "bench", "demo"] = "demo"
    method: Literal[
        "robot_success",
        "robot_success_human_success",
        "robot_success_human_recovery",
        "robot_recovery",
        "human_success_mix",
        "direct_human_recovery_mix",
        "egorecovery",
        "without_intent_loss",
        "without_segment_mask",
        "without_intent_modulation",
        "always_on_modulation",
        "raw_future_trajectory",
        "robot_recovery_effector",
        "direct_mix_effector",
        "shared_decoder",
        "shared_egorecovery",
    ] = "egorecovery"
    """What it is trained on, and which parts it has."""
    robot_success: int | None = None
    """Episodes of this source; the recipe's number by default. Likewise below."""
    robot_recovery: int | None = None
    human_success: int | None = None
    human_recovery: int | None = None
    steps: int | None = None
    seed: int = 0
    set: dict[str, str] = field(default_factory=dict)
    """Other settings of the recipe by dotted name, such as: --set optimisation.average_decay 0.999"""
    resume: bool = False
    """Go on from the run's last checkpoint."""
    device: str = "auto"
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    deterministic: bool = False
    """On a GPU: the same bits every time, more slowly."""
    acceleration: Literal["auto", "on", "off"] = "auto"
    """Fused kernels and streams on a GPU: auto, where a parity check passes on its kind; off, plain PyTorch."""
    no_graph: bool = False
    stream: bool = False
    """Read pictures from the store at every step, even if all would fit on the device."""
    probe: Path | None = None
    """Another store whose episodes are scored during training, beside the held-out ones."""
    turn_file: Path | None = None
    """Trainings on one GPU that are given the same file get ready side by side, and step one after another."""
    log_every: int = 50
    score_every: int = 500
    save_every: int = 2000

    def run(self) -> int:
        from dataclasses import replace

        from egorecovery.cli.console import console
        from egorecovery.cli.training_progress import TrainingProgress
        from egorecovery.episodes import EpisodeStore
        from egorecovery.training.loop import Schedule, train
        from egorecovery.training.runtime import start
        from egorecovery.training.stopping import SAVED_AND_STOPPED, Stopped

        recipe = self.resolved()
        runtime = start(self.device, self.precision, self.deterministic, self.acceleration)
        runtime = replace(runtime, graph=runtime.graph and not self.no_graph)
        store = EpisodeStore(self.store)
        schedule = Schedule(
            log=self.log_every, score=self.score_every, save=self.save_every, look=min(self.log_every, 50)
        )
        try:
            with TrainingProgress(f"{self.method} {self.task}", shown=runtime.first) as progress:
                outcome = train(
                    recipe,
                    store,
                    self.run_folder,
                    runtime,
                    resume=self.resume,
                    schedule=schedule,
                    stream=self.stream,
                    probe=EpisodeStore(self.probe) if self.probe else None,
                    turn_file=self.turn_file,
                    watch=progress.step,
                    decoding=progress.decoding,
                )
        except Stopped as stopped:
            if runtime.first:
                console.print(str(stopped), soft_wrap=True)
            return SAVED_AND_STOPPED
        if runtime.first:
            console.print(f"trained: {outcome.checkpoint}", soft_wrap=True)
            for name, value in outcome.scores.items():
                console.print(f"  held out {name:36s} {value:.4f}")
        return 0

    def resolved(self) -> Any:
        """The `Recipe` (imported late, to keep --help fast): recipe, method, then budgets and single settings."""
        from dataclasses import replace

        from egorecovery.episodes import Source
        from egorecovery.errors import RecipeError
        from egorecovery.policy.config_json import changed
        from egorecovery.training import METHODS, RECIPES

        base = RECIPES[self.recipe](self.task)
        given = {str(source): getattr(self, str(source)) for source in Source}
        budget = replace(base.budget, **{name: count for name, count in given.items() if count is not None})
        recipe = METHODS[self.method](replace(base.with_budget(budget), seed=self.seed))
        unused = [
            f"--{name.replace('_', '-')}" for name, count in given.items() if count and not getattr(recipe.budget, name)
        ]
        if unused:
            raise RecipeError(f"method {self.method} does not train on that source: leave out {', '.join(unused)}")
        if self.steps is not None:
            recipe = replace(recipe, optimisation=replace(recipe.optimisation, steps=self.steps))
        return changed(recipe, self.set)
