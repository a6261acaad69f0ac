"""Nearest class mean: a class is the average of its examples, and the nearest average wins.

    euclidean    argmin_k ‖x − μ_k‖
    cosine       argmax_k x·μ_k / (‖x‖ ‖μ_k‖)

One example costs O(d) to learn and O(K d) to ask; memory is K d numbers. Exact in every sense:
a batch equals its rows one by one, in any order; forgetting and merging are exact.
"""

import numpy as np

from everlearn.base import Array
from everlearn.errors import InvalidParameter
from everlearn.learners.additive import AdditiveClassifier
from everlearn.statistics.moments import ClassMeans


class NearestClassMean(AdditiveClassifier):
    """Classify by the nearest class mean.

    Learning one example costs O(d), whatever was learned before.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default="euclidean"
        What near means. Cosine compares directions and suits features of neural networks whose
        length says more about contrast than about content.

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    centroids_ : ndarray of shape (n_classes, n_features)
        The mean of each class, in the order of ``classes_``.
    n_features_in_ : int

    See Also
    --------
    StreamingLDA : Also learns how features vary together; better from some hundred examples on.

    Notes
    -----
    ``decision_function`` is −½ ‖x − μ_k‖² (or the cosine), and ``predict_proba`` its softmax: the
    posterior if classes were spheres of unit variance. It is not calibrated.

    Examples
    --------
    >>> from everlearn import NearestClassMean
    >>> learner = NearestClassMean()
    >>> learner.learn_one([0.0, 0.0], "cup").learn_one([4.0, 4.0], "chair").predict_one([1.0, 0.0])
    'cup'
    """

    def __init__(self, *, metric: str = "euclidean") -> None:
        self.metric = metric

    @property
    def centroids_(self) -> Array:
        centroids: Array = self.moments_.means[self.labels_.order]
        return centroids

    def _check_parameters(self) -> None:
        if self.metric not in ("euclidean", "cosine"):
            raise InvalidParameter(f'metric is "euclidean" or "cosine", not {self.metric!r}')

    def _empty_moments(self, n_features: int) -> ClassMeans:
        return ClassMeans(n_features)

    def _scores(self, X: Array) -> Array:
        if self.metric == "cosine":
            return _unit(X) @ _unit(self.moments_.means).T
        # About the mean of everything, so that a common offset does not eat the digits.
        X = X - self.moments_.mean
        means = self.moments_.means - self.moments_.mean
        squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", means, means)
        return X @ means.T - 0.5 * squares

    def _scores_one(self, x: Array) -> Array:
        if self.metric == "cosine":
            return super()._scores_one(x)
        from everlearn.kernels.moments import nearest_mean

        scores: Array = nearest_mean(x, self.moments_.means)
        return scores


def _unit(rows: Array) -> Array:
    """Rows at length one; a row of zeros stays zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
