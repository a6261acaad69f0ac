"""A pipeline of fixed transformers and a learner on a device (:mod:`everlearn.pipeline`).

Rows are copied to the device, transformed and accumulated there block by block, so that random
features of all rows never exist at once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from everlearn.device.backend import OnDevice, device_backend, table_of
from everlearn.device.device import Device, Incoming, device_named, device_of, joined
from everlearn.errors import InvalidParameter
from everlearn.validation import checked_table


class StepsOnDevice:
    """The steps of a pipeline, computed on one device."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def learn(self, steps: list[Any], X: Any, y: Any, sample_weight: ArrayLike | None) -> int:
        """Train the last step on transformed rows; returns the number of rows."""
        table = checked_table(X)
        learner = steps[-1]
        incoming = Incoming(
            self.device, table, width=_width(steps, table), through=self._through(steps)
        )
        backend = OnDevice(self.device)
        learner._copy_on_write(
            lambda changed: backend.learn_incoming(
                changed, incoming, y, sample_weight, fresh=not changed._is_begun()
            )
        )
        return incoming.shape[0]

    def ask(self, steps: list[Any], X: Any, ask: Callable[[Any, Any], Any]) -> Any:
        """The learner's answers, block by block."""
        table, learner = table_of(steps[0], X, reset=False), steps[-1]
        with self.device.computing():
            incoming = Incoming(
                self.device, table, width=learner.n_features_in_, through=self._through(steps)
            )
            parts = [ask(learner, rows) for rows in incoming]
            incoming.require_finite()
            if type(parts[0]) is np.ndarray:
                return np.concatenate(parts)
            return joined(self.device, parts)

    def _through(self, steps: list[Any]) -> Callable[[Any], Any]:
        """All transformers in sequence, for float64 rows on the device."""

        def transformed(rows: Any) -> Any:
            for transformer in steps[:-1]:
                rows = transformer._map_at(self.device, rows)
            return rows

        return transformed


def steps_on_device(pipeline: Any, X: Any) -> StepsOnDevice | None:
    """The steps on the device of these rows, or on the pipeline's own device."""
    device = device_of(X) or pipeline.__dict__.get("_sent_to")
    return StepsOnDevice(device) if device is not None and _runs_on_device(pipeline) else None


def send_steps(pipeline: Any, device: object) -> None:
    """Compute on a device from now on, also for rows in host memory."""
    found = device_named(device)
    if found is not None and not _runs_on_device(pipeline):
        raise InvalidParameter(
            "a pipeline runs on a device if all its transformers are fixed ones of everlearn "
            "(PowerNormalizer, RandomFeatures) and its learner runs there; otherwise transform "
            "on the device and pass the result to the learner"
        )
    pipeline._sent_to = found


def _runs_on_device(pipeline: Any) -> bool:
    learner = pipeline.steps[-1][1]
    takes = device_backend in getattr(learner, "_backends", ())
    return takes and pipeline._is_fixed() and bool(learner._runs_on_device)


def _width(steps: list[Any], table: Any) -> int:
    """Set the number of input features of the transformers; returns the number of outputs."""
    seen = np.zeros((1, int(table.shape[1])))
    for transformer in steps[:-1]:
        seen = transformer.partial_fit(seen).transform(seen)
    return int(seen.shape[1])
