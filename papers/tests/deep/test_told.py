"""Table 2: what the rivals see in the two class orderings."""

import numpy as np
import pytest

from everlearn.streams.orderings import class_iid, class_instance


@pytest.mark.parametrize("draw", range(3))
def test_both_class_orderings_of_a_draw_have_the_same_class_order(draw):
    """Rivals shuffle a task anyway, so they are run once for both."""
    y = np.repeat(np.arange(7), 6)
    videos = 3 * y + np.tile(np.arange(6) // 2, 7)
    arrivals = []
    for order in (class_iid(y, draw), class_instance(y, videos, draw)):
        labels, first = np.unique(y[order], return_index=True)
        arrivals.append(labels[np.argsort(first)].tolist())
    assert arrivals[0] == arrivals[1]
