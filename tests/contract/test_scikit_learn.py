"""Scikit-learn's own suite, with no failure expected."""

import warnings

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from tests.contract.learners import LEARNERS


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_check_estimator(learner):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        # Features of some checks lie a hundred deviations from zero.
        warnings.filterwarnings("ignore", "the features lie .* deviations from zero")
        results = check_estimator(learner, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    expected_to_fail = [r["check_name"] for r in results if r["expected_to_fail"]]
    assert failed == {}
    assert expected_to_fail == []
    assert sum(r["status"] == "passed" for r in results) > 50
