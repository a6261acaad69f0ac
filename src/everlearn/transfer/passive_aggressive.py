"""Passive-Aggressive learning: updates only if the margin is too small.

Crammer et al. (2006); Tommasi et al. (2012), Sec. 2.1. After each example (x, y), y = ±1:

    w ← argmin_w' ½ ‖w' − w‖² + C ξ   with   max(0, 1 − y w'·x) ≤ ξ, ξ ≥ 0              (Eq. 2)
    w ← w + γ y x,   γ = min(C, ℓ / ‖x‖²),   ℓ = max(0, 1 − y w·x)                       (Eq. 3)

This is PA-I; PA has no bound on γ, PA-II has γ = ℓ / (‖x‖² + 1/2C). The initial hypothesis w_1 is
``start``. The steps are in ``steps.py``: :func:`~everlearn.transfer.steps.step_size` is γ, and
:func:`~everlearn.transfer.steps.linear_step` is Eq. 3.

One example costs O(d) with the linear kernel and O(S d) with kernels that keep S support vectors, S
at most ``budget``; memory is as much. The result depends on the order of the examples, so two
learners cannot be merged and nothing can be forgotten exactly. Beyond the paper there are weights
of examples, an intercept (a feature that is always 1) and the budget.
"""

from typing import Any, Literal, get_args

from everlearn.arrays import Array
from everlearn.base import BOUNDED, Promise
from everlearn.errors import InvalidParameter
from everlearn.statistics.labels import Label
from everlearn.transfer.binary import BinaryClassifier
from everlearn.transfer.kernel import Kernel, KernelFunction, KernelWord
from everlearn.transfer.online import LearnedOnline, StepRules, WarmStarted
from everlearn.transfer.prior_models import PriorModels, check_prior_models
from everlearn.validation import require_one_of, require_positive, require_whole

Variant = Literal["pa1", "pa", "pa2"]
Drop = Literal["oldest", "smallest"]


class PassiveAggressive(BinaryClassifier):
    """Learn two labels online by Passive-Aggressive steps.

    One example costs O(d) (linear) or O(budget · d) (rbf), independent of the number learned.

    Parameters
    ----------
    C : float, default=1.0
        Bound on the step of one example (PA-I), or weight of its loss (PA-II).
    variant : {"pa1", "pa", "pa2"}, default="pa1"
    kernel : {"linear", "rbf", "chi2", "intersection", "precomputed"} or callable
        "chi2" and "intersection" compare histograms. With "precomputed", rows are kernel values
        and column i belongs to the i-th example taught. A function takes two matrices and returns
        their kernel values, a row for each row of the first; such a learner cannot be saved.
    gamma : float, optional
        γ in exp(−γ ‖x − z‖²); defaults to one over the mean squared distance of the first ten
        examples.
    start : prior model, optional
        The initial hypothesis: a weight vector, a pair (vector, bias), a fitted estimator or a
        function; defaults to zero. It scores ``positive``; if that is not given, the first examples
        wait (at most ten are stored) until the second label is seen.
    fit_intercept : bool, optional
        Learn a bias, as the weight of an additional feature that is always 1. By default only with
        the linear kernel: an rbf kernel does not need it, and many examples of one label in a row
        would make it large.
    budget : int, optional
        Maximum number of support vectors; unlimited by default.
    drop : {"oldest", "smallest"}, default="oldest"
        Which support vector is dropped from a full budget: the oldest, or the one with the
        smallest coefficient.
    positive : label, optional
        The label with the sign +1; by default the one that sorts last.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The weights w − w_1, with the linear kernel.
    intercept_ : float
    mistakes_ : int
        Number of examples predicted wrongly before they were learned (a zero margin is wrong).
    n_examples_ : int
    gamma_ : float or None
    classes_ : ndarray
    n_features_in_ : int

    See Also
    --------
    TROL : Starts from prior models.

    Notes
    -----
    A weight m of an example multiplies its loss in Eq. 2; for PA-I it equals m copies in a row.
    scikit-learn's ``PassiveAggressiveClassifier`` excludes the intercept from ‖x‖²; here it is a
    feature like any other. Without an intercept the two agree up to rounding.

    *Promises*: a batch equals its rows one by one; the order matters, so nothing is merged or
    forgotten (``NotMergeable``, ``NotForgettable``). Memory is bounded (rbf: with ``budget``).

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
        variant: Variant = "pa1",
        kernel: KernelWord | KernelFunction = "linear",
        gamma: float | None = None,
        start: Any = None,
        fit_intercept: bool | None = None,
        budget: int | None = None,
        drop: Drop = "oldest",
        positive: Label | None = None,
    ) -> None:
        self.C = C
        self.variant = variant
        self.kernel = kernel
        self.gamma = gamma
        self.start = start
        self.fit_intercept = fit_intercept
        self.budget = budget
        self.drop = drop
        self.positive = positive

    @property
    def promises(self) -> frozenset[Promise]:
        loop = frozenset({Promise.BATCH_IS_LOOP})
        # Such a kernel stores every example that caused an update, unless there is a budget.
        keeps = Kernel(self.kernel).keeps_examples
        return loop if keeps and self.budget is None else loop | BOUNDED

    @property
    def coef_(self) -> Array:
        if self.kernel != "linear":
            raise AttributeError("only the linear kernel has weights; this one stores examples")
        return self._core.hypothesis.steps.total.coefficients

    @property
    def intercept_(self) -> float:
        return self._core.hypothesis.steps.intercept

    def step_rules(self) -> StepRules:
        """The step rule of this learner, for learners that use it as a part."""
        intercept = self.kernel == "linear" if self.fit_intercept is None else self.fit_intercept
        return StepRules(
            Kernel(self.kernel, self.gamma),
            self.C,
            self.variant,
            bool(intercept),
            self.budget,
            self.drop,
        )

    def _check_parameters(self) -> None:
        require_positive("C", self.C)
        require_one_of("variant", self.variant, get_args(Variant))
        Kernel.checked(self.kernel, self.gamma)
        require_one_of("drop", self.drop, get_args(Drop))
        require_whole("budget", self.budget, or_none=True)
        check_prior_models([] if self.start is None else [self.start])

    def _new_core(self, n_features: int) -> LearnedOnline:
        start = PriorModels([] if self.start is None else [self.start], n_features)
        both_labels = self.positive is None and len(start) > 0
        return LearnedOnline(
            n_features, self.step_rules(), start, WarmStarted, both_labels=both_labels
        )


def check_online(online: object) -> None:
    """Require a valid online part of another learner."""
    if not isinstance(online, PassiveAggressive):
        raise InvalidParameter(f"online must be a PassiveAggressive, not a {type(online).__name__}")
    online._check_parameters()
    if online.start is not None or online.positive is not None:
        raise InvalidParameter(
            "online must not have its own start or positive label; set them on the learner it is "
            "part of"
        )
