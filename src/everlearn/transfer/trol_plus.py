"""TROL+: what was known becomes one more feature, and its weight goes on being learned.

Tommasi et al. (2012), Sec. 2.4.1. With w_1 the Multi-KT hypothesis of the first n examples (TROL):

    x'_t = (x_t, v_t),  v_t = max(−1, min(1, w_1·x_t)),  w'_1 = (0, …, 0, 1)
    w'_{t+1} = w'_t + γ_t y_t x'_t,  γ_t = min(C, ℓ / ‖x'_t‖²)                            (Eq. 11)
    w'_t·x'_t = v_t + Σ_{i<t} γ_i y_i (k(x_i, x_t) + v_i v_t)                             (Eq. 12)
    x'_t = (x_t, v_{1,t}, …, v_{k,t}),  v_{j,t} = max(−1, min(1, ŵ_j·x_t))                (Eq. 13)

Eq. 12 in print lacks its first term, which comes from w'_1; and ‖x'‖² = k(x, x) + v². With one
feature per prior (``per_source=True``, "TROL+ (priors)") each is scaled by 1/√k, so that together
they weigh no more than one, and begins with the weight 1/√k: the mean of the priors. There is no
opening then. The paper does not say where these weights begin.
"""

from typing import Any

import numpy as np

from everlearn.base import Array
from everlearn.statistics.labels import Label
from everlearn.transfer.hypothesis import Hypothesis
from everlearn.transfer.opening_transfer import TransferringLearner


class TROLPlus(TransferringLearner):
    """Learn two labels online, with what was known as a feature whose weight is learned too.

    Parameters
    ----------
    priors : list, default=()
        Weight vectors, pairs (vector, bias), fitted estimators, or functions of X.
    per_source : bool, default=False
        One feature for each prior, and not one for the Multi-KT hypothesis of the opening.
    n_first : int, default=6
    C, batch_C, penalty, ridge, variant, kernel, bandwidth, intercept, budget, drop, positive
        As in ``TROL``. The extra features enter a Gaussian or precomputed kernel as a sum:
        k(x, z) + v·v'.

    Attributes
    ----------
    knowledge_weights_ : ndarray
        The weight of each extra feature by now; it began at 1 (or 1/√k each).
    beta_ : ndarray of shape (n_priors,)
        The weights of the priors in the opening, unless ``per_source``.
    waiting_for_ : str or None
    mistakes_, n_examples_ : int
    classes_ : ndarray
    n_features_in_ : int

    References
    ----------
    Tommasi et al., Leveraging over prior knowledge for online learning of visual categories,
    BMVC 2012.

    Examples
    --------
    >>> from everlearn import TROLPlus
    >>> learner = TROLPlus(priors=[[1.0, 0.0]], n_first=2, positive="yes")
    >>> learner.learn_one([1.0, 0.1], "yes").learn_one([-1.0, 0.0], "no").predict_one([0.8, -0.3])
    'yes'
    """

    def __init__(
        self,
        *,
        priors: Any = (),
        per_source: bool = False,
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
    def knowledge_weights_(self) -> Array:
        self._require_fitted()
        return self.hypothesis_.extra_weights[len(self._one) :]

    def _transfers(self) -> bool:
        return not self.per_source

    def _first_hypothesis(self) -> Hypothesis:
        if self.per_source:
            n_priors = len(self.priors)
            knowledge = np.full(n_priors, 1.0 / np.sqrt(max(n_priors, 1)))
        else:
            knowledge = np.ones(1)
        return self._hypothesis_with(np.append(np.zeros(len(self._one)), knowledge))

    def _extras(self, X: Array, prior_scores: Array) -> Array:
        if self.per_source:
            known = np.clip(prior_scores, -1.0, 1.0) / np.sqrt(max(len(self.priors), 1))
        else:
            known = np.clip(self.transferred_.margin(self, X, prior_scores), -1.0, 1.0)[:, None]
        return np.hstack([self._constant(len(X)), known])

    def _step(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        extra = self._extras(x[None], prior_scores[None])[0]
        return self.hypothesis_.step(x, extra, sign, 0.0, weight)

    def _margin_of(self, X: Array, prior_scores: Array) -> Array:
        return self.hypothesis_.scores(X, self._extras(X, prior_scores))
