"""Least squares SVM: ridge regression on the signs of two labels, with closed-form leave-one-out.

Suykens et al. (2002); in Tommasi et al. (2012) the baseline NOTR, and Multi-KT (Eq. 4) without
prior models. Example t has the features x_t, the sign y_t = ±1 and the weight s_t:

    min_{w,b} ½ ‖w‖² + C/2 Σ s_t (y_t − w·x_t − b)²

With w = Σ α_t x_t and K_tu = k(x_t, x_u) this is one linear system, and P, the top-left block of
its inverse, gives both the solution and the leave-one-out predictions ỹ:

    [K + diag(1/Cs)  1] [α]   [y]
    [1ᵀ              0] [b] = [0]        α = P y,    ỹ_t = y_t − α_t / P_tt

K + diag(1/Cs) is positive definite, so P is applied by its Cholesky factor (``SaddleSystem``), and
no inverse is stored. The system is solved at the first question after learning, at a cost of
O(n³ + n² d) for n examples; a question then costs O(d) with the linear kernel, O(n d) with others.
The state is the examples, n d numbers. So merging and forgetting are exact, and the order of the
examples makes no difference (except with a precomputed kernel, whose columns have an order).
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, solve_triangular

from everlearn.arrays import Array, Slots
from everlearn.base import EXACT, Promise, StreamingClassifier
from everlearn.errors import LostDefiniteness
from everlearn.statistics.definite import TOO_LARGE, definite_factor
from everlearn.statistics.kept_examples import KeptExamples
from everlearn.statistics.labels import Label
from everlearn.transfer.binary import BinaryClassifier
from everlearn.transfer.kernel import Kernel, KernelFunction, KernelWord
from everlearn.transfer.solved_from_examples import SolvedFromExamples
from everlearn.validation import require_positive, require_whole


class SaddleSystem:
    """P, the top-left block of the inverse of [[K + diag(1/Cs), 1], [1ᵀ, 0]], in factored form."""

    def __init__(self, K: Array, C: float, weights: Array) -> None:
        self._factor = definite_factor(
            K + np.diag(1.0 / (C * weights)),
            "the kernel matrix of the examples is not positive definite; if it is precomputed, "
            "check that rows and columns are in the same order, otherwise scale the features",
        )
        self._ones = cho_solve(self._factor, np.ones(len(K)))
        self._sum = float(self._ones.sum())

    def solve(self, targets: Array) -> tuple[Array, Any]:
        """α = P·targets and b, for one column of targets or for many."""
        if not np.isfinite(targets).all():
            raise LostDefiniteness(TOO_LARGE)
        solved = cho_solve(self._factor, targets)
        bias = solved.sum(axis=0) / self._sum
        alpha = solved - np.multiply.outer(self._ones, bias)
        return alpha, bias

    def diagonal(self) -> Array:
        """P_tt for every t."""
        factor, lower = self._factor
        inverse = solve_triangular(factor, np.eye(len(factor)), lower=lower)
        diagonal: Array = np.einsum("ij,ij->j", inverse, inverse) - self._ones**2 / self._sum
        return diagonal

    def leave_one_out(self, targets: Array, alpha: Array) -> Array:
        """ỹ = targets − α / diag P; zero for a single example."""
        if len(alpha) == 1:
            return np.zeros_like(targets)
        diagonal = self.diagonal()
        if alpha.ndim == 2:
            diagonal = diagonal[:, None]
        predictions: Array = targets - alpha / diagonal
        return predictions


class LeastSquaresSVM(BinaryClassifier):
    """Least squares SVM for two labels, with closed-form leave-one-out predictions.

    The first question after learning costs O(n³ + n² d); then O(d) per row (linear) or O(n d).

    Parameters
    ----------
    C : float, default=1.0
        The weight of the squared errors against the norm of w.
    kernel : {"linear", "rbf", "chi2", "intersection", "precomputed"} or callable
        "chi2" and "intersection" compare histograms. With "precomputed", rows are kernel values
        and column i belongs to the i-th example taught. A function takes two matrices and returns
        their kernel values, a row for each row of the first; such a learner cannot be saved.
    gamma : float, optional
        γ in exp(−γ ‖x − z‖²); defaults to one over the mean squared distance of the examples.
    max_examples : int, default=5000
        The most examples to keep; one more raises ``TooManyExamples``.
    positive : label, optional
        The label with the sign +1; by default the one that sorts last.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        w, with the linear kernel.
    intercept_ : float
    dual_coef_ : ndarray of shape (n_examples,)
        α, in the order of arrival.
    leave_one_out_ : ndarray of shape (n_examples,)
        Leave-one-out margin of each example.
    gamma_ : float or None
    n_examples_ : int
    classes_ : ndarray
    n_features_in_ : int

    Notes
    -----
    *Promises*: exact: batch = loop = any order, merge, forget, forget a class. It keeps its
    examples, so memory grows with them up to ``max_examples``.

    References
    ----------
    Suykens et al., Least Squares Support Vector Machines, World Scientific, 2002.

    Examples
    --------
    >>> from everlearn import LeastSquaresSVM
    >>> X, y = [[0.0], [1.0], [4.0], [5.0]], ["near", "near", "far", "far"]
    >>> learner = LeastSquaresSVM(C=10.0, positive="far").fit(X, y)
    >>> learner.predict([[0.5], [6.0]]).tolist()
    ['near', 'far']
    >>> learner.leave_one_out_.round(1).tolist()
    [-1.4, -0.5, 0.5, 1.4]
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: KernelWord | KernelFunction = "linear",
        gamma: float | None = None,
        max_examples: int = 5000,
        positive: Label | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
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
    def dual_coef_(self) -> Array:
        return self._solution().alpha

    @property
    def intercept_(self) -> float:
        return self._solution().bias

    @property
    def coef_(self) -> Array:
        if self.kernel != "linear":
            raise AttributeError("only the linear kernel has weights; this one stores examples")
        return self._solution().w

    @property
    def leave_one_out_(self) -> Array:
        return self._solution().leave_one_out()

    def _solution(self) -> "LSSVMSolution":
        self._require_fitted()
        solution: LSSVMSolution = self._core.solution
        return solution

    def _check_parameters(self) -> None:
        require_positive("C", self.C)
        Kernel.checked(self.kernel, self.gamma)
        require_whole("max_examples", self.max_examples, least=1)

    def _new_core(self, n_features: int) -> SolvedFromExamples["LSSVMSolution"]:
        return SolvedFromExamples(
            n_features,
            Kernel(self.kernel, self.gamma),
            partial(LSSVMSolution, self.C),
            C=self.C,
            max_examples=self.max_examples,
        )

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        gone: list[int] = self._core.forget(X, slots, weights)
        return gone

    def _forget_class(self, slot: int) -> None:
        self._core.forget_class(slot)

    def _merge(self, other: Any, slots: Slots) -> None:
        self._core.merge(other._core, slots, self.signs_)


class LSSVMSolution:
    """f(x) = Σ α_t k(x_t, x) + b; with the linear kernel also w = Σ α_t x_t."""

    def __init__(self, C: float, kernel: Kernel, examples: KeptExamples, signs: Array) -> None:
        self._kernel, self._X, self._signs = kernel, examples.X, signs
        self._system = SaddleSystem(kernel.between(self._X, self._X), C, examples.weights)
        self.alpha, bias = self._system.solve(signs)
        self.bias = float(bias)
        self.w = self._X.T @ self.alpha if kernel.name == "linear" else np.empty(0)

    def margins(self, X: Array) -> Array:
        if self._kernel.name == "linear":
            return X @ self.w + self.bias
        return self._kernel.between(X, self._X) @ self.alpha + self.bias

    def leave_one_out(self) -> Array:
        return self._system.leave_one_out(self._signs, self.alpha)


def exact_unless_precomputed(kernel: KernelWord | KernelFunction) -> frozenset[Promise]:
    """The promises of a learner that keeps its examples.

    Columns of a precomputed kernel are numbered by arrival, so the order of examples matters.
    """
    return EXACT if kernel != "precomputed" else frozenset({Promise.BATCH_IS_LOOP})
