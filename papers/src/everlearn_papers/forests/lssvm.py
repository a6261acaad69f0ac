"""Least-squares SVM extended from N to N + 1 classes (MULTIpLE); for small problems.

The hyperplanes stay near the old ones W', the new one near a linear combination of them:

    min ½‖W − W'‖² + ½‖w − W'β‖² + C/2 Σ_i Σ_n (W_n·x_i + b_n − Y_in)²,    Y = ±1

With M = [[XXᵀ + I/C, 1], [1ᵀ, 0]] the solution is A = M⁻¹[Y − XW'(I, β); 0], W = W'(I, β) + XᵀA.
The leave-one-out prediction is Y_in − A_in / (M⁻¹)_ii, linear in β; β minimises the multiclass
hinge loss of these predictions by projected subgradient, ‖β‖ ≤ 1.

All training examples are stored, and an update costs O(n³): a baseline, as in Sec. 5.2 of Ristin et
al., not a learner for long streams.

References
----------
Kuzborskij, Orabona, Caputo. From N to N+1: Multiclass Transfer Incremental Learning. CVPR 2013.
Suykens, Vandewalle. Least Squares Support Vector Machine Classifiers. 1999.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.base import Array, Slots, State, StreamingClassifier
from everlearn.errors import InvalidParameter

SUBGRADIENT_STEPS = 500


class IncrementalLSSVM(StreamingClassifier):
    """One-against-all least-squares SVMs, updated class by class as MULTIpLE does.

    Parameters
    ----------
    C : float, default=1.0
        The weight of the squared errors against the size of the hyperplanes.

    Attributes
    ----------
    W_ : ndarray of shape (n_features, n_slots)
        A hyperplane per class, in order of arrival.
    b_ : ndarray of shape (n_slots,)

    Notes
    -----
    The model depends on the order in which classes arrive. New classes of one batch are added one
    after another. A batch with known classes only keeps all hyperplanes near their old values.
    """

    X_: Array
    slots_: Slots
    weights_: Array
    W_: Array
    b_: Array

    def __init__(self, *, C: float = 1.0) -> None:
        self.C = C

    def _check_parameters(self) -> None:
        if not (isinstance(self.C, (int, float)) and 0 < self.C < float("inf")):
            raise InvalidParameter(f"C is a number above 0, not {self.C!r}")

    def _begin(self, n_features: int) -> None:
        self.X_ = np.empty((0, n_features))
        self.slots_ = np.empty(0, dtype=np.intp)
        self.weights_ = np.empty(0)
        self.W_ = np.empty((n_features, 0))
        self.b_ = np.empty(0)

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        self.X_ = np.concatenate([self.X_, X])
        self.slots_ = np.concatenate([self.slots_, slots])
        more = np.ones(len(X)) if weights is None else weights
        self.weights_ = np.concatenate([self.weights_, more])
        n_known, n_slots = len(self.b_), int(self.slots_.max()) + 1
        if not n_known:
            self._solve(np.arange(n_slots), np.zeros((X.shape[1], n_slots)))
        elif n_slots == n_known:
            self._solve(np.arange(n_known), self.W_)
        for slot in range(n_known, n_slots) if n_known else ():
            self._add_class(slot)

    def _solve(self, known: Slots, prior: Array) -> None:
        rows = np.isin(self.slots_, known)
        X, Y = self.X_[rows], _targets(self.slots_[rows], len(known))
        inverse = _system_inverse(X, self.weights_[rows], self.C)
        A, self.b_ = _solution(inverse, Y - X @ prior)
        self.W_ = prior + X.T @ A

    def _add_class(self, slot: int) -> None:
        rows = self.slots_ <= slot
        X, Y = self.X_[rows], _targets(self.slots_[rows], slot + 1)
        inverse = _system_inverse(X, self.weights_[rows], self.C)
        leverage = inverse.diagonal()[:-1, None]
        # Leave-one-out predictions at β = 0; they are linear in β, with slopes ``shifts``.
        start = np.column_stack([self.W_, np.zeros(len(self.W_))])
        loo = Y - _solution(inverse, Y - X @ start)[0] / leverage
        shifts = _solution(inverse, X @ self.W_)[0] / leverage
        beta = _combination(loo, shifts, self.slots_[rows])
        self._solve(np.arange(slot + 1), np.column_stack([self.W_, self.W_ @ beta]))

    def _scores(self, X: Array) -> Array:
        return X @ self.W_ + self.b_

    def _own_state(self) -> State:
        return {
            "X": self.X_,
            "slots": self.slots_,
            "weights": self.weights_,
            "W": self.W_,
            "b": self.b_,
        }, {}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.X_, self.slots_, self.weights_ = arrays["X"], arrays["slots"], arrays["weights"]
        self.W_, self.b_ = arrays["W"], arrays["b"]


def _targets(slots: Slots, n_classes: int) -> Array:
    return np.where(slots[:, None] == np.arange(n_classes), 1.0, -1.0)


def _system_inverse(X: Array, weights: Array, C: float) -> Array:
    """M⁻¹; the inverse is explicit because leave-one-out predictions need its diagonal."""
    n = len(X)
    M = np.ones((n + 1, n + 1))
    M[:n, :n] = X @ X.T
    M[np.arange(n), np.arange(n)] += 1.0 / (C * weights)
    M[n, n] = 0.0
    return np.asarray(np.linalg.inv(M), dtype=np.float64)


def _solution(inverse: Array, targets: Array) -> tuple[Array, Array]:
    """Dual coefficients A and intercepts b."""
    solved = inverse[:, :-1] @ targets
    return solved[:-1], solved[-1]


def _combination(loo: Array, shifts: Array, slots: Slots) -> Array:
    """β minimising the multiclass leave-one-out hinge loss; the last class is the new one."""
    new = loo.shape[1] - 1
    mine = slots == new
    everyone = np.arange(len(slots))
    # The score that the new class competes with: the best other, or that of the true class.
    rival = np.where(mine, loo[:, :new].max(axis=1), loo[everyone, slots])
    sign = np.where(mine, -1.0, 1.0)
    beta: Array = np.zeros(shifts.shape[1])
    best, best_loss = beta, np.inf
    for step in range(1, SUBGRADIENT_STEPS + 1):
        margin = 1.0 + sign * (loo[:, new] + shifts @ beta - rival)
        loss = np.maximum(margin, 0.0).mean()
        if loss < best_loss:
            best, best_loss = beta, loss
        slope = (sign * (margin > 0)) @ shifts / len(slots)
        beta = beta - slope / np.sqrt(step)
        beta = beta / max(1.0, float(np.linalg.norm(beta)))
    return best
