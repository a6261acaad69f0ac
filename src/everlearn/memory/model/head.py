"""The serving head: a model reduced to the arrays that answering needs.

A linear classifier is evaluated with one float32 matrix of its weights and the class directions, so
a question reads K d numbers of each once. Row-wise dot products stay on one thread. A matrix
product would start the threads of BLAS for a fraction of a millisecond of work and, on a busy
machine, wait for them.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import AnyArray, Array, signed_power, softmax, unit_rows
from everlearn.memory.answers import Answer, Answers
from everlearn.memory.model.blend import Blend
from everlearn.memory.model.conformal import ROUNDING, Acceptance, tie_of
from everlearn.regions.boxes import Box

# Bounds of a valid head: of a score, and of a score divided by the temperature.
LARGEST_SCORE = 1e30
LARGEST_SHARE = 1e290

Arrays = dict[str, NDArray[np.generic]]

# An accepted example is ``probably`` known if it is refused at this many times the refused share.
PROBABLY = 2.0
# With many shares, the largest are looked for among the largest of so many each.
BLOCK = 256


def unit(vectors: NDArray[np.generic]) -> Array:
    """Rows at length one, in double precision; a row of zeros stays zero."""
    return unit_rows(np.asarray(vectors, dtype=np.float64))


def mapped_features(power: float, vectors: AnyArray) -> AnyArray:
    """Vectors of length one after the classifier's feature map (feature_map.py)."""
    return vectors if power == 1.0 else unit_rows(signed_power(vectors, power))


@dataclass(frozen=True)
class Probabilities:
    """Probabilities of all classes, or of those at ``places`` (ascending), and the best score."""

    shares: Array
    best_score: float
    places: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, scores: Array, temperature: float) -> "Probabilities":
        """The probabilities of all classes."""
        return cls(softmax(scores / temperature), float(scores.max()))


@dataclass(frozen=True)
class Verdict:
    """Probabilities and familiarity of one example; ``nearest`` is the name it resembles most."""

    probabilities: Probabilities
    familiarity: float
    nearest: int
    p_value: float
    randomised_p_value: float


class Judgement:
    """Converts scores into a verdict.

    Parameters
    ----------
    temperature : float
    familiar_names : ndarray
        The names, as numbers, used to measure familiarity.
    scores, nearest : ndarray
        Leave-one-out scores of taught examples, and the name each resembles most.
    blend : Blend
        Coefficients of familiarity.
    """

    def __init__(
        self,
        temperature: float,
        familiar_names: NDArray[np.int64],
        scores: Array,
        nearest: NDArray[np.int64],
        blend: Blend,
    ) -> None:
        self.temperature = temperature
        self.acceptance = Acceptance(scores, nearest)
        self.blend = blend
        self._familiar_names = familiar_names

    def with_names(self, familiar_names: NDArray[np.int64], blend: Blend) -> "Judgement":
        """A copy with other names and blend, and the same leave-one-out scores."""
        other = copy.copy(self)
        other._familiar_names = familiar_names
        other.blend = blend
        return other

    def verdict(
        self, probabilities: Probabilities, likeness: "Likeness", vector: NDArray[np.float32]
    ) -> Verdict:
        """Probabilities and familiarity, from those of the classes and the likeness to names."""
        name = int(self._familiar_names[likeness.nearest])
        best = probabilities.best_score
        familiarity = float(self.blend.of(likeness.highest, likeness.average, best))
        p = self.acceptance.p_value(familiarity, name)
        exact = self.acceptance.p_value(familiarity, name, tie_of(vector))
        return Verdict(probabilities, familiarity, name, p, exact)


@dataclass(frozen=True)
class Likeness:
    """Index of the most similar name, the likeness to it, and the mean over names."""

    nearest: int
    highest: float
    average: float


def likeness_of(near: Array) -> Likeness:
    """Summary of the likeness to every name."""
    nearest = int(near.argmax())
    return Likeness(nearest, float(near[nearest]), float(near.mean(dtype=np.float64)))


@dataclass(frozen=True)
class ServingHead:
    """A linear model at one position, as arrays.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Names as numbers.
    rows : ndarray of shape (n_classes + n_names, n_features)
        Weights of the classes, and directions of the names used for familiarity.
    bias : ndarray of shape (n_classes,)
    familiar_names : ndarray of shape (n_names,)
    scores, nearest : ndarray
        As for :class:`Judgement`.
    temperature : ndarray of shape (1,)
    power : ndarray of shape (1,)
        Exponent of the feature map before the weights; the directions use the original vector.
    blend : ndarray of shape (4,)
        Coefficients of familiarity.
    calibrated_at : ndarray of shape (1,)
        Position of the log at which temperature, scores and blend were learned.
    """

    classes: NDArray[np.int64]
    rows: NDArray[np.float32]
    bias: Array
    familiar_names: NDArray[np.int64]
    scores: Array
    nearest: NDArray[np.int64]
    temperature: Array
    power: Array
    blend: Array
    calibrated_at: NDArray[np.int64]

    def judgement(self) -> Judgement:
        T, blend = float(self.temperature[0]), Blend(self.blend)
        return Judgement(T, self.familiar_names, self.scores, self.nearest, blend)

    def products(self, vector: NDArray[np.float32]) -> tuple[Array, Likeness]:
        """Scores of all classes, and likeness to the names."""
        n_classes, power = len(self.classes), float(self.power[0])
        if power == 1.0:
            both = np.vecdot(self.rows, vector)
            return both[:n_classes] + self.bias, likeness_of(both[n_classes:])
        seen = mapped_features(power, vector)
        scores = np.vecdot(self.rows[:n_classes], seen) + self.bias
        return scores, likeness_of(np.vecdot(self.rows[n_classes:], vector))

    def arrays(self) -> Arrays:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def head_of(arrays: Arrays) -> ServingHead:
    """A head from the arrays of a file, after validating their types and shapes."""
    names = [field.name for field in fields(ServingHead)]
    if sorted(arrays) != sorted(names):
        raise ValueError("not the arrays of a head")
    head = ServingHead(**arrays)  # type: ignore[arg-type]
    whole = (head.classes, head.familiar_names, head.nearest, head.calibrated_at)
    exact = (head.bias, head.scores, head.temperature, head.power, head.blend)
    kinds = {np.dtype(np.int64): whole, np.dtype(np.float64): exact}
    if head.rows.dtype != np.float32 or head.rows.ndim != 2:
        raise ValueError("rows of the wrong type or shape")
    if any(a.dtype != kind or a.ndim != 1 for kind, group in kinds.items() for a in group):
        raise ValueError("arrays of the wrong type")
    sizes = (
        len(head.bias) == len(head.classes) > 0,
        len(head.rows) == len(head.classes) + len(head.familiar_names),
        len(head.familiar_names) > 0,
        len(head.scores) == len(head.nearest),
        len(head.temperature) == len(head.power) == len(head.calibrated_at) == 1,
        len(head.blend) == 4,
    )
    if not all(sizes) or not all(np.isfinite(a).all() for a in (head.rows, *exact)):
        raise ValueError("arrays of inconsistent length, or not finite")
    if not head.temperature[0] > 0.0:
        raise ValueError("the temperature is not a positive number")
    # Scores of a vector of length one, divided by the temperature, must stay finite.
    width = np.sqrt(head.rows.shape[1])
    largest = float(np.abs(head.rows).max(initial=0.0)) * width + float(np.abs(head.bias).max())
    if not largest < LARGEST_SCORE or not largest / float(head.temperature[0]) < LARGEST_SHARE:
        raise ValueError("scores would overflow")
    if not 0.0 < head.power[0] <= 1.0:
        raise ValueError("the power is not a number above 0 and at most 1")
    return head


def best_shares(shares: Array, top: int | None) -> NDArray[np.intp]:
    """Indices of the largest shares, largest first; of equal ones, the lower index first."""
    places = np.arange(len(shares))
    if top is not None and 4 * top < len(shares):  # sorting all would take longer than scoring
        places = np.flatnonzero(shares >= _at_most_the_last(shares, top))
    return places[np.argsort(-shares[places], kind="stable")[:top]]


def _at_most_the_last(shares: Array, top: int) -> float:
    """A lower bound of the ``top``-th largest share, close to it."""
    # As many blocks have a share that is not below it: their largest one.
    if len(shares) >= 4 * top * BLOCK:
        shares = np.maximum.reduceat(shares, np.arange(0, len(shares), BLOCK))
    return float(np.partition(shares, -top)[-top])


def as_answers(
    verdict: Verdict,
    classes: NDArray[np.int64],
    names: Mapping[int, str],
    *,
    top: int | None,
    accept: float,
    threshold: float,
    ignored: Callable[[], bool],
    box: Box | None = None,
    randomised: bool = False,
) -> Answers:
    """Answers, best name first; ``ignored`` is called only for unknown examples.

    ``randomised`` uses the randomised p-value (conformal.py) instead of the threshold.
    """
    p_value = verdict.randomised_p_value if randomised else verdict.p_value
    low = verdict.familiarity < threshold
    unknown = p_value <= 1.0 - accept + ROUNDING if randomised else low
    shares, places = verdict.probabilities.shares, verdict.probabilities.places
    best = best_shares(shares, top)
    named = best if places is None else places[best]
    return Answers(
        [
            Answer(names[int(classes[i])], float(p))
            for i, p in zip(named, shares[best], strict=True)
        ],
        unknown=unknown,
        ignored=unknown and ignored(),
        familiarity=verdict.familiarity,
        threshold=threshold,
        p_value=p_value,
        probably=not unknown and p_value <= PROBABLY * (1.0 - accept),
        box=box,
    )
