"""Under the covariance of the first batch."""

import numpy as np
import pytest
from sklearn.covariance import OAS

from everlearn import FixedCovarianceLDA
from everlearn.errors import InvalidParameter, NotMergeable
from tests.learners.test_lda import assert_same_scores
from tests.oracles import class_moments, discriminant_scores


@pytest.mark.parametrize("base", ["plain", "oas"])
def test_a_fixed_covariance_is_that_of_the_base_batch(examples, base):
    start = examples.X[:60], examples.y[:60]
    learner = FixedCovarianceLDA(base=base, shrinkage=0.02).partial_fit(*start)
    learner.partial_fit(examples.X[60:], examples.y[60:])
    classes, _, means, scatter = class_moments(*start)
    centred = start[0] - means[np.searchsorted(classes, start[1])]
    covariance = OAS(assume_centered=True).fit(centred).covariance_
    covariance = covariance if base == "oas" else scatter / 60
    np.testing.assert_allclose(learner.covariance_, covariance, rtol=1e-9, atol=1e-10)
    all_means = class_moments(examples.X, examples.y)[2]
    expected = discriminant_scores(all_means, covariance, examples.X_new, 0.02)
    assert_same_scores(learner, examples.X_new, expected)


def test_a_fixed_covariance_of_ones_stays_ones(examples):
    learner = FixedCovarianceLDA(base="ones", shrinkage=0.5)
    learner.fit(examples.X, examples.y)
    means = class_moments(examples.X, examples.y)[2]
    expected = discriminant_scores(means, np.ones((8, 8)), examples.X_new, 0.5)
    assert_same_scores(learner, examples.X_new, expected)


def test_different_frozen_covariances_do_not_merge(examples):
    one = FixedCovarianceLDA().fit(examples.X[:60], examples.y[:60])
    other = FixedCovarianceLDA().fit(examples.X[60:], examples.y[60:])
    with pytest.raises(NotMergeable, match="same base batch"):
        one.merge(other)


def test_parameters_out_of_range_are_named(examples):
    for parameters in ({"shrinkage": 1.5}, {"base": "zeros"}):
        with pytest.raises(InvalidParameter, match=next(iter(parameters))):
            FixedCovarianceLDA(**parameters).fit(examples.X, examples.y)
