"""How a classifier whose state is class moments is taught and asked where arrays are.

What comes in decides where it runs: rows on a device are added up and scored there, rows on the
host by the host; :meth:`DeviceClassifier.to` names a device to which rows from the host are brought
as well. The moments have one home, on the host, and are away while a device adds to them: whoever
asks for them has them brought home first, so that forgetting, merging and saving need not know
where examples came from.

A learner says with ``_reading`` how scores are read off moments elsewhere. Where its parameters
need what only the host keeps, rows come to the host, too, as they do for other learners.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from everlearn.arrays import AnyArray, Array, Slots, as_numpy
from everlearn.base import StreamingClassifier
from everlearn.device.device import (
    NOT_FINITE,
    Device,
    Incoming,
    joined,
    like,
    place_named,
    place_of,
)
from everlearn.errors import InvalidParameter, NotFinite
from everlearn.learners.closed_form.device_heads import DeviceHead
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.device_moments import DeviceMoments
from everlearn.statistics.labels import Label, Labels
from everlearn.validation import checked_labelled, checked_table

# Scores beyond this may come from a vector whose square overflows.
SUSPICIOUS = 1e100


class Away:
    """Moments in a place: a copy of the host's, or ahead of them."""

    def __init__(self, moments: DeviceMoments, copied_from: int) -> None:
        self.moments = moments
        self.place = moments.place
        self.copied_from = copied_from
        self.is_ahead = False
        self.reading: DeviceHead | None = None
        self.asked: object = None
        # The slot of each sorted class: the registry's array, and its copy there.
        self.ordered: object = None
        self.order: Any = None

    def is_current(self, moments: ClassMeans) -> bool:
        return self.is_ahead or self.copied_from == moments.version


class DeviceClassifier(StreamingClassifier):
    """A classifier that reads its answers off class moments, wherever they are."""

    _moments: ClassMeans
    _away: Away | None = None
    _sent_to: Device | None = None

    def to(self, device: object) -> Self:
        """Compute on a device from now on, with rows from host memory as well.

        Parameters
        ----------
        device : str or a device of torch or CuPy
            A word as torch takes it, "cuda" or "cuda:1"; "cpu" is the host. Rows that lie on a
            device are computed with there in any case.
        """
        place = place_named(device)
        with self._turn:
            if place is not None:
                self._check_parameters()
                if not self.runs_elsewhere:
                    raise InvalidParameter(
                        f"a {type(self).__name__} with these parameters keeps statistics that only "
                        "the host adds up; leave it there"
                    )
            self._sent_to = place
        return self

    @property
    def moments_(self) -> Any:
        """The statistics on the host, up to date."""
        away = self._away
        if away is not None and away.is_ahead:
            self._moments.restore(away.moments.state())
            away.is_ahead = False
            self._after_other_change()
            away.copied_from = self._moments.version
        return self._moments

    @moments_.setter
    def moments_(self, moments: ClassMeans) -> None:
        self._moments, self._away = moments, None

    def __getstate__(self) -> dict[str, Any]:
        if self._is_begun():
            _ = self.moments_
        state = super().__getstate__()
        state.pop("_away", None)  # a copy goes there on its own
        return state

    # Hooks.

    @property
    def runs_elsewhere(self) -> bool:
        """Whether, with these parameters, moments can be added up and read on a device."""
        return False

    def _reading(self) -> DeviceHead:
        """How scores are read off moments in some place."""
        raise NotImplementedError

    @property
    def _asked(self) -> object:
        """The parameters a reading depends on."""
        raise NotImplementedError

    def _after_other_change(self) -> None:
        """The moments changed as a whole."""

    def _beside(
        self, incoming: Incoming, slots: Slots, weights: Array | None
    ) -> Callable[[], Callable[[], None]]:
        """What else is to be noted of rows: begun now, made ready and then put in place.

        While the first of the two functions it gives is called, all rows are added up but nothing
        is changed yet.
        """
        return lambda: lambda: None

    # Teaching.

    def _learn_batch(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: Iterable[Label] | None,
        *,
        fresh: bool,
    ) -> None:
        place = self._place_for(X)
        if place is None:
            super()._learn_batch(X, y, sample_weight, classes, fresh=fresh)
        else:
            self._learn_there(place, X, y, sample_weight, fresh=fresh)

    def _learn_there(
        self,
        place: Device,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        *,
        fresh: bool,
        through: Callable[[Any], Any] | None = None,
        width: int | None = None,
    ) -> None:
        """Learn rows in a place; what is learned is what ``through`` makes of them."""
        table = checked_table(X) if through else self._table(X, reset=fresh)
        width = int(table.shape[1]) if width is None else width
        if not fresh:
            self._require_width(width)
        n_rows = int(table.shape[0])
        labels, weights = checked_labelled(y, sample_weight, n_rows, type(self).__name__)
        self._check_parameters()
        registry = Labels() if fresh else self._changeable_registry()
        counted = slice(None) if weights is None else weights > 0
        slots = np.zeros(len(labels), dtype=np.intp)
        slots[counted], new = self._encode(registry, labels[counted])
        if fresh:
            self.n_features_in_ = width
            self._begin(width)
        self._welcome(registry, new)
        n_slots = max(int(slots.max()) + 1, registry.n_slots)
        with place.computing():
            away = self._away_at(place)
            incoming = Incoming(place, table, width=max(width, n_slots), through=through)
            beside = self._beside(incoming, slots, weights)
            grown = away.moments.grown(incoming, slots, weights, n_slots)
            note = beside()
            away.moments.become(grown)
            away.is_ahead = True
            note()
        registry.extend(new)
        self.registry_ = registry

    def _learn_vector(self, x: Any, y: Label) -> None:
        place = self._place_for(x)
        if place is None:
            super()._learn_vector(x, y)
            return
        slot = self.registry_.find(y) if self._is_begun() else None
        with place.computing():
            vector = self._vector_at(place, x, "learn_one")
        if slot is None or not self._learns_one_there:
            fresh = not self._is_begun()
            self._drafted(
                lambda draft: draft._learn_there(place, vector[None, :], [y], None, fresh=fresh)
            )
            return
        with place.computing():
            away = self._away_at(place)
            self._reading_of(away).learn_one(vector, slot, away.moments)
            away.is_ahead = True

    @property
    def _learns_one_there(self) -> bool:
        """Whether nothing but moments takes note of a single example."""
        return True

    # Asking.

    def _decide(self, X: Any) -> Any:
        place = self._place_for(X)
        if place is None:
            return super()._decide(X)
        return self._asked_there(place, X, lambda scores: _decided(scores))

    def _answer(self, X: Any, among: Iterable[Label] | None) -> AnyArray:
        place = self._place_for(X)
        if place is None:
            return super()._answer(X, among)
        self._require_fitted()
        hidden = self._hidden(place, among)
        best = self._asked_there(
            place, X, lambda scores: place.xp.argmax(hidden(scores), axis=1), back=False
        )
        answers: AnyArray = self.classes_[as_numpy(best)]
        return answers

    def _answer_with_probabilities(self, X: Any, among: Iterable[Label] | None) -> Any:
        place = self._place_for(X)
        if place is None:
            return super()._answer_with_probabilities(X, among)
        self._require_fitted()
        hidden = self._hidden(place, among)
        with place.computing():
            away = self._away_at(place)
            temperature = self._reading_of(away).temperature(away.moments)
        return self._asked_there(
            place, X, lambda scores: _shares(place.xp, hidden(scores) / temperature)
        )

    def _scores_of(self, x: Any) -> Array:
        place = self._place_for(x)
        if place is None:
            return super()._scores_of(x)
        with place.computing():
            vector = self._vector_at(place, x, "predict_one")
            away = self._away_at(place)
            scores = self._reading_of(away).scores_one(vector, away.moments)
            # Looked at again only where scores say that there may be something to see.
            if not np.abs(scores).max() < SUSPICIOUS or len(scores) < 2:
                (square,) = place.numbers(vector @ vector)
                if not np.isfinite(square):
                    raise NotFinite(f"predict_one got one vector of which: {NOT_FINITE}")
        return scores

    def _asked_there(
        self, place: Device, X: Any, answer: Callable[[Any], Any], *, back: bool = True
    ) -> Any:
        """What is made of the scores of rows, block by block, as the caller's kind of array."""
        self._require_fitted()
        table = self._table(X, reset=False)
        with place.computing():
            away = self._away_at(place)
            reading = self._reading_of(away)
            n_slots = len(away.moments.counts)
            incoming = Incoming(place, table, width=max(self.n_features_in_, n_slots))
            parts = [
                answer(self._in_order(reading.scores(rows, away.moments), away))
                for rows in incoming
            ]
            incoming.require_finite()
            answers = joined(place, parts)
        return like(as_numpy(answers), X) if back and place_of(X) is None else answers

    def _hidden(self, place: Device, among: Iterable[Label] | None) -> Callable[[Any], Any]:
        """Scores with −∞ for the classes that are not asked about."""
        if among is None:
            return lambda scores: scores
        mask = np.full(len(self.registry_), -np.inf)
        mask[self.registry_.rank[self._candidates(among)]] = 0.0
        with place.computing():
            hiding = place.array(mask)
        return lambda scores: scores + hiding

    # Where things are.

    def _place_for(self, X: object) -> Device | None:
        """Where rows are to be computed with; None for the host."""
        place = None if type(X) is np.ndarray else place_of(X)
        place = self._sent_to if place is None else place
        return None if place is None or sp.issparse(X) or not self.runs_elsewhere else place

    def _away_at(self, place: Device) -> Away:
        """The moments in a place, up to date."""
        away = self._away
        if away is not None and away.place == place and away.is_current(self._moments):
            return away
        moments = self.moments_
        away = Away(DeviceMoments.copied(place, moments), moments.version)
        self._away = away
        return away

    def _reading_of(self, away: Away) -> DeviceHead:
        if away.reading is None or away.asked != self._asked:
            away.reading, away.asked = self._reading(), self._asked
        return away.reading

    def _in_order(self, scores: Any, away: Away) -> Any:
        """A column of scores for each sorted class, from a column for each slot."""
        order = self.registry_.order
        if away.ordered is not order:
            away.ordered = order
            same = len(order) == len(away.moments.counts) and np.all(np.diff(order) == 1)
            away.order = None if same else away.place.indices(order)
        return scores if away.order is None else away.place.xp.take(scores, away.order, axis=1)


def _decided(scores: Any) -> Any:
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def _shares(xp: Any, scores: Any) -> Any:
    """The softmax of each row."""
    shares = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return shares / xp.sum(shares, axis=1, keepdims=True)
