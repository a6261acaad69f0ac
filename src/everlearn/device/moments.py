"""Counts, means and scatter on a device: the counterpart of :mod:`everlearn.statistics.moments`.

The same numbers as on the host, float64 and centred, computed by few large products. Rows are
measured relative to an *anchor* a_k of their class, its mean so far or its first example, so that
no precision is lost if features are far from zero or classes far apart. Examples of class k and
weight w, r = x − a_k, with n_k the weight of all of them, old and new:

    s_k = Σ w r,   G = Σ w r rᵀ,     μ_k = a_k + s_k / n_k,     S ← S + G − Σ_k s_k s_kᵀ / n_k

The host knows the weights n_k, because it reads the labels. Everything uses the array API standard.
A change is computed beside the state and replaces it once all rows were found finite. Rare
operations (forgetting, merging, saving) are done by the host's moments, to which these are copied
on demand.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from everlearn.arrays import Array, Slots, as_numpy
from everlearn.device.device import Device
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.moments import Moments

# Columns of a symmetric product computed together; the part below the diagonal is skipped.
PANEL = 1024


class DeviceMoments:
    """Class means and, with ``scatter``, the pooled within-class scatter, on one device.

    Attributes
    ----------
    counts : ndarray of shape (n_slots,)
        n_k, on the host.
    means, scatter : arrays on the device
        μ_k by slot, and S as a full symmetric matrix, or None.
    version : int
        Increases with every change.
    """

    def __init__(self, device: Device, n_features: int, *, scatter: bool) -> None:
        self.device = device
        self.n_features = n_features
        self.version = 0
        self.peak = 0.0
        self._trace: float | None = None
        self.total = 0.0
        self.counts: Array = np.zeros(0)
        self._sizes: Any = None
        self._sizes_for = -1
        self.means = device.zeros(0, n_features)
        self.scatter: Any = device.zeros(n_features, n_features) if scatter else None

    @classmethod
    def copied(cls, device: Device, moments: ClassMeans) -> "DeviceMoments":
        """The host's moments, copied to a device."""
        scatter = isinstance(moments, Moments)
        copy = cls(device, moments.n_features, scatter=scatter)
        if not moments.n_slots:
            return copy
        copy.counts = moments.counts.copy()
        copy.total = moments.total
        copy.means = device.array(moments.means)
        if isinstance(moments, Moments):
            copy.scatter = device.array(moments.scatter())
            copy.peak = moments.peak
        return copy

    @property
    def n_slots(self) -> int:
        return len(self.counts)

    @property
    def sizes(self) -> Any:
        """The counts, on the device."""
        if self._sizes is None or self._sizes_for != self.version:
            self._sizes, self._sizes_for = self.device.array(self.counts), self.version
        return self._sizes

    @property
    def mean(self) -> Any:
        """The overall mean."""
        return self.sizes @ self.means / self.total

    @property
    def scatter_weight(self) -> float:
        """Divisor that turns S into a covariance; there is no start on a device."""
        return self.total

    @property
    def scatter_trace(self) -> float:
        """tr(S)."""
        if self._trace is None:
            (self._trace,) = self.device.numbers(self.device.xp.linalg.trace(self.scatter))
        return self._trace

    def squared_scatter(self) -> float:
        """Σ S_ij² / tr(S)²."""
        relative = self.scatter / self.scatter_trace
        (square,) = self.device.numbers(self.device.xp.sum(relative * relative))
        return square

    def total_trace(self) -> float:
        """The trace of the scatter about the overall mean."""
        xp = self.device.xp
        between = xp.sum(self.sizes[:, None] * (self.means - self.mean) ** 2)
        (apart,) = self.device.numbers(between)
        return self.scatter_trace + apart

    def solve(self, matrix: Any, ridge: float, rows: Any) -> Any:
        """(A + ρ I)⁻¹ of each row."""
        return self.device.xp.linalg.solve(self.with_ridge(matrix, ridge), rows.T).T

    def with_ridge(self, matrix: Any, ridge: float) -> Any:
        xp = self.device.xp
        eye = xp.eye(self.n_features, dtype=xp.float64, device=self.device.device)
        return matrix + ridge * eye

    def about(self, origin: Any) -> Any:
        """S + Σ n_k (μ_k − o)(μ_k − o)ᵀ, a new matrix; an origin of None is zero."""
        xp = self.device.xp
        means = self.means if origin is None else self.means - origin
        rows = xp.sqrt(self.sizes)[:, None] * means
        return mirrored(xp, add_products(self.scatter + 0.0, rows))

    def become(self, other: "DeviceMoments") -> None:
        """Replace these moments by others of the same kind."""
        version = self.version + 1
        self.__dict__.update(other.__dict__)
        self.version = version

    def grown(
        self,
        blocks: Iterable[tuple[Any, slice]],
        slots: Slots,
        weights: Array | None,
        n_slots: int,
    ) -> "DeviceMoments":
        """Moments of everything learned and of the rows in these blocks.

        Apply them with :meth:`become` once all rows were found finite.
        """
        xp, device = self.device.xp, self.device
        counts = np.zeros(n_slots)
        counts[: len(self.counts)] = self.counts
        anchored = counts > 0
        anchors, sums = self._room(n_slots), device.zeros(n_slots, self.n_features)
        gram = None if self.scatter is None else device.zeros(*self.scatter.shape)
        member = device.indices(slots)
        roots = None if weights is None else device.array(np.sqrt(weights))
        for block, part in blocks:
            first, new = _first_of_each(slots[part], anchored, weights, part)
            if len(new):
                given = xp.take(block, device.indices(first), axis=0)
                anchors = device.with_rows(anchors, new, given)
                anchored[new] = True
            rows = block - xp.take(anchors, member[part], axis=0)
            if roots is not None:
                rows = rows * roots[part][:, None]
            weighted = rows if roots is None else rows * roots[part][:, None]
            sums = device.sums_with(sums, member[part], weighted)
            if gram is not None:
                gram = add_products(gram, rows)
        counts += np.bincount(slots, weights, minlength=n_slots)
        inverse = np.divide(1.0, counts, out=np.zeros_like(counts), where=counts > 0)
        grown = DeviceMoments(device, self.n_features, scatter=False)
        grown.counts, grown.total = counts, float(counts.sum())
        grown.means = anchors + sums * device.array(inverse)[:, None]
        if gram is not None:
            beside = sums * device.array(np.sqrt(inverse))[:, None]
            grown.scatter = self.scatter + mirrored(xp, subtract_products(gram, beside))
        grown.peak = self.peak
        return grown

    def state(self) -> dict[str, Any]:
        """The state in the format of the host's moments."""
        means = as_numpy(self.means)
        total = self.total
        mean = self.counts @ means / total if total else np.zeros(self.n_features)
        arrays = {"counts": self.counts.copy(), "means": means, "mean": mean}
        if self.scatter is not None:
            arrays["scatter"] = np.triu(as_numpy(self.scatter))
            self.peak = max(self.peak, float(arrays["scatter"].trace()))
            arrays["scatter_peak"] = np.array([self.peak])
        return arrays

    def _room(self, n_slots: int) -> Any:
        """A copy of the means with rows of zeros for new slots."""
        missing = n_slots - self.means.shape[0]
        if not missing:
            return self.means + 0.0
        zeros = self.device.zeros(missing, self.n_features)
        return self.device.xp.concat([self.means, zeros], axis=0)


def add_products(upper: Any, rows: Any) -> Any:
    """Upper + rowsᵀ rows, panel by panel in place; the part below the panels is not computed."""
    for panel in _panels(upper.shape[0]):
        upper[panel, panel.start :] += rows[:, panel].T @ rows[:, panel.start :]
    return upper


def subtract_products(upper: Any, rows: Any) -> Any:
    """Upper − rowsᵀ rows, likewise."""
    for panel in _panels(upper.shape[0]):
        upper[panel, panel.start :] -= rows[:, panel].T @ rows[:, panel.start :]
    return upper


def _panels(width: int) -> list[slice]:
    return [slice(start, min(start + PANEL, width)) for start in range(0, width, PANEL)]


def mirrored(xp: Any, upper: Any) -> Any:
    """The symmetric matrix of an upper triangle."""
    return xp.triu(upper) + xp.triu(upper, k=1).T


def _first_of_each(
    slots: Slots, anchored: Any, weights: Array | None, part: slice
) -> tuple[Slots, Slots]:
    """Positions of the first example of classes without an anchor, and their slots."""
    without = ~anchored[slots]
    if weights is not None:
        without &= weights[part] > 0
    where = np.flatnonzero(without)
    if not len(where):
        return where, where
    new, first = np.unique(slots[where], return_index=True)
    return where[first], new
