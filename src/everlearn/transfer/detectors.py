"""Linear detectors, one per class, with the class means and a few exemplars of each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import padded
from everlearn.base import Array, Slots, State
from everlearn.statistics.validated import validated_array, validated_integer, validated_number

NEVER_NEGATIVE = ("ages", "totals", "counts", "exemplar_weights", "exemplar_counts")


class Detectors:
    """f_k(x) = w_k·x + b_k for every class k, with the mean and exemplars of each class.

    Arrays have spare capacity; the public views end at the last class.
    """

    def __init__(self, n_features: int, n_exemplars: int) -> None:
        self.n_classes = 0
        self._n_examples = 0
        self._mean_square = 0.0
        self._cursor = 0
        self._arrays: dict[str, NDArray[Any]] = {
            "W": np.zeros((0, n_features)),
            "b": np.zeros(0),
            "average_W": np.zeros((0, n_features)),
            "average_b": np.zeros(0),
            "ages": np.zeros(0, dtype=np.int64),
            "means": np.zeros((0, n_features)),
            "totals": np.zeros(0),
            "counts": np.zeros(0, dtype=np.int64),
            "exemplars": np.zeros((0, n_exemplars, n_features)),
            "exemplar_weights": np.zeros((0, n_exemplars)),
            "exemplar_counts": np.zeros(0, dtype=np.int64),
        }

    @property
    def W(self) -> Array:
        return self._view("W")

    @property
    def b(self) -> Array:
        return self._view("b")

    @property
    def average(self) -> tuple[Array, Array]:
        """Running averages of W and b."""
        return self._view("average_W"), self._view("average_b")

    @property
    def means(self) -> Array:
        return self._view("means")

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of examples of each class."""
        return self._view("counts")

    def class_summary(self, slot: int) -> tuple[Array, Array]:
        """Rows that stand for a class, and their weights: its exemplars, and then its mean.

        The mean has the weight of all examples that are no exemplars; without any it is left out.
        """
        arrays = self._arrays
        stored = arrays["exemplar_counts"][slot]
        exemplars = arrays["exemplars"][slot, :stored]
        weights = arrays["exemplar_weights"][slot, :stored]
        if arrays["counts"][slot] == stored:
            return exemplars, weights
        others = arrays["totals"][slot] - weights.sum()
        return np.vstack([exemplars, arrays["means"][slot]]), np.append(weights, others)

    def remember(self, x: Array, slot: int, weight: float) -> None:
        """Add an example to its class mean, and to its exemplars while there is room."""
        self._reserve(slot + 1)
        arrays = self._arrays
        arrays["counts"][slot] += 1
        arrays["totals"][slot] += weight
        arrays["means"][slot] += (weight / arrays["totals"][slot]) * (x - arrays["means"][slot])
        stored = arrays["exemplar_counts"][slot]
        if stored < arrays["exemplars"].shape[1]:
            arrays["exemplars"][slot, stored] = x
            arrays["exemplar_weights"][slot, stored] = weight
            arrays["exemplar_counts"][slot] += 1
        self._n_examples += 1
        self._mean_square += (float(x @ x) - self._mean_square) / self._n_examples

    def nearest(self, slot: int, most: int) -> Slots:
        """The classes whose means are nearest to that of one class, at most ``most``."""
        others = np.delete(np.arange(self.n_classes), slot)
        if len(others) <= most:
            return others
        distances = ((self.means[others] - self.means[slot]) ** 2).sum(axis=1)
        return np.sort(others[np.argpartition(distances, most)[:most]])

    def restart(self, slot: int, w: Array, b: float) -> None:
        """Replace a detector, and restart its average."""
        self.W[slot] = w
        self.b[slot] = b
        self._view("ages")[slot] = 0

    def learn(self, x: Array, slot: int, C: float, variant: str) -> None:
        """One Passive-Aggressive step, true class against best rival."""
        from everlearn.transfer.rival_steps import rival_step
        from everlearn.transfer.steps import RULES

        rival_step(self.W, self.b, x, slot, self._mean_square, C, RULES[variant])

    def replay(self, rounds: int, C: float, variant: str) -> None:
        """Learn the next ``rounds`` exemplars again, in turn."""
        if not rounds or not self._arrays["exemplars"].shape[1]:
            return
        from everlearn.transfer.rival_steps import replay
        from everlearn.transfer.steps import RULES

        self._cursor = replay(
            self.W,
            self.b,
            self._view("exemplars"),
            self._view("exemplar_weights"),
            self._view("exemplar_counts"),
            self._cursor,
            rounds,
            self._mean_square,
            C,
            RULES[variant],
        )

    def update_averages(self, average_over: float) -> None:
        """Update the averages: a plain mean at first, an exponential one later.

        They span about as many examples as ``average_over`` classes have.
        """
        from everlearn.transfer.rival_steps import move_average

        ages = self._view("ages")
        ages += 1
        rates = 1.0 / np.minimum(ages, max(1.0, average_over * self._n_examples / self.n_classes))
        average_W, average_b = self.average
        move_average(average_W, self.W, rates)
        average_b += rates * (self.b - average_b)

    def state(self) -> State:
        return {name: self._view(name) for name in self._arrays}, {
            "n_seen": self._n_examples,
            "mean_square": self._mean_square,
            "cursor": self._cursor,
        }

    def restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        n_classes = len(validated_array(arrays, "b", None))
        n_exemplars = self._arrays["exemplars"].shape[1]
        for name, own in self._arrays.items():
            self._arrays[name] = validated_array(
                arrays,
                name,
                n_classes,
                *own.shape[1:],
                dtype=own.dtype,
                least=0 if name in NEVER_NEGATIVE else None,
                most=n_exemplars if name == "exemplar_counts" else None,
            )
        self.n_classes = n_classes
        self._n_examples = validated_integer(notes, "n_seen")
        self._mean_square = validated_number(notes, "mean_square", least=0.0)
        self._cursor = validated_integer(notes, "cursor", most=2**62)

    def _view(self, name: str) -> Any:
        return self._arrays[name][: self.n_classes]

    def _reserve(self, n_classes: int) -> None:
        capacity = len(self._arrays["b"])
        if n_classes > capacity:
            rows = max(n_classes, 2 * capacity, 4)
            self._arrays = {name: padded(array, rows) for name, array in self._arrays.items()}
        self.n_classes = max(self.n_classes, n_classes)
