"""A chain of fixed transformers and a learner where arrays are: see :mod:`everlearn.pipeline`.

Rows are brought to the device, transformed and added up there block by block, so that wide features
of all rows never exist at once.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from everlearn.arrays import as_numpy
from everlearn.device.device import Device, Incoming, device_named, device_of, joined
from everlearn.errors import InvalidParameter
from everlearn.learners.closed_form.on_device import DeviceClassifier
from everlearn.validation import checked_table


class DevicePipeline:
    """What a pipeline does on a device; it brings ``steps`` and, once taught, ``steps_``."""

    steps: list[tuple[str, Any]]
    steps_: list[tuple[str, Any]]
    n_seen_: int
    _lock: Any
    _sent_to: Device | None = None

    def _is_fixed(self) -> bool:
        raise NotImplementedError

    def to(self, device: object) -> Self:
        """Compute on a device from now on, with rows from host memory as well.

        As :meth:`StreamingLDA.to`; for pipelines of fixed transformers and a learner that runs on
        devices.
        """
        device = device_named(device)
        with self._lock:
            if device is not None and not self._runs_on_device():
                raise InvalidParameter(
                    "a pipeline runs on a device where all its transformers are fixed ones of "
                    "everlearn (PowerNormalizer, RandomFeatures) and its learner runs there; "
                    "transform on the device and give the learner what comes out"
                )
            self._sent_to = device
        return self

    def _learn_there(self, device: Device, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        """Rows go through fixed transformers, and into the learner, block by block on a device."""
        table = checked_table(X)
        width = self._note_width(table)
        learner = self.steps_[-1][1]
        through = self._through(device)
        learner._copy_on_write(
            lambda changed: changed._learn_there(
                device,
                table,
                y,
                sample_weight,
                fresh=not changed._is_begun(),
                through=through,
                width=width,
            )
        )
        self.n_seen_ += int(table.shape[0])

    def _note_width(self, table: Any) -> int:
        """Tell the transformers how many features there are, and find out how many come out."""
        seen = np.zeros((1, int(table.shape[1])))
        for _, transformer in self.steps_[:-1]:
            seen = transformer.partial_fit(seen).transform(seen)
        return int(seen.shape[1])

    def _through(self, device: Device) -> Callable[[Any], Any]:
        """All transformers, one after the other, of float64 rows on a device."""

        def seen(rows: Any) -> Any:
            for _, transformer in self.steps_[:-1]:
                rows = transformer._map_at(device, rows)
            return rows

        return seen

    def _device_for(self, X: object) -> Device | None:
        """Where rows are to be computed with; None for the host."""
        device = device_of(X)
        device = self._sent_to if device is None else device
        return device if device is not None and self._runs_on_device() else None

    def _runs_on_device(self) -> bool:
        learner = self.steps[-1][1]
        return self._is_fixed() and isinstance(learner, DeviceClassifier) and learner.runs_on_device

    def _asked_there(self, device: Device, X: Any, ask: Callable[[Any], Any]) -> Any:
        """What the learner answers about rows on a device, block by block."""
        table = self.steps_[0][1]._table(X, reset=False)
        through = self._through(device)
        with device.computing():
            incoming = Incoming(device, table, width=self.steps_[-1][1].n_features_in_)
            parts = [ask(through(rows)) for rows in incoming]
            incoming.require_finite()
            if type(parts[0]) is np.ndarray:
                return np.concatenate(parts)
            answers = joined(device, parts)
        return answers if device_of(X) is not None else as_numpy(answers)

    def _sent(self, x: Any) -> Any:
        """One vector where it is to be computed with."""
        device = self._device_for(x)
        if device is None or device_of(x) is not None:
            return x
        with device.computing():
            return self.steps_[0][1]._vector_at(device, x, "a pipeline")
