"""Familiarity: an out-of-distribution score blended from several scores.

Three scores are computed from the statistics that a Memory keeps anyway. They are therefore exact
after examples were taught in any order, merged or forgotten:

    likeness    max_k f_k(u): the cosine to the nearest name                       (unknown.py)
    contrast    likeness minus its mean over all names: close to one name, or to all of them?
    score       the highest score of the classifier, if that is ridge regression

A *blend* is the mean of some of them, each standardised by the leave-one-out scores of taught
examples, and rescaled to the cosine. It is linear,

    familiarity = a · likeness + b · mean likeness + c · score + d

The taught examples decide which scores are used. Each name in turn is treated as unknown: its
examples are scored by a model that was never taught that name (leave one class out). The blend that
best separates these unknowns from left-out taught examples (area under the ROC curve) is chosen.
Ridge regression without class c follows from the full one: with X_c its examples and
P = X_c A⁻¹ X_cᵀ,

    scores of X_c without c = (I − P)⁻¹ X_c A⁻¹ b_k    for all k ≠ c

The scores of these unknowns also give an estimate of the share of unknowns that is detected.

*Cost*: O(m d² + m K d) for m examples and K names, in blocks: memory is linear in K. All of it can
be done in slices (:mod:`everlearn.statistics.slices`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.memory.insight.influence import Ridge
from everlearn.memory.model.blend import LIKENESS, Blend
from everlearn.memory.model.unknown import Familiarity
from everlearn.statistics.slices import Work, finished, product_table

# Coefficients (a, b, c, d) of each score alone.
SCORES = {
    "likeness": (1.0, 0.0, 0.0, 0.0),
    "contrast": (1.0, -1.0, 0.0, 0.0),
    "score": (0.0, 0.0, 1.0, 0.0),
}
# Candidate blends, simplest first: a later one has to be better by more than MARGIN.
BLENDS = (
    ("likeness",),
    ("likeness", "score"),
    ("likeness", "contrast"),
    ("likeness", "contrast", "score"),
)
MARGIN = 0.002
# With fewer names or examples than these, no blend can be chosen: likeness alone is used.
FEWEST_NAMES = 4
FEWEST_EXAMPLES = 19
# Largest number of values processed at once.
BLOCK = 1 << 22
# What takes the time of so many products: all that is done with one score after it was computed.
PER_SCORE = 256.0
# At most this many examples of a class are used as unknowns together.
MOST_UNKNOWNS = 256
# Lower bound of the eigenvalues of I − w P if P is of a sample of the class.
LEAST_LEFT = 0.1

Classes = NDArray[np.intp]


@dataclass(frozen=True)
class Scored:
    """Scores, one row per example: likeness, mean likeness, best score; and the nearest class."""

    scores: Array
    nearest: Classes

    def blended(self, blend: Blend) -> Array:
        familiarity: Array = blend.of(*self.scores.T)
        return familiarity


@dataclass(frozen=True)
class Chosen:
    """A blend, with its scores of taught examples and of unknowns."""

    blend: Blend
    known: Array
    known_nearest: Classes
    unknowns: Array
    unknowns_nearest: Classes


def choose(
    familiarity: Familiarity, sample: Array, mapped: Array, classes: Classes, ridge: Ridge | None
) -> Chosen:
    """The blend that best separates unknowns from taught examples.

    Parameters
    ----------
    familiarity : Familiarity
    sample : ndarray
        Some of the taught examples, at length one.
    mapped : ndarray
        The same after the classifier's feature map.
    classes : ndarray
        The class of each: an index of ``familiarity.means``, and the same in ``ridge``.
    ridge : Ridge, optional
        The classifier, if it is ridge regression.
    """
    return finished(choosing(familiarity, sample, mapped, classes, ridge, np.inf))


def choosing(
    familiarity: Familiarity,
    sample: Array,
    mapped: Array,
    classes: Classes,
    ridge: Ridge | None,
    piece: float,
) -> Work[Chosen]:
    """As :func:`choose`, in pieces."""
    several = int(np.sum(familiarity.counts[classes] > 1))
    if len(familiarity.counts) < FEWEST_NAMES or several < FEWEST_EXAMPLES:
        known, _ = yield from scoring(familiarity, sample, mapped, classes, None, piece)
        no_unknowns = np.zeros(0), np.zeros(0, dtype=np.intp)
        return Chosen(LIKENESS, known.blended(LIKENESS), known.nearest, *no_unknowns)
    known, unknowns = yield from scoring(familiarity, sample, mapped, classes, ridge, piece)
    blend, best = LIKENESS, -np.inf
    for parts in BLENDS:
        if "score" in parts and ridge is None:
            continue
        tried = _blend_of(parts, known.scores)
        area = _area(known.blended(tried), unknowns.blended(tried))
        if area > best + MARGIN:
            blend, best = tried, area
    return Chosen(
        blend,
        known.blended(blend),
        known.nearest,
        unknowns.blended(blend),
        unknowns.nearest,
    )


def scoring(
    familiarity: Familiarity,
    sample: Array,
    mapped: Array,
    classes: Classes,
    ridge: Ridge | None,
    piece: float,
) -> Work[tuple[Scored, Scored]]:
    """Leave-one-out scores of taught examples, and leave-one-class-out scores of unknowns.

    The only example of a class is used only as an unknown.
    """
    n_names = len(familiarity.counts)
    most = len(sample) if np.isinf(piece) else max(1, int(piece / (n_names * PER_SCORE)))
    several = familiarity.counts[classes] > 1
    as_unknown = _used_as_unknowns(classes)
    known = np.zeros((len(sample), len(SCORES)))
    unknowns = np.zeros((len(sample), len(SCORES)))
    nearest = np.zeros(len(sample), dtype=np.intp)
    unknowns_nearest = np.zeros(len(sample), dtype=np.intp)
    for block in _whole_classes(classes, n_names):
        likeness = yield from product_table(sample[block], familiarity.means, piece)
        if ridge is not None:
            solved, fits = yield from ridge.solved_and_fits(mapped[block], piece)
        for some in _runs(classes[block], most):
            rows, near = block[some], likeness[some]
            near /= familiarity.lengths
            part, own = sample[rows], classes[rows]
            own_loo = familiarity.near_own_loo(near, part, own)
            nearest[rows], known[rows, :2] = _nearest_and_scores(near, own, own_loo)
            no_class = np.full(len(rows), -np.inf)
            unknowns_nearest[rows], unknowns[rows, :2] = _nearest_and_scores(near, own, no_class)
            if ridge is not None:
                scores = _ridge_scores(
                    ridge, mapped[rows], own, as_unknown[rows], solved[some], fits[some]
                )
                known[rows, 2], unknowns[rows, 2] = scores
            yield len(rows) * n_names * PER_SCORE
    return (
        Scored(known[several], nearest[several]),
        Scored(unknowns[as_unknown], unknowns_nearest[as_unknown]),
    )


def _nearest_and_scores(near: Array, classes: Classes, own: Array) -> tuple[Classes, Array]:
    """The nearest class of each row; and the likeness to it, and the mean over all classes.

    ``own`` is the likeness of each row to its own class; −∞ leaves that class out. ``near`` is
    overwritten.
    """
    rows = np.arange(len(near))
    near[rows, classes] = 0.0
    counts = np.isfinite(own)
    average = near.sum(axis=1) + np.where(counts, own, 0.0)
    average /= np.maximum(near.shape[1] - 1 + counts, 1)
    near[rows, classes] = own
    nearest = near.argmax(axis=1)
    return nearest, np.column_stack([near[rows, nearest], average])


def _used_as_unknowns(classes: Classes) -> NDArray[np.bool_]:
    """Mask of the rows used as unknowns, limited per class."""
    order = np.argsort(classes, kind="stable")
    starts = np.flatnonzero(np.diff(classes[order], prepend=-1))
    nth = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    as_unknown = np.zeros(len(classes), dtype=bool)
    as_unknown[order[nth < MOST_UNKNOWNS]] = True
    return as_unknown


def _ridge_scores(
    ridge: Ridge,
    rows: Array,
    classes: Classes,
    as_unknown: NDArray[np.bool_],
    solved: Array,
    fits: Array,
) -> tuple[Array, Array]:
    """The best score of each row, leaving out the row, and leaving out its class.

    Both without the factor N^α. ``solved`` and ``fits`` are of ``solved_and_fits``; the latter are
    overwritten.
    """
    fits *= ridge.counts
    scale = ridge.recoded(1.0, ridge.counts)
    unknowns = np.zeros(len(rows))
    for name in np.unique(classes):
        members = np.flatnonzero((classes == name) & as_unknown)
        P = rows[members] @ solved[members].T
        scores = _inverse_without(P, ridge.counts[name]) @ fits[members]
        scores *= scale
        scores[:, name] = -np.inf
        unknowns[members] = scores.max(axis=1)
    known = ridge.leave_one_out_solved(rows, classes, solved, fits).max(axis=1)
    return known / (ridge.counts.sum() - 1.0) ** ridge.recoding, unknowns


def _inverse_without(P: Array, count: float) -> Array:
    """(I − w P)⁻¹, where each row of P stands for w of the ``count`` examples of its class."""
    weight = max(count / len(P), 1.0)
    values, vectors = np.linalg.eigh((P + P.T) / 2.0)
    remaining = np.maximum(1.0 - weight * values, 1e-12 if weight == 1.0 else LEAST_LEFT)
    inverse: Array = (vectors / remaining) @ vectors.T
    return inverse


def _whole_classes(classes: Classes, n_names: int) -> Iterator[Classes]:
    """Indices of rows in blocks of about ``BLOCK`` likenesses; no class is in two blocks."""
    order = np.argsort(classes, kind="stable")
    for part in _runs(classes[order], max(1, BLOCK // max(n_names, 1))):
        yield order[part]


def _runs(classes: Classes, most: int) -> Iterator[slice]:
    """Slices of sorted classes, of at most so many rows unless a class has more."""
    starts = np.flatnonzero(np.diff(classes, prepend=-1))
    ends = np.append(starts[1:], len(classes))
    begin = 0
    for index, end in enumerate(ends):
        last = index == len(ends) - 1
        if last or ends[index + 1] - begin > most:
            yield slice(begin, end)
            begin = end


def _blend_of(parts: tuple[str, ...], scores: Array) -> Blend:
    """The mean of standardised scores, on the scale of the likeness."""
    if parts == ("likeness",):
        return LIKENESS
    columns = {"likeness": scores[:, 0], "contrast": scores[:, 0] - scores[:, 1],
               "score": scores[:, 2]}  # fmt: skip
    centre, spread = float(np.mean(columns["likeness"])), float(np.std(columns["likeness"]))
    coefficients = np.array([0.0, 0.0, 0.0, centre])
    for part in parts:
        deviation = float(np.std(columns[part]))
        if deviation <= 0.0:
            return LIKENESS
        weight = spread / deviation / len(parts)
        coefficients += weight * np.array(SCORES[part])
        coefficients[3] -= weight * float(np.mean(columns[part]))
    return Blend(coefficients)


def _area(known: Array, unknowns: Array) -> float:
    """Area under the ROC curve: how often a taught example is more familiar than an unknown."""
    ordered = np.sort(unknowns)
    # Ties count half.
    below = np.searchsorted(ordered, known, side="left") + np.searchsorted(ordered, known, "right")
    return float(below.mean() / 2.0 / max(len(unknowns), 1))
