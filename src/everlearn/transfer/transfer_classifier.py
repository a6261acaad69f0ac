"""Transfer for any number of classes: a new class starts from the detectors of known classes.

An extension of Tommasi et al. (2012), whose learners have two labels. One linear detector per
class, f_k(x) = w_k·x + b_k; the largest score wins. An example (x, k) is learned in three steps:

1. While class k has at most ``warm_up`` examples, its detector is the Multi-KT hypothesis (Eq. 4-5)
   that separates its exemplars and its mean from the means of the nearest other classes, with the
   detectors of those classes as prior models.
2. Passive-Aggressive, true class against best rival (Crammer et al. 2006, Sec. 8):
   ℓ = max(0, 1 − f_k(x) + f_r(x)),  γ = min(C / ‖x‖², ℓ / 2(‖x‖² + c)),
   w_k += γ x,  w_r −= γ x,  b_k += γ c,  b_r −= γ c.
3. Step 2 for the next ``replay`` stored exemplars, which prevents old classes from being forgotten
   when a stream shows one class after the other.

Answers use a running average of the detectors, which is more stable than their latest values.

c is the mean of ‖x‖² over all examples, so that the constant feature is as long as an example and
scaling all features changes no answer. One example costs O(r d K) for r replayed exemplars and K
classes, and in the warm-up of its class O(n³ + n² d) for n rivals; memory is (m + 3) K d numbers
for m exemplars per class. The result depends on the order of the stream, so it is neither mergeable
nor forgettable. ``Detectors`` has the state; the steps are compiled in ``rival_steps``.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.base import BOUNDED, Array, Promise, Slots, State, StreamingClassifier
from everlearn.deprecation import DEPRECATED, parameter, warn_of_old_parameters
from everlearn.errors import InvalidParameter
from everlearn.transfer.detectors import Detectors
from everlearn.transfer.multi_kt import multi_kt
from everlearn.transfer.passive_aggressive import PassiveAggressive
from everlearn.transfer.trol import TROL
from everlearn.validation import require_whole

LEAST = {"warm_up": 1, "n_exemplars": 0, "replay": 0, "max_rivals": 1}


class TransferClassifier(StreamingClassifier):
    """Learn any number of classes online; a new one starts from the detectors of the others.

    The cost of an example grows with the number of classes, not with the number of examples.

    Parameters
    ----------
    base : TROL or PassiveAggressive, optional
        How a detector begins and learns: ``TROL`` (the default) starts a new class by Multi-KT from
        the known detectors, ``PassiveAggressive`` from zero. C and variant are used, of TROL those
        of its ``online`` part and batch_C, penalty and ridge; both C are in units of 1/‖x‖².
    warm_up : int, default=20
        Number of examples of a class during which its detector is refitted from its summary;
        afterwards it is only updated.
    n_exemplars : int, default=5
        Exemplars kept of each class, its first examples. Zero keeps none, and replays none.
    replay : int, default=50
        Exemplars replayed after each example.
    max_rivals : int, default=50
        Maximum number of classes, the nearest ones, that a new detector is trained against.
    average_over : float, default=20
        Answers use an average of the detectors over about as many of the latest examples as this
        number of classes has; more stable than the latest detectors. Zero for no average.
    opening, memory : int
        The old names of ``warm_up`` and ``n_exemplars``.

        .. deprecated:: 0.2

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        The detectors, in the order of ``classes_``.
    intercept_ : ndarray of shape (n_classes,)
    classes_ : ndarray
    n_features_in_ : int

    See Also
    --------
    NearestClassMean : Exact, and as accurate if all classes have the same spherical covariance.
    TROL : For two labels, with any prior models and kernels.

    Notes
    -----
    *Promises*: a batch equals its rows one by one; the order matters, so nothing is merged or
    forgotten (``NotMergeable``, ``NotForgettable``). Memory is bounded.

    Examples
    --------
    >>> from everlearn import TransferClassifier
    >>> learner = TransferClassifier()
    >>> for x, y in (([0.0, 1.0], "cup"), ([1.0, 0.0], "hat"), ([-1.0, -0.5], "key")):
    ...     learner = learner.learn_one(x, y)
    >>> learner.predict([[0.1, 0.8], [0.9, 0.1], [-1.0, -1.0]]).tolist()
    ['cup', 'hat', 'key']
    """

    _renamed_parameters: ClassVar[dict[str, str | None]] = {
        "opening": "warm_up",
        "memory": "n_exemplars",
    }

    def __init__(
        self,
        *,
        base: TROL | PassiveAggressive | None = None,
        warm_up: int = 20,
        n_exemplars: int = 5,
        replay: int = 50,
        max_rivals: int = 50,
        average_over: float = 20.0,
        opening: int | str = DEPRECATED,
        memory: int | str = DEPRECATED,
    ) -> None:
        self.base = base
        self.warm_up = warm_up
        self.n_exemplars = n_exemplars
        self.replay = replay
        self.max_rivals = max_rivals
        self.average_over = average_over
        self.opening = opening
        self.memory = memory

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED | {Promise.BATCH_IS_LOOP}

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:  # type: ignore[override]
        """Forget everything, then learn from these examples, once each, in this order."""
        return super().fit(X, y)

    @property
    def coef_(self) -> Array:
        coefficients: Array = self._detectors.average[0][self.registry_.order]
        return coefficients

    @property
    def intercept_(self) -> Array:
        intercepts: Array = self._detectors.average[1][self.registry_.order]
        return intercepts

    def linear_head(self) -> tuple[Array, Array]:
        with self._lock:
            return self.coef_, self.intercept_

    def _check_parameters(self) -> None:
        base = self._base()
        if not isinstance(base, (TROL, PassiveAggressive)):
            raise InvalidParameter(
                f"base must be a TROL or a PassiveAggressive, not a {type(base).__name__}"
            )
        base._check_parameters()
        if self._steps().kernel != "linear" or _has_prior_knowledge(base):
            raise InvalidParameter(
                "base must have a linear kernel and no prior_models or start: detectors are "
                "linear, and a new one starts from the other detectors"
            )
        warn_of_old_parameters(self)
        for name, least in LEAST.items():
            require_whole(name, parameter(self, name), least=least, most=2**31 - 1)
        if not (np.isfinite(self.average_over) and self.average_over >= 0):
            raise InvalidParameter(
                f"average_over must be a number, zero or more, not {self.average_over!r}"
            )

    def _base(self) -> TROL | PassiveAggressive:
        return TROL() if self.base is None else self.base

    def _steps(self) -> PassiveAggressive:
        """Has the step rule of steps 2 and 3."""
        base = self._base()
        return base.online_part() if isinstance(base, TROL) else base

    def _begin(self, n_features: int) -> None:
        self._detectors = Detectors(n_features, int(parameter(self, "n_exemplars")))

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        for row, slot in enumerate(slots):
            self._teach(X[row], int(slot), 1.0 if weights is None else float(weights[row]))

    def _learn_one(self, x: Array, slot: int) -> None:
        self._teach(x, slot, 1.0)

    def _teach(self, x: Array, slot: int, weight: float) -> None:
        base, steps, detectors = self._base(), self._steps(), self._detectors
        detectors.remember(x, slot, weight)
        if isinstance(base, TROL) and detectors.counts[slot] <= parameter(self, "warm_up"):
            self._fit_detector(base, slot)
        detectors.learn(x, slot, steps.C * weight, steps.variant)
        detectors.replay(self.replay, steps.C, steps.variant)
        detectors.update_averages(self.average_over)

    def _fit_detector(self, base: TROL, slot: int) -> None:
        """Fit the detector of a class by Multi-KT (step 1 of the module's docstring)."""
        detectors = self._detectors
        rivals = detectors.nearest(slot, self.max_rivals)
        if not len(rivals):
            return
        examples, weights = detectors.class_summary(slot)
        P = np.concatenate([examples, detectors.means[rivals]])
        signs = np.concatenate([np.ones(len(examples)), -np.ones(len(rivals))])
        K = P @ P.T
        mean_square = float(K.diagonal().mean())
        if not mean_square > 0.0:
            return
        W, b = detectors.W[rivals], detectors.b[rivals]
        solution = multi_kt(
            K,
            signs,
            np.concatenate([weights, np.ones(len(rivals))]),
            P @ W.T + b,
            C=base.batch_C / mean_square,
            penalty=base.penalty,
            ridge=base.ridge,
        )
        w = P.T @ solution.alpha + W.T @ solution.beta
        detectors.restart(slot, w, solution.bias + float(b @ solution.beta))

    def _scores(self, X: Array) -> Array:
        W, b = self._detectors.average
        scores: Array = X @ W.T + b
        return scores

    def _own_state(self) -> State:
        return self._detectors.state()

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self._detectors.restore(arrays, notes)
        if self._detectors.n_classes != self.registry_.n_slots:
            raise ValueError("the numbers of detectors and labels differ")


def _has_prior_knowledge(base: TROL | PassiveAggressive) -> bool:
    return len(base.prior_models) > 0 if isinstance(base, TROL) else base.start is not None
