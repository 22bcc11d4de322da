"""Works through the trainings and evaluations of a suite.

Trainings on a GPU, and several at once anywhere, have processes of their own; this process then evaluates one cell
while others train.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from traceback import format_exception
from typing import Any

from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation import RolloutPool
from egorecovery.experiments import data
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.deadline import Deadline, OutOfTime
from egorecovery.experiments.evaluations import evaluate_cell
from egorecovery.experiments.events import Event, Stage, SuiteOutcome, error_words
from egorecovery.experiments.folder import ExperimentFolder
from egorecovery.experiments.plan import SuitePlan, Training, orders_of, trainings
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.training_process import RunningTraining, TrainingProcess
from egorecovery.experiments.trainings import TrainingJob, run_training, training_card

LOOK_S = 0.5  # between looks at trainings


class Scheduler:
    """Trainings wait, run, or are finished and have cells to evaluate."""

    def __init__(
        self,
        plan: SuitePlan,
        folder: ExperimentFolder,
        resources: Resources,
        deadline: Deadline,
        on_event: Callable[[Event], None],
        *,
        whole_data: bool = False,
    ) -> None:
        """With `whole_data`, stores get what the whole suite needs, not only what the chosen cells do."""
        self.plan, self.folder, self.resources, self.deadline = plan, folder, resources, deadline
        self.on_event = on_event
        # All are looked at before anything is done: a cell of other settings is refused now.
        done = {cell.id for cell in plan.cells if folder.is_done(cell)}
        self.outcome = SuiteOutcome(there=[cell.id for cell in plan.cells if cell.id in done])
        todo = [cell for cell in plan.cells if cell.id not in done]
        needed = {store: orders_of(cell for cell in todo if cell.cell.store == store) for store in plan.orders}
        self.orders = plan.orders if whole_data else needed
        self.complete: set[str] = set()  # stores that have all that is needed of them
        planned = trainings(todo)
        finished = {training.id for training in planned if training_card(folder.training(training.id))}
        self.waiting = [training for training in planned if training.id not in finished]
        self.running: list[RunningTraining] = []
        self.trained = [cell for training in planned if training.id in finished for cell in training.cells]
        self.numbers = {training.id: number for number, training in enumerate(self.waiting, 1)}
        self.numbers |= {cell.id: number for number, cell in enumerate(todo, 1)}
        self.totals: dict[Stage, int] = {"training": len(self.waiting), "evaluation": len(todo)}
        self.pool: RolloutPool | None = None

    def go(self) -> SuiteOutcome:
        with ExitStack() as stack:
            stack.callback(self._stop_trainings)
            with suppress(OutOfTime):  # what is left is reported below
                self._work(stack)
        unfinished = [*(cell for training in self.waiting for cell in training.cells), *self.trained]
        self.outcome.left += [cell.id for cell in unfinished]
        for cell in unfinished:
            self._report_cell("left", cell)
        return self.outcome

    def _work(self, stack: ExitStack) -> None:
        while True:
            if self.resources.training_apart:
                self._watch_trainings()
                self._make_data_ahead()
            if self.trained:
                self.deadline.require_time()
                self.pool = self.pool or stack.enter_context(RolloutPool(self.resources.rollout_workers))
                self._evaluate(self.trained[0])
            elif self.running:
                self._report_steps()
                time.sleep(LOOK_S)
            elif self.waiting:
                self.deadline.require_time()
                self._start(self.waiting[0])
            else:
                return

    def _make_data_ahead(self) -> None:
        """Where a training could start, or nothing can be evaluated: trainings leave most cores to us."""
        if self.trained and len(self.running) == self.resources.training_processes:
            return
        lacking = next((training.store for training in self.waiting if training.store not in self.complete), None)
        if lacking is not None and self._has_data(lacking):
            self._watch_trainings()

    def _watch_trainings(self) -> None:
        """Trainings that have ended make room for others. Called again and again while something else is done."""
        self.deadline.require_time()
        if not self.resources.training_apart:
            return
        for running in list(self.running):
            if running.process.ended():
                self.running.remove(running)
                self._ended(running)
        while len(self.running) < self.resources.training_processes:
            ready = next((training for training in self.waiting if training.store in self.complete), None)
            if ready is None:
                return
            self._start(ready)

    def _report_steps(self) -> None:
        for running in self.running:
            if running.reported != (step := running.process.step()):
                running.reported = step
                self._report_step(running.training, step)

    def _report_step(self, training: Training, step: int) -> None:
        steps = training.recipe.optimisation.steps
        self._report_cell("progress", training.cells[0], "training", training.id, done=step, total=steps)

    def _start(self, training: Training) -> None:
        if not self._has_data(training.store):
            return
        job = TrainingJob(
            recipe=training.recipe,
            store=self.folder.data(training.store),
            run=self.folder.training(training.id),
            device=self.resources.device,
            schedule=self.resources.schedule,
            turn_file=self.folder.turn_file if self.resources.on_gpu else None,
        )
        if not self.resources.training_apart:
            self._train_here(training, job)
            return
        self.waiting.remove(training)
        try:
            process = TrainingProcess(job, self.resources.threads)
        except OSError as error:
            self._failed(training.cells, "training", error)
            return
        self.running.append(RunningTraining(training=training, process=process))

    def _has_data(self, store: str) -> bool:
        """Makes what is missing. Where that fails, so do all trainings that need it."""
        if store in self.complete:
            return True

        def progress(what: str, done: int, total: int) -> None:
            task = self.plan.recipes[store].task
            self._report("progress", what, stage="data", task=task, done=done, total=total)
            self._watch_trainings()

        try:
            data.provide(
                self.folder.data(store),
                self.orders[store],
                self.plan.recipes[store],
                allowed=self.plan.orders[store],
                workers=self.resources.data_workers,
                executor=self.resources.executor,
                on_progress=progress,
            )
        except OutOfTime:
            raise
        except Exception as error:
            for training in [training for training in self.waiting if training.store == store]:
                self.waiting.remove(training)
                self._failed(training.cells, "data", error)
        else:
            self.complete.add(store)
        return store in self.complete

    def _train_here(self, training: Training, job: TrainingJob) -> None:
        from egorecovery.training.stopping import Stopped

        self._report_step(training, 0)
        try:
            run_training(job, lambda step, steps: self._report_step(training, step), stop=lambda: self.deadline.passed)
        except Stopped:
            self.deadline.require_time()
            raise KeyboardInterrupt from None  # there is time: somebody stopped it, as they would have stopped us
        except Exception as error:
            self.waiting.remove(training)
            self._failed(training.cells, "training", error)
            return
        self.waiting.remove(training)
        self.trained += training.cells

    def _ended(self, running: RunningTraining) -> None:
        if running.process.stopped:
            self.waiting.append(running.training)
            raise KeyboardInterrupt  # somebody stopped it, as they would have stopped us
        try:
            running.process.require_success()
        except EgoRecoveryError as error:
            self._failed(running.training.cells, "training", error)
            return
        self.trained += running.training.cells

    def _stop_trainings(self) -> None:
        for running in self.running:
            running.process.stop()
            self.waiting.append(running.training)
        self.running.clear()

    def _evaluate(self, plan: CellPlan) -> None:
        def progress(done: int, total: int) -> None:
            self._report_cell("progress", plan, "evaluation", plan.id, done=done, total=total)
            if done < total:
                self._watch_trainings()

        try:
            seconds = evaluate_cell(plan, self.folder, self.resources, self.pool, progress)
        except OutOfTime:
            raise
        except Exception as error:
            if self.pool:
                self.pool.close()  # its workers may be in the middle of rollouts
            self.trained.remove(plan)
            self._failed([plan], "evaluation", error)
            return
        card = training_card(self.folder.training(plan.training_id))
        assert card is not None, "only trained cells are evaluated"
        self.folder.finish(plan, card, seconds)
        self.trained.remove(plan)
        self.outcome.done.append(plan.id)
        self._report_cell("done", plan)

    def _failed(self, plans: Sequence[CellPlan], stage: Stage, error: Exception) -> None:
        message = error_words(error)
        for plan in plans:
            self.folder.failed(plan, stage, message, "".join(format_exception(error)))
            self.outcome.failed[plan.id] = message
            self._report_cell("failed", plan, stage, message=message)

    def _report_cell(
        self, kind: Any, plan: CellPlan, stage: Stage | None = None, numbered: str = "", **more: Any
    ) -> None:
        number, of = (self.numbers.get(numbered, 0), self.totals[stage]) if numbered and stage else (0, 0)
        about = {"label": plan.cell.name, "task": plan.cell.task, "number": number, "of": of}
        self._report(kind, plan.id, stage=stage, **about, **more)

    def _report(self, kind: Any, what: str, **more: Any) -> None:
        untrained = [*(running.training for running in self.running), *self.waiting]
        cells_left = len(self.trained) + sum(len(training.cells) for training in untrained)
        self.on_event(Event(kind=kind, what=what, cells_left=cells_left, **more))
