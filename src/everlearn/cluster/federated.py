"""Checks for one round of federated learning: statistics are exchanged, images stay.

A site sends the file written by ``everlearn.save``. Before that, :func:`revealing` lists the
classes that have so few examples that their statistics nearly reveal them. The receiver calls
:func:`require_plausible` before merging: statistics of real examples obey constraints that invented
or damaged numbers violate.
"""

import numpy as np
from scipy.linalg import eigh

from everlearn.errors import Implausible, NotMergeable
from everlearn.learners.closed_form.additive import AdditiveClassifier
from everlearn.statistics.labels import Label
from everlearn.statistics.moments import Moments

# Rounding tolerance, relative to the largest eigenvalue.
ROUNDING = 1e-9
# Largest distance of a class's means at two sites, in standard deviations, and largest ratio of
# their spreads around the class means.
MOST_DEVIATIONS = 10.0
MOST_SPREAD = 100.0


def revealing(learner: AdditiveClassifier, least: int = 20) -> list[Label]:
    """The classes with fewer than ``least`` examples, which their statistics could reveal.

    The mean of one example is the example; that of a few is close. Merge such classes into others,
    teach more, or forget them before sending the statistics.
    """
    counts = learner.moments_.counts
    return [
        label
        for slot, label in enumerate(learner.registry_.by_slot)
        if label is not None and counts[slot] < least
    ]


def require_plausible(
    received: AdditiveClassifier,
    *,
    like: AdditiveClassifier | None = None,
    most_rows: float | None = None,
    whole_counts: bool = True,
) -> None:
    """Raise ``Implausible`` if no examples could have produced these statistics.

    Parameters
    ----------
    received : a closed-form learner, loaded from the file of a site
    like : learner, optional
        The local learner. The received one must have the same type, parameters and number of
        features, and comparable class means and spread.
    most_rows : float, optional
        Maximum number of examples the site can have.
    whole_counts : bool, default=True
        Whether counts must be integers, because examples were not weighted.

    Notes
    -----
    A malicious site can send the honest statistics of false examples; no check of the numbers
    detects that. Keep each site's file: its contribution can be removed again (``unmerge``).
    """
    _require_counts(received, most_rows, whole_counts)
    if isinstance(received.moments_, Moments):
        _require_scatter(received.moments_)
    if like is None:
        return
    if type(like) is not type(received) or like.n_features_in_ != received.n_features_in_:
        raise NotMergeable("the statistics are of another kind of learner, or of another width")
    if isinstance(like.moments_, Moments) and isinstance(received.moments_, Moments):
        _require_comparable(received, like)


def _require_counts(
    received: AdditiveClassifier, most_rows: float | None, whole_counts: bool
) -> None:
    moments = received.moments_
    if most_rows is not None and moments.total > most_rows:
        raise Implausible(
            f"it claims {moments.total:.0f} examples; the site has at most {most_rows:.0f}"
        )
    if whole_counts and np.any(np.abs(moments.counts - np.rint(moments.counts)) > ROUNDING):
        raise Implausible(
            "some counts are not integers; pass whole_counts=False if rows were weighted"
        )


def _require_scatter(moments: Moments) -> None:
    """Require S to be positive semi-definite, with a rank that the examples allow."""
    S = moments.scatter()
    eigenvalues = eigh(S, eigvals_only=True)
    largest = max(float(eigenvalues[-1]), 0.0)
    if eigenvalues[0] < -ROUNDING * max(largest, float(np.abs(eigenvalues).max())):
        raise Implausible(
            f"the scatter has a negative eigenvalue ({eigenvalues[0]:.2g}), which no examples give"
        )
    rank = int(np.sum(eigenvalues > ROUNDING * len(S) * largest))
    most = moments.total - float(np.sum(moments.counts > 0))
    if rank > most:
        raise Implausible(
            f"the scatter has rank {rank}, but {moments.total:.0f} examples of "
            f"{int(np.sum(moments.counts > 0))} classes give at most {most:.0f}"
        )


def _require_comparable(received: AdditiveClassifier, like: AdditiveClassifier) -> None:
    """Require class means within a few standard deviations, and a similar spread."""
    ours, theirs = like.moments_, received.moments_
    assert isinstance(ours, Moments)
    assert isinstance(theirs, Moments)
    spread = [float(m.scatter().trace() / m.total) for m in (ours, theirs)]
    if spread[0] and not 1 / MOST_SPREAD < spread[1] / spread[0] < MOST_SPREAD:
        raise Implausible(
            f"examples vary by {spread[1]:.3g} around their class means there, by {spread[0]:.3g} "
            "here; was another embedder or another scale used?"
        )
    for slot, label in enumerate(received.registry_.by_slot):
        known = like.registry_.find(label) if label is not None else None
        if known is None or not ours.counts[known]:
            continue
        distance = float(np.linalg.norm(theirs.means[slot] - ours.means[known]))
        if distance > MOST_DEVIATIONS * np.sqrt(spread[0]):
            raise Implausible(
                f"the mean of {label!r} is {distance / np.sqrt(spread[0]):.0f} standard deviations "
                "from the one known here; is it the same thing, in the same features?"
            )
