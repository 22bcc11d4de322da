"""Works through the trainings and evaluations of a suite.

Trainings on a GPU, and several at once anywhere, have processes of their own; this process then evaluates one cell
while others train.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from traceback import format_exception
from typing import Any

from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation import RolloutPool
from egorecovery.experiments import data
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.evaluations import evaluate_cell
from egorecovery.experiments.events import Event, Stage, SuiteOutcome
from egorecovery.experiments.folder import ExperimentFolder
from egorecovery.experiments.forecast import Forecast, OutOfTime
from egorecovery.experiments.plan import SuitePlan, Training, orders_of, trainings
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.timing import Timing, samples
from egorecovery.experiments.trainings import TrainingJob, TrainingProcess, run_training, training_card

LOOK_S = 0.5  # between looks at trainings, when there is nothing else to do


class Scheduler:
    """Trainings wait, run, or are finished and have cells to evaluate."""

    def __init__(
        self,
        plan: SuitePlan,
        folder: ExperimentFolder,
        resources: Resources,
        deadline_s: float | None,
        on_event: Callable[[Event], None],
        whole_data: bool = False,
    ) -> None:
        """With `whole_data`, stores get what the whole suite needs, not only what the chosen cells do."""
        self.plan, self.folder, self.resources = plan, folder, resources
        self.on_event = on_event
        self.outcome = SuiteOutcome()
        self.timing = Timing(card for cell in folder.done() if (card := folder.card(cell)))
        self.forecast = Forecast(self.timing, resources, deadline_s)
        todo: list[CellPlan] = []
        for cell in plan.cells:  # all are looked at before anything is done: one of other settings is refused now
            if folder.is_done(cell):
                self.outcome.there.append(cell.id)
            else:
                todo.append(cell)
        needed = {store: orders_of(cell for cell in todo if cell.cell.store == store) for store in plan.orders}
        self.orders = plan.orders if whole_data else needed
        planned = trainings(todo)
        finished = {training.id for training in planned if training_card(folder.training(training.id))}
        self.waiting = [training for training in planned if training.id not in finished]
        self.running: list[tuple[Training, TrainingProcess]] = []
        self.told: dict[str, int] = {}  # the steps of running trainings that watchers know of
        self.trained = [cell for training in planned if training.id in finished for cell in training.cells]
        self.here: list[CellPlan] = []  # under way in this process
        self.here_left_s: float | None = 0.0
        self.with_data: set[str] = set()  # stores that are complete
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
                self._evaluate(self.trained.pop(0))
            elif self.running:
                self._watch_trainings()
                time.sleep(LOOK_S)
            elif (training := self._next(self.waiting)) is not None:
                self._start(training)
            else:
                return

    def _make_data_ahead(self) -> None:
        """Where a training could start, or nothing can be evaluated: trainings leave most cores to us."""
        if self.trained and len(self.running) == self.resources.trainings_at_once:
            return
        training = self._next(training for training in self.waiting if training.store not in self.with_data)
        if training is not None and self._has_data(training.store):
            self._tend()

    def _next(self, waiting: Iterable[Training]) -> Training | None:
        """The first training that there is time for."""
        waiting = list(waiting)
        if not waiting:  # asked again and again, and steps are read from logs
            return None
        before = (*self.here, *self.trained, *(cell for other, _ in self.running for cell in other.cells))
        running = [(other.recipe, process.step()) for other, process in self.running]
        for training in waiting:
            needed_s = self.forecast.until_done_s(training, running, before, self._data_s(training.store))
            if self.forecast.has_time(needed_s):
                return training
        return None

    def _tend(self) -> None:
        """Trainings that have ended make room for others. Called again and again while something else is done."""
        self.forecast.require_time()
        if not self.resources.training_apart:
            return
        for training, process in list(self.running):
            if process.ended():
                self.running.remove((training, process))
                self._ended(training, process)
        while len(self.running) < self.resources.trainings_at_once:
            training = self._next(training for training in self.waiting if training.store in self.with_data)
            if training is None:
                return
            self._start(training)

    def _start(self, training: Training) -> None:
        if not self._has_data(training.store):
            return
        self.waiting.remove(training)
        job = TrainingJob(
            recipe=training.recipe,
            store=self.folder.data(training.store),
            run=self.folder.training(training.id),
            device=self.resources.device,
            schedule=self.resources.schedule,
            turn_file=self.folder.root / "turn.lock" if self.resources.on_gpu else None,
        )
        if not self.resources.training_apart:
            self._train_here(training, job)
            return
        try:
            self.running.append((training, TrainingProcess(job, self.resources.threads)))
        except OSError as error:
            self._failed(training.cells, "training", error)

    def _has_data(self, store: str) -> bool:
        """Makes what is missing. Where that fails, so do all trainings that need it."""
        if store in self.with_data:
            return True
        try:
            self._provide_data(store)
        except OutOfTime:
            raise
        except Exception as error:
            for training in [training for training in self.waiting if training.store == store]:
                self.waiting.remove(training)
                self._failed(training.cells, "data", error)
            return False
        self.with_data.add(store)
        return True

    def _provide_data(self, store: str) -> None:
        def progress(what: str, done: int, total: int) -> None:
            self._tell("progress", what, stage="data", done=done, total=total)
            self._tend()

        root = self.folder.data(store)
        from_nothing, started_s = not root.exists(), time.monotonic()
        data.provide(
            root,
            self.orders[store],
            self.plan.recipes[store],
            allowed=self.plan.orders[store],
            workers=self.resources.data_workers,
            executor=self.resources.executor,
            on_progress=progress,
        )
        if from_nothing:
            self.timing.provided(self._episodes(store), time.monotonic() - started_s)

    def _data_s(self, store: str) -> float:
        """Until data is there; nothing as long as nobody knows."""
        return 0.0 if store in self.with_data else self.timing.data_s(self._episodes(store)) or 0.0

    def _episodes(self, store: str) -> int:
        return sum(order.episodes for order in self.orders[store])

    def _train_here(self, training: Training, job: TrainingJob) -> None:
        from egorecovery.training.stopping import Stopped

        out_of_time = False

        def watch(step: int, steps: int) -> None:
            nonlocal out_of_time
            self._at(self.timing.training_s(training.recipe), 1 - step / steps, training.cells)
            self._tell("progress", training.cells[0].id, stage="training", done=step, total=steps)
            if not self.forecast.has_time() and threading.current_thread() is threading.main_thread():
                out_of_time = True
                signal.raise_signal(signal.SIGTERM)  # the loop takes note, saves and stops

        try:
            with self._doing(training.cells):
                run_training(job, watch)
        except Stopped:
            self.waiting.insert(0, training)
            if out_of_time:
                raise OutOfTime from None
            raise KeyboardInterrupt from None
        except Exception as error:
            self._failed(training.cells, "training", error)
            return
        self._trained(training)

    def _ended(self, training: Training, process: TrainingProcess) -> None:
        if process.stopped:
            self.waiting.append(training)
            raise KeyboardInterrupt  # somebody stopped it, as they would have stopped us
        try:
            process.require_success()
        except EgoRecoveryError as error:
            self._failed(training.cells, "training", error)
            return
        self._trained(training)

    def _trained(self, training: Training) -> None:
        seconds = self._card(training.id)["seconds"]  # without its wait for a turn
        self.timing.trained(samples(training.recipe), seconds)
        self.trained += training.cells

    def _card(self, training_id: str) -> dict[str, Any]:
        """Of a finished training."""
        card = training_card(self.folder.training(training_id))
        assert card is not None
        return card

    def _watch_trainings(self) -> None:
        for training, process in self.running:
            steps, done = training.recipe.optimisation.steps, process.step()
            if self.told.get(training.id) != done:
                self.told[training.id] = done
                self._tell("progress", training.cells[0].id, stage="training", done=done, total=steps)

    def _stop_trainings(self) -> None:
        for training, process in self.running:
            process.stop()
            self.waiting.append(training)
        self.running.clear()

    def _evaluate(self, plan: CellPlan) -> None:
        try:
            with self._doing([plan]):
                seconds = self._roll(plan)
        except OutOfTime:
            self.trained.insert(0, plan)
            raise
        except Exception as error:
            if self.pool:
                self.pool.close()  # its workers may be in the middle of rollouts
            self._failed([plan], "evaluation", error)
            return
        self.folder.finish(plan, self._card(plan.training_id), seconds)
        self.outcome.done.append(plan.id)
        self._tell("done", plan.id)

    def _roll(self, plan: CellPlan) -> float:
        """Returns how long all rollouts of a cell take."""

        def progress(done: int, total: int) -> None:
            self._at(self.timing.evaluation_s(plan), 1 - done / total, ())
            self._tell("progress", plan.id, stage="evaluation", done=done, total=total)
            if done < total:
                self._tend()

        work = evaluate_cell(plan, self.folder, self.resources, self.pool, progress)
        if work.made:
            self.timing.evaluated(plan.cell.task, work.made, work.seconds)
        return work.seconds * work.rollouts / max(work.made, 1)

    def _failed(self, plans: Sequence[CellPlan], stage: Stage, error: Exception) -> None:
        message = str(error) if isinstance(error, EgoRecoveryError) else f"{type(error).__name__}: {error}"
        for plan in plans:
            self.folder.failed(plan, stage, message, "".join(format_exception(error)))
            self.outcome.failed[plan.id] = message
            self._tell("failed", plan.id, stage=stage, message=message)

    def _tell(self, kind: Any, what: str, **more: Any) -> None:
        left = self.here + self.trained + [cell for training in self._untrained() for cell in training.cells]
        self.on_event(Event(kind=kind, what=what, cells_left=len(left), left_s=self._left_s(), **more))

    def _at(self, whole_s: float | None, share_left: float, to_evaluate: Sequence[CellPlan]) -> None:
        """How far this process is with what it is doing, and which cells that will leave to evaluate."""
        then_s = self.timing.evaluations_s(to_evaluate)
        self.here_left_s = None if whole_s is None or then_s is None else whole_s * share_left + then_s

    @contextmanager
    def _doing(self, cells: Sequence[CellPlan]) -> Iterator[None]:
        self.here, self.here_left_s = [*cells], None
        try:
            yield
        finally:
            self.here, self.here_left_s = [], 0.0

    def _untrained(self) -> list[Training]:
        return [*self.waiting, *(training for training, _ in self.running)]

    def _left_s(self) -> float | None:
        """Until every cell is done."""
        untrained = self._untrained()
        cells = self.trained + [cell for training in untrained for cell in training.cells]
        return self.forecast.left_s(untrained, cells, self.here_left_s)
