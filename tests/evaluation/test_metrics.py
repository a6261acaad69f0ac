"""Metrics against scikit-learn, or numbers worked out by hand."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    precision_score,
    recall_score,
    top_k_accuracy_score,
)

from everlearn.errors import InvalidParameter, WrongShape
from everlearn.evaluation import metrics


@pytest.fixture
def answers(rng):
    return rng.integers(0, 5, 200), rng.integers(0, 5, 200)


def test_accuracy_confusion_and_classes_agree_with_scikit_learn(answers):
    truth, given = answers
    counts = confusion_matrix(truth, given)
    assert metrics.accuracy(truth, given) == pytest.approx(accuracy_score(truth, given))
    np.testing.assert_array_equal(metrics.confusion(truth, given), counts)
    by_class = metrics.per_class_accuracy(truth, given)
    np.testing.assert_allclose(by_class, counts.diagonal() / counts.sum(axis=1))
    rare, others = metrics.rare_class_accuracy(truth, given, 3)
    assert rare == by_class[3]
    assert others == pytest.approx(accuracy_score(truth[truth != 3], given[truth != 3]))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_top_k_agrees_with_scikit_learn(rng, k):
    scores, truth = rng.normal(size=(100, 5)), rng.integers(0, 5, 100)
    ours = metrics.top_k_accuracy(truth, scores, np.arange(5), k)
    assert ours == pytest.approx(top_k_accuracy_score(truth, scores, k=k, labels=np.arange(5)))


def test_top_k_with_few_or_unknown_classes():
    scores = np.array([[0.2, 0.8], [0.6, 0.4]])
    assert metrics.top_k_accuracy(["a", "c"], scores, ["a", "b"], 5) == 0.5
    assert metrics.top_k_accuracy(["b", "b"], np.array([3.0, -3.0]), ["a", "b"], 1) == 0.5
    with pytest.raises(WrongShape, match="one column per class"):
        metrics.top_k_accuracy(["a"], scores, ["a", "b"], 1)
    with pytest.raises(InvalidParameter, match="k must be 1 or more"):
        metrics.top_k_accuracy(["a", "a"], scores, ["a", "b"], 0)


def test_a_class_without_test_examples_is_nan_not_an_error():
    by_class = metrics.per_class_accuracy([0, 0], [0, 1], classes=[0, 1])
    assert by_class[0] == 0.5
    assert np.isnan(by_class[1])
    assert np.isnan(metrics.rare_class_accuracy([0, 0], [0, 1], 7)[0])
    assert np.isnan(metrics.accuracy([], []))


def test_omega_all_by_hand():
    assert metrics.omega_all([0.4, 0.9], [0.8, 0.9]) == pytest.approx((0.5 + 1.0) / 2)
    with pytest.raises(WrongShape, match="one of each per checkpoint"):
        metrics.omega_all([0.4], [0.8, 0.9])
    with pytest.raises(InvalidParameter, match="accuracy 0"):
        metrics.omega_all([0.4], [0.0])


def test_forgetting_and_backward_transfer_by_hand():
    by_task = [[0.9, 0.0, 0.0], [0.95, 0.8, 0.0], [0.5, 0.9, 0.7]]
    assert metrics.forgetting(by_task) == pytest.approx(((0.95 - 0.5) + (0.8 - 0.9)) / 2)
    assert metrics.backward_transfer(by_task) == pytest.approx(((0.5 - 0.9) + (0.9 - 0.8)) / 2)
    with pytest.raises(WrongShape, match="square table"):
        metrics.forgetting([[1.0, 0.0]])


def test_mistake_rate_by_hand():
    rates = metrics.mistake_rate([1, 2, 3, 4], [1, 0, 3, 0])
    np.testing.assert_allclose(rates, [0, 1 / 2, 1 / 3, 2 / 4])


def test_relative_performance():
    np.testing.assert_allclose(metrics.relative_performance([0.3, 0.2], [0.6, 0.0])[0], 0.5)
    assert np.isnan(metrics.relative_performance([0.3, 0.2], [0.6, 0.0])[1])


def test_msre_and_precision_recall(rng):
    images = rng.normal(size=(3, 4, 4))
    assert metrics.msre(images, images + 2.0) == pytest.approx(4.0)
    truth, found = rng.random(50) < 0.4, rng.random(50) < 0.5
    precision, recall = metrics.precision_recall(truth, found)
    assert precision == pytest.approx(precision_score(truth, found))
    assert recall == pytest.approx(recall_score(truth, found))
    assert np.isnan(metrics.precision_recall([True], [False])[0])
    with pytest.raises(WrongShape, match="reconstructions"):
        metrics.msre(images, images[0])
