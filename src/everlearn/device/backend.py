"""Runs closed-form learners on the device of the data.

The input decides where it runs: rows on a device are accumulated and scored there, rows on the host
by the host; ``to`` names a device to which rows from the host are copied as well. Moments exist on
both sides. The device copy becomes the current one when rows are learned there; the host copy is
then dropped and recreated when ``moments_`` is read, so forgetting, merging, saving and single
vectors work without knowing where examples came from.

A learner provides scores on a device through ``_device_head``, or reports that its parameters need
state that only the host keeps.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from everlearn.arrays import AnyArray, Array, Slots, softmax
from everlearn.device.device import Device, Incoming, device_named, device_of, joined
from everlearn.device.moments import DeviceMoments
from everlearn.errors import InvalidParameter
from everlearn.statistics.class_means import ClassMeans
from everlearn.validation import checked_labelled, checked_table


class Head(Protocol):
    """Computes scores from moments."""

    def scores(self, X: Any) -> Any:
        """Scores of float64 rows, one column per slot."""

    def temperature(self) -> float:
        """Divisor that turns scores into differences of log-probabilities."""


class Watcher(Protocol):
    """Observes rows while they are learned on a device."""

    def see(self, device: Device, rows: Any, part: slice) -> None:
        """Called before these float64 rows of the batch are accumulated."""

    def done(self) -> None:
        """Called after all rows were found finite and learned."""


class DeviceCopy:
    """Moments on a device, and those of the host that they were copied from."""

    def __init__(self, host: ClassMeans, moments: DeviceMoments | None) -> None:
        self.host = host
        self.moments = moments
        self.is_ahead = False
        self._version = host.version
        self._head: Head | None = None
        self._head_for: object = None
        # The slot of each sorted class: the registry's array, and its copy on the device.
        self._ordered: object = None
        self._order: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceCopy, (self.on_host(), None)

    def on_host(self) -> ClassMeans:
        """The current moments on the host."""
        if self.moments is not None and self.is_ahead:
            self.host.restore(self.moments.state())
            self._version = self.host.version
            self.is_ahead = False
        return self.host

    def is_of(self, device: Device, host: ClassMeans | None) -> bool:
        """Whether this copy is current; ``host`` are the learner's moments, if they are."""
        if self.moments is None or self.moments.device != device:
            return False
        return host is None or (host is self.host and host.version == self._version)

    def head(self, learner: Any) -> Head:
        assert self.moments is not None
        made_for = (learner._asked, self.moments.version)
        if self._head is None or self._head_for != made_for:
            self._head, self._head_for = learner._device_head(self.moments), made_for
        return self._head

    def in_order(self, scores: Any, order: Slots) -> Any:
        """Scores with one column per sorted class, from one column per slot."""
        assert self.moments is not None
        device = self.moments.device
        if self._ordered is not order:
            self._ordered = order
            same = len(order) == self.moments.n_slots and np.all(np.diff(order) == 1)
            self._order = None if same else device.indices(order)
        return scores if self._order is None else device.xp.take(scores, self._order, axis=1)


class OnDevice:
    """The backend for one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.xp = device.xp

    def array(self, values: AnyArray) -> Any:
        with self.device.computing():
            return self.device.array(values)

    def learn(
        self, learner: Any, X: Any, y: Any, sample_weight: ArrayLike | None, *, fresh: bool
    ) -> None:
        table = table_of(learner, X, reset=fresh)
        incoming = Incoming(self.device, table, width=int(table.shape[1]))
        self.learn_incoming(learner, incoming, y, sample_weight, fresh=fresh)

    def learn_incoming(
        self,
        learner: Any,
        incoming: Incoming,
        y: Any,
        sample_weight: ArrayLike | None,
        *,
        fresh: bool,
    ) -> None:
        """Learn rows as they arrive on the device."""
        if not fresh:
            learner._require_width(incoming.shape[1])
        name, n_rows = type(learner).__name__, incoming.shape[0]
        labels, weights = checked_labelled(y, sample_weight, n_rows, name)
        # A row of weight zero is accumulated with the others, under any existing slot.
        counted = slice(None) if weights is None else weights > 0

        def add(incoming: Incoming, slots: Slots, shares: Array | None) -> None:
            every, weights_of_all = np.zeros(n_rows, dtype=np.intp), None
            every[counted] = slots
            if shares is not None:
                weights_of_all = np.zeros(n_rows)
                weights_of_all[counted] = shares
            with self.device.computing():
                self._add(learner, incoming, every, weights_of_all)

        shares = None if weights is None else weights[counted]
        learner._learn_rows(incoming, labels[counted], shares, fresh=fresh, learn=add)

    def _add(self, learner: Any, incoming: Incoming, slots: Slots, weights: Array | None) -> None:
        copy = self._copy(learner)
        n_slots = max(int(slots.max()) + 1, copy.moments.n_slots)
        incoming.make_room(self.device.width_of_sums(n_slots))
        watcher: Watcher | None = learner._watcher(slots, weights)
        blocks = incoming.numbered()
        if watcher is not None:
            blocks = _watched(watcher, self.device, blocks)
        grown = copy.moments.grown(blocks, slots, weights, n_slots)
        incoming.require_finite()
        copy.moments.become(grown)
        copy.is_ahead = True
        learner.__dict__.pop("moments_", None)
        if watcher is not None:
            watcher.done()

    def ask(self, learner: Any, X: Any, answer: Callable[[Any], Any]) -> Any:
        learner._require_fitted()
        table = table_of(learner, X, reset=False)
        with self.device.computing():
            copy = self._copy(learner)
            head, order = copy.head(learner), learner.registry_.order
            incoming = Incoming(self.device, table, width=int(table.shape[1]))
            incoming.make_room(copy.moments.n_slots)
            parts = [answer(copy.in_order(head.scores(rows), order)) for rows in incoming]
            incoming.require_finite()
            return joined(self.device, parts)

    def probabilities(self, learner: Any, scores: Any) -> Any:
        return softmax(scores / self._copy(learner).head(learner).temperature(), self.xp)

    def _copy(self, learner: Any) -> Any:
        """The current moments on the device."""
        copy: DeviceCopy | None = learner.__dict__.get("_device_copy")
        if copy is None or not copy.is_of(self.device, learner.__dict__.get("moments_")):
            moments = learner.moments_
            copy = DeviceCopy(moments, DeviceMoments.copied(self.device, moments))
            learner._device_copy = copy
        return copy


def device_backend(learner: Any, X: Any) -> OnDevice | None:
    """The backend for rows on a device, or for a learner that was sent to one."""
    device = device_of(X) or learner.__dict__.get("_sent_to")
    if device is None or sp.issparse(X) or not learner._runs_on_device:
        return None
    return OnDevice(device)


def send(learner: Any, device: object) -> None:
    """Compute on a device from now on, also for rows in host memory."""
    found = device_named(device)
    if found is not None:
        learner._check_parameters()
        if not learner._runs_on_device:
            raise InvalidParameter(
                f"a {type(learner).__name__} with these parameters keeps statistics that only the "
                "host supports; use it on the host"
            )
    learner._sent_to = found


def table_of(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Rows on their own device, with the number of features of the estimator."""
    table = checked_table(X)
    if reset:
        estimator.n_features_in_ = int(table.shape[1])
    else:
        estimator._require_width(int(table.shape[1]))
    if hasattr(X, "columns"):
        estimator._compare_feature_names(X, reset)
    return table


def _watched(
    watcher: Watcher, device: Device, blocks: Iterable[tuple[Any, slice]]
) -> Iterator[tuple[Any, slice]]:
    for rows, part in blocks:
        watcher.see(device, rows, part)
        yield rows, part
