"""TROL: transfer initialises online learning.

Tommasi et al. (2012), Sec. 2.4. The first n examples (n = 6 in the paper) and the priors give the
Multi-KT hypothesis

    w_1 = Σ_j β_j ŵ_j + Σ_i α_i x_i                                                      (Eq. 4-5)

and from the next example on Passive-Aggressive goes on from it (Eq. 2-3 with this w_1). A start
near the best hypothesis u makes the bound on mistakes small:

    M ≤ 2 max(1, 1/C) (½ ‖u − w_1‖² + C Σ ℓ(u·x_t, y_t))                                 (Eq. 10)

The opening costs O(n³ + k n²) once; then an example costs a Passive-Aggressive step, n kernel
values and k questions to priors. Sequential: not mergeable, not forgettable.

The bias b of Multi-KT belongs to w_1 here; the paper's Eq. 12 leaves it out.
"""

from typing import Any

from everlearn.base import Array
from everlearn.statistics.labels import Label
from everlearn.transfer.opening_transfer import TransferringLearner


class TROL(TransferringLearner):
    """Learn two labels online, starting from priors and the first few examples.

    Parameters
    ----------
    priors : list, default=()
        What is known already: weight vectors, pairs (vector, bias), fitted estimators with a
        decision function, or functions of X.
    n_first : int, default=6
        How many examples choose the weights of the priors. The learner waits for more if they are
        all of one label, see ``waiting_for_``.
    C : float, default=1.0
        The most that one example may move the hypothesis afterwards.
    batch_C, penalty, ridge
        As C, penalty and ridge of ``MultiKT``.
    variant, kernel, bandwidth, intercept, budget, drop, positive
        As in ``PassiveAggressive``; the bandwidth is that of the first ``n_first`` examples.

    Attributes
    ----------
    beta_ : ndarray of shape (n_priors,)
    waiting_for_ : str or None
        What the opening still needs.
    mistakes_, n_examples_ : int
    classes_ : ndarray
    n_features_in_ : int

    See Also
    --------
    TROLPlus : Also goes on weighing what it began with.
    MultiKT : The hypothesis of the opening, for any number of examples.

    References
    ----------
    Tommasi et al., Leveraging over prior knowledge for online learning of visual categories,
    BMVC 2012.

    Examples
    --------
    >>> from everlearn import TROL
    >>> learner = TROL(priors=[[1.0, 0.0]], n_first=2, positive="yes")
    >>> learner.learn_one([1.0, 0.1], "yes").waiting_for_
    '1 more example'
    >>> learner.learn_one([-1.0, 0.0], "no").predict_one([0.8, -0.3])
    'yes'
    """

    def __init__(
        self,
        *,
        priors: Any = (),
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

    def _step(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        offset = float(self.transferred_.margin(self, x[None], prior_scores[None])[0])
        return self.hypothesis_.step(x, self._one, sign, offset, weight)

    def _margin_of(self, X: Array, prior_scores: Array) -> Array:
        start = self.transferred_.margin(self, X, prior_scores)
        return start + self.hypothesis_.scores(X, self._constant(len(X)))
