"""The calibration of a model, computed at once or by a slice with every question.

What it consists of is described in calibrated.py. The same computation serves both: at once it
works on the statistics themselves, in slices on those of the position at which it began
(frozen.py), while the model goes on learning. So it is the calibration of that position. Once
something was forgotten, or very much was taught between two questions, it has to begin again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import NotExplainable
from everlearn.memory.insight.influence import Ridge
from everlearn.memory.model.calibration import ridge_of, ridge_temperature, temperature_of
from everlearn.memory.model.familiar import choosing
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.frozen import FrozenMeans, FrozenRidge
from everlearn.memory.model.head import mapped_features, unit
from everlearn.memory.model.model import Model
from everlearn.memory.model.sample import sampling
from everlearn.memory.model.unknown import Familiarity
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import WINDOW, has_negative_entry_after, runs
from everlearn.statistics.slices import Slices, Work, finished, parts

# At most this many teachings are used for the temperature, and for familiarity.
SAMPLE = 512
RANKED = 2048
# With many names fewer are used. Familiarity costs K d multiplications per teaching: at most this
# many in all, but at least so many teachings.
MOST_PRODUCTS, FEWEST_RANKED = 1e10, 128
# The temperature needs K scores per teaching: likewise.
MOST_SCORES, FEWEST_SAMPLED = 4e6, 32
# Number of scores kept of examples treated as unknowns.
REMEMBERED = 1024
# A slice takes about as long as a question, which reads K d numbers from memory: so many
# multiplications for each of them, and at least this many.
PER_NUMBER, LEAST_SLICE = 4.0, 1e6
# Number of pieces per slice.
PIECES = 2.0
# What takes the time of so many products: the feature map of one number.
PER_FEATURE = 128.0


@dataclass(frozen=True)
class _Basis:
    """What a calibration is computed from; ``names`` are the classes of the rest."""

    journal: Journal
    learner: Any
    power: float
    position: int
    total: float
    names: NDArray[np.int64]
    familiarity: Familiarity
    ridge: Ridge | None


def calibrated(model: Model, journal: Journal, familiarity: Familiarity) -> dict[str, Any]:
    """Temperature, blend and leave-one-out scores, learned from a sample of the journal."""
    power, learner = power_and_learner(model.classifier)
    total, names = float(model.means.moments_.total), model.means.classes_
    ridge = ridge_of(learner)
    basis = _Basis(journal, learner, power, model.position, total, names, familiarity, ridge)
    return finished(_calibrating(basis, np.inf))


class Recalibration:
    """A calibration computed by a slice with every question, of the position at which it began.

    Raises ``NotExplainable`` unless the classifier is ridge regression.

    Parameters
    ----------
    model : Model
        Which goes on learning.
    journal : Journal
    """

    def __init__(self, model: Model, journal: Journal) -> None:
        self._power, self._learner = power_and_learner(model.classifier)
        self._journal = journal
        self._position = self._followed = model.position
        self._names = FrozenMeans(model.means)
        self._classes = FrozenMeans(self._learner)
        ridge = FrozenRidge(self._learner, self._classes)
        budget = max(LEAST_SLICE, PER_NUMBER * len(self._names) * self._names.n_features)
        # False during a slice, and after one that was interrupted.
        self._is_whole = True
        self._slices = Slices(self._work(ridge, budget / PIECES), budget)

    def can_follow(self, model: Model, journal: Journal) -> bool:
        """Whether the next slice is possible with the model and journal as they are now."""
        return (
            self._is_whole
            and journal is self._journal
            and self._names.is_of(model.means)
            and self._classes.is_of(power_and_learner(model.classifier)[1])
            and 0 <= model.position - self._followed <= WINDOW
            and not has_negative_entry_after(journal, self._position)
        )

    def advance(self, model: Model) -> dict[str, Any] | None:
        """One slice, if :meth:`can_follow`; the calibration when it is finished."""
        self._is_whole = False
        for run in runs(self._journal, self._followed, model.position):
            X = unit(run.vectors)
            self._names.learned(X, run.names)
            self._classes.learned(mapped_features(self._power, X), run.names)
        self._followed = model.position
        calibration = self._slices.advance()
        self._is_whole = True
        return calibration

    def _work(self, ridge: Ridge, piece: float) -> Work[dict[str, Any]]:
        names = self._names
        squares = yield from names.squares(piece)
        basis = _Basis(
            self._journal,
            self._learner,
            self._power,
            self._position,
            names.total,
            names.classes,
            Familiarity(names.counts, names, squares),
            ridge,
        )
        return (yield from _calibrating(basis, piece))


def begun(model: Model, journal: Journal) -> Recalibration | None:
    """A recalibration in slices; ``None`` if the classifier allows none."""
    try:
        return Recalibration(model, journal)
    except NotExplainable:
        return None


def _calibrating(basis: _Basis, piece: float) -> Work[dict[str, Any]]:
    known = basis.names
    n_names, width = basis.familiarity.means.shape
    ranked = min(RANKED, max(FEWEST_RANKED, int(MOST_PRODUCTS / (n_names * width))))
    sampled = min(SAMPLE, max(FEWEST_SAMPLED, int(MOST_SCORES / n_names)))
    vectors, names = yield from sampling(basis.journal, ranked, basis.position, piece)
    sample = np.empty(vectors.shape)
    mapped = np.empty(vectors.shape)
    for part in parts(len(vectors), width * PER_FEATURE, piece):
        sample[part] = unit(vectors[part])
        mapped[part] = mapped_features(basis.power, sample[part])
        yield vectors[part].size * PER_FEATURE
    classes = np.searchsorted(known, names)
    ridge, familiarity = basis.ridge, basis.familiarity
    chosen = yield from choosing(familiarity, sample, mapped, classes, ridge, piece)
    some = np.linspace(0, len(sample) - 1, min(sampled, len(sample))).astype(np.intp)
    if ridge is None:
        temperature = temperature_of(basis.learner, mapped[some], names[some], None)
    else:
        temperature = yield from ridge_temperature(ridge, mapped[some], classes[some], piece)
    n_unknowns = len(chosen.unknowns)
    unknowns = np.linspace(0, n_unknowns - 1, min(REMEMBERED, n_unknowns)).astype(np.intp)
    return {
        "temperature": temperature,
        "scores": chosen.known.tolist(),
        "nearest": known[chosen.known_nearest].tolist(),
        "blend": chosen.blend.coefficients.tolist(),
        "strangers": chosen.unknowns[unknowns].tolist(),
        "strangers_nearest": known[chosen.unknowns_nearest[unknowns]].tolist(),
        "position": basis.position,
        "total": basis.total,
    }
