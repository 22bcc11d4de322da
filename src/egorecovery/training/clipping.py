"""Gradient clipping by median absolute deviation, with its state on the device: no step waits for a number."""

# W norms remembered

import torch
from torch import Tensor

REMEMBERED = 200
NORMAL = 1.4826  # makes the median absolute deviation of a normal distribution its standard deviation


class MadClip:
    """Allows gradient norms up to median + k deviations of the last ones.

    The norms remembered are those before clipping, so that after a sustained shift the median follows within half the
    memory, instead of holding the old level for ever. Norms that are not finite are not remembered.
    """

    def __init__(self, after: int, deviations: float, device: torch.device) -> None:
        self.after = after
        self.deviations = deviations
        self.norms_W = torch.full((REMEMBERED,), float("nan"), device=device)
        self.seen = torch.zeros((), dtype=torch.int64, device=device)
        self._places_W = torch.arange(REMEMBERED, device=device)
        self._one = torch.ones((), device=device)

    def limit(self) -> Tensor:
        """The largest norm allowed now: any, before enough were seen. Depends on earlier steps alone."""
        median = self.norms_W.nanmedian()
        deviation = NORMAL * (self.norms_W - median).abs().nanmedian()
        return (median + self.deviations * deviation).masked_fill(self.seen < self.after, torch.inf)

    def factor(self, norm: Tensor, limit: Tensor) -> Tensor:
        """What gradients of this norm are to be multiplied by."""
        return torch.where(norm > limit, limit / norm, self._one)

    def remember(self, norm: Tensor) -> None:
        finite = torch.isfinite(norm)
        here_W = (self._places_W == self.seen % REMEMBERED) & finite
        self.norms_W.copy_(torch.where(here_W, norm, self.norms_W))
        self.seen.add_(finite)

    def state(self) -> dict[str, Tensor]:
        return {"norms": self.norms_W, "seen": self.seen}

    def load(self, state: dict[str, Tensor]) -> None:
        self.norms_W.copy_(state["norms"])
        self.seen.copy_(state["seen"])
