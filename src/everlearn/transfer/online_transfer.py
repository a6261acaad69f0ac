"""Online transfer: a learner beside prior models, weighted by their past accuracy.

OTL (Zhao and Hoi 2010), and M-OTL and TR-OTL of Tommasi et al. (2012), Sec. 2.3. The learner's own
f_t is Passive-Aggressive. With Π(v) = max(0, min(1, (v + 1) / 2)):

    ŷ_t = sign(σ_t Π(h(x_t)) + τ_t Π(f_t(x_t)) − ½)                                      (Eq. 6)
    σ ← σ s(h) / (σ s(h) + τ s(f)),  τ likewise,  s(g) = exp(−½ (Π(g(x_t)) − Π(y_t))²)   (Eq. 7)
    one weight σ_j for each model, σ_{j,1} = 1/2k                                        (Eq. 8)

σ_1 = τ_1 = ½. ``sources`` determines h: the mean of the prior models (OTL), each of them with its
own weight (M-OTL), or the Multi-KT hypothesis of the first n examples, which f also learns
(TR-OTL). ``weights_`` is (σ, τ), and ``online`` configures f. The weight s of an example, which the
paper does not have, multiplies the exponent in Eq. 7, as s copies would.

An example costs one Passive-Aggressive step and one score by each of k prior models. Memory is that
of f and of the last 1,000 values of the weights. The result depends on the order of the examples,
so it is neither mergeable nor forgettable.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from everlearn.arrays import AnyArray, Array
from everlearn.base import Promise
from everlearn.statistics.kept_examples import KeptExamples
from everlearn.statistics.labels import Label
from everlearn.statistics.validated import validated_array
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

# Length of the history of weights, which is for plots.
HISTORY = 1000
Sources = Literal["mean", "each", "multi_kt"]


class OnlineTransfer(BinaryClassifier):
    """Learn two labels online, mixed with prior models by their past accuracy.

    Parameters
    ----------
    prior_models : list, default=()
        Weight vectors, pairs (vector, bias), fitted estimators with a decision function, or
        functions of X.
    sources : {"mean", "each", "multi_kt"}, default="mean"
        What to mix with: the mean of the prior models (OTL), each of them with its own weight
        (M-OTL), or the Multi-KT hypothesis of them and of the first examples (TR-OTL).
    prior_intercepts : bool, default=True
        Use prior models with their intercepts; False for ŵ_j·x alone, as in the paper. With
        ``sources="multi_kt"`` it makes no difference.
    n_first : int, default=6
        Number of examples that choose the weights of the prior models, for "multi_kt".
    batch_C : float, default=1.0
        The weight of the first examples' squared errors against the distance from the prior models.
    penalty : {"ridge", "ball"}, default="ridge"
        Penalty on β: ``ridge``/2 ‖β‖², or ‖β‖ ≤ 1 as published.
    ridge : float, optional
        ρ in ρ/2 ‖β‖²; defaults to 3 √k.
    online : PassiveAggressive, optional
        Step rule (C, variant, fit_intercept, budget, drop) and kernel (kernel, gamma) of its own
        hypothesis f; defaults to ``PassiveAggressive()``. Its ``start`` and ``positive`` must be
        None.
    positive : label, optional
        The label the prior models score positively; defaults to the one that sorts last.

    Attributes
    ----------
    weights_ : ndarray of shape (n_sources + 1,)
        σ of each source and, last, τ.
    weight_history_ : ndarray of shape (n_kept, n_sources + 1)
        The weights over time, oldest first: before the first example, and after each one. The
        latest 1,000 are kept.
    beta_ : ndarray of shape (n_prior_models,)
        The weight of each prior model in Multi-KT, with ``sources="multi_kt"``.
    waiting_for_ : str or None
        What the warm-up still needs.
    mistakes_ : int
        Number of examples predicted wrongly before they were learned.
    n_examples_ : int
    gamma_ : float or None
    classes_ : ndarray
    n_features_in_ : int

    Notes
    -----
    ``margin`` is 2 (σΠ(h) + τΠ(f)) − 1, between −1 and 1. Without prior models τ is 1.

    *Cost*: O(k d) per example for k prior models, plus that of its own learner.

    *Promises*: a batch equals its rows one by one; the order matters, so nothing is merged or
    forgotten (``NotMergeable``, ``NotForgettable``).

    References
    ----------
    Zhao and Hoi, OTL: a framework of online transfer learning, ICML 2010.

    Examples
    --------
    >>> from everlearn import OnlineTransfer
    >>> learner = OnlineTransfer(prior_models=[[1.0, 0.0]], positive="yes")
    >>> learner.learn_one([1.0, 0.1], "yes").learn_one([-1.0, 0.0], "no").predict_one([0.8, -0.3])
    'yes'
    >>> learner.weights_.round(2).tolist()
    [0.56, 0.44]
    """

    def __init__(
        self,
        *,
        prior_models: Any = (),
        sources: Sources = "mean",
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
    def weights_(self) -> Array:
        weights: Array = self._core.hypothesis.weights
        return weights

    @property
    def weight_history_(self) -> Array:
        history: Array = self._core.hypothesis.history()
        return history

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
            mixture = partial(Mixture, n_sources=1)
            return LearnedOnline(n_features, rules, source, mixture, both_labels=True)
        mean = self.sources == "mean" and len(models) > 0
        mixture = partial(Mixture, n_sources=1 if mean else len(models), mean=mean)
        both_labels = self.positive is None and len(models) > 0
        return LearnedOnline(n_features, rules, models, mixture, both_labels=both_labels)


class Mixture(Hypothesis):
    """f(x) = 2 (Σ_j σ_j Π(h_j(x)) + τ Π(own steps)) − 1 (Eq. 6)."""

    def __init__(
        self, prior: PriorKnowledge, steps: "Steps", *, n_sources: int, mean: bool = False
    ) -> None:
        super().__init__(prior, steps)
        self.mean = mean
        k = n_sources
        # Without sources τ is 1.
        first = np.array([0.5 / k] * k + [0.5]) if k else np.ones(1)
        self._history = np.zeros((HISTORY, len(first)))
        self._n_weights = 0
        self._set_weights(first)

    def prior_scores(self, X: Array) -> Array:
        scores = self.prior.scores(X)
        return scores.mean(axis=1, keepdims=True) if self.mean else scores

    def learn(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        own = self.steps.learn(x, self.steps.constant, sign, 0.0, weight)
        answers = _normalised(np.append(prior_scores, own))
        weights = self.weights
        # Eq. 7-8, with Π(y) = (y + 1) / 2.
        kept = weights * np.exp(-0.5 * weight * (answers - 0.5 * (sign + 1.0)) ** 2)
        self._set_weights(kept / kept.sum())
        return 2.0 * float(weights @ answers) - 1.0

    def margins(self, X: Array, prior_scores: Array) -> Array:
        answers = _normalised(np.column_stack([prior_scores, self.steps.values(X)]))
        margins: Array = 2.0 * (answers @ self.weights) - 1.0
        return margins

    def learn_warm_up(self, warm_up: KeptExamples, signs: Array, *, is_learned: bool) -> None:
        if not is_learned:
            super().learn_warm_up(warm_up, signs, is_learned=False)
            return
        # TR-OTL: f also learns the examples of Multi-KT, without updating the weights σ and τ.
        for x, sign, weight in zip(warm_up.X, signs, warm_up.weights, strict=True):
            self.steps.learn(x, self.steps.constant, sign, 0.0, weight)

    def state(self) -> dict[str, AnyArray]:
        return super().state() | {"weight_history": self.history()}

    def restore(self, arrays: dict[str, AnyArray]) -> None:
        super().restore(arrays)
        self._n_weights = 0
        for weights in validated_array(arrays, "weight_history", None, len(self.weights)):
            self._set_weights(weights)

    def history(self) -> Array:
        """The weights over time, oldest first."""
        rows = np.arange(max(0, self._n_weights - HISTORY), self._n_weights)
        return self._history[rows % HISTORY]

    def _set_weights(self, weights: Array) -> None:
        self.weights = weights
        self._history[self._n_weights % HISTORY] = weights
        self._n_weights += 1


def _normalised(scores: Array) -> Array:
    """Π of Eq. 6: scores clipped to [−1, 1] and mapped to [0, 1]."""
    return np.clip(0.5 * (scores + 1.0), 0.0, 1.0)
