"""The same training in two arms, captured and uncaptured, and how far apart their steps leave them."""

import torch
from torch import Tensor

from egorecovery.policy.policy import Policy
from egorecovery.training import Recipe
from egorecovery.training.backend import Backend
from egorecovery.training.runtime import Runtime, seed_initialisation
from egorecovery.training.throughput import training_step

STEPS = 20
# Of what one step changes in a tensor: a step that left the tensor out, or took it twice, is off by all of it.
HALF_AN_UPDATE = 0.5
SUMS = 0.01  # a step's terms not added, or added twice, are a twentieth


class Arm:
    """A training on made-up data, always from the same start."""

    def __init__(self, recipe: Recipe, runtime: Runtime, backend: Backend | None = None) -> None:
        seed_initialisation(3)
        policy = Policy(recipe.policy).on(runtime.device)
        torch.manual_seed(5)  # the made-up pictures
        self.step, self._plans = training_step(recipe, policy, runtime, backend)
        self.weights = self.step._weights
        self.names = [name for name, weight in policy.named_parameters() if weight.requires_grad]

    def run(self, index: int) -> None:
        self.step.run(self._plans(index))

    def rows(self) -> dict[str, Tensor]:
        """All that an update changes, every kind in one row."""
        weights, optimiser = self.weights, self.step.optimiser
        rows = {"master": weights.master_W, "first": optimiser.first_W, "second": optimiser.second_W}
        others = {"working": weights.working_W, "average": weights.average_W}
        return rows | {name: row for name, row in others.items() if row is not None}

    def tensors(self) -> dict[str, Tensor]:
        """A copy of the rows, cut into parameters. All rows are laid out alike."""
        return {
            f"{kind} {name}": row.as_strided(weight.shape, weight.stride(), weight.storage_offset()).clone()
            for kind, row in self.rows().items()
            for name, weight in zip(self.names, self.weights.trained, strict=True)
        }

    def take_over(self, other: "Arm") -> None:
        """Goes on from the other's weights and moments; in place, as a graph needs."""
        for kind, row in self.rows().items():
            row.copy_(other.rows()[kind])

    def counts(self) -> dict[str, int]:
        step = self.step
        return {"updates": int(step.optimiser.step), "norms": int(step.clip.seen), "sums": step._summed}


def off_by(before: dict[str, Tensor], ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> dict[str, float]:
    """By tensor: the distance of the arms after a step that both began at `before`, in lengths of our change.

    Working copies are left out: their numbers are too coarse for one update, see `working_copy_is_the_master_rounded`.
    """
    names = [name for name in ours if not name.startswith("working")]
    distance = torch.stack([(ours[name] - theirs[name]).norm() for name in names])
    change = torch.stack([(ours[name] - before[name]).norm() for name in names])
    ratio = torch.where(distance == 0, 0.0, distance / change)  # a tensor that neither arm changed agrees
    return dict(zip(names, ratio.tolist(), strict=True))


def working_copy_is_the_master_rounded(arm: Arm) -> bool:
    weights = arm.weights
    return weights.working_W is None or torch.equal(weights.working_W, weights.master_W.to(weights.working_W.dtype))


def assert_every_step_agrees(ours: Arm, theirs: Arm, steps: int = STEPS) -> None:
    """Each step from the same weights and moments; counts, norms and sums are each arm's own throughout.

    Rounding grows: with gradients of convolutions that differed by 1 in 1000, bfloat16 arms left alone for twenty steps
    were up to nine updates apart, and no skipped one would have shown. Their steps from a common start agree.
    """
    for index in range(steps):
        theirs.take_over(ours)
        before = ours.tensors()
        ours.run(index)
        theirs.run(index)
        apart = off_by(before, ours.tensors(), theirs.tensors())
        wrong = {name: round(value, 3) for name, value in apart.items() if not value < HALF_AN_UPDATE}
        assert not wrong, f"step {index}: off by these shares of the step's own change: {wrong}"
        assert working_copy_is_the_master_rounded(ours)
        assert working_copy_is_the_master_rounded(theirs)
    counts = ours.counts(), theirs.counts()
    assert counts == (dict.fromkeys(("updates", "norms", "sums"), steps),) * 2, f"counts differ: {counts}"
    torch.testing.assert_close(theirs.step.clip.norms_W, ours.step.clip.norms_W, rtol=SUMS, atol=0, equal_nan=True)
    found, wanted = theirs.step._sums, ours.step._sums
    assert set(found) == set(wanted)
    for name, total in wanted.items():
        torch.testing.assert_close(found[name], total, rtol=SUMS, atol=1e-6, msg=lambda text, name=name: name + text)


def unequal(ours: Arm, theirs: Arm, steps: int = STEPS) -> list[str]:
    """What is not the same to the bit after so many steps, each arm on its own."""
    for index in range(steps):
        ours.run(index)
        theirs.run(index)
    found, wanted = (arm.tensors() | arm.step.state() for arm in (theirs, ours))
    assert set(found) == set(wanted)
    return [name for name, value in wanted.items() if not torch.equal(bits(found[name]), bits(value))]


def bits(value: Tensor) -> Tensor:
    """NaN, which is no norm yet, equals itself."""
    return value.nan_to_num(nan=-1.0) if value.is_floating_point() else value
