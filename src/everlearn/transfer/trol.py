"""TROL: online learning initialised by transfer.

Tommasi et al. (2012), Sec. 2.4. The first n examples (n = 6 in the paper) and the prior models give
the Multi-KT hypothesis

    w_1 = Σ_j β_j ŵ_j + Σ_i α_i x_i                                                      (Eq. 4-5)

and from the next example on Passive-Aggressive continues from it (Eq. 2-3 with this w_1). A start
near the best hypothesis u makes the bound on mistakes small:

    M ≤ 2 max(1, 1/C) (½ ‖u − w_1‖² + C Σ ℓ(u·x_t, y_t))                                 (Eq. 10)

n is ``n_first``, the warm-up has the constant C of Eq. 4 ``batch_C``, and the steps have the C of
Eq. 2 in ``online``.

The warm-up costs O(n³ + k n²) once; then an example costs a Passive-Aggressive step, n kernel
values and one score by each of k prior models. Memory is that of the n first examples and of
Passive-Aggressive. The result depends on the order of the examples: neither mergeable nor
forgettable.

The bias b of Multi-KT (Eq. 5) is part of w_1 here; the paper's formula of w_1 omits it.
"""

from typing import Any

from everlearn.arrays import Array
from everlearn.base import Promise
from everlearn.statistics.labels import Label
from everlearn.transfer.binary import BinaryClassifier
from everlearn.transfer.kernel import KernelFunction, KernelWord
from everlearn.transfer.multi_kt import MultiKTSource, check_warm_up
from everlearn.transfer.online import LearnedOnline, WarmStarted
from everlearn.transfer.passive_aggressive import PassiveAggressive, check_online
from everlearn.transfer.prior_models import PriorModels
from everlearn.transfer.prior_weights import Penalty


class TROL(BinaryClassifier):
    """Learn two labels online, starting from prior models and the first few examples.

    Parameters
    ----------
    prior_models : list, default=()
        Weight vectors, pairs (vector, bias), fitted estimators with a decision function, or
        functions of X. Their intercepts make no difference, since Multi-KT has its own.
    n_first : int, default=6
        Number of examples that choose the weights of the prior models. The learner waits for more
        if they all have one label, see ``waiting_for_``.
    batch_C : float, default=1.0
        The weight of the first examples' squared errors against the distance from the prior models.
    penalty : {"ridge", "ball"}, default="ridge"
        Penalty on β: ``ridge``/2 ‖β‖², or ‖β‖ ≤ 1 as published.
    ridge : float, optional
        ρ in ρ/2 ‖β‖²; defaults to 3 √k.
    online : PassiveAggressive, optional
        Step rule after the first examples (C, variant, fit_intercept, budget, drop), and the
        kernel of both parts (kernel, gamma); defaults to ``PassiveAggressive()``. γ is estimated
        from the first ``n_first`` examples unless given. Its ``start`` and ``positive`` must be
        None.
    positive : label, optional
        The label the prior models score positively; defaults to the one that sorts last.

    Attributes
    ----------
    beta_ : ndarray of shape (n_prior_models,)
        The weight of each prior model.
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
    TROLPlus : Also continues to learn the weight of its start.
    MultiKT : The hypothesis of the warm-up, for any number of examples.

    Notes
    -----
    *Cost*: O(n³) once for the ``n_first`` examples, then O(d) per example (linear).

    *Promises*: a batch equals its rows one by one; the order matters, so nothing is merged or
    forgotten (``NotMergeable``, ``NotForgettable``).

    References
    ----------
    Tommasi et al., Leveraging over prior knowledge for online learning of visual categories,
    BMVC 2012.

    Examples
    --------
    >>> from everlearn import TROL
    >>> learner = TROL(prior_models=[[1.0, 0.0]], n_first=2, positive="yes")
    >>> learner.learn_one([1.0, 0.1], "yes").waiting_for_
    '1 more example'
    >>> learner.learn_one([-1.0, 0.0], "no").predict_one([0.8, -0.3])
    'yes'
    """

    def __init__(
        self,
        *,
        prior_models: Any = (),
        n_first: int = 6,
        batch_C: float = 1.0,
        penalty: Penalty = "ridge",
        ridge: float | None = None,
        online: PassiveAggressive | None = None,
        positive: Label | None = None,
    ) -> None:
        self.prior_models = prior_models
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
    def beta_(self) -> Array:
        self._require_fitted()
        beta: Array = self._core.hypothesis.prior.coefficients.beta
        return beta

    def online_part(self) -> PassiveAggressive:
        """``online``, or its default."""
        return PassiveAggressive() if self.online is None else self.online

    def _kernel_name(self) -> KernelWord | KernelFunction:
        return self.online_part().kernel

    def _check_parameters(self) -> None:
        check_warm_up(self.prior_models, self.n_first, self.batch_C, self.penalty, self.ridge)
        check_online(self.online_part())

    def _new_core(self, n_features: int) -> LearnedOnline:
        models = PriorModels(self.prior_models, n_features)
        source = MultiKTSource(models, self.batch_C, self.penalty, self.ridge, self.n_first)
        rules = self.online_part().step_rules()
        return LearnedOnline(n_features, rules, source, WarmStarted, both_labels=True)
