"""What makes intent comparable: one length per embodiment (s_d), one divisor per coefficient for both."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.errors import MotionError


def embodiment_scale(peak_to_peak_m: Float[ndarray, " N"], whose: str = "this embodiment") -> float:
    """s_d: root mean square of the windows' peak-to-peak motion. Pass valid recovery windows of the pool only."""
    if not len(peak_to_peak_m):
        raise MotionError(f"no valid recovery window for {whose}: annotate recovery episodes, then label again")
    scale_m = float(np.sqrt(np.mean(np.square(peak_to_peak_m, dtype=np.float64))))
    if not (np.isfinite(scale_m) and scale_m > 0):
        raise MotionError(f"the recovery windows of {whose} do not move (scale {scale_m} m): nothing to scale by")
    return scale_m


@dataclass(frozen=True, eq=False)
class IntentNormaliser:
    """Divides each coefficient by its root mean square over both embodiments' valid recovery windows.

    Not centred, and one divisor for both: magnitudes stay comparable and 0 keeps meaning "no correction".
    """

    divisor: Float[ndarray, " C"]

    @classmethod
    def fit(cls, intent: Float[ndarray, "N C"]) -> "IntentNormaliser":
        """From scaled targets (Eq. 1) of valid recovery windows only."""
        if not len(intent):
            raise MotionError("no valid recovery window to take intent statistics from")
        divisor = np.sqrt(np.mean(np.square(intent, dtype=np.float64), axis=0))
        if not (np.isfinite(divisor) & (divisor > 0)).all():
            raise MotionError(f"intent statistics are degenerate (divisors {divisor}): a coefficient never varies")
        return cls(divisor)

    def normalise(self, intent: Float[ndarray, "*batch C"]) -> Float[ndarray, "*batch C"]:
        return intent / self.divisor

    def restore(self, normalised: Float[ndarray, "*batch C"]) -> Float[ndarray, "*batch C"]:
        return normalised * self.divisor
