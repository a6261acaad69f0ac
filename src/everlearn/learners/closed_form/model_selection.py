"""Chooses λ and α by leave-one-out on the statistics.

A bounded sample of the examples is kept (``sample.py``), and each kept example is scored
leave-one-out (``leave_one_out.py``) at every candidate λ. Accuracy over λ is a noisy plateau, whose
highest point is random: we take the middle candidate of the plateau, that is, of all whose accuracy
is within one standard error of the highest. α is the largest that is as good as any, up to a
standard error and an example (``evidence.py``). While no class has two examples there is nothing to
compare: λ is 8 / n̄ of the mean variance, with n̄ the mean number of examples per class.

The paper (Camoriano et al. 2017, Sec. VI-C) holds examples out of training for the choice; here
nothing has to be held out, and neither the order nor the grouping of the examples matters. One
eigendecomposition A = Q diag(e) Qᵀ serves all λ:  A_λ⁻¹ x = Q diag(1 / (e + λ)) Qᵀ x.
"""

from dataclasses import dataclass

import numpy as np

from everlearn.arrays import Array
from everlearn.device.moments import DeviceMoments
from everlearn.learners.closed_form.evidence import LeaveOneOutEvidence, comparable, one_copy_each
from everlearn.learners.closed_form.least_squares import class_weights
from everlearn.learners.closed_form.leave_one_out import LearnedRows, LeastSquaresPath
from everlearn.statistics.moments import Moments
from everlearn.statistics.slices import finished

# α, preferred value first.
RECODINGS = tuple(float(alpha) for alpha in np.linspace(1.0, 0.0, 11))
# Default candidates for λ: these times the mean scatter of a feature about the overall mean.
RELATIVE_CANDIDATES = np.logspace(1, -4, 20)

# Without evidence: λ is this divided by the mean number of examples per class.
USUAL = 8.0


@dataclass(frozen=True)
class Selection:
    """λ and α."""

    regularization: float
    recoding: float


@dataclass(frozen=True)
class Question:
    """Which of λ and α are to be chosen (None), and how they are used."""

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
    """Choose those of λ and α that are None; ``kept`` are some of the learned examples."""
    candidates = asked.candidates
    if candidates is None:
        candidates = RELATIVE_CANDIDATES * mean_spread(moments)
    candidates = np.sort(candidates)[::-1]
    positions = comparable(kept, moments.counts)
    if not len(positions) or np.count_nonzero(moments.counts) < 2:
        # Nothing to compare: the usual λ, and all classes count the same.
        usual = usual_regularization(moments.counts) * mean_spread(moments)
        nearest = float(candidates[np.abs(np.log(candidates / usual)).argmin()])
        return Selection(
            nearest if asked.regularization is None else asked.regularization,
            RECODINGS[0] if asked.recoding is None else asked.recoding,
        )
    rows = finished(one_copy_each(kept, positions))
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
    """λ, as a share of the mean variance, suited to the number of examples per class."""
    return USUAL * float(np.count_nonzero(counts) / counts.sum())


def mean_spread(moments: Moments | DeviceMoments) -> float:
    """The mean diagonal of A about the overall mean; independent of the origin."""
    if isinstance(moments, Moments):
        spread = float(moments.total_scatter().diagonal().mean())
    else:
        spread = moments.total_trace() / moments.n_features
    # If all examples are one point there is nothing to compare, and any λ will do.
    return spread or 1.0


def middle_of_plateau(shares: Array, candidates: Array, n_examples: float) -> float:
    """The middle candidate among those whose accuracy is within an error of the highest."""
    best = min(float(shares.max()), 1.0)
    error = np.sqrt(best * (1.0 - best) / max(n_examples, 1.0))
    plateau = np.flatnonzero(shares >= best - error)
    return float(candidates[plateau[len(plateau) // 2]])
