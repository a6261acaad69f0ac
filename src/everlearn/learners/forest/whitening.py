"""Features at mean zero and deviation one, as the first examples had them.

    x ↦ (x − m) / max(s, floor · rms(s))

m and s are taken once, from the first batch, because everything a forest stores is in whitened
coordinates. The floor keeps a feature that hardly varied among the first classes from drowning all
others when it does vary among later ones.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from everlearn.base import Array

Floats32 = NDArray[np.float32]

# A deviation below this share of the root mean square deviation is taken to be that share.
FLOOR = 0.1
# Whitened values beyond this are set to it, so that their squares stay finite in float32.
LARGEST = 1e9


@dataclass(frozen=True)
class Whitening:
    """A shift and a scale per feature; the result is float32."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: Array, weights: Array | None) -> Self:
        """The whitening that suits these examples."""
        total = float(len(X)) if weights is None else float(weights.sum())
        share = np.full(len(X), 1.0 / total) if weights is None else weights / total
        mean = share @ X
        variance = share @ (X - mean) ** 2
        # What is left of a constant by rounding is no deviation.
        variance[variance <= (1e-12 * np.abs(mean)) ** 2] = 0.0
        floor = FLOOR * np.sqrt(variance.mean())
        deviation = np.maximum(np.sqrt(variance), floor if floor > 0 else 1.0)
        return cls(mean, deviation)

    @classmethod
    def none(cls, n_features: int) -> Self:
        """Leave features as they are."""
        return cls(np.zeros(n_features), np.ones(n_features))

    def __call__(self, X: Array) -> Floats32:
        whitened = X - self.mean
        whitened /= self.scale
        np.clip(whitened, -LARGEST, LARGEST, out=whitened)
        return whitened.astype(np.float32)

    def back(self, whitened: NDArray[Any]) -> Array:
        """Whitened features as they were."""
        restored: Array = whitened * self.scale + self.mean
        return restored
