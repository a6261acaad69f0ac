"""Online transfer: a learner of its own beside the priors, and weights that follow who is right.

OTL (Zhao and Hoi 2010), and M-OTL and TR-OTL of Tommasi et al. (2012), Sec. 2.3. The learner's own
f_t is Passive-Aggressive. With Π(v) = max(0, min(1, (v + 1) / 2)):

    ŷ_t = sign(σ_t Π(h(x_t)) + τ_t Π(f_t(x_t)) − ½)                                      (Eq. 6)
    σ ← σ s(h) / (σ s(h) + τ s(f)),  τ likewise,  s(g) = exp(−½ (Π(g(x_t)) − Π(y_t))²)   (Eq. 7)
    one weight σ_j for each prior, σ_{j,1} = 1/2k                                        (Eq. 8)

σ_1 = τ_1 = ½. OTL takes h as the mean of the priors; M-OTL (``per_source=True``) weighs each on its
own; TR-OTL (``transfer=True``) takes as h the Multi-KT hypothesis of the first n examples, which f
also learns. Cost per example is one Passive-Aggressive step and k questions to priors.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.base import Array, State
from everlearn.errors import InvalidParameter
from everlearn.statistics.labels import Label
from everlearn.statistics.stored import stored
from everlearn.transfer.examples import Examples
from everlearn.transfer.opening_transfer import TransferringLearner

# How many weights to remember, for a plot.
HISTORY = 1000


class OnlineTransfer(TransferringLearner):
    """Learn two labels online, mixed with priors by how right each has been.

    Parameters
    ----------
    priors : list, default=()
        Weight vectors, pairs (vector, bias), fitted estimators, or functions of X.
    per_source : bool, default=False
        One weight for each prior (M-OTL) and not one for their mean (OTL).
    transfer : bool, default=False
        Mix with the Multi-KT hypothesis of the first ``n_first`` examples and the priors (TR-OTL).
    n_first : int, default=6
    batch_C, penalty, ridge
        As C, penalty and ridge of ``MultiKT``, where ``transfer`` is set.
    C, variant, kernel, bandwidth, intercept, budget, drop, positive
        As in ``PassiveAggressive``.

    Attributes
    ----------
    weights_ : ndarray of shape (n_sources + 1,)
        σ of each source and, last, τ.
    weight_history_ : ndarray of shape (n_kept, n_sources + 1)
        The weights over time, oldest first: before the first example, and after each one. The
        latest 1,000 are kept.
    mistakes_, n_examples_ : int
    classes_ : ndarray
    n_features_in_ : int

    Notes
    -----
    ``margin`` is 2 (σΠ(h) + τΠ(f)) − 1, between −1 and 1. Without priors τ is 1.

    References
    ----------
    Zhao and Hoi, OTL: a framework of online transfer learning, ICML 2010.

    Examples
    --------
    >>> from everlearn import OnlineTransfer
    >>> learner = OnlineTransfer(priors=[[1.0, 0.0]], positive="yes")
    >>> learner.learn_one([1.0, 0.1], "yes").learn_one([-1.0, 0.0], "no").predict_one([0.8, -0.3])
    'yes'
    >>> learner.weights_.round(2).tolist()
    [0.56, 0.44]
    """

    def __init__(
        self,
        *,
        priors: Any = (),
        per_source: bool = False,
        transfer: bool = False,
        n_first: int = 6,
        C: float = 1.0,
        batch_C: float = 1.0,
        penalty: str = "ridge",
        ridge: float | None = None,
        variant: str = "pa1",
        kernel: str = "linear",
        bandwidth: float | None = None,
        intercept: bool | None = None,
        budget: int | None = None,
        drop: str = "oldest",
        positive: Label | None = None,
    ) -> None:
        self.priors = priors
        self.per_source = per_source
        self.transfer = transfer
        self.n_first = n_first
        self.C = C
        self.batch_C = batch_C
        self.penalty = penalty
        self.ridge = ridge
        self.variant = variant
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.intercept = intercept
        self.budget = budget
        self.drop = drop
        self.positive = positive

    @property
    def weight_history_(self) -> Array:
        """σ and τ over time, oldest first."""
        oldest = self._n_weights % HISTORY if self._n_weights > HISTORY else 0
        kept = self._history[: min(self._n_weights, HISTORY)]
        return np.roll(kept, -oldest, axis=0)

    def _transfers(self) -> bool:
        return self.transfer

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.transfer and self.per_source:
            raise InvalidParameter(
                "per_source and transfer are two ways to use the priors; set one of them"
            )

    def _establish(self, opening: Examples, signs: Array) -> None:
        self._begin_history()
        self._weigh(self._first_weights())
        super()._establish(opening, signs)

    def _learn_opening(self, opening: Examples, signs: Array) -> None:
        for x, sign, weight in zip(opening.X, signs, opening.weights, strict=True):
            self.hypothesis_.step(x, self._one, sign, 0.0, weight)

    def _first_weights(self) -> Array:
        if not len(self.priors) and not self.transfer:
            return np.ones(1)
        n_sources = len(self.priors) if self.per_source else 1
        return np.array([0.5 / n_sources] * n_sources + [0.5])

    def _step(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        sources = self._sources(x[None], prior_scores[None])[0]
        own = self.hypothesis_.step(x, self._one, sign, 0.0, weight)
        answers = _normalised(np.append(sources, own))
        margin = 2.0 * float(self.weights_ @ answers) - 1.0
        kept = self.weights_ * np.exp(-0.5 * weight * (answers - 0.5 * (sign + 1.0)) ** 2)
        self._weigh(kept / kept.sum())
        return margin

    def _begin_history(self) -> None:
        self._n_weights = 0
        self._history = np.zeros((HISTORY, len(self._first_weights())))

    def _weigh(self, weights: Array) -> None:
        self.weights_ = weights
        self._history[self._n_weights % HISTORY] = weights
        self._n_weights += 1

    def _sources(self, X: Array, prior_scores: Array) -> Array:
        """What each source says, one column each."""
        if self.transfer:
            return self.transferred_.margin(self, X, prior_scores)[:, None]
        if self.per_source or not prior_scores.shape[1]:
            return prior_scores
        mean: Array = prior_scores.mean(axis=1, keepdims=True)
        return mean

    def _margin_of(self, X: Array, prior_scores: Array) -> Array:
        own = self.hypothesis_.scores(X, self._constant(len(X)))
        answers = _normalised(np.column_stack([self._sources(X, prior_scores), own]))
        margins: Array = 2.0 * (answers @ self.weights_) - 1.0
        return margins

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        return arrays | {"weight_history": self.weight_history_}, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        self._begin_history()
        for weights in stored(arrays, "weight_history", None, len(self._first_weights())):
            self._weigh(weights)


def _normalised(scores: Array) -> Array:
    """Π of Eq. 6: scores cut to [−1, 1] and moved to [0, 1]."""
    return np.clip(0.5 * (scores + 1.0), 0.0, 1.0)
