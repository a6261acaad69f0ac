"""Streaming LDA as printed, beside a naive recursion with matrices."""

import numpy as np
import pytest
from everlearn_papers.slda.learners import FixedLDA, PlasticLDA, PublishedLDA
from sklearn.covariance import OAS

from everlearn import StreamingLDA
from everlearn.errors import InvalidWeight, NotForgettable, NotMergeable
from tests.learners.conftest import Examples, examples
from tests.learners.test_lda import assert_same_scores
from tests.oracles import PublishedRecursion, class_moments

__all__ = ["Examples", "examples"]


def test_the_published_recursion_is_reproduced(examples):
    oracle = PublishedRecursion(8)
    learner = PublishedLDA(shrinkage=1e-2)
    for z, label in zip(examples.X, examples.y.tolist(), strict=True):
        oracle.learn(z, label)
        learner.learn_one(z, label)
    np.testing.assert_allclose(learner.covariance_, oracle.covariance, rtol=1e-10, atol=1e-10)
    means = np.array([oracle.means[label] for label in learner.classes_])
    expected = scores_as_printed(means, oracle.covariance, examples.X_new, 1e-2)
    assert_same_scores(learner, examples.X_new, expected, rtol=1e-10)


def test_the_published_recursion_after_a_base_batch(examples):
    learner = PublishedLDA().partial_fit(examples.X[:60], examples.y[:60])
    classes, counts, means, _ = class_moments(examples.X[:60], examples.y[:60])
    oracle = PublishedRecursion(8)
    oracle.means = dict(zip(classes, means, strict=True))
    oracle.counts = dict(zip(classes, counts, strict=True))
    centred = examples.X[:60] - means[np.searchsorted(classes, examples.y[:60])]
    oracle.covariance = OAS(assume_centered=True).fit(centred).covariance_
    oracle.t = 60
    learner.partial_fit(examples.X[60:], examples.y[60:])
    for z, label in zip(examples.X[60:], examples.y[60:].tolist(), strict=True):
        oracle.learn(z, label)
    np.testing.assert_allclose(learner.covariance_, oracle.covariance, rtol=1e-10, atol=1e-10)


def test_the_first_example_of_a_class_adds_its_raw_outer_product_as_published():
    far = np.array([30.0, 40.0])
    as_published = PublishedLDA().learn_one([0.0, 0.0], "a").learn_one(far, "b")
    exact = StreamingLDA().learn_one([0.0, 0.0], "a").learn_one(far, "b")
    # t = 1: Δ = ½ z zᵀ, Σ = ½ Δ.
    np.testing.assert_allclose(as_published.covariance_, np.outer(far, far) / 4)
    assert not exact.covariance_.any()


def test_the_published_recursion_cannot_forget_or_merge(examples):
    learner = PublishedLDA().fit(examples.X, examples.y)
    with pytest.raises(NotForgettable, match="use StreamingLDA"):
        learner.forget(examples.X[:1], examples.y[:1])
    with pytest.raises(NotMergeable, match="use StreamingLDA"):
        learner.merge(PublishedLDA().fit(examples.X, examples.y))


def test_the_published_recursion_refuses_weights_before_it_learns_anything(examples):
    learner = PublishedLDA().fit(examples.X, examples.y)
    before = learner.covariance_
    many = np.tile(examples.X, (40, 1)), np.tile(examples.y, 40)
    weights = np.ones(len(many[1]))
    weights[-1] = 2.0
    with pytest.raises(InvalidWeight, match="use StreamingLDA"):
        learner.partial_fit(*many, sample_weight=weights)
    np.testing.assert_array_equal(learner.covariance_, before)


def scores_as_printed(means, covariance, X_new, shrinkage):
    """Eq. 1, 6 and 7."""
    identity = np.eye(len(covariance))
    precision = np.linalg.inv((1 - shrinkage) * covariance + shrinkage * identity)
    weights = means @ precision
    return X_new @ weights.T - 0.5 * np.einsum("ki,ki->k", weights, means)


@pytest.mark.parametrize("learner", [PlasticLDA, FixedLDA])
def test_the_shrinkage_is_towards_the_identity(examples, learner):
    first = examples.X[:60], examples.y[:60]
    taught = learner(shrinkage=0.2).fit(*first).partial_fit(examples.X[60:], examples.y[60:])
    means = class_moments(examples.X, examples.y)[2]
    expected = scores_as_printed(means, taught.covariance_, examples.X_new, 0.2)
    assert_same_scores(taught, examples.X_new, expected)
