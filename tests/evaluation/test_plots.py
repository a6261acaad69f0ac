"""Figures show the values they were given."""

import numpy as np

from everlearn.evaluation import plots


def test_confusion_is_drawn_as_shares():
    drawn = plots.confusion_matrix([[3, 1], [0, 0]], ["a", "b"])
    np.testing.assert_allclose(drawn.axes[0].images[0].get_array(), [[0.75, 0.25], [0, 0]])
