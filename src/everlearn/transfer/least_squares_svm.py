"""Least squares SVM: ridge regression on the signs of two labels, with leave-one-out for free.

Suykens et al. (2002); in Tommasi et al. (2012) the baseline NOTR, and Multi-KT without priors.

    min_{w,b} ½ ‖w‖² + C/2 Σ s_t (y_t − w·x_t − b)²

With w = Σ α_t x_t this is one linear system, and P, the top-left block of its inverse, gives both
the solution and what it would have predicted for each example had it never seen it:

    [K + diag(1/Cs)  1] [α]   [y]
    [1ᵀ              0] [b] = [0]        α = P y,    ỹ_t = y_t − α_t / P_tt

(K + diag(1/Cs)) is positive definite, so P comes from its Cholesky factor and no inverse is kept.
Learning costs nothing until the next question, which then costs O(n³ + n² d); memory is n d
numbers. Exact in every sense.
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from everlearn.base import Array
from everlearn.errors import LostDefiniteness
from everlearn.statistics.labels import Label
from everlearn.transfer.kept_examples import ExampleKeeper


class SaddleSystem:
    """P, the top-left block of the inverse of [[K + diag(1/Cs), 1], [1ᵀ, 0]], as a factor."""

    def __init__(self, K: Array, C: float, weights: Array) -> None:
        try:
            self._factor = cho_factor(K + np.diag(1.0 / (C * weights)), lower=True)
        except np.linalg.LinAlgError:
            raise LostDefiniteness(
                "the kernel matrix of the examples is not positive definite: if it is precomputed, "
                "check that rows and columns are in the same order; else scale the features"
            ) from None
        self._ones = cho_solve(self._factor, np.ones(len(K)))
        self._sum = float(self._ones.sum())

    def solve(self, targets: Array) -> tuple[Array, Any]:
        """α = P·targets and b, for one column of targets or for many."""
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

    def left_out(self, targets: Array, alpha: Array) -> Array:
        """ỹ = targets − α / diag P; zero for an only example, without which nothing is known."""
        if len(alpha) == 1:
            return np.zeros_like(targets)
        diagonal = self.diagonal()
        if alpha.ndim == 2:
            diagonal = diagonal[:, None]
        predictions: Array = targets - alpha / diagonal
        return predictions


class LeastSquaresSVM(ExampleKeeper):
    """Least squares SVM for two labels, with closed-form leave-one-out predictions.

    Asking after learning costs O(n³ + n² d) once; then O(d) a row (linear) or O(n d).

    Parameters
    ----------
    C : float, default=1.0
        The weight of the squared errors against the norm of w.
    kernel : {"linear", "gaussian", "precomputed"}, default="linear"
    bandwidth : float, optional
        δ in exp(−‖x − z‖² / δ); by default the mean squared distance between the examples.
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
        For each example the margin it would have had if it had not been learned.
    classes_ : ndarray
    n_features_in_ : int

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
        kernel: str = "linear",
        bandwidth: float | None = None,
        max_examples: int = 5000,
        positive: Label | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.max_examples = max_examples
        self.positive = positive

    @property
    def dual_coef_(self) -> Array:
        return self._solution()[0]

    @property
    def intercept_(self) -> float:
        return self._solution()[1]

    @property
    def coef_(self) -> Array:
        if self.kernel != "linear":
            raise AttributeError("only the linear kernel has weights; this one keeps examples")
        return self._solution()[2]

    @property
    def leave_one_out_(self) -> Array:
        signs = self._signs_of_examples()
        system = SaddleSystem(self._gram(), self.C, self.examples_.weights)
        return system.left_out(signs, system.solve(signs)[0])

    def _solution(self) -> tuple[Array, float, Array]:
        """α, b and w (w only where the kernel is linear)."""
        self._require_fitted()
        if self._worked_out.solution is None:
            system = SaddleSystem(self._gram(), self.C, self.examples_.weights)
            alpha, bias = system.solve(self._signs_of_examples())
            w = self.examples_.X.T @ alpha if self.kernel == "linear" else np.empty(0)
            self._worked_out.solution = alpha, float(bias), w
        return self._worked_out.solution

    def _margin(self, X: Array) -> Array:
        alpha, bias, w = self._solution()
        if self.kernel == "linear":
            return X @ w + bias
        return self._kernel_with_examples(X) @ alpha + bias
