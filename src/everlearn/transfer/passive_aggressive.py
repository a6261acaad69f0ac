"""Passive-Aggressive learning: stay as you are, unless an example is wrong or barely right.

Crammer et al. (2006); Tommasi et al. (2012), Sec. 2.1. After each example (x, y), y = ±1:

    w ← argmin_w' ½ ‖w' − w‖² + C ξ   with   max(0, 1 − y w'·x) ≤ ξ, ξ ≥ 0              (Eq. 2)
    w ← w + γ y x,   γ = min(C, ℓ / ‖x‖²),   ℓ = max(0, 1 − y w·x)                       (Eq. 3)

That is PA-I; PA has no bound on γ, PA-II has γ = ℓ / (‖x‖² + 1/2C). w may begin anywhere: ``start``
is the hypothesis w_1. One example costs O(d) with the linear kernel and O(S d) with the Gaussian
one, S being the number of support vectors, at most ``budget``. The result depends on the order of
the examples, so two learners cannot be merged and nothing can be forgotten exactly.
"""

from typing import Any

from everlearn.base import Array
from everlearn.statistics.labels import Label
from everlearn.transfer.hypothesis import LinearSum
from everlearn.transfer.online import OnlineLearner


class PassiveAggressive(OnlineLearner):
    """Learn two labels online by Passive-Aggressive steps.

    One example costs O(d) (linear) or O(budget · d) (Gaussian), whatever was learned before.

    Parameters
    ----------
    C : float, default=1.0
        The most that one example may move the hypothesis (PA-I), or how little its loss is forgiven
        (PA-II).
    variant : {"pa1", "pa", "pa2"}, default="pa1"
    kernel : {"linear", "gaussian", "precomputed"}, default="linear"
        With "precomputed", rows are kernel values and column i belongs to the i-th example taught.
    bandwidth : float, optional
        δ in exp(−‖x − z‖² / δ); by default the mean squared distance between the first ten
        examples.
    start : prior, optional
        The hypothesis to begin with: a weight vector, a pair (vector, bias), a fitted estimator or
        a function; default is zero. It speaks of ``positive``; where that is not given, the first
        examples wait (ten at most are kept) until the second label shows which one it is.
    intercept : bool, optional
        Learn a bias, as the weight of one more feature that is always 1. By default only with the
        linear kernel: a Gaussian one has no need of it, and a run of one label would push it far.
    budget : int, optional
        The most support vectors a Gaussian learner keeps; default is no limit.
    drop : {"oldest", "smallest"}, default="oldest"
        Which support vector makes room in a full budget: the one that came first, or the one with
        the smallest coefficient.
    positive : label, optional
        The label with the sign +1; by default the one that sorts last.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The weights w − w_1, with the linear kernel.
    intercept_ : float
    mistakes_ : int
        Examples whose label was not predicted when they came (a margin of zero is a mistake).
    n_examples_ : int
    bandwidth_ : float or None
    classes_ : ndarray
    n_features_in_ : int

    See Also
    --------
    TROL : Starts from what other classes taught.

    Notes
    -----
    A weight m of an example multiplies its loss in Eq. 2; for PA-I it equals m copies in a row.
    scikit-learn's ``PassiveAggressiveClassifier`` leaves the intercept out of ‖x‖², here it is a
    feature like any other; without it the two agree to rounding.

    References
    ----------
    Crammer et al., Online passive-aggressive algorithms, JMLR 7, 2006.

    Examples
    --------
    >>> from everlearn import PassiveAggressive
    >>> learner = PassiveAggressive()
    >>> learner.learn_one([0.0, 1.0], "cup").learn_one([1.0, 0.0], "hat").predict_one([0.9, 0.2])
    'hat'
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        variant: str = "pa1",
        kernel: str = "linear",
        bandwidth: float | None = None,
        start: Any = None,
        intercept: bool | None = None,
        budget: int | None = None,
        drop: str = "oldest",
        positive: Label | None = None,
    ) -> None:
        self.C = C
        self.variant = variant
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.start = start
        self.intercept = intercept
        self.budget = budget
        self.drop = drop
        self.positive = positive

    @property
    def coef_(self) -> Array:
        examples = self.hypothesis_.examples
        if not isinstance(examples, LinearSum):
            raise AttributeError("only the linear kernel has weights; this one keeps examples")
        return examples.w

    @property
    def intercept_(self) -> float:
        return float(self.hypothesis_.extra_weights[0]) if len(self._one) else 0.0

    def _priors(self) -> list[Any]:
        return [] if self.start is None else [self.start]

    def _step(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        offset = float(prior_scores[0]) if len(prior_scores) else 0.0
        return self.hypothesis_.step(x, self._one, sign, offset, weight)

    def _margin_of(self, X: Array, prior_scores: Array) -> Array:
        return self.hypothesis_.scores(X, self._constant(len(X))) + prior_scores.sum(axis=1)
