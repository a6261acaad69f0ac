"""Forests with μ as published: the smallest leaf does not depend on the size of the classes.

The library uses a tenth of the mean class size where that is less than μ, since leaves of at least
ten examples cannot separate classes of five.
"""

from typing import Any

from everlearn.arrays import Array
from everlearn.forest.ncm_forest import NCMForest
from everlearn.forest.settings import ForestSettings
from everlearn.forest.svm_forest import SVMForest


class LeafAsGivenNCM(NCMForest):
    """NCM forest whose splits always leave more than ``min_samples`` on both sides."""

    def _settings(self, n_classes: int, seen: Array) -> ForestSettings:
        return _as_given(self, super()._settings(n_classes, seen))


class LeafAsGivenSVM(SVMForest):
    """SVM forest whose splits always leave more than ``min_samples`` on both sides."""

    def _settings(self, n_classes: int, seen: Array) -> ForestSettings:
        return _as_given(self, super()._settings(n_classes, seen))


def _as_given(forest: Any, settings: ForestSettings) -> ForestSettings:
    return settings._replace(smallest=float(forest.min_samples))
