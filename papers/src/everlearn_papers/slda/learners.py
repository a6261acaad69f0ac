"""Streaming LDA as Hayes and Kanan (2020) print it.

    μ_y ← (c_y μ_y + z) / (c_y + 1),   c_y ← c_y + 1                              Eq. 2-3
    Σ ← (t Σ + Δ) / (t + 1),   Δ = t/(t+1) (z − μ_y)(z − μ_y)ᵀ                     Eq. 4-5
    Λ = [(1 − ε) Σ + ε I]⁻¹,   w_k = Λ μ_k,   b_k = −½ μ_k·Λ μ_k                   Eq. 1, 6-7

with ε = 1e-4, and Σ of the first batch by Oracle Approximating Shrinkage. ε is absolute: what it
does depends on the scale of the features. μ_y of a new class is zero, so its first example adds
its raw outer product to Σ, and t/(t+1) counts all classes: the result depends on the order of the
stream. :class:`PlasticLDA` replaces Eq. 4-5 by the exact pooled covariance, and :class:`FixedLDA`
keeps the covariance of the first batch; the rest is as printed.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.arrays import Array, Slots
from everlearn.base import BOUNDED, Promise
from everlearn.errors import InvalidWeight, NotForgettable, NotMergeable
from everlearn.learners.closed_form.discriminant import Shrinkage
from everlearn.learners.fixed_lda import FixedCovarianceLDA, shrunk_scatter
from everlearn.learners.lda import StreamingLDA
from everlearn.statistics.kernels import move_means
from everlearn.statistics.moments import Moments

SHRINKAGE = 1e-4


@dataclass(frozen=True)
class TowardsIdentity:
    """Eq. 6: (1 − ε) Σ + ε I, independent of the scale of Σ."""

    share: float

    def __call__(self, moments: object) -> tuple[float, float]:
        return self.share, self.share


class PlasticLDA(StreamingLDA):
    """Streaming LDA with the exact pooled covariance; first batch and shrinkage as in the paper.

    With ``base="plain"`` the first batch is treated like any other, for use with a given
    ``start_covariance``.
    """

    _block_rows = None  # the first batch is not split into blocks

    def __init__(
        self,
        *,
        shrinkage: float = SHRINKAGE,
        start_covariance: Array | None = None,
        start_weight: float = 1.0,
        base: str = "oas",
    ) -> None:
        super().__init__(
            shrinkage=shrinkage, start_covariance=start_covariance, start_weight=start_weight
        )
        self.base = base

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED

    def _shrinkage(self) -> Shrinkage:
        return TowardsIdentity(float(self.shrinkage))

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self.moments_.total or self.base == "plain":
            super()._learn(X, slots, weights)
            return
        base = Moments(X.shape[1])
        base.add(np.asarray(X, dtype=np.float64), slots, weights)
        base.replace_scatter(shrunk_scatter(base))
        self.moments_.restore(base.state())
        self._running.invalidate()


class PublishedLDA(PlasticLDA):
    """Streaming LDA with the covariance of Eq. 4-5."""

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self.moments_ = PublishedMoments(n_features)

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self.moments_.total and weights is not None and np.any(weights != 1.0):
            raise InvalidWeight(
                "the published recursion does not support sample weights after the base batch; "
                "omit them or use StreamingLDA"
            )
        super()._learn(X, slots, weights)

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        raise NotForgettable(
            "the published recursion depends on the order of the stream, so it cannot forget an "
            "example; use StreamingLDA"
        )

    def _merge(self, other: Any, slots: Slots) -> None:
        raise NotMergeable(
            "the published recursion depends on the order of the stream, so two learners cannot "
            "be merged exactly; use StreamingLDA"
        )


class FixedLDA(FixedCovarianceLDA):
    """Streaming LDA with a fixed covariance: that of the first batch, or a given one."""

    def __init__(self, *, shrinkage: float = SHRINKAGE, base: str | Array = "oas") -> None:
        super().__init__(shrinkage=shrinkage, base=base)

    def _shrinkage(self) -> Shrinkage:
        return TowardsIdentity(float(self.shrinkage))


class PublishedMoments(Moments):
    """Moments whose scatter follows Eq. 2-5: order-dependent, without sample weights."""

    def add(self, X: Array, slots: Slots, weights: Array | None = None) -> Array:
        rows = np.empty_like(X)
        for index, (x, slot) in enumerate(zip(X, slots.tolist(), strict=True)):
            rows[index] = self.add_one(x, slot)
        return rows

    def _absorb(self, x: Array, slot: int, row: Array) -> float:
        # As the exact rule, but row = √(t / (t + 1)) δ with the count t of all classes.
        scale = math.sqrt(self.total / (self.total + 1.0))
        square = move_means(
            x, slot, 1.0, self._counts, self._means, self.mean, self.total, scale, row
        )
        self._waiting.add(square)
        return square
