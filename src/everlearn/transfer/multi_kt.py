"""Multi-KT: learns from few examples, close to a weighted sum of prior models.

Tommasi et al. (2012), Sec. 2.2. k prior models h_j(x) = ŵ_j·x are given; example t has the
features x_t, the sign y_t = ±1 and the weight s_t (1 in the paper).

    min_{w,b} ½ ‖w − Σ_j β_j ŵ_j‖² + C/2 Σ_t s_t (y_t − w·x_t − b)²                     (Eq. 4)
    f(x) = Σ_j β_j h_j(x) + Σ_t α_t k(x_t, x) + b                                       (Eq. 5)

This is a least squares SVM on the residuals of the models: α = P (y − Hβ) with H_tj = h_j(x_t)
and P as in ``least_squares_svm``. Its leave-one-out predictions ỹ = y − α / diag P are affine in β,
and β minimises their hinge loss (``prior_weights``). A model's bias is absorbed by b and makes no
difference. In :func:`multi_kt`, y is ``signs``, s ``weights``, and the other symbols keep their
names.

The first question after learning costs O(n³ + n² d + k n²) for n examples, plus the k models'
scores of them; the state is the examples, n d numbers, so forgetting and merging are exact.

One default differs from the paper. Its constraint ‖β‖ ≤ 1 (``penalty="ball"``) is nearly always
active with six examples: β has length 1 even if no model is informative. ``penalty="ridge"`` adds
ρ/2 ‖β‖² to the loss instead, with ρ = 3 √k, since k models that agree share the weight.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from everlearn.arrays import AnyArray, Array, Slots
from everlearn.base import Promise, StreamingClassifier
from everlearn.statistics.kept_examples import KeptExamples
from everlearn.statistics.labels import Label
from everlearn.statistics.validated import validated_array
from everlearn.transfer.binary import BinaryClassifier
from everlearn.transfer.kernel import Kernel, KernelFunction, KernelWord
from everlearn.transfer.least_squares_svm import SaddleSystem, exact_unless_precomputed
from everlearn.transfer.prior_models import PriorModels, check_prior_models
from everlearn.transfer.prior_weights import Penalty, check_penalty, prior_weights
from everlearn.transfer.solved_from_examples import SolvedFromExamples
from everlearn.validation import require_positive, require_whole


@dataclass(frozen=True)
class DualCoefficients:
    """The solution of Eq. 4: α, b, β, and the leave-one-out predictions that chose β."""

    alpha: Array
    bias: float
    beta: Array
    leave_one_out: Array


def multi_kt(
    K: Array,
    signs: Array,
    weights: Array,
    H: Array,
    *,
    C: float,
    penalty: Penalty,
    ridge: float | None,
) -> DualCoefficients:
    """Solve Eq. 4 for the kernel matrix K and the models' scores H of the same examples."""
    system = SaddleSystem(K, C, weights)
    # One column for the targets and one for each model; α and b are linear in them.
    columns = np.column_stack([signs, H])
    alphas, biases = system.solve(columns)
    # ỹ = y − P(y − Hβ)/diag P = a + Bβ, with a the prediction without prior models.
    loo = system.leave_one_out(columns, alphas)
    a, B = loo[:, 0], H - loo[:, 1:]
    beta = np.empty(0)
    if H.shape[1]:
        c, D = 1.0 - signs * a, signs[:, None] * B
        beta = prior_weights(c, D, weights, penalty, ridge)
    mixture = np.concatenate([[1.0], -beta])
    return DualCoefficients(alphas @ mixture, float(biases @ mixture), beta, a + B @ beta)


@dataclass(frozen=True)
class MultiKTSolution:
    """f(x) = Σ_j β_j h_j(x) + Σ_t α_t k(x_t, x) + b (Eq. 5), self-contained."""

    models: PriorModels
    kernel: Kernel
    supports: Array
    coefficients: DualCoefficients

    def margins(self, X: Array) -> Array:
        K, solved = self.kernel.between(X, self.supports), self.coefficients
        margins: Array = self.models.scores(X) @ solved.beta + K @ solved.alpha + solved.bias
        return margins

    def scores(self, X: Array) -> Array:
        """The margins as a single column, the form of :class:`PriorKnowledge`."""
        return self.margins(X)[:, None]

    def state(self) -> dict[str, AnyArray]:
        return {
            "multi_kt.supports": self.supports,
            "multi_kt.alpha": self.coefficients.alpha,
            "multi_kt.bias": np.array([self.coefficients.bias]),
            "multi_kt.beta": self.coefficients.beta,
            "multi_kt.leave_one_out": self.coefficients.leave_one_out,
        }


@dataclass(frozen=True)
class MultiKTSource:
    """Multi-KT with given prior models: computes its solution from examples, or from a file.

    It is also the :class:`~everlearn.transfer.online.Source` of learners whose warm-up is Multi-KT.
    """

    models: PriorModels
    C: float
    penalty: Penalty
    ridge: float | None
    n_first: int = 0

    def learned(self, kernel: Kernel, examples: KeptExamples, signs: Array) -> MultiKTSolution:
        X, H = examples.X, self.models.scores(examples.X)
        K, s = kernel.between(X, X), examples.weights
        solved = multi_kt(K, signs, s, H, C=self.C, penalty=self.penalty, ridge=self.ridge)
        # With a precomputed kernel an example is a column: only its index is stored.
        supports = X if kernel.name != "precomputed" else X[:, :0]
        return MultiKTSolution(self.models, kernel, supports, solved)

    def restored(self, kernel: Kernel, arrays: dict[str, AnyArray]) -> MultiKTSolution:
        width = self.models.n_features if kernel.name != "precomputed" else 0
        supports = validated_array(arrays, "multi_kt.supports", None, width)
        solved = DualCoefficients(
            alpha=validated_array(arrays, "multi_kt.alpha", len(supports)),
            bias=float(validated_array(arrays, "multi_kt.bias", 1)[0]),
            beta=validated_array(arrays, "multi_kt.beta", len(self.models)),
            leave_one_out=validated_array(arrays, "multi_kt.leave_one_out", len(supports)),
        )
        return MultiKTSolution(self.models, kernel, supports, solved)


def check_warm_up(
    prior_models: Any, n_first: int, batch_C: float, penalty: Penalty, ridge: float | None
) -> None:
    """Validate the parameters of learners that begin with Multi-KT."""
    check_prior_models(prior_models)
    require_whole("n_first", n_first, least=2)
    require_positive("batch_C", batch_C)
    check_penalty(penalty, ridge)


class MultiKT(BinaryClassifier):
    """Learn two labels from few examples and weighted prior models.

    The first question after learning costs O(n³ + k n²), for n examples and k prior models.

    Parameters
    ----------
    prior_models : list, default=()
        Weight vectors, pairs (vector, bias), fitted estimators with a decision function, or
        functions of X. Without any this is a ``LeastSquaresSVM``.
    C : float, default=1.0
        The weight of the squared errors against the distance from the prior models.
    kernel : {"linear", "rbf", "chi2", "intersection", "precomputed"} or callable
        "chi2" and "intersection" compare histograms. With "precomputed", rows are kernel values
        and column i belongs to the i-th example taught. A function takes two matrices and returns
        their kernel values, a row for each row of the first; such a learner cannot be saved.
    gamma : float, optional
        γ in exp(−γ ‖x − z‖²); defaults to one over the mean squared distance of the examples.
    penalty : {"ridge", "ball"}, default="ridge"
        Penalty on β: ``ridge``/2 ‖β‖², or ‖β‖ ≤ 1 as published.
    ridge : float, optional
        ρ in ρ/2 ‖β‖²; defaults to 3 √k.
    max_examples : int, default=5000
        The most examples to keep; one more raises ``TooManyExamples``.
    positive : label, optional
        The label the prior models score positively; defaults to the one that sorts last.

    Attributes
    ----------
    beta_ : ndarray of shape (n_prior_models,)
        The weight of each prior model.
    dual_coef_ : ndarray of shape (n_examples,)
    intercept_ : float
    leave_one_out_ : ndarray of shape (n_examples,)
        Leave-one-out margin of each example, at these β.
    gamma_ : float or None
    n_examples_ : int
    classes_ : ndarray
    n_features_in_ : int

    See Also
    --------
    TROL : Continues online from here, at a fixed cost per example.

    Notes
    -----
    *Promises*: exact: batch = loop = any order, merge, forget, forget a class. It keeps its
    examples, so memory grows with them up to ``max_examples``.

    References
    ----------
    Tommasi, Orabona, Caputo, Safety in numbers, CVPR 2010; Tommasi et al., BMVC 2012.

    Examples
    --------
    A prior model separates the labels by the first feature; two examples show which is which.

    >>> from everlearn import MultiKT
    >>> learner = MultiKT(prior_models=[[1.0, 0.0]], C=0.1)
    >>> learner.fit([[1.0, 0.3], [-1.0, 0.2]], ["no", "yes"]).predict([[0.9, -2.0]]).tolist()
    ['no']
    """

    def __init__(
        self,
        *,
        prior_models: Any = (),
        C: float = 1.0,
        kernel: KernelWord | KernelFunction = "linear",
        gamma: float | None = None,
        penalty: Penalty = "ridge",
        ridge: float | None = None,
        max_examples: int = 5000,
        positive: Label | None = None,
    ) -> None:
        self.prior_models = prior_models
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.penalty = penalty
        self.ridge = ridge
        self.max_examples = max_examples
        self.positive = positive

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Forget everything, then learn these examples; a weight counts as that many copies."""
        return StreamingClassifier.fit(self, X, y, sample_weight)

    @property
    def promises(self) -> frozenset[Promise]:
        return exact_unless_precomputed(self.kernel)

    @property
    def beta_(self) -> Array:
        return self._coefficients().beta

    @property
    def dual_coef_(self) -> Array:
        return self._coefficients().alpha

    @property
    def intercept_(self) -> float:
        return self._coefficients().bias

    @property
    def leave_one_out_(self) -> Array:
        return self._coefficients().leave_one_out

    def _coefficients(self) -> DualCoefficients:
        self._require_fitted()
        coefficients: DualCoefficients = self._core.solution.coefficients
        return coefficients

    def _check_parameters(self) -> None:
        check_prior_models(self.prior_models)
        require_positive("C", self.C)
        Kernel.checked(self.kernel, self.gamma)
        check_penalty(self.penalty, self.ridge)
        require_whole("max_examples", self.max_examples, least=1)

    def _new_core(self, n_features: int) -> SolvedFromExamples[MultiKTSolution]:
        models = PriorModels(self.prior_models, n_features)
        source = MultiKTSource(models, self.C, self.penalty, self.ridge)
        return SolvedFromExamples(
            n_features,
            Kernel(self.kernel, self.gamma),
            source.learned,
            C=self.C,
            max_examples=self.max_examples,
            check=models.scores,
        )

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        gone: list[int] = self._core.forget(X, slots, weights)
        return gone

    def _forget_class(self, slot: int) -> None:
        self._core.forget_class(slot)

    def _merge(self, other: Any, slots: Slots) -> None:
        self._core.merge(other._core, slots, self.signs_)
