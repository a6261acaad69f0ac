"""Choosing λ and α by leave-one-out on the statistics.

A bounded sample of what was learned is kept (``sample.py``), and each kept example is answered as
if it had never been learned (``leave_one_out.py``), at every candidate λ. Accuracy over λ is a
plateau with noise on it, and its highest point is wherever the noise is: we take the middle
candidate of the plateau, of all whose accuracy is within one standard error of the highest. α is
the largest that is as good as any, up to a standard error and an example (``evidence.py``). While
no class has two examples there is nothing to compare: λ is 8 / n̄ of the mean variance, with n̄ the
mean number of examples of a class.

Where the paper (Camoriano et al. 2017, Sec. VI-C) holds examples out of training to choose by,
nothing has to be held out here, and neither the order nor the grouping of the examples matters. One
eigendecomposition A = Q diag(e) Qᵀ serves all λ:  A_λ⁻¹ x = Q diag(1 / (e + λ)) Qᵀ x.
"""

from dataclasses import dataclass

import numpy as np

from everlearn.arrays import Array
from everlearn.device.moments import DeviceMoments
from everlearn.learners.closed_form.evidence import LeaveOneOutEvidence, comparable, left_out
from everlearn.learners.closed_form.least_squares import class_weights
from everlearn.learners.closed_form.leave_one_out import LearnedRows, LeastSquaresPath
from everlearn.statistics.moments import Moments

# α, the preferred first.
RECODINGS = tuple(float(alpha) for alpha in np.linspace(1.0, 0.0, 11))
# λ by default: these times the mean scatter of a feature about the mean of all examples.
RELATIVE_CANDIDATES = np.logspace(1, -4, 20)

# Without evidence: λ is this over the mean number of examples of a class.
USUAL = 8.0


@dataclass(frozen=True)
class Selection:
    """λ and α."""

    regularization: float
    recoding: float


@dataclass(frozen=True)
class Question:
    """What is to be chosen (None) and how λ and α are used."""

    regularization: float | None
    recoding: float | None
    candidates: Array | None
    rebalance: bool
    intercept: bool

    def path(
        self, moments: Moments | DeviceMoments, rows: LearnedRows, alpha: float
    ) -> LeastSquaresPath:
        gamma = class_weights(moments.counts, alpha) if self.rebalance and alpha else None
        return LeastSquaresPath(moments, rows, intercept=self.intercept, class_weights=gamma)


def select(moments: Moments | DeviceMoments, kept: LearnedRows, asked: Question) -> Selection:
    """Choose what is None of λ and α; ``kept`` are some of the examples that were learned."""
    candidates = asked.candidates
    if candidates is None:
        candidates = RELATIVE_CANDIDATES * mean_spread(moments)
    candidates = np.sort(candidates)[::-1]
    positions = comparable(kept, moments.counts)
    if not len(positions) or np.count_nonzero(moments.counts) < 2:
        # Nothing can be compared: the usual λ, and all classes count the same.
        usual = usual_regularization(moments.counts) * mean_spread(moments)
        nearest = float(candidates[np.abs(np.log(candidates / usual)).argmin()])
        return Selection(
            nearest if asked.regularization is None else asked.regularization,
            RECODINGS[0] if asked.recoding is None else asked.recoding,
        )
    rows = left_out(kept, positions)
    evidence = LeaveOneOutEvidence(moments.counts, rows, kept.weights[positions])
    path = asked.path(moments, rows, (asked.recoding or 0.0) if asked.rebalance else 0.0)
    lam = asked.regularization
    if lam is None:
        right = evidence.right([path.scores(float(each)) for each in candidates])
        lam = middle_of_plateau(right / evidence.total, candidates, evidence.total)
    if asked.recoding is not None:
        return Selection(lam, asked.recoding)
    if asked.rebalance:
        tables = [asked.path(moments, rows, alpha).scores(lam) for alpha in RECODINGS]
    else:
        tables = [path.scores(lam, alpha) for alpha in RECODINGS]
    return Selection(lam, RECODINGS[evidence.first_as_good_as_the_best(tables)])


def usual_regularization(counts: Array) -> float:
    """λ, as a share of the mean variance, that suits so many examples of a class."""
    return USUAL * float(np.count_nonzero(counts) / counts.sum())


def mean_spread(moments: Moments | DeviceMoments) -> float:
    """The mean diagonal of A about the mean of all examples: the same wherever the origin is."""
    if isinstance(moments, Moments):
        spread = float(moments.total_scatter().diagonal().mean())
    else:
        spread = moments.total_trace() / moments.n_features
    # Where all examples are one point there is nothing to compare, and any λ will do.
    return spread or 1.0


def middle_of_plateau(shares: Array, candidates: Array, n_examples: float) -> float:
    """The middle one of the candidates with a share of hits within an error of the highest."""
    best = min(float(shares.max()), 1.0)
    error = np.sqrt(best * (1.0 - best) / max(n_examples, 1.0))
    plateau = np.flatnonzero(shares >= best - error)
    return float(candidates[plateau[len(plateau) // 2]])
