"""ExStream: rehearsal from a few prototypes per class.

Each class keeps at most b prototypes with counts. A new example becomes a prototype; if that is one
too many, the two closest prototypes of the class are merged into their weighted mean. Then a
softmax layer makes one pass of gradient descent over all prototypes of all classes (Hayes, Cahill
and Kanan, *Memory Efficient Experience Replay for Streaming Learning*, ICRA 2019, Algorithm 1):

    (i, j) = argmin ‖u_i − u_j‖,   u_i ← (c_i u_i + c_j u_j) / (c_i + c_j),   c_i ← c_i + c_j

Cost per example with K classes and d features: O(b d) to store and merge, O(K² b d) for the pass
over K b prototypes. Memory is K b d numbers and K d weights. The result depends on the order of the
stream, so nothing is exact: no merge, no forgetting of an example. Forgetting a class would remove
its prototypes and weights, but it has influenced the weights of the others, so ``forget_class`` is
refused too.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.arrays import Array, Slots, State
from everlearn.base import BOUNDED, Promise, StreamingClassifier
from everlearn.deprecation import DEPRECATED, parameter, warn_of_old_parameters
from everlearn.errors import NotFinite
from everlearn.learners.softmax import Descent, SoftmaxLayer
from everlearn.statistics.labels import Label
from everlearn.statistics.validated import validated_array, validated_integer
from everlearn.validation import require_number, require_positive, require_whole, warn_of_offset

# Prototypes and weights are float32; larger features would overflow.
LARGEST = 1e15


class ExStream(StreamingClassifier):
    """Prototypes per class, rehearsed by a softmax layer at every example.

    Learning costs O(K² b d) per example for K classes, b prototypes each and d features.

    Parameters
    ----------
    n_prototypes : int, default=20
        b: the most prototypes a class keeps.
    learning_rate : float, default=0.01
    momentum : float in [0, 1), default=0.9
    weight_decay : float, default=1e-4
    batch_size : int, default=256
        Prototypes per step of gradient descent.
    random_state : int, optional
        Seed of the order in which prototypes are rehearsed; None uses a fixed seed.
    prototypes : int
        The old name of ``n_prototypes``.

        .. deprecated:: 0.2

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    See Also
    --------
    StreamingLDA : Better and much faster on the same features, with d² numbers of memory.

    Notes
    -----
    ``fit`` and ``partial_fit`` learn the rows one by one. The defaults are those of Hayes and Kanan
    (2020) for CORe50.

    *Promises*: a batch equals its rows one by one; the order matters, so nothing is merged or
    forgotten (``NotMergeable``, ``NotForgettable``). Memory is bounded.

    References
    ----------
    Hayes, Cahill and Kanan, ICRA 2019. Hayes and Kanan, CVPRW 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn.learners.exstream import ExStream
    >>> rng = np.random.default_rng(0)
    >>> learner = ExStream(n_prototypes=5, learning_rate=0.1)
    >>> for name, centre in [("cup", 0.0), ("chair", 3.0)]:
    ...     for example in centre + rng.normal(size=(20, 4)):
    ...         _ = learner.learn_one(example, name)
    >>> learner.predict_one([2.9, 3.1, 2.8, 3.3])
    'chair'
    """

    _renamed_parameters: ClassVar[dict[str, str | None]] = {"prototypes": "n_prototypes"}

    def __init__(
        self,
        *,
        n_prototypes: int = 20,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        batch_size: int = 256,
        random_state: int | None = None,
        prototypes: int | str = DEPRECATED,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.random_state = random_state
        self.prototypes = prototypes

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED | {Promise.BATCH_IS_LOOP}

    @property
    def coef_(self) -> Array:
        weights: Array = self._layer.weights[self.registry_.order, :-1].astype(np.float64)
        return weights

    @property
    def intercept_(self) -> Array:
        bias: Array = self._layer.weights[self.registry_.order, -1].astype(np.float64)
        return bias

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # type: ignore[override]
        """Forget everything, then learn these examples one by one."""
        return super().fit(X, y)

    def partial_fit(  # type: ignore[override]
        self, X: ArrayLike, y: ArrayLike, classes: Iterable[Label] | None = None
    ) -> Self:
        """Learn more examples one by one; any labels, new ones included.

        There are no sample weights: an example is a step of gradient descent, and two half steps
        are not the same as one.
        """
        return super().partial_fit(X, y, classes)

    def linear_head(self) -> tuple[Array, Array]:
        with self._lock:
            self._require_fitted()
            return self.coef_, self.intercept_

    def _check_parameters(self) -> None:
        warn_of_old_parameters(self)
        require_whole("n_prototypes", parameter(self, "n_prototypes"))
        require_whole("batch_size", self.batch_size)
        require_whole("random_state", self.random_state, least=0, or_none=True)
        require_positive("learning_rate", self.learning_rate)
        require_number("momentum", self.momentum, least=0.0, below=1.0)
        require_number("weight_decay", self.weight_decay, least=0.0)

    def _begin(self, n_features: int) -> None:
        self._layer = SoftmaxLayer(n_features)
        self._prototypes = np.zeros((0, n_features), dtype=np.float32)
        self._owners = np.zeros(0, dtype=np.intp)
        self._counts = np.zeros(0)
        self._steps = 0

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if np.abs(X).max() > LARGEST:
            raise NotFinite(
                "ExStream computes in single precision, which is limited to features of "
                f"{LARGEST:g}; scale the features"
            )
        warn_of_offset(X, "steps of gradient descent")
        for x, slot in zip(X, slots.tolist(), strict=True):
            self._store(x, slot)
            self._rehearse()

    def _store(self, x: Array, slot: int) -> None:
        own = np.flatnonzero(self._owners == slot)
        if len(own) < parameter(self, "n_prototypes"):
            self._prototypes = np.concatenate([self._prototypes, x[None].astype(np.float32)])
            self._owners = np.append(self._owners, slot)
            self._counts = np.append(self._counts, 1.0)
            return
        rows = np.concatenate([self._prototypes[own].astype(np.float64), x[None]])
        counts = np.append(self._counts[own], 1.0)
        keep, drop = _closest_pair(rows)
        rows[keep] = (counts[keep] * rows[keep] + counts[drop] * rows[drop]) / (
            counts[keep] + counts[drop]
        )
        counts[keep] += counts[drop]
        remaining = np.delete(np.arange(len(rows)), drop)
        self._prototypes[own] = rows[remaining]
        self._counts[own] = counts[remaining]

    def _rehearse(self) -> None:
        self._layer.grow(int(self._owners.max()) + 1)
        descent = Descent(self.learning_rate, self.momentum, self.weight_decay, self.batch_size)
        # One generator per step, so that a learner loaded from a file continues identically.
        rng = np.random.default_rng([self.random_state or 0, self._steps])
        self._layer.sweep(self._prototypes, self._owners, descent, rng)
        self._steps += 1

    def _scores(self, X: Array) -> Array:
        # In float64, so that a row's scores do not depend on the rows beside it.
        weights = self._layer.weights.astype(np.float64)
        return X @ weights[:, :-1].T + weights[:, -1]

    def _own_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {
            "prototypes": self._prototypes,
            "owners": self._owners.astype(np.int64),
            "counts": self._counts,
            "weights": self._layer.weights,
            "velocity": self._layer.velocity,
        }
        return arrays, {"steps": self._steps}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        width, n_slots = self.n_features_in_, self.registry_.n_slots
        last = n_slots - 1
        self._prototypes = validated_array(arrays, "prototypes", None, width, dtype=np.float32)
        n_kept = len(self._prototypes)
        self._owners = validated_array(arrays, "owners", n_kept, dtype=np.intp, least=0, most=last)
        self._counts = validated_array(arrays, "counts", n_kept, least=1.0)
        self._layer.weights = validated_array(
            arrays, "weights", n_slots, width + 1, dtype=np.float32
        )
        self._layer.velocity = validated_array(
            arrays, "velocity", n_slots, width + 1, dtype=np.float32
        )
        self._steps = validated_integer(notes, "steps", most=2**63 - 1)


def _closest_pair(rows: Array) -> tuple[int, int]:
    """The two rows with the smallest distance, in order."""
    centred = rows - rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    distances = squares[:, None] + squares - 2.0 * centred @ centred.T
    distances[np.tril_indices(len(rows))] = np.inf
    first, second = divmod(int(distances.argmin()), len(rows))
    return first, second
