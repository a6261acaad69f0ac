"""TROL+: prior knowledge becomes an additional feature, whose weight continues to be learned.

Tommasi et al. (2012), Sec. 2.4.1. With w_1 the Multi-KT hypothesis of the first n examples (TROL):

    x'_t = (x_t, v_t),  v_t = max(−1, min(1, w_1·x_t)),  w'_1 = (0, …, 0, 1)
    w'_{t+1} = w'_t + γ_t y_t x'_t,  γ_t = min(C, ℓ / ‖x'_t‖²)                            (Eq. 11)
    w'_t·x'_t = v_t + Σ_{i<t} γ_i y_i (k(x_i, x_t) + v_i v_t)                             (Eq. 12)
    x'_t = (x_t, v_{1,t}, …, v_{k,t}),  v_{j,t} = max(−1, min(1, ŵ_j·x_t))                (Eq. 13)

k(x_i, x_t) is the kernel, x_i·x_t in the paper; in Eq. 11 ‖x'‖² = k(x, x) + v². w' is split: its
part for x is a kernel sum, its last elements are ``source_weights_``. Cost, memory and C are those
of TROL, plus k numbers; the result depends on the order of the examples, so it is neither mergeable
nor forgettable.

Eq. 12 in print lacks its first term, v_t, which comes from w'_1. With one feature per prior model
(``sources="each"``, "TROL+ (priors)" in the paper) there is no warm-up, and the paper does not
specify the initial weights: here f begins as the mean of the features. By default each feature is
divided by √k, so that the norm of all k is at most one, and has the initial weight 1/√k;
``scale_sources=False`` uses the features as printed, with the initial weight 1/k.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from everlearn.arrays import Array
from everlearn.base import Promise
from everlearn.statistics.labels import Label
from everlearn.transfer.binary import BinaryClassifier
from everlearn.transfer.kernel import KernelFunction, KernelWord
from everlearn.transfer.multi_kt import MultiKTSource, check_warm_up
from everlearn.transfer.online import Hypothesis, LearnedOnline, PriorKnowledge
from everlearn.transfer.passive_aggressive import PassiveAggressive, check_online
from everlearn.transfer.prior_models import PriorModels
from everlearn.transfer.prior_weights import Penalty
from everlearn.validation import require_one_of

if TYPE_CHECKING:
    from everlearn.transfer.steps import Steps

Sources = Literal["multi_kt", "each"]


class TROLPlus(BinaryClassifier):
    """Learn two labels online, with prior knowledge as a feature whose weight is learned too.

    Parameters
    ----------
    prior_models : list, default=()
        Weight vectors, pairs (vector, bias), fitted estimators with a decision function, or
        functions of X.
    sources : {"multi_kt", "each"}, default="multi_kt"
        One feature for the Multi-KT hypothesis of the first examples, or one for each prior model.
    scale_sources : bool, default=True
        With ``sources="each"``, divide each of k features by √k; False for Eq. 13 as printed.
    prior_intercepts : bool, default=True
        With ``sources="each"``, use prior models with their intercepts; False for ŵ_j·x alone, as
        in the paper. With "multi_kt" it makes no difference.
    n_first : int, default=6
        Number of examples that choose the weights of the prior models, for "multi_kt".
    batch_C : float, default=1.0
        The weight of the first examples' squared errors against the distance from the prior models.
    penalty : {"ridge", "ball"}, default="ridge"
        Penalty on β: ``ridge``/2 ‖β‖², or ‖β‖ ≤ 1 as published.
    ridge : float, optional
        ρ in ρ/2 ‖β‖²; defaults to 3 √k.
    online : PassiveAggressive, optional
        Step rule (C, variant, fit_intercept, budget, drop) and kernel (kernel, gamma); defaults to
        ``PassiveAggressive()``. The extra features enter an rbf or precomputed kernel as a sum:
        k(x, z) + v·v'. Its ``start`` and ``positive`` must be None.
    positive : label, optional
        The label the prior models score positively; defaults to the one that sorts last.

    Attributes
    ----------
    source_weights_ : ndarray
        The current weight of each extra feature.
    beta_ : ndarray of shape (n_prior_models,)
        The weight of each prior model in the warm-up, with ``sources="multi_kt"``.
    waiting_for_ : str or None
        What the warm-up still needs.
    mistakes_ : int
        Number of examples predicted wrongly before they were learned.
    n_examples_ : int
    gamma_ : float or None
    classes_ : ndarray
    n_features_in_ : int

    See Also
    --------
    TROL : Has the same start, and adds to it.

    Notes
    -----
    *Cost*: O(n³) once for the ``n_first`` examples, then O(d) per example (linear), O(k d) with
    ``sources="each"``.

    *Promises*: a batch equals its rows one by one; the order matters, so nothing is merged or
    forgotten (``NotMergeable``, ``NotForgettable``).

    References
    ----------
    Tommasi et al., Leveraging over prior knowledge for online learning of visual categories,
    BMVC 2012.

    Examples
    --------
    >>> from everlearn import TROLPlus
    >>> learner = TROLPlus(prior_models=[[1.0, 0.0]], n_first=2, positive="yes")
    >>> learner.learn_one([1.0, 0.1], "yes").learn_one([-1.0, 0.0], "no").predict_one([0.8, -0.3])
    'yes'
    """

    def __init__(
        self,
        *,
        prior_models: Any = (),
        sources: Sources = "multi_kt",
        scale_sources: bool = True,
        prior_intercepts: bool = True,
        n_first: int = 6,
        batch_C: float = 1.0,
        penalty: Penalty = "ridge",
        ridge: float | None = None,
        online: PassiveAggressive | None = None,
        positive: Label | None = None,
    ) -> None:
        self.prior_models = prior_models
        self.sources = sources
        self.scale_sources = scale_sources
        self.prior_intercepts = prior_intercepts
        self.n_first = n_first
        self.batch_C = batch_C
        self.penalty = penalty
        self.ridge = ridge
        self.online = online
        self.positive = positive

    @property
    def promises(self) -> frozenset[Promise]:
        return self.online_part().promises

    @property
    def source_weights_(self) -> Array:
        self._require_fitted()
        weights: Array = self._core.hypothesis.steps.extra_weights
        return weights

    @property
    def beta_(self) -> Array:
        self._require_fitted()
        if self.sources != "multi_kt":
            raise AttributeError("prior models have a β only with sources='multi_kt'")
        beta: Array = self._core.hypothesis.prior.coefficients.beta
        return beta

    def online_part(self) -> PassiveAggressive:
        """``online``, or its default."""
        return PassiveAggressive() if self.online is None else self.online

    def _kernel_name(self) -> KernelWord | KernelFunction:
        return self.online_part().kernel

    def _check_parameters(self) -> None:
        require_one_of("sources", self.sources, get_args(Sources))
        check_warm_up(self.prior_models, self.n_first, self.batch_C, self.penalty, self.ridge)
        check_online(self.online_part())

    def _new_core(self, n_features: int) -> LearnedOnline:
        models = PriorModels(self.prior_models, n_features, intercepts=self.prior_intercepts)
        rules = self.online_part().step_rules()
        if self.sources == "multi_kt":
            source = MultiKTSource(models, self.batch_C, self.penalty, self.ridge, self.n_first)
            return LearnedOnline(
                n_features, rules, source, Augmented, both_labels=True, first_weights=[1.0]
            )
        k = max(len(models), 1)
        scale = 1.0 / float(np.sqrt(k)) if self.scale_sources else 1.0
        return LearnedOnline(
            n_features,
            rules,
            models,
            partial(Augmented, scale=scale),
            both_labels=self.positive is None and len(models) > 0,
            first_weights=[1.0 / (k * scale)] * len(models),
        )


class Augmented(Hypothesis):
    """f(x) = w'·x' with x' = (1, v, x): the weights of the prior scores v are learned too."""

    def __init__(self, prior: PriorKnowledge, steps: "Steps", scale: float = 1.0) -> None:
        super().__init__(prior, steps)
        self.scale = scale

    def prior_scores(self, X: Array) -> Array:
        """The extra features (1, v_1, …, v_k) of each row (Eq. 11 and 13)."""
        v = self.scale * np.clip(self.prior.scores(X), -1.0, 1.0)
        return np.hstack([np.tile(self.steps.constant, (len(X), 1)), v])

    def learn(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        return self.steps.learn(x, prior_scores, sign, 0.0, weight)

    def margins(self, X: Array, prior_scores: Array) -> Array:
        return self.steps.values(X, prior_scores)
