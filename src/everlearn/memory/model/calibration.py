"""Calibrated probabilities by temperature scaling.

A learner's scores become probabilities through one temperature,

    p_k ∝ exp(s_k / T),

chosen to maximise the likelihood of examples the model has not seen (Guo, Pleiss, Sun and
Weinberger, *On Calibration of Modern Neural Networks*, ICML 2017). No example has to be withheld
from the model for this. Ridge regression has a closed form for its leave-one-out scores
(influence.py). Of any other learner that forgets exactly, a copy forgets part of the sample and
scores it. For a learner that cannot forget, a new one is trained on the rest of the sample.

Few held-out examples say little about T, so log T is shrunk towards the learner's own temperature
with the weight of ``PRIOR_EXAMPLES`` examples.
"""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from everlearn.arrays import Array
from everlearn.base import Promise
from everlearn.errors import NotExplainable
from everlearn.memory.insight.influence import Ridge
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import mapped_features
from everlearn.statistics.slices import Work, finished, parts

Names = NDArray[np.int64]

FOLDS = 3
PRIOR_EXAMPLES = 4.0
# T is searched within this factor of the learner's own, in both directions.
WIDEST = 1e4
# What takes the time of so many products: a term of the likelihood.
PER_TERM = 128.0


def temperature(learner: Any, sample: Array, names: Names) -> float:
    """T for a learner, from a sample of its training examples."""
    power, learner = power_and_learner(learner)
    return temperature_of(learner, mapped_features(power, sample), names, ridge_of(learner))


def ridge_of(learner: Any) -> Ridge | None:
    """The learner's leave-one-out formulas, if it has any."""
    try:
        return Ridge(learner)
    except NotExplainable:
        return None


def temperature_of(learner: Any, sample: Array, names: Names, ridge: Ridge | None) -> float:
    """T for a learner, from a sample after the feature map; ``ridge`` as of :func:`ridge_of`."""
    if ridge is not None:
        y = np.searchsorted(learner.classes_, names)
        return finished(ridge_temperature(ridge, sample, y, np.inf))
    held_out = [fold for fold in folds(names, FOLDS) if fold.any()]
    scores = [_held_out_scores(learner, sample, names, fold) for fold in held_out]
    return finished(_fitted(float(learner.temperature_), scores, np.inf))


def ridge_temperature(
    ridge: Ridge, sample: Array, y: NDArray[np.intp], piece: float
) -> Work[float]:
    """T for ridge regression, in pieces; ``y`` are indices of its classes."""
    prior = yield from ridge.noise(piece)
    several = ridge.counts[y] > 1
    if not several.any():
        return prior
    rows, own = sample[several], y[several]
    solved, scores = yield from ridge.solved_and_fits(rows, piece)
    for part in parts(len(rows), len(ridge.counts) * PER_TERM, piece):
        scores[part] *= ridge.counts
        ridge.leave_one_out_solved(rows[part], own[part], solved[part], scores[part])
        yield scores[part].size * PER_TERM
    held_out = [(scores[np.arange(len(scores)), own], scores)]
    return (yield from _fitted(prior, held_out, piece))


def _fitted(prior: float, scores: list[tuple[Array, Array]], piece: float) -> Work[float]:
    """T that makes held-out examples most likely, from their scores for the own and all classes.

    In pieces, the search begins again whenever it needs another cost: those known before are
    looked up, so it asks for the next.
    """
    if not scores:
        return prior
    widest, known = np.log(WIDEST), {}

    def cost(log_ratio: float) -> float:
        if log_ratio not in known:
            if not np.isinf(piece):
                raise _Wanted(log_ratio)
            known[log_ratio] = finished(_log_losses(prior * np.exp(log_ratio), scores, piece))
        return known[log_ratio] + 0.5 * PRIOR_EXAMPLES * log_ratio**2 / widest

    while True:
        try:
            best = minimize_scalar(cost, bounds=(-widest, widest), method="bounded")
        except _Wanted as wanted:
            T = prior * np.exp(wanted.log_ratio)
            known[wanted.log_ratio] = yield from _log_losses(T, scores, piece)
        else:
            return float(prior * np.exp(best.x))


class _Wanted(Exception):
    """A cost that is not known yet."""

    def __init__(self, log_ratio: float) -> None:
        super().__init__(log_ratio)
        self.log_ratio = log_ratio


def scores_by_class(learner: Any, X: Array) -> Array:
    """Scores with one column per class, also for two classes, where scikit-learn returns one."""
    scores: Array = learner.decision_function(X)
    return scores if scores.ndim == 2 else np.column_stack([np.zeros(len(scores)), scores])


def folds(names: Names, count: int) -> list[NDArray[np.bool_]]:
    """Masks of the rows held out in each fold; the only example of a class is in none."""
    fold_of = np.full(len(names), -1)
    for name in np.unique(names):
        members = np.flatnonzero(names == name)
        if len(members) > 1:
            fold_of[members] = np.arange(len(members)) % count
    return [fold_of == fold for fold in range(count)]


def _held_out_scores(
    learner: Any, sample: Array, names: Names, held_out: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Scores of the held-out rows: for the own class, and for all classes."""
    if Promise.FORGET in learner.promises:
        model = copy.deepcopy(learner).forget(sample[held_out], names[held_out])
    else:
        model = clone(learner).fit(sample[~held_out], names[~held_out])
    known = np.isin(names[held_out], model.classes_)
    scores = scores_by_class(model, sample[held_out][known])
    own = np.searchsorted(model.classes_, names[held_out][known])
    return scores[np.arange(len(own)), own], scores


def _log_losses(T: float, scores: list[tuple[Array, Array]], piece: float) -> Work[float]:
    """− log p of the own class at a temperature, summed over all rows of all blocks."""
    total = 0.0
    for own, others in scores:
        losses = np.empty(len(own))
        for part in parts(len(own), others.shape[1] * PER_TERM, piece):
            top = others[part].max(axis=1)
            out = others[part] - top[:, None]
            out /= T
            np.exp(out, out=out)
            losses[part] = (top - own[part]) / T + np.log(out.sum(axis=1))
            yield out.size * PER_TERM
        total += float(np.sum(losses))
    return total
