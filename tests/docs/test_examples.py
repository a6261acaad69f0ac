"""The examples are run as a user would run them."""

import pytest

from examples.evaluate_any_estimator import ESTIMATORS, compare


@pytest.mark.slow
def test_estimators_of_several_libraries_are_compared():
    rows = {row["estimator"]: row for row in compare().rows}
    assert list(rows) == list(ESTIMATORS)
    assert all(row["rejected"] == 0 and row["examples"] == 1200 for row in rows.values())
    assert all(row["accuracy"] > 0.6 for row in rows.values())
    # Class by class, gradient descent forgets and statistics do not.
    lda = rows["everlearn StreamingLDA"]["accuracy, class by class"]
    assert lda > 0.85
    assert rows["River SoftmaxRegression"]["accuracy, class by class"] < lda - 0.3
