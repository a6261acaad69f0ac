"""Runs closed-form learners on the device of the data.

What comes in decides where it runs: rows on a device are added up and scored there, rows on the
host by the host; :meth:`DeviceClassifier.to` names a device to which rows from the host are copied
as well. The host copy of the moments is authoritative; a device copy may be ahead of it. Whoever
asks for the moments gets them copied to the host first, so forgetting, merging and saving need not
know where examples came from.

A learner says with ``_reading`` which head scores moments on a device. Where its parameters need
what only the host keeps, rows are copied to the host, as for other learners.
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
    device_named,
    device_of,
    joined,
    like,
)
from everlearn.errors import InvalidParameter, NotFinite
from everlearn.learners.closed_form.device_heads import DeviceHead
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.device_moments import DeviceMoments
from everlearn.statistics.labels import Label, Labels
from everlearn.validation import checked_labelled, checked_table

# Scores beyond this may come from a vector whose square overflows.
SUSPICIOUS = 1e100


class DeviceCopy:
    """Moments on a device: a copy of the host's, or ahead of them."""

    def __init__(self, moments: DeviceMoments, copied_from: int) -> None:
        self.moments = moments
        self.device = moments.device
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
    _device_copy: DeviceCopy | None = None
    _sent_to: Device | None = None

    def to(self, device: object) -> Self:
        """Compute on a device from now on, with rows from host memory as well.

        Parameters
        ----------
        device : str or a device of torch or CuPy
            A word as torch takes it, "cuda" or "cuda:1"; "cpu" is the host. Rows that lie on a
            device are computed with there in any case.
        """
        device = device_named(device)
        with self._lock:
            if device is not None:
                self._check_parameters()
                if not self.runs_on_device:
                    raise InvalidParameter(
                        f"a {type(self).__name__} with these parameters keeps statistics that only "
                        "the host adds up; leave it there"
                    )
            self._sent_to = device
        return self

    @property
    def moments_(self) -> Any:
        """The statistics on the host, up to date."""
        device_copy = self._device_copy
        if device_copy is not None and device_copy.is_ahead:
            self._moments.restore(device_copy.moments.state())
            device_copy.is_ahead = False
            self._after_other_change()
            device_copy.copied_from = self._moments.version
        return self._moments

    @moments_.setter
    def moments_(self, moments: ClassMeans) -> None:
        self._moments, self._device_copy = moments, None

    def __getstate__(self) -> dict[str, Any]:
        if self._is_begun():
            _ = self.moments_
        state = super().__getstate__()
        state.pop("_device_copy", None)  # a copy goes there on its own
        return state

    # Hooks.

    @property
    def runs_on_device(self) -> bool:
        """Whether, with these parameters, moments can be added up and read on a device."""
        return False

    def _reading(self) -> DeviceHead:
        """How scores are read off moments on some device."""
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
        device = self._device_for(X)
        if device is None:
            super()._learn_batch(X, y, sample_weight, classes, fresh=fresh)
        else:
            self._learn_there(device, X, y, sample_weight, fresh=fresh)

    def _learn_there(
        self,
        device: Device,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        *,
        fresh: bool,
        through: Callable[[Any], Any] | None = None,
        width: int | None = None,
    ) -> None:
        """Learn rows on a device; what is learned is what ``through`` makes of them."""
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
        with device.computing():
            device_copy = self._on_device(device)
            incoming = Incoming(device, table, width=max(width, n_slots), through=through)
            beside = self._beside(incoming, slots, weights)
            grown = device_copy.moments.grown(incoming, slots, weights, n_slots)
            note = beside()
            device_copy.moments.become(grown)
            device_copy.is_ahead = True
            note()
        registry.extend(new)
        self.registry_ = registry

    def _learn_vector(self, x: Any, y: Label) -> None:
        device = self._device_for(x)
        if device is None:
            super()._learn_vector(x, y)
            return
        slot = self.registry_.find(y) if self._is_begun() else None
        with device.computing():
            vector = self._vector_at(device, x, "learn_one")
        if slot is None or not self._learns_one_there:
            fresh = not self._is_begun()
            self._copy_on_write(
                lambda changed: changed._learn_there(
                    device, vector[None, :], [y], None, fresh=fresh
                )
            )
            return
        with device.computing():
            device_copy = self._on_device(device)
            self._reading_of(device_copy).learn_one(vector, slot, device_copy.moments)
            device_copy.is_ahead = True

    @property
    def _learns_one_there(self) -> bool:
        """Whether nothing but moments takes note of a single example."""
        return True

    # Asking.

    def _decide(self, X: Any) -> Any:
        device = self._device_for(X)
        if device is None:
            return super()._decide(X)
        return self._asked_there(device, X, lambda scores: _decided(scores))

    def _answer(self, X: Any, among: Iterable[Label] | None) -> AnyArray:
        device = self._device_for(X)
        if device is None:
            return super()._answer(X, among)
        self._require_fitted()
        hidden = self._hidden(device, among)
        best = self._asked_there(
            device, X, lambda scores: device.xp.argmax(hidden(scores), axis=1), back=False
        )
        answers: AnyArray = self.classes_[as_numpy(best)]
        return answers

    def _answer_with_probabilities(self, X: Any, among: Iterable[Label] | None) -> Any:
        device = self._device_for(X)
        if device is None:
            return super()._answer_with_probabilities(X, among)
        self._require_fitted()
        hidden = self._hidden(device, among)
        with device.computing():
            device_copy = self._on_device(device)
            temperature = self._reading_of(device_copy).temperature(device_copy.moments)
        return self._asked_there(
            device, X, lambda scores: _shares(device.xp, hidden(scores) / temperature)
        )

    def _contenders(self, x: Any) -> tuple[Slots, Array] | None:
        return None if self._device_for(x) is not None else super()._contenders(x)

    def _scores_of(self, x: Any) -> Array:
        device = self._device_for(x)
        if device is None:
            return super()._scores_of(x)
        with device.computing():
            vector = self._vector_at(device, x, "predict_one")
            device_copy = self._on_device(device)
            scores = self._reading_of(device_copy).scores_one(vector, device_copy.moments)
            # Looked at again only where scores say that there may be something to see.
            if not np.abs(scores).max() < SUSPICIOUS or len(scores) < 2:
                (square,) = device.numbers(vector @ vector)
                if not np.isfinite(square):
                    raise NotFinite(f"predict_one got one vector of which: {NOT_FINITE}")
        return scores

    def _asked_there(
        self, device: Device, X: Any, answer: Callable[[Any], Any], *, back: bool = True
    ) -> Any:
        """What is made of the scores of rows, block by block, as the caller's kind of array."""
        self._require_fitted()
        table = self._table(X, reset=False)
        with device.computing():
            device_copy = self._on_device(device)
            reading = self._reading_of(device_copy)
            n_slots = len(device_copy.moments.counts)
            incoming = Incoming(device, table, width=max(self.n_features_in_, n_slots))
            parts = [
                answer(self._in_order(reading.scores(rows, device_copy.moments), device_copy))
                for rows in incoming
            ]
            incoming.require_finite()
            answers = joined(device, parts)
        return like(as_numpy(answers), X) if back and device_of(X) is None else answers

    def _hidden(self, device: Device, among: Iterable[Label] | None) -> Callable[[Any], Any]:
        """Scores with −∞ for the classes that are not asked about."""
        if among is None:
            return lambda scores: scores
        mask = np.full(len(self.registry_), -np.inf)
        mask[self.registry_.rank[self._candidates(among)]] = 0.0
        with device.computing():
            hiding = device.array(mask)
        return lambda scores: scores + hiding

    # Where things are.

    def _device_for(self, X: object) -> Device | None:
        """Where rows are to be computed with; None for the host."""
        device = None if type(X) is np.ndarray else device_of(X)
        device = self._sent_to if device is None else device
        return None if device is None or sp.issparse(X) or not self.runs_on_device else device

    def _on_device(self, device: Device) -> DeviceCopy:
        """The moments on a device, up to date."""
        device_copy = self._device_copy
        if (
            device_copy is not None
            and device_copy.device == device
            and device_copy.is_current(self._moments)
        ):
            return device_copy
        moments = self.moments_
        device_copy = DeviceCopy(DeviceMoments.copied(device, moments), moments.version)
        self._device_copy = device_copy
        return device_copy

    def _reading_of(self, device_copy: DeviceCopy) -> DeviceHead:
        if device_copy.reading is None or device_copy.asked != self._asked:
            device_copy.reading, device_copy.asked = self._reading(), self._asked
        return device_copy.reading

    def _in_order(self, scores: Any, device_copy: DeviceCopy) -> Any:
        """A column of scores for each sorted class, from a column for each slot."""
        order = self.registry_.order
        if device_copy.ordered is not order:
            device_copy.ordered = order
            same = len(order) == len(device_copy.moments.counts) and np.all(np.diff(order) == 1)
            device_copy.order = None if same else device_copy.device.indices(order)
        return (
            scores
            if device_copy.order is None
            else device_copy.device.xp.take(scores, device_copy.order, axis=1)
        )


def _decided(scores: Any) -> Any:
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def _shares(xp: Any, scores: Any) -> Any:
    """The softmax of each row."""
    shares = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return shares / xp.sum(shares, axis=1, keepdims=True)
