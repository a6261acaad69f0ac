"""Forests with μ as published: the smallest leaf is as given, however few examples a class has.

In the library a tenth of an average class takes the place of μ where that is less, since a leaf
that must hold ten examples cannot tell apart classes of five.
"""

from typing import Any

from everlearn.arrays import Array
from everlearn.forest.ncm_forest import NCMForest
from everlearn.forest.settings import ForestSettings
from everlearn.forest.svm_forest import SVMForest


class LeafAsGivenNCM(NCMForest):
    """An NCM forest whose splits leave more than ``min_samples`` on both sides, always."""

    def _settings(self, n_classes: int, seen: Array) -> ForestSettings:
        return _as_given(self, super()._settings(n_classes, seen))


class LeafAsGivenSVM(SVMForest):
    """An SVM forest whose splits leave more than ``min_samples`` on both sides, always."""

    def _settings(self, n_classes: int, seen: Array) -> ForestSettings:
        return _as_given(self, super()._settings(n_classes, seen))


def _as_given(forest: Any, settings: ForestSettings) -> ForestSettings:
    return settings._replace(smallest=float(forest.min_samples))
