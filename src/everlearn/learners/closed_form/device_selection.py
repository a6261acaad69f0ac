"""Choosing λ and α on a device: what ``model_selection.select`` does on the host.

The examples that were held out are kept on the host; what is left without them, the spectrum of A
and the scores for all λ are computed where the moments are. One eigendecomposition serves all λ.
"""

from typing import Any

import numpy as np

from everlearn.arrays import Array
from everlearn.learners.closed_form.model_selection import (
    RECODINGS,
    RELATIVE_CANDIDATES,
    HeldOut,
    middle_of_plateau,
    well_represented,
)
from everlearn.statistics.device_moments import DeviceMoments


def select_at(
    moments: DeviceMoments,
    held_out: HeldOut,
    *,
    regularization: float | None,
    recoding: float | None,
    candidates: Array | None,
    intercept: bool,
) -> tuple[float, float]:
    """Choose what is None of λ and α."""
    device, xp = moments.device, moments.device.xp
    training = moments
    if len(held_out):
        kept = device.array(held_out.rows)
        training = moments.without(kept, held_out.slots, held_out.weights)
    rows, slots = well_represented(held_out, training)
    asked = Asked(training, device.array(rows), slots, intercept=intercept)
    lam, scale = regularization, 1.0
    if lam is None:
        if candidates is None:
            candidates = RELATIVE_CANDIDATES * _spread(training)
        candidates = np.sort(candidates)[::-1]
        values, Q = xp.linalg.eigh(training.about(asked.origin))
        values = xp.where(values > 0, values, xp.zeros_like(values))
        examples, means = asked.rows @ Q, asked.means @ Q
        plain = ((examples / (values + float(lam))) @ means.T for lam in candidates)
        hits = asked.shares_right((scores, 0.0) for scores in plain)
        lam = middle_of_plateau(hits, candidates, len(slots))
        scale = moments.total / training.total
    if recoding is None:
        eye = xp.eye(moments.n_features, dtype=xp.float64, device=device.device)
        A = training.about(asked.origin) + lam * eye
        scores = asked.rows @ xp.linalg.solve(A, asked.means.T)
        hits = asked.shares_right((scores, float(alpha)) for alpha in RECODINGS)
        recoding = float(RECODINGS[hits >= hits[0]].max())
    return lam * scale, recoding


class Asked:
    """Examples to choose by, about the origin, and how many of them scores get right."""

    def __init__(self, training: DeviceMoments, rows: Any, slots: Any, *, intercept: bool) -> None:
        self._training = training
        self._device = training.device
        self._slots = training.device.indices(slots)
        self._offset = 1.0 / training.total if intercept else 0.0
        self.origin = training.mean if intercept else None
        self.rows = rows if self.origin is None else rows - self.origin
        self.means = training.means if self.origin is None else training.means - self.origin

    def shares_right(self, scored: Any) -> Array:
        """The share of right answers for each of the plain scores with a recoding α."""
        xp, sizes = self._device.xp, self._training.sizes
        n_examples = int(self.rows.shape[0])
        unknown = xp.where(sizes > 0, xp.zeros_like(sizes), xp.zeros_like(sizes) - float("inf"))
        hits = []
        for plain, alpha in scored:
            scores = (plain + self._offset) * sizes ** (1.0 - alpha) + unknown
            right = xp.argmax(scores, axis=1) == self._slots
            hits.append(xp.sum(self._device.doubles(right)))
        if not n_examples:
            return np.ones(len(hits))
        return np.array(self._device.numbers(*hits)) / n_examples


def _spread(training: DeviceMoments) -> float:
    """The mean diagonal of A about the mean of all examples."""
    xp, mean = training.device.xp, training.mean
    between = xp.sum(training.sizes[:, None] * (training.means - mean) ** 2)
    (apart,) = training.device.numbers(between)
    return (training.scatter_trace + apart) / training.n_features or 1.0
