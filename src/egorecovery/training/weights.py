"""Weights in two precisions, float32 for the optimiser and bfloat16 for the arithmetic, and their update.

All trained weights of a kind lie end to end in one row of memory, of which the modules' parameters are views: the
update, the cast to bfloat16 and the average are then operations on one tensor, instead of hundreds of small ones.
Gradients arrive in the precision that the matrix units write.
"""

# W all trained weights, in one row

import copy

import torch
from torch import Tensor, nn

from egorecovery.policy.policy import Policy
from egorecovery.training.adamw import BETA_1, BETA_2, EPSILON, pace_and_spread
from egorecovery.training.backend import PLAIN, Backend

ALIGNMENT = 128  # weights: 256 bytes of bfloat16, as matrix libraries like their operands
NORM_PART = 4096  # weights; a CPU adds a long row one after another, which costs float32 four digits


class Weights:
    """`master` is what is optimised, averaged, scored and saved; `working` is what computes.

    Both must stay on their device and in their precision: moving a module takes its parameters out of the row.
    """

    def __init__(
        self, master: Policy, precision: torch.dtype, average_decay: float | None, backend: Backend = PLAIN
    ) -> None:
        self.backend = backend
        backend.prepare(master)
        self.master = master
        self.working = master if precision == torch.float32 else copy.deepcopy(master).to(precision)
        self.trained = [weight for weight in master.parameters() if weight.requires_grad]
        self._working = [weight for weight in self.working.parameters() if weight.requires_grad]
        self.master_W = _into_one_row(self.trained)
        self.working_W = None if self.shared else _into_one_row(self._working)
        self.gradient_W, self._gradients = _row_like(self._working)
        # Where each weight's gradient is wanted, by the weight's id; a backend may write it there.
        self.destinations = {id(weight): own for weight, own in zip(self._working, self._gradients, strict=True)}
        self.average_decay = average_decay
        self.average_W, self.average = None, None
        if average_decay is not None:
            self.average_W, self.average = _row_like(self.trained)
            self.average_W.copy_(self.master_W)

    @property
    def shared(self) -> bool:
        return self.working is self.master

    def collect_gradients(self) -> Tensor:
        """The step's gradients in one row."""
        places, gradients = [], []
        for weight, place in zip(self._working, self._gradients, strict=True):
            assert weight.grad is not None, "a trained weight took no part in the step"
            if weight.grad is not place:
                places.append(place)
                gradients.append(weight.grad)
        torch._foreach_copy_(places, gradients)  # type: ignore[reportPrivateImportUsage]  # no public name
        return self.gradient_W

    def drop_gradients(self) -> None:
        for weight in self._working:
            weight.grad = None

    @torch.no_grad()
    def averaged(self) -> Policy:
        """The policy to score and to ship: the average where one is kept, otherwise the weights themselves."""
        if self.average is None:
            return self.master
        policy = copy.deepcopy(self.master)
        for weight, value in zip((w for w in policy.parameters() if w.requires_grad), self.average, strict=True):
            weight.copy_(value)
        return policy


class AdamW:
    """The optimiser's state, on the device; `torch.optim.AdamW` to rounding."""

    def __init__(self, weights: Weights, weight_decay: float) -> None:
        self._weights, self._weight_decay = weights, weight_decay
        self.first_W, self.second_W = torch.zeros_like(weights.master_W), torch.zeros_like(weights.master_W)
        self.step = torch.zeros((), device=weights.master_W.device)

    def ahead(self, rate: Tensor) -> tuple[Tensor, Tensor]:
        """What the next update needs and can be known before its gradients."""
        return pace_and_spread(self.step, rate)

    def update(self, rate: Tensor, factor: Tensor, stopped: Tensor, ahead: tuple[Tensor, Tensor] | None = None) -> None:
        """Updates master, working copy and average with `factor` times the collected gradients, unless `stopped`."""
        weights = self._weights
        pace, spread = ahead or pace_and_spread(self.step, rate)
        weights.backend.adamw_(
            weights.master_W,
            weights.gradient_W,
            self.first_W,
            self.second_W,
            self.step,
            rate=rate,
            factor=factor,
            stopped=stopped,
            pace=pace,
            spread=spread,
            betas=(BETA_1, BETA_2),
            epsilon=EPSILON,
            weight_decay=self._weight_decay,
            working_W=weights.working_W,
            average_W=weights.average_W,
            average_decay=weights.average_decay or 0.0,
        )

    def state(self) -> dict[str, Tensor]:
        return {"first": self.first_W, "second": self.second_W, "step": self.step}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, value in self.state().items():
            value.copy_(state[name])


def norm_of_row(row: Tensor) -> Tensor:
    """The Euclidean norm in float32, summed in the same order every time."""
    parts = torch.linalg.vector_norm(row.view(-1, NORM_PART), dim=1, dtype=torch.float32)
    return torch.linalg.vector_norm(parts)


def _row_like(tensors: list[nn.Parameter]) -> tuple[Tensor, list[Tensor]]:
    """Zeros for all of them in one row, and its views with their shapes and strides."""
    starts, size = [], 0
    for tensor in tensors:
        starts.append(size)
        size += -(-tensor.numel() // ALIGNMENT) * ALIGNMENT
    size = -(-size // NORM_PART) * NORM_PART
    row = torch.zeros(size, dtype=tensors[0].dtype, device=tensors[0].device)
    # Strides are kept: a channels-last weight stays one, and a gradient is copied as it lies.
    views = [row.as_strided(each.shape, each.stride(), start) for each, start in zip(tensors, starts, strict=True)]
    return row, views


@torch.no_grad()
def _into_one_row(parameters: list[nn.Parameter]) -> Tensor:
    """Moves the parameters' values into one row, of which the parameters become views."""
    row, views = _row_like(parameters)
    for parameter, view in zip(parameters, views, strict=True):
        parameter.data = view.copy_(parameter)
    return row
