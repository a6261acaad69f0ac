"""Protocol of Ristin et al. (2015, Sec. 5): classes arrive in a random order, a few at a time.

Training starts with k classes; every update adds s more. Features are whitened by the mean and
deviation of the initial classes, for the updated and for the retrained forest. Accuracy is the mean
of the per-class accuracies of the known classes (their *average accuracy*; the share of right
answers where all classes have the same number of test images). *Relative performance* divides it by
that of a forest trained on all those classes at once.

Times are CPU seconds of one thread, per tree, as in the paper; prediction times are per image and
tree. The time of an update includes passing the batch, but not the first training. While forests
grow, the process keeps freed memory (:func:`memory_kept`): getting it from the system again takes a
variable time, up to that of an update.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.evaluation.metrics import per_class_accuracy
from everlearn.preprocessing.whitening import Whitening
from everlearn.streams.examples import DataSet, Examples
from everlearn.streams.orderings import class_batches
from everlearn_papers.data import packs

# Seed that selects the classes where not all of them are used.
WHICH_CLASSES = 0


DATA_SETS = {
    "cifar100": packs.cifar100,
    "caltech101": packs.caltech101,
    "omniglot": packs.omniglot,
}


@cache
def data_set(name: str) -> DataSet:
    """Load one of the substitutes for ILSVRC10; cached."""
    return DATA_SETS[name]()


@dataclass(frozen=True)
class ClassStream:
    """Training and test examples, and the order in which their classes arrive."""

    train: Examples
    test: Examples
    order: NDArray[Any]

    @classmethod
    def of(cls, data: DataSet, n_classes: int, seed: int) -> "ClassStream":
        """Some classes of a data set, the same ones for every seed, in a random order."""
        which = np.random.default_rng(WHICH_CLASSES).permutation(data.train.classes)[:n_classes]
        chosen = data.only(which)
        return cls(chosen.train, chosen.test, np.random.default_rng(seed).permutation(which))

    def whitened(self, n_first: int) -> "ClassStream":
        """Features standardised by mean and deviation of the first ``n_first`` classes."""
        whitening = Whitening.of(self.between(0, n_first).X, None)
        return self._with_features(lambda X: whitening(X).astype(np.float64))

    def with_features(self, n_features: int | None) -> "ClassStream":
        """Keep ``n_features`` evenly spaced features; None keeps all."""
        if n_features is None:
            return self
        width = self.train.X.shape[1]
        kept = np.linspace(0, width, n_features, endpoint=False).astype(np.intp)
        return self._with_features(lambda X: X[:, kept])

    def with_examples(self, per_class: int | None) -> "ClassStream":
        """Keep the first ``per_class`` training examples of every class; None keeps all."""
        if per_class is None:
            return self
        rows = [np.flatnonzero(self.train.y == label)[:per_class] for label in self.order]
        return replace(self, train=self.train.take(np.concatenate(rows)))

    def between(self, start: int, stop: int) -> Examples:
        """Training examples of the classes ``order[start:stop]``."""
        return self.train.take(np.isin(self.train.y, self.order[start:stop]))

    def batches(self, initial: int, step: int) -> list[Examples]:
        """Training examples of the initial classes, then those of each update."""
        parts = class_batches(self.train.y, initial=initial, step=step, classes=self.order)
        return [self.train.take(np.sort(part)) for part in parts]

    def asked(self, n_known: int) -> Examples:
        """Test examples of the first ``n_known`` classes."""
        return self.test.take(np.isin(self.test.y, self.order[:n_known]))

    def accuracy(self, estimator: Any, n_known: int) -> float:
        """Average accuracy on the first ``n_known`` classes."""
        asked = self.asked(n_known)
        return average_accuracy(asked.y, estimator.predict(asked.X))

    def _with_features(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> "ClassStream":
        train = replace(self.train, X=change(self.train.X))
        return replace(self, train=train, test=replace(self.test, X=change(self.test.X)))


def average_accuracy(truth: NDArray[Any], answers: NDArray[Any]) -> float:
    """Mean over classes of the per-class accuracy."""
    return float(per_class_accuracy(truth, answers).mean())


def sizes_of_updates(initial: int, step: int, last: int) -> list[int]:
    """Number of known classes at first and after every update."""
    return [*range(initial, last, step), last]


def cpu_seconds(work: Callable[..., Any], *arguments: Any) -> float:
    """CPU seconds of this thread for ``work(*arguments)``."""
    start = time.thread_time()
    work(*arguments)
    return time.thread_time() - start


def retraining_seconds(measured: dict[int, float], sizes: list[int]) -> list[float]:
    """Cumulative seconds of retraining at every update, up to each measured size.

    Training is timed at some sizes and interpolated between them as a power of the number of
    classes.
    """
    known = sorted(measured)
    logarithms = np.interp(
        np.log(sizes[1:]), np.log(known), np.log([measured[size] for size in known])
    )
    spent = np.concatenate([[0.0], np.cumsum(np.exp(logarithms))])
    return [float(spent[sizes.index(size)]) for size in known]


@contextmanager
def memory_kept() -> Iterator[None]:
    """Keep freed memory in this process (glibc only; no effect on other systems)."""
    libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(libc, "mallopt"):
        yield
        return
    trim_threshold, mmap_max = -1, -4  # numbers of glibc's options
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)
    try:
        yield
    finally:
        libc.mallopt(mmap_max, 65_536)
        libc.mallopt(trim_threshold, 128 * 1024)
