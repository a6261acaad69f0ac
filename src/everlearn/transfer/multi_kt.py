"""Multi-KT: learn from a few examples, close to a weighted sum of what is known already.

Tommasi et al. (2012), Sec. 2.2. k priors h_j(x) = ŵ_j·x are given.

    min_{w,b} ½ ‖w − Σ_j β_j ŵ_j‖² + C/2 Σ_t s_t (y_t − w·x_t − b)²                     (Eq. 4)
    f(x) = Σ_j β_j h_j(x) + Σ_t α_t k(x_t, x) + b                                       (Eq. 5)

That is a least squares SVM on what the priors leave unexplained: α = P (y − Hβ), H_tj = h_j(x_t).
Its leave-one-out predictions ỹ = y − α / diag P are affine in β, and β makes their hinge loss least
(``prior_weights``). A bias of a prior is taken up by b and makes no difference. Cost is
O(n³ + k n²) plus what it takes to ask k priors; state is the examples, so forgetting and merging
are exact.

The published constraint ‖β‖ ≤ 1 (``penalty="ball"``) is nearly always active with six examples:
β takes all the length it may, also where no prior has anything to say. ``penalty="ridge"``, the
default, pays for length, so that weight is only given where leaving one out shows a gain. Its
strength is 3 √k: of k priors that say the same each gets a share, and the squares of k shares add
up to less than the square of the whole.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.base import Array
from everlearn.statistics.labels import Label
from everlearn.transfer.examples import Examples
from everlearn.transfer.kept_examples import ExampleKeeper
from everlearn.transfer.least_squares_svm import SaddleSystem
from everlearn.transfer.prior_weights import check_penalty, prior_weights
from everlearn.transfer.priors import Priors, check_priors


@dataclass(frozen=True)
class Transferred:
    """The solution of Eq. 4: α, b, β, and the leave-one-out predictions that chose β."""

    alpha: Array
    bias: float
    beta: Array
    leave_one_out: Array


def transfer(
    K: Array, signs: Array, weights: Array, H: Array, *, C: float, penalty: str, ridge: float | None
) -> Transferred:
    """Solve Eq. 4 for the kernel matrix K and the prior scores H of the same examples."""
    system = SaddleSystem(K, C, weights)
    # One column for the targets, one for each prior: everything below is a sum of these.
    columns = np.column_stack([signs, H])
    alphas, biases = system.solve(columns)
    if not H.shape[1]:
        beta = np.empty(0)
    else:
        # ỹ = y − P(y − Hβ)/diag P: what no transfer predicts, plus for each prior its share.
        left_out = system.left_out(columns, alphas)
        constant, slopes = left_out[:, 0], H - left_out[:, 1:]
        c, D = 1.0 - signs * constant, signs[:, None] * slopes
        beta = prior_weights(c, D, weights, penalty, ridge)
    mixture = np.concatenate([[1.0], -beta])
    alpha = alphas @ mixture
    return Transferred(
        alpha=alpha,
        bias=float(biases @ mixture),
        beta=beta,
        leave_one_out=system.left_out(signs, alpha),
    )


class MultiKT(ExampleKeeper):
    """Learn two labels from few examples and the weighted knowledge of priors.

    Asking after learning costs O(n³ + k n²) once, for n examples and k priors.

    Parameters
    ----------
    priors : list, default=()
        What is known already: weight vectors, pairs (vector, bias), fitted estimators with a
        decision function, or functions of X. Without priors this is a ``LeastSquaresSVM``.
    C : float, default=1.0
        The weight of the squared errors against the distance from the priors.
    kernel : {"linear", "gaussian", "precomputed"}, default="linear"
    bandwidth : float, optional
        δ in exp(−‖x − z‖² / δ); by default the mean squared distance between the examples.
    penalty : {"ridge", "ball"}, default="ridge"
        What keeps β small: ``ridge``/2 ‖β‖², or ‖β‖ ≤ 1 as published.
    ridge : float, optional
        ρ in ρ/2 ‖β‖²; by default 3 √k.
    max_examples : int, default=5000
    positive : label, optional
        The label the priors speak of; by default the one that sorts last.

    Attributes
    ----------
    beta_ : ndarray of shape (n_priors,)
        The weight of each prior.
    dual_coef_ : ndarray of shape (n_examples,)
    intercept_ : float
    leave_one_out_ : ndarray of shape (n_examples,)
        For each example the margin it would have had if it had not been learned, at these β.
    classes_ : ndarray
    n_features_in_ : int

    See Also
    --------
    TROL : Goes on from here online, at a fixed cost per example.

    References
    ----------
    Tommasi, Orabona, Caputo, Safety in numbers, CVPR 2010; Tommasi et al., BMVC 2012.

    Examples
    --------
    A vertical edge is known to tell two labels apart; two examples show that it does here.

    >>> from everlearn import MultiKT
    >>> learner = MultiKT(priors=[[1.0, 0.0]], C=0.1)
    >>> learner.fit([[1.0, 0.3], [-1.0, 0.2]], ["no", "yes"]).predict([[0.9, -2.0]]).tolist()
    ['no']
    """

    def __init__(
        self,
        *,
        priors: Any = (),
        C: float = 1.0,
        kernel: str = "linear",
        bandwidth: float | None = None,
        penalty: str = "ridge",
        ridge: float | None = None,
        max_examples: int = 5000,
        positive: Label | None = None,
    ) -> None:
        self.priors = priors
        self.C = C
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.penalty = penalty
        self.ridge = ridge
        self.max_examples = max_examples
        self.positive = positive

    @property
    def beta_(self) -> Array:
        return self._solution().beta

    @property
    def dual_coef_(self) -> Array:
        return self._solution().alpha

    @property
    def intercept_(self) -> float:
        return self._solution().bias

    @property
    def leave_one_out_(self) -> Array:
        return self._solution().leave_one_out

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_priors(self.priors)
        check_penalty(self.penalty, self.ridge)

    def _no_examples(self) -> Examples:
        return Examples(self.n_features_in_, len(self.priors))

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self._known = Priors(self.priors, n_features)

    def _prior_scores(self, X: Array) -> Array:
        return self._known.scores(X)

    def _solution(self) -> Transferred:
        self._require_fitted()
        if self._worked_out.solution is None:
            self._worked_out.solution = transfer(
                self._gram(),
                self._signs_of_examples(),
                self.examples_.weights,
                self.examples_.prior_scores,
                C=self.C,
                penalty=self.penalty,
                ridge=self.ridge,
            )
        return self._worked_out.solution

    def _margin(self, X: Array) -> Array:
        solution = self._solution()
        margins: Array = (
            self._prior_scores(X) @ solution.beta
            + self._kernel_with_examples(X) @ solution.alpha
            + solution.bias
        )
        return margins
