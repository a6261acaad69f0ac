"""Learners trained task by task, against learners fitted on all classes so far."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("torch", reason="the rivals need torch: pip install 'everlearn[torch]'")

from everlearn_papers.deep.incremental import tasks_of
from everlearn_papers.deep.streams import Vectors, ridge_on_random_features, streamed
from sklearn.linear_model import RidgeClassifier

from everlearn import NearestClassMean, RandomFeatures

N_CLASSES, TASKS = 6, tasks_of(6, 2, 2)


def sectors(n: int, seed: int) -> Vectors:
    """Each class lies in two opposite directions, so that it is not linearly separable."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(N_CLASSES), n)
    turn = (y + rng.uniform(0.1, 0.9, len(y))) / N_CLASSES + rng.integers(0, 2, len(y))
    radius = rng.uniform(0.5, 1.5, len(y))
    return Vectors(
        radius[:, None] * np.column_stack([np.cos(np.pi * turn), np.sin(np.pi * turn)]), y
    )


@pytest.mark.parametrize("retrain", [False, True])
def test_after_each_task_a_learner_knows_exactly_the_classes_so_far(retrain):
    taught, asked = sectors(40, 0), sectors(30, 1)
    _, course = streamed(NearestClassMean, taught, asked, TASKS, retrain=retrain)
    for n_seen, accuracy in zip((2, 4, 6), course.accuracies, strict=True):
        known, questions = taught.only(taught.y < n_seen), asked.only(asked.y < n_seen)
        means = np.array([known.X[known.y == label].mean(axis=0) for label in range(n_seen)])
        nearest = ((questions.X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
        assert accuracy == pytest.approx(np.mean(nearest == questions.y), abs=1e-6)


def test_ridge_on_random_features_equals_that_of_scikit_learn():
    taught, asked = sectors(60, 0), sectors(40, 1)
    learner, course = streamed(lambda: ridge_on_random_features(300, "cpu"), taught, asked, TASKS)
    random = RandomFeatures(n_components=300)
    features = random.fit(taught.X).transform(taught.X)
    regularization = learner.named_steps["ridge"].regularization_
    ridge = RidgeClassifier(alpha=regularization).fit(features, taught.y)
    agreed = np.mean(ridge.predict(random.transform(asked.X)) == learner.predict(asked.X))
    assert agreed > 0.99
    assert course.accuracies[-1] > 0.9  # straight lines: a quarter


def test_the_order_of_tasks_does_not_change_ridge_on_random_features():
    taught, asked = sectors(40, 0), sectors(30, 1)
    ends = []
    for seed in (0, 1):
        made = partial(ridge_on_random_features, 100, "cpu")
        _, course = streamed(made, taught, asked, TASKS, seed=seed)
        ends.append(course.accuracies[-1])
    assert ends[0] == pytest.approx(ends[1], abs=0.02)
