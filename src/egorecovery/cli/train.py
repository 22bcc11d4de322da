"""`egorecovery train`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from egorecovery.cli.options import command_of

if TYPE_CHECKING:
    from egorecovery.training import Recipe
    from egorecovery.training.logs import LogView
    from egorecovery.training.loop import Outcome


INTERRUPTED = 130
REMEMBERED = (  # by a run's recipe
    "--task", "--recipe", "--method", "--robot-success", "--robot-recovery", "--human-success", "--human-recovery",
    "--steps", "--seed", "--set",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a policy on a store; under torchrun, on several processes.

    Ctrl-C or SIGTERM saves, stops with exit code 75, and prints the command that goes on.
    """

    EXAMPLE: ClassVar = "train runs/cubes --task cube_stack --run runs/policy"
    HEADINGS: ClassVar = {
        "task": "what is trained, on which episodes",
        "resume": "going on, and what is logged",
        "device": "this machine",
    }

    store: Annotated[Path, tyro.conf.Positional]
    """The store to train on, after egorecovery label."""
    task: str | None = None
    """What the policy is to do. Needed, except with --resume: the run knows it, as it knows every setting."""
    run_folder: Annotated[Path, tyro.conf.arg(name="run")]
    """Where recipe, logs and checkpoints go."""
    recipe: Literal["paper", "bench", "demo"] | None = None
    """demo by default: minutes on two cores, on as many episodes as there are.

    bench: that of our experiments, 96 pixels. paper: the paper's, 224 pixels and 20,000 steps."""
    method: (
        Literal[
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
            "shared_decoder",
            "shared_egorecovery",
            "robot_recovery_effector",
            "direct_mix_effector",
        ]
        | None
    ) = None
    """What it is trained on, and which parts it has; egorecovery by default.

    Baselines: robot_success, robot_success_human_success, robot_success_human_recovery, robot_recovery,
    human_success_mix, direct_human_recovery_mix.

    The paper's: egorecovery; without one of its parts: without_intent_loss, without_segment_mask,
    without_intent_modulation, always_on_modulation, raw_future_trajectory.

    Ours: shared_decoder, shared_egorecovery; their baselines: robot_recovery_effector, direct_mix_effector."""
    robot_success: int | None = None
    """Robot successes to train on; the recipe's number by default."""
    robot_recovery: int | None = None
    """Robot recoveries, likewise."""
    human_success: int | None = None
    """Human successes, likewise."""
    human_recovery: int | None = None
    """Human recoveries, likewise."""
    steps: int | None = None
    """Of the optimiser; the recipe's number by default."""
    seed: int | None = None
    """Of weights, order and augmentation; 0 by default."""
    set: dict[str, str] = field(default_factory=dict)
    """Other settings of the recipe by dotted name (docs/training.md), as in --set optimisation.average_decay 0.999."""
    resume: bool = False
    """Go on from the run's last checkpoint; STORE and --run are enough beside it."""
    probe: Path | None = None
    """Another store whose episodes are scored during training, beside the held-out ones."""
    wandb: bool = False
    """Show the log in Weights & Biases too (docs/integrations.md); WANDB_MODE=offline needs no network."""
    log_every: int = 50
    """Steps between two lines of the log."""
    score_every: int = 500
    """Steps between two looks at held-out episodes."""
    save_every: int = 2000
    """Steps between two checkpoints."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is a GPU where there is one."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """auto is bf16 on a GPU; on a CPU fp32, with matrix products in bf16 where it has them. fp32 is exact."""
    deterministic: bool = False
    """On a GPU: the same bits every time, more slowly."""
    acceleration: Literal["auto", "on", "off"] = "auto"
    """Fused kernels and streams on a GPU. auto: where a parity check passes on its kind; off: plain PyTorch."""
    no_graph: bool = False
    """On a GPU: launch every kernel instead of replaying a CUDA graph."""
    stream: bool = False
    """Read pictures from the store at every step, even if all would fit on the device."""
    turn_file: Path | None = None
    """Trainings on one GPU with the same file here get ready side by side, and step one after another."""

    def run(self) -> int:
        try:
            return self._train()
        except KeyboardInterrupt:  # while it got ready: from the first step on the run itself takes note and saves
            import sys

            if any(self.run_folder.glob("checkpoints/step_*/checkpoint.json")):
                print(f"\negorecovery: stopped; the run's last checkpoint stays\nnext: {self._resume}", file=sys.stderr)
            else:
                print("\negorecovery: stopped before the first checkpoint; run the same command again", file=sys.stderr)
            return INTERRUPTED

    def _train(self) -> int:
        from egorecovery.cli.console import console
        from egorecovery.cli.training_progress import TrainingProgress
        from egorecovery.episodes import EpisodeStore
        from egorecovery.errors import RecipeError
        from egorecovery.training.loop import Schedule, train
        from egorecovery.training.runtime import start
        from egorecovery.training.stopping import SAVED_AND_STOPPED, Stopped

        if (self.run_folder / "store.json").exists():
            raise RecipeError(f"--run {self.run_folder} is a store of episodes: name a folder of its own for the run")
        runtime = start(self.device, self.precision, self.deterministic, self.acceleration)
        runtime = replace(runtime, graph=runtime.graph and not self.no_graph)
        store = EpisodeStore(self.store)
        recipe, continues = self._recipe()
        views = [self._wandb()] if self.wandb else []
        schedule = Schedule(
            log=self.log_every, score=self.score_every, save=self.save_every, look=min(self.log_every, 50)
        )
        try:
            with TrainingProgress(shown=runtime.first) as progress:
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
                    stepped=progress.stepped,
                    size_of_store=not continues and "policy.image_size" not in self.set,
                    what_is_there=not continues and self.recipe is None,
                    given=self._given_amounts(),
                    begun=progress.begun,
                    logs=views,
                )
        except Stopped as stopped:
            if runtime.first:
                console.print(str(stopped), soft_wrap=True)
                console.print(f"next: {self._resume}", soft_wrap=True)
            return SAVED_AND_STOPPED
        if runtime.first:
            self._tell(outcome)
        return 0

    @property
    def _resume(self) -> str:
        """The command that goes on: with what the run does not remember, such as the device."""
        return command_of("train", replace(self, resume=True), without=REMEMBERED)

    def _given_amounts(self) -> list[str]:
        """What is trained on in so many episodes, whatever the store has; other amounts fit it."""
        from egorecovery.episodes import Source

        sources = [str(source) for source in Source if getattr(self, str(source)) is not None]
        single = [name.removeprefix("budget.") for name in self.set]  # --set budget.robot_success 12 says it too
        return [*sources, *single]

    def _tell(self, outcome: "Outcome") -> None:
        import shlex

        from egorecovery.cli.console import console
        from egorecovery.cli.training_progress import scores_table
        from egorecovery.policy.checkpoint import open_checkpoint
        from egorecovery.workcell.tasks import task_names

        if outcome.scores:
            console.print(scores_table(outcome.scores))
        console.print(f"trained: {outcome.checkpoint}", soft_wrap=True)
        for name in ("recipe.json", "log.jsonl", "tensorboard"):
            if (self.run_folder / name).exists():
                console.print(f"wrote: {self.run_folder / name}", soft_wrap=True)
        task = str(open_checkpoint(outcome.checkpoint).recipe["task"])
        verb = (
            ["evaluate", str(self.run_folder), "--task", task]
            if task in task_names()
            else ["serve", str(self.run_folder)]
        )
        console.print(f"next: {shlex.join(['egorecovery', *verb])}", soft_wrap=True)

    def _wandb(self) -> "LogView":
        from egorecovery.training.wandb_log import WandbLog

        return WandbLog()

    def _recipe(self) -> tuple["Recipe", bool]:
        """What to train with, and whether it is a run's own: then only options that are given are compared with it."""
        from egorecovery.training.resuming import saved_recipe

        saved = saved_recipe(self.run_folder) if self.resume else None
        return (self.resolved(), False) if saved is None else (self._applied_to(saved), True)

    def resolved(self) -> "Recipe":
        """The recipe (imported late, to keep --help fast): recipe, method, then budgets and single settings."""
        from egorecovery.errors import RecipeError
        from egorecovery.training import RECIPES

        if self.task is None and self.resume:
            raise RecipeError(
                f"{self.run_folder} is no training run to go on with: check --run, or begin one with --task TASK"
            )
        if self.task is None:
            raise RecipeError("--task is missing: name what the policy is to do, as in --task cube_stack")
        return self._applied_to(RECIPES[self.recipe or "demo"](self.task), anew=True)

    def _applied_to(self, base: "Recipe", anew: bool = False) -> "Recipe":
        from egorecovery.episodes import Source
        from egorecovery.errors import RecipeError
        from egorecovery.policy.config_json import changed
        from egorecovery.training import METHODS

        given = {str(source): getattr(self, str(source)) for source in Source}
        budget = replace(base.budget, **{name: count for name, count in given.items() if count is not None})
        recipe = replace(
            base.with_budget(budget) if budget != base.budget else base,
            name=self.recipe or base.name,
            task=self.task or base.task,
            seed=base.seed if self.seed is None else self.seed,
        )
        if self.method or anew:
            recipe = METHODS[self.method or "egorecovery"](recipe)
        unused = [
            f"--{name.replace('_', '-')}" for name, count in given.items() if count and not getattr(recipe.budget, name)
        ]
        if unused:
            method = f"method {self.method or 'egorecovery'} does not train" if anew else "the run was not trained"
            raise RecipeError(f"{method} on that source: leave out {', '.join(unused)}")
        if self.steps is not None:
            recipe = replace(recipe, optimisation=replace(recipe.optimisation, steps=self.steps))
        return changed(recipe, self.set)
