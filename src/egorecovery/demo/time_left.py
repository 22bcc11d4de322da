"""How long the demo still takes: what is left of its work, at the pace of what it has done here."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from egorecovery.demo.plan import METHODS, DemoPlan
from egorecovery.executors import cores
from egorecovery.experiments import Event

# Seconds of one core. Only their ratios matter once some work is done.
EPISODE_S, SAMPLE_S, ROLLOUT_S, FILM_S = 0.35, 0.0023, 0.5, 10.0
USUAL_S = 30.0  # of work at the usual pace weigh as much as what was seen here
SETTLES_S = 30.0  # within which a new estimate of the end is believed: it must not jump about
ORDER = ("data", "training", "evaluation", "videos")  # what comes before something under way is done


@dataclass(frozen=True)
class Part:
    """Work of one kind, in seconds of one core."""

    stage: str
    method: str  # empty where it serves all
    seconds: float
    done: float = 0.0  # share of it


@dataclass(frozen=True)
class Work:
    """All that a demo does."""

    parts: tuple[Part, ...]

    @classmethod
    def full(cls, plan: DemoPlan) -> "Work":
        recipe = plan.recipe(plan.task)
        sources = ("robot_success", "robot_recovery", "human_recovery")
        data = [Part("data", source, EPISODE_S * (getattr(plan, source) + recipe.held_out)) for source in sources]
        steps = []
        for method in METHODS:
            samples = recipe.batch.robot + (recipe.batch.human if plan.episodes(method)["human_recovery"] else 0)
            steps.append(Part("training", method, SAMPLE_S * samples * plan.steps))
        return cls((*data, *steps, *cls.quick(plan).parts))

    @classmethod
    def quick(cls, plan: DemoPlan) -> "Work":
        tried = [Part("evaluation", method, ROLLOUT_S * 2 * plan.rollouts) for method in METHODS]
        return cls((*tried, Part("videos", "", FILM_S * plan.films * len(METHODS))))

    @property
    def left(self) -> float:
        return sum(part.seconds * (1 - part.done) for part in self.parts)

    def after(self, event: Event) -> "Work":
        """What comes before the event's stage is done; of its own stage so much as it says."""
        if event.stage is None or event.stage not in ORDER:
            return self
        about = event.what.rsplit(" ", 1)[-1] if event.stage == "data" else event.label
        share = event.done / event.total if event.total else 0.0

        def settled(part: Part) -> Part:
            if part.stage == event.stage and part.method == about:
                return replace(part, done=max(part.done, share))
            before = ORDER.index(part.stage) < ORDER.index(str(event.stage))
            if before and (part.stage == "data" or part.method == about or event.stage == "videos"):
                return replace(part, done=1.0)
            return part

        return Work(tuple(settled(part) for part in self.parts))


class TimeLeft:
    def __init__(self, work: Work, clock: Callable[[], float]) -> None:
        self._work, self._clock = work, clock
        self._seen: set[str] = set()  # things under way
        self._began_s = self._at_s = clock()
        self._worked = 0.0  # seconds of one core's work, seen being done here
        self._end_s: float | None = None

    def after(self, event: Event) -> float:
        """Seconds, following new estimates slowly."""
        now_s = self._clock()
        work = self._work.after(event)
        key = f"{event.stage} {event.what}"
        if key in self._seen:  # at its first event a thing may have been done long ago
            self._worked += self._work.left - work.left
        self._seen.add(key)
        self._work = work
        usual_s = USUAL_S / min(cores(), 2)
        pace = (now_s - self._began_s + usual_s) / (self._worked + USUAL_S)
        wanted_s = now_s + pace * work.left
        if self._end_s is None:
            self._end_s = wanted_s
        self._end_s += (1 - math.exp(-(now_s - self._at_s) / SETTLES_S)) * (wanted_s - self._end_s)
        self._at_s = now_s
        return max(self._end_s - now_s, 0.0)
