"""How long a suite still takes: as what is under way goes, as what is finished did, or as it was elsewhere."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.events import Stage
from egorecovery.experiments.meter import Meter
from egorecovery.experiments.plan import Training
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.timing import Timing, rollouts, samples

NOW = 10  # what is under way counts so many times as what is finished: a machine is not as busy at all times
FILM = 6.0  # a film takes as long as so many rollouts (demo, two cores), and one process makes them all


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """What is left of a suite's cells. What is under way comes first."""

    episodes: Mapping[str, int] = field(default_factory=dict)  # to make, by store
    trainings: Sequence[tuple[Training, int]] = ()  # with the samples still to see
    evaluations: Sequence[tuple[CellPlan, int]] = ()  # of trained cells, with the rollouts still to make

    @property
    def cells(self) -> int:
        return len(self.evaluations) + sum(len(training.cells) for training, _ in self.trainings)

    @property
    def stages(self) -> set[Stage]:
        found: set[Stage] = {"data"} if any(self.episodes.values()) else set()
        found |= {"training"} if self.trainings else set()
        return found | ({"evaluation"} if self.cells else set())


@dataclass(frozen=True, kw_only=True)
class Outlook:
    left_s: float | None  # None where nobody knows
    then: tuple[Stage, ...]  # comes after that, and nobody has seen how long it takes


class TimeLeft:
    def __init__(
        self,
        timing: Timing,
        resources: Resources,
        elsewhere: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timing` is of what is finished here. What was seen `elsewhere` counts less the more is seen here."""
        self.timing, self._clock = timing, clock
        self._elsewhere = elsewhere or Timing()
        self._apart, self._side_by_side = resources.training_apart, resources.side_by_side
        self._rollout_workers = resources.rollout_workers
        self._meters: dict[tuple[Stage, str], Meter] = {}
        self._after: dict[Stage, int] = {}

    def at(self, stage: Stage, what: str, done: int, total: int, *, where: str, warm: int = 0) -> float | None:
        """How far something is. Gives the seconds until it is done, should it go on like that."""
        now_s = self._clock()
        new = Meter(stage=stage, where=where, warm=warm, done=done, at_s=now_s)
        meter = self._meters.setdefault((stage, what), new)
        meter.at(done, now_s)
        return meter.pace.of(total - done)

    def at_step(self, training: Training, step: int) -> float | None:
        recipe = training.recipe
        done, total = step * recipe.batch.size, samples(recipe)
        return self.at("training", training.id, done, total, where=recipe.task, warm=1)

    def done(self, stage: Stage, what: str) -> int:
        meter = self._meters.get((stage, what))
        return meter.done if meter else 0

    def ended(self, stage: Stage, what: str) -> None:
        """From now on `timing` knows how long it took."""
        self._meters.pop((stage, what), None)

    def after_cells(self, stage: Stage, left: int) -> None:
        """So many films, or tasks to diagnose, are to be made when all cells are done."""
        self._after[stage] = left

    def outlook(self, work: Backlog) -> Outlook:
        """With the time left where everything that it depends on was seen."""
        known = self._known()
        seen = {stage for stage, _, _ in known.paces()}
        unseen: tuple[Stage, ...] = tuple(stage for stage, left in self._after.items() if left and stage not in seen)
        left_s = None
        if work.stages <= seen and not any((stage, "") in self._meters for stage in unseen):
            left_s = self._cells_s(work, known)
            left_s += sum(known.seconds(stage, "", left) or 0.0 for stage, left in self._after.items())
        return Outlook(left_s=left_s, then=unseen)

    def _cells_s(self, work: Backlog, known: Timing) -> float:
        """Data first; then this process evaluates what is trained, and others train meanwhile if they are apart."""

        def evaluation_s(plan: CellPlan, count: int) -> float:
            return known.seconds("evaluation", plan.cell.task, count) or 0.0

        here_s, with_data_s = 0.0, {}
        for store, episodes in work.episodes.items():
            here_s += known.seconds("data", store, episodes) or 0.0
            with_data_s[store] = here_s
        here_s += sum(evaluation_s(*each) for each in work.evaluations)
        free_s = [0.0] * self._side_by_side
        for training, count in work.trainings:
            start_s = max(heappop(free_s), with_data_s.get(training.store, 0.0))
            if not self._apart:
                start_s = here_s
            end_s = start_s + (known.seconds("training", training.recipe.task, count) or 0.0)
            heappush(free_s, end_s)
            here_s = max(here_s, end_s) + sum(evaluation_s(plan, rollouts(plan)) for plan in training.cells)
        return here_s

    def _known(self) -> Timing:
        now = Timing()
        for meter in self._meters.values():
            now.took(meter.stage, meter.where, meter.pace.count, meter.pace.seconds)
        known = Timing()
        known.add(self.timing)
        known.add(now, weight=NOW)
        known.add(self._elsewhere, slower=self._slower(self.timing, now))
        rollout_s = known.seconds("evaluation", "", 1)
        if rollout_s is not None and known.seconds("films", "", 1) is None:
            known.took("films", "", 1, FILM * rollout_s * self._rollout_workers)
        return known

    def _slower(self, *here: Timing) -> float:
        """How many times as long as elsewhere things take here; believed the more, the more was seen."""
        here_s = elsewhere_s = sum(pace.seconds for _, _, pace in self._elsewhere.paces())
        for stage, where, pace in (each for timing in here for each in timing.paces()):
            if usual_s := self._elsewhere.seconds(stage, where, pace.count):
                here_s += pace.seconds
                elsewhere_s += usual_s
        return here_s / elsewhere_s if elsewhere_s else 1.0
