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

Names = NDArray[np.int64]

FOLDS = 3
PRIOR_EXAMPLES = 4.0
# T is searched within this factor of the learner's own, in both directions.
WIDEST = 1e4


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
    prior = float(learner.temperature_)
    scores = _all_held_out_scores(learner, sample, names, ridge)
    if not scores:
        return prior

    buffers = [np.empty_like(others) for _, others in scores]
    widest = np.log(WIDEST)

    def cost(log_ratio: float) -> float:
        T = prior * np.exp(log_ratio)
        losses = (_log_loss(*each, T, out) for each, out in zip(scores, buffers, strict=True))
        return sum(losses) + 0.5 * PRIOR_EXAMPLES * log_ratio**2 / widest

    best = minimize_scalar(cost, bounds=(-widest, widest), method="bounded")
    return float(prior * np.exp(best.x))


def scores_by_class(learner: Any, X: Array) -> Array:
    """Scores with one column per class, also for two classes, where scikit-learn returns one."""
    scores: Array = learner.decision_function(X)
    return scores if scores.ndim == 2 else np.column_stack([np.zeros(len(scores)), scores])


def _all_held_out_scores(
    learner: Any, sample: Array, names: Names, ridge: Ridge | None
) -> list[tuple[Array, Array]]:
    """Scores of held-out examples, in blocks: for the own class, and for all classes."""
    if ridge is None:
        held_out = [fold for fold in folds(names, FOLDS) if fold.any()]
        return [_held_out_scores(learner, sample, names, fold) for fold in held_out]
    y = np.searchsorted(learner.classes_, names)
    several = ridge.counts[y] > 1
    if not several.any():
        return []
    scores = ridge.leave_one_out(sample[several], y[several])
    return [(scores[np.arange(len(scores)), y[several]], scores)]


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


def _log_loss(own: Array, scores: Array, T: float, out: Array) -> float:
    """− log p of the own class at a temperature, summed over rows; ``out`` is overwritten."""
    top = scores.max(axis=1)
    np.subtract(scores, top[:, None], out=out)
    out /= T
    np.exp(out, out=out)
    return float(np.sum((top - own) / T + np.log(out.sum(axis=1))))
