"""Mistake bounds of Tommasi et al. (2012).

    OTL     M ≤ 4 min(Σ_h, Σ_f) + 8 ln 2                                                 (Eq. 9)
    TROL    M ≤ 2 max(1, 1/C) (½ ‖u − w_1‖² + C Σ ℓ(u·x_t, y_t))                         (Eq. 10)
    TROL+   M ≤ 2 max(1 + k, 1/C) (½ ‖u − w'_1‖² + C Σ ℓ(u·x'_t, y_t))                   (Theorem 1)

Σ_g is the square loss of Π(g(x_t)) against Π(y_t), ℓ the hinge loss. Eq. 10 and Theorem 1 hold for
every u and every stream with ‖x_t‖ ≤ 1, for PA-I; ``radius`` restates them for ‖x_t‖ ≤ R, where
max(1, 1/C) becomes max(R², 1/C). A margin of zero counts as a mistake.
"""

import numpy as np
from numpy.typing import ArrayLike

from everlearn.arrays import Array


def hinge_losses(margins: ArrayLike, signs: ArrayLike) -> Array:
    """ℓ(f, y) = max(0, 1 − y f) of each example (Eq. 1)."""
    return np.maximum(0.0, 1.0 - np.asarray(signs) * np.asarray(margins))


def square_losses(margins: ArrayLike, signs: ArrayLike) -> Array:
    """(Π(f) − Π(y))² of each example; Π clips to [−1, 1] and rescales to [0, 1] (Eq. 7)."""
    cut = np.clip(np.asarray(margins, dtype=float), -1.0, 1.0)
    squares: Array = (0.5 * (cut - np.asarray(signs))) ** 2
    return squares


def online_transfer_bound(
    source_margins: ArrayLike, own_margins: ArrayLike, signs: ArrayLike
) -> float:
    """Upper bound on the mistakes of OTL (Eq. 9).

    Parameters
    ----------
    source_margins : array-like of shape (n_examples,)
        h(x_t), the margin of the source for each example.
    own_margins : array-like of shape (n_examples,)
        f_t(x_t), the learner's own margin for each example before learning it.
    signs : array-like of shape (n_examples,)
    """
    smaller = min(
        square_losses(source_margins, signs).sum(), square_losses(own_margins, signs).sum()
    )
    return float(4.0 * smaller + 8.0 * np.log(2.0))


def passive_aggressive_bound(
    distance: float, losses: ArrayLike, *, C: float = 1.0, radius: float = 1.0
) -> float:
    """Upper bound on the mistakes of PA-I from any initial hypothesis: TROL's bound (Eq. 10).

    Parameters
    ----------
    distance : float
        ‖u − w_1‖ between any hypothesis u and the initial one.
    losses : array-like of shape (n_examples,)
        The hinge losses of u.
    C : float
    radius : float
        A bound on the length of every example (in the kernel's space).
    """
    total = 0.5 * distance**2 + C * float(np.asarray(losses, dtype=np.float64).sum())
    return 2.0 * max(radius**2, 1.0 / C) * total


def augmented_bound(
    distance: float, losses: ArrayLike, *, n_knowledge: int = 1, C: float = 1.0, radius: float = 1.0
) -> float:
    """Upper bound on the mistakes of TROL+ (Theorem 1) with ``n_knowledge`` extra features.

    Each lies between −1 and 1, so an example of length R has length √(R² + k) with them.
    """
    return passive_aggressive_bound(
        distance, losses, C=C, radius=float(np.sqrt(radius**2 + n_knowledge))
    )
