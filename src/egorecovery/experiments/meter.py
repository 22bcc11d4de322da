"""How fast something under way goes."""

from dataclasses import dataclass, field

from egorecovery.experiments.events import Stage
from egorecovery.experiments.timing import Pace


@dataclass(kw_only=True)
class Meter:
    """Measures once more than `warm` are done, in one go or several: until then workers start, pictures are decoded."""

    stage: Stage
    where: str  # task or store
    warm: int
    done: int
    at_s: float
    pace: Pace = field(default_factory=Pace)
    _first: int = field(init=False)

    def __post_init__(self) -> None:
        self._first = self.done

    def at(self, done: int, at_s: float) -> None:
        if done == self.done:
            return
        if done < self.done:  # a training that goes on from its last checkpoint
            self._first = done
        elif self.done - self._first >= self.warm:
            self.pace.add(done - self.done, at_s - self.at_s)
        self.done, self.at_s = done, at_s
