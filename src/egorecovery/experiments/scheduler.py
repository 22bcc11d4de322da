"""Works through the trainings and evaluations of a suite.

Trainings on a GPU, and several at once anywhere, have processes of their own; this process then evaluates one cell
while others train.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from traceback import format_exception
from typing import Any

from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation import RolloutPool
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.evaluations import evaluate_cell
from egorecovery.experiments.events import Event, Stage, SuiteOutcome
from egorecovery.experiments.folder import ExperimentFolder
from egorecovery.experiments.forecast import Forecast, OutOfTime
from egorecovery.experiments.plan import SuitePlan, Training, orders_of, trainings
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.stores import Stores
from egorecovery.experiments.time_left import Backlog, TimeLeft
from egorecovery.experiments.timing import Timing, rollouts, samples
from egorecovery.experiments.trainings import (
    RunningTraining,
    TrainingJob,
    TrainingProcess,
    run_training,
    training_card,
)

LOOK_S = 0.5  # between looks at trainings


class Scheduler:
    """Trainings wait, run, or are finished and have cells to evaluate."""

    def __init__(
        self,
        plan: SuitePlan,
        folder: ExperimentFolder,
        resources: Resources,
        deadline_s: float | None,
        on_event: Callable[[Event], None],
        time_left: TimeLeft,
        whole_data: bool = False,
    ) -> None:
        """With `whole_data`, stores get what the whole suite needs, not only what the chosen cells do."""
        self.folder, self.resources = folder, resources
        self.on_event = on_event
        self.outcome = SuiteOutcome()
        self.time_left = time_left
        self.timing: Timing = time_left.timing
        self.forecast = Forecast(self.timing, resources, deadline_s)
        todo: list[CellPlan] = []
        for cell in plan.cells:  # all are looked at before anything is done: one of other settings is refused now
            if folder.is_done(cell):
                self.outcome.there.append(cell.id)
            else:
                todo.append(cell)
        needed = {store: orders_of(cell for cell in todo if cell.cell.store == store) for store in plan.orders}
        orders = plan.orders if whole_data else needed
        self.stores = Stores(plan, orders, folder, resources, time_left)
        planned = trainings(todo)
        finished = {training.id for training in planned if training_card(folder.training(training.id))}
        self.waiting = [training for training in planned if training.id not in finished]
        self.running: list[RunningTraining] = []
        self.looked_s = 0.0
        self.trained = [cell for training in planned if training.id in finished for cell in training.cells]
        self.pool: RolloutPool | None = None

    def go(self) -> SuiteOutcome:
        with ExitStack() as stack:
            stack.callback(self._stop_trainings)
            with suppress(OutOfTime):  # what is left is told below
                self._work(stack)
        unfinished = [*(cell for training in self.waiting for cell in training.cells), *self.trained]
        self.outcome.left += [cell.id for cell in unfinished]
        for cell in self.outcome.left:
            self._tell("left", cell)
        return self.outcome

    def _work(self, stack: ExitStack) -> None:
        while True:
            if self.resources.training_apart:
                self._tend()
                self._make_data_ahead()
            if self.trained:
                if not self.forecast.has_time(self.timing.evaluation_s(self.trained[0])):
                    raise OutOfTime
                self.pool = self.pool or stack.enter_context(RolloutPool(self.resources.rollout_workers))
                self._evaluate(self.trained[0])
            elif self.running:
                self._tell_steps()
                time.sleep(LOOK_S)
            elif (training := self._next(self.waiting)) is not None:
                self._start(training)
            else:
                return

    def _make_data_ahead(self) -> None:
        """Where a training could start, or nothing can be evaluated: trainings leave most cores to us."""
        if self.trained and len(self.running) == self.resources.trainings_at_once:
            return
        training = self._next(training for training in self.waiting if not self.stores.complete(training.store))
        if training is not None and self._has_data(training.store):
            self._tend()

    def _next(self, waiting: Iterable[Training]) -> Training | None:
        """The first training that there is time for."""
        before = (*self.trained, *(cell for each in self.running for cell in each.training.cells))
        running = [(each.training.recipe, each.step) for each in self.running]
        for training in waiting:
            needed_s = self.forecast.until_done_s(training, running, before, self.stores.needs_s(training.store))
            if self.forecast.has_time(needed_s):
                return training
        return None

    def _tend(self) -> None:
        """Trainings that have ended make room for others. Called again and again while something else is done."""
        self.forecast.require_time()
        if not self.resources.training_apart:
            return
        for each in list(self.running):
            if each.process.ended():
                self.running.remove(each)
                self._ended(each)
        self._look()
        while len(self.running) < self.resources.trainings_at_once:
            training = self._next(training for training in self.waiting if self.stores.complete(training.store))
            if training is None:
                return
            self._start(training)

    def _look(self) -> None:
        """Steps are read from logs, so not every time."""
        if time.monotonic() - self.looked_s < LOOK_S:
            return
        self.looked_s = time.monotonic()
        for each in self.running:
            each.step = each.process.step()
            each.left_s = self.time_left.at_step(each.training, each.step)

    def _tell_steps(self) -> None:
        for each in self.running:
            if each.told != each.step:
                each.told = each.step
                self._tell_step(each.training, each.step, each.left_s)

    def _tell_step(self, training: Training, step: int, left_s: float | None = None) -> None:
        steps = training.recipe.optimisation.steps
        self._tell("progress", training.cells[0].id, stage="training", done=step, total=steps, here_s=left_s)

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
        if self.stores.complete(store):
            return True

        def progress(what: str, done: int, total: int, left_s: float | None) -> None:
            self._tell("progress", what, stage="data", done=done, total=total, here_s=left_s)
            self._tend()

        try:
            self.stores.provide(store, progress)
        except OutOfTime:
            raise
        except Exception as error:
            for training in [training for training in self.waiting if training.store == store]:
                self.waiting.remove(training)
                self._failed(training.cells, "data", error)
        return self.stores.complete(store)

    def _train_here(self, training: Training, job: TrainingJob) -> None:
        from egorecovery.training.stopping import Stopped

        def watch(step: int, steps: int) -> None:
            self._tell_step(training, step, self.time_left.at_step(training, step))

        self._tell_step(training, 0)
        try:
            run_training(job, watch, stop=lambda: not self.forecast.has_time())
        except Stopped:
            self.forecast.require_time()
            raise KeyboardInterrupt from None  # there is time: somebody stopped it, as they would have stopped us
        except Exception as error:
            self.waiting.remove(training)
            self._failed(training.cells, "training", error)
            return
        self.waiting.remove(training)
        self._trained(training)

    def _ended(self, each: RunningTraining) -> None:
        if each.process.stopped:
            self.waiting.append(each.training)
            raise KeyboardInterrupt  # somebody stopped it, as they would have stopped us
        try:
            each.process.require_success()
        except EgoRecoveryError as error:
            self._failed(each.training.cells, "training", error)
            return
        self._trained(each.training)

    def _trained(self, training: Training) -> None:
        seconds = self._card(training.id)["seconds"]  # without its wait for a turn
        self.timing.took("training", training.recipe.task, samples(training.recipe), seconds)
        self.time_left.ended("training", training.id)
        self.trained += training.cells

    def _card(self, training_id: str) -> dict[str, Any]:
        """Of a finished training."""
        card = training_card(self.folder.training(training_id))
        assert card is not None
        return card

    def _stop_trainings(self) -> None:
        for each in self.running:
            each.process.stop()
            self.waiting.append(each.training)
        self.running.clear()

    def _evaluate(self, plan: CellPlan) -> None:
        try:
            seconds = self._roll(plan)
        except OutOfTime:
            raise
        except Exception as error:
            if self.pool:
                self.pool.close()  # its workers may be in the middle of rollouts
            self.trained.remove(plan)
            self._failed([plan], "evaluation", error)
            return
        self.folder.finish(plan, self._card(plan.training_id), seconds)
        self.trained.remove(plan)
        self.outcome.done.append(plan.id)
        self._tell("done", plan.id)

    def _roll(self, plan: CellPlan) -> float:
        """Returns how long all rollouts of a cell take."""
        task, workers = plan.cell.task, self.resources.rollout_workers

        def progress(done: int, total: int) -> None:
            here_s = self.time_left.at("evaluation", plan.id, done, total, where=task, warm=workers)
            self._tell("progress", plan.id, stage="evaluation", done=done, total=total, here_s=here_s)
            if done < total:
                self._tend()

        work = evaluate_cell(plan, self.folder, self.resources, self.pool, progress)
        self.timing.took("evaluation", task, work.made, work.seconds)
        self.time_left.ended("evaluation", plan.id)
        return work.seconds * work.rollouts / max(work.made, 1)

    def _failed(self, plans: Sequence[CellPlan], stage: Stage, error: Exception) -> None:
        for plan in plans:  # how fast it went until then says nothing of the others
            self.time_left.ended(stage, {"training": plan.training_id, "data": plan.cell.store}.get(stage, plan.id))
        message = str(error) if isinstance(error, EgoRecoveryError) else f"{type(error).__name__}: {error}"
        for plan in plans:
            self.folder.failed(plan, stage, message, "".join(format_exception(error)))
            self.outcome.failed[plan.id] = message
            self._tell("failed", plan.id, stage=stage, message=message)

    def _tell(self, kind: Any, what: str, **more: Any) -> None:
        work = self._backlog()
        ahead = self.time_left.outlook(work)
        self.on_event(Event(kind=kind, what=what, cells_left=work.cells, left_s=ahead.left_s, then=ahead.then, **more))

    def _backlog(self) -> Backlog:
        untrained = [*(each.training for each in self.running), *self.waiting]
        return Backlog(
            episodes={training.store: self.stores.lacks(training.store) for training in self.waiting},
            trainings=[(each, samples(each.recipe) - self.time_left.done("training", each.id)) for each in untrained],
            evaluations=[(plan, rollouts(plan) - self.time_left.done("evaluation", plan.id)) for plan in self.trained],
        )
