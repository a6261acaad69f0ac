"""Learns a metric for nearest class means (MET+NCM).

    p(k|x) ∝ exp(−½ ‖W(x − μ_k)‖²),   W = argmin of −mean ln p(y|x),   W of shape (rank, d)

With α_ik = w_i ([y_i = k] − p(k|x_i)), the gradient is W Σ α_ik (μ_k − x_i)(μ_k − x_i)ᵀ. Because
Σ_k α_ik = 0, it takes three products of size n × rank × d and no sum over pairs. The loss is
minimised by L-BFGS from the leading principal directions, and stopped early: the number of steps is
what keeps W from overfitting. Deterministic.

References
----------
Mensink, Verbeek, Perronnin, Csurka. Distance-Based Image Classification: Generalizing to New
Classes at Near-Zero Cost. PAMI 2013, Eq. 5-8.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.special import logsumexp

from everlearn.base import Array, Slots

STEPS = 30
# Target of the mean squared distance of examples to their class mean after projection.
FIRST_SPREAD = 1.0


class LearnedMetric(NamedTuple):
    """The projection W, and how its optimisation ended.

    ``converged`` is false if more than ``steps`` would have followed, had they been allowed.
    ``loss`` is the final loss, ``change`` its decrease in the last step.
    """

    W: Array
    steps: int
    converged: bool
    loss: float
    change: float


def learned_metric(
    X: Array,
    member_of: Slots,
    weights: Array | None,
    means: Array,
    rank: int,
    *,
    most_steps: int = STEPS,
) -> LearnedMetric:
    """Learn W of shape (at most ``rank``, d); the class of ``X[i]`` is row ``member_of[i]``."""
    share = np.full(len(X), 1.0 / len(X)) if weights is None else weights / weights.sum()
    centre = share @ X
    X, means = X - centre, means - centre
    start = _principal_directions(X, share, member_of, means, rank)

    def loss(flat: Array) -> tuple[float, Array]:
        return _loss(flat.reshape(start.shape), X, member_of, share, means)

    losses = [loss(start.ravel())[0]]

    def note(intermediate_result: OptimizeResult) -> None:
        losses.append(float(intermediate_result.fun))

    found = minimize(
        loss,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": most_steps},
        callback=note,
    )
    change = losses[-2] - losses[-1] if len(losses) > 1 else 0.0
    W: Array = found.x.reshape(start.shape)
    return LearnedMetric(W, int(found.nit), bool(found.success), float(found.fun), change)


def _principal_directions(
    X: Array, share: Array, member_of: Slots, means: Array, rank: int
) -> Array:
    """The principal directions of the examples, scaled to a common spread within classes."""
    _, values, directions = np.linalg.svd(np.sqrt(share)[:, None] * X, full_matrices=False)
    kept = values > 1e-10 * max(values[0], 1e-300)
    W: Array = directions[: max(1, min(rank, int(kept.sum())))]
    spread = share @ np.sum(((X - means[member_of]) @ W.T) ** 2, axis=1)
    return W * np.sqrt(FIRST_SPREAD * len(W) / spread) if spread > 0 else W


def _loss(W: Array, X: Array, member_of: Slots, share: Array, means: Array) -> tuple[float, Array]:
    """The mean logistic loss and its gradient."""
    projected, centroids = X @ W.T, means @ W.T
    squares = np.sum(projected**2, axis=1)[:, None] + np.sum(centroids**2, axis=1)
    scores = projected @ centroids.T - 0.5 * squares
    log_p = scores - logsumexp(scores, axis=1, keepdims=True)
    everyone = np.arange(len(X))
    loss = -share @ log_p[everyone, member_of]
    alpha = -share[:, None] * np.exp(log_p)
    alpha[everyone, member_of] += share
    per_class = alpha.sum(axis=0)
    gradient = (centroids * per_class[:, None]).T @ means
    gradient -= (alpha @ centroids).T @ X + (alpha.T @ projected).T @ means
    return float(loss), gradient.ravel()
