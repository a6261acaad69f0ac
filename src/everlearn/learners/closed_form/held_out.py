"""Files of version 0.1, which chose λ and α on held-out examples.

Every i-th example was remembered; λ was the middle of the plateau of accuracy on them with the
others as training set, α the largest that was not worse than plain ridge regression. A file holds
these examples and not the choice. It gives the same answers until more is learned: from then on
the choice is by leave-one-out (``model_selection.py``).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.learners.closed_form.least_squares import LeastSquares
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.learners.closed_form.model_selection import (
    RECODINGS,
    RELATIVE_CANDIDATES,
    Question,
    Selection,
    mean_spread,
    middle_of_plateau,
)
from everlearn.statistics.class_means import LARGEST
from everlearn.statistics.moments import Moments
from everlearn.statistics.validated import validated_array


def held_out_rows(arrays: dict[str, NDArray[Any]], moments: Moments) -> LearnedRows:
    """The held-out examples, validated."""
    last = moments.n_slots - 1
    slots = validated_array(arrays, "held_slots", None, dtype=np.intp, least=0, most=last)
    shape = (len(slots), moments.n_features)
    return LearnedRows(
        validated_array(arrays, "held_rows", *shape, least=-LARGEST, most=LARGEST),
        slots,
        validated_array(arrays, "held_weights", len(slots), least=np.finfo(np.float64).tiny),
    )


def held_out_choice(moments: Moments, held: LearnedRows, asked: Question) -> Selection:
    """λ and α as version 0.1 chose them."""
    training = moments.copy()
    if len(held):
        training.remove(held.X, held.slots, held.weights)
    if not training.total:  # everything was held out: no training set to compare with
        training = moments.copy()
    counts = np.bincount(held.slots, minlength=training.n_slots)
    enough = training.counts > 0
    if counts.any():
        enough &= counts >= 0.5 * np.median(counts[counts > 0])
    rows = held.take(np.flatnonzero(enough[held.slots]))

    def accuracy(lam: float, alpha: float) -> float:
        if not len(rows):
            return 1.0
        solution = LeastSquares(
            training, lam, alpha, rebalance=asked.rebalance, intercept=asked.intercept
        )
        scores = np.where(training.counts > 0, solution.scores(rows.X), -np.inf)
        return float(np.mean(scores.argmax(axis=1) == rows.slots))

    lam, scale = asked.regularization, 1.0
    if lam is None:
        candidates = asked.candidates
        if candidates is None:
            candidates = RELATIVE_CANDIDATES * mean_spread(training)
        candidates = np.sort(candidates)[::-1]
        alpha = asked.recoding if asked.rebalance and asked.recoding is not None else 0.0
        hits = np.array([accuracy(float(each), alpha) for each in candidates])
        lam, scale = middle_of_plateau(hits, candidates, len(rows)), moments.total / training.total
    recoding = asked.recoding
    if recoding is None:
        plain = accuracy(lam, 0.0)
        recoding = next(alpha for alpha in RECODINGS if accuracy(lam, alpha) >= plain)
    return Selection(lam * scale, recoding)
