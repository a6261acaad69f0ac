"""Discriminant analysis with the covariance of the first batch."""

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


def test_parameters_out_of_range_raise_a_named_error(examples):
    for parameters in ({"shrinkage": 1.5}, {"base": "zeros"}):
        with pytest.raises(InvalidParameter, match=next(iter(parameters))):
            FixedCovarianceLDA(**parameters).fit(examples.X, examples.y)


def test_a_covariance_known_beforehand_is_used_as_it_is(examples):
    rng = np.random.default_rng(3)
    given = np.cov(rng.normal(size=(30, 8)) @ rng.normal(size=(8, 8)), rowvar=False)
    learner = FixedCovarianceLDA(base=given, shrinkage=0.2)
    for x, y in zip(examples.X, examples.y, strict=True):
        learner.learn_one(x, y)
    means = class_moments(examples.X, examples.y)[2]
    expected = discriminant_scores(means, given, examples.X_new, 0.2)
    assert_same_scores(learner, examples.X_new, expected)
    halves = [FixedCovarianceLDA(base=given, shrinkage=0.2) for _ in range(2)]
    halves[0].fit(examples.X[:60], examples.y[:60]).merge(
        halves[1].fit(examples.X[60:], examples.y[60:])
    )
    assert_same_scores(halves[0], examples.X_new, expected)


def test_an_invalid_base_covariance_is_refused(examples):
    with pytest.raises(InvalidParameter, match=r"base has the shape \(3,\); for 8 features"):
        FixedCovarianceLDA(base=np.ones(3)).fit(examples.X, examples.y)
    with pytest.raises(InvalidParameter, match="base"):
        FixedCovarianceLDA(base=None).fit(examples.X, examples.y)
