"""Features at mean zero and deviation one, as the first examples had them.

    x ↦ (x − m) / max(s, floor · rms(s))

m and s are taken once, from the first batch, because everything a forest stores is in whitened
coordinates. The floor keeps a feature that hardly varied among the first classes from drowning all
others when it does vary among later ones.
"""

from collections.abc import Iterator
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
# Rows at a time, so that what is computed in between stays in the processor's cache.
BLOCK_ROWS = 64


@dataclass(frozen=True)
class Whitening:
    """A shift and a scale per feature; the result is float32."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: Array, weights: Array | None) -> Self:
        """The whitening that suits these examples."""
        total = float(len(X)) if weights is None else float(weights.sum())
        mean, variance = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        for part in blocks(len(X)):
            share = np.ones(len(X[part])) if weights is None else weights[part]
            mean += share @ X[part] / total
        for part in blocks(len(X)):
            share = np.ones(len(X[part])) if weights is None else weights[part]
            variance += share @ (X[part] - mean) ** 2 / total
        # What is left of a constant by rounding is no deviation.
        variance[variance <= (1e-12 * np.abs(mean)) ** 2] = 0.0
        floor = FLOOR * np.sqrt(variance.mean())
        deviation = np.maximum(np.sqrt(variance), floor if floor > 0 else 1.0)
        return cls(mean, deviation)

    @classmethod
    def none(cls, n_features: int) -> Self:
        """Leave features as they are."""
        return cls(np.zeros(n_features), np.ones(n_features))

    def __call__(self, X: Array, rows: NDArray[Any] | None = None) -> Floats32:
        """Whitened features of all rows, or of these."""
        n_rows = len(X) if rows is None else len(rows)
        whitened = np.empty((n_rows, X.shape[1]), np.float32)
        for part in blocks(n_rows):
            centred = X[part if rows is None else rows[part]] - self.mean
            centred /= self.scale
            np.clip(centred, -LARGEST, LARGEST, out=whitened[part], casting="same_kind")
        return whitened


def blocks(n_rows: int, size: int = BLOCK_ROWS) -> Iterator[slice]:
    """Consecutive parts of at most ``size`` rows."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
