import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestCentroid

from everlearn import NearestClassMean
from everlearn.errors import InvalidParameter
from tests.oracles import class_moments


def test_answers_are_those_of_scikit_learns_nearest_centroid(examples):
    ours = NearestClassMean().fit(examples.X, examples.y)
    theirs = NearestCentroid().fit(examples.X, examples.y)
    np.testing.assert_allclose(ours.centroids_, theirs.centroids_, rtol=1e-12)
    assert ours.predict(examples.X_new).tolist() == theirs.predict(examples.X_new).tolist()


def test_scores_are_half_the_negative_squared_distances(examples):
    learner = NearestClassMean().fit(examples.X, examples.y)
    _, _, means, _ = class_moments(examples.X, examples.y)
    distances = ((examples.X_new[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_allclose(
        learner.decision_function(examples.X_new), -0.5 * distances, rtol=1e-10, atol=1e-9
    )


def test_cosine_scores_are_cosines_to_the_means(examples):
    learner = NearestClassMean(metric="cosine").fit(examples.X, examples.y)
    _, _, means, _ = class_moments(examples.X, examples.y)
    np.testing.assert_allclose(
        learner.decision_function(examples.X_new),
        cosine_similarity(examples.X_new, means),
        rtol=1e-10,
        atol=1e-12,
    )


def test_a_common_offset_of_a_million_changes_no_answer(examples):
    near = NearestClassMean().fit(examples.X, examples.y)
    far = NearestClassMean().fit(examples.X + 1e6, examples.y)
    assert far.predict(examples.X_new + 1e6).tolist() == near.predict(examples.X_new).tolist()
    one_by_one = [far.predict_one(x + 1e6) for x in examples.X_new]
    assert one_by_one == near.predict(examples.X_new).tolist()


def test_the_fast_path_gives_the_same_scores(examples):
    learner = NearestClassMean().fit(examples.X, examples.y)
    batch = learner._scores(examples.X_new)
    for x, expected in zip(examples.X_new, batch, strict=True):
        np.testing.assert_allclose(learner._scores_one(x), expected, rtol=1e-10, atol=1e-9)


def test_of_two_equally_near_classes_the_first_in_order_wins():
    learner = NearestClassMean()
    learner.learn_one([1.0, 0.0], "zebra").learn_one([-1.0, 0.0], "ant")
    assert learner.predict_one([0.0, 5.0]) == "ant"
    assert learner.predict([[0.0, 5.0]]).tolist() == ["ant"]


def test_a_zero_vector_has_no_direction_but_an_answer():
    learner = NearestClassMean(metric="cosine").fit(np.eye(2), ["a", "b"])
    assert learner.predict_one([0.0, 0.0]) == "a"


def test_an_unknown_metric_raises_a_named_error():
    with pytest.raises(InvalidParameter, match="'manhattan'"):
        NearestClassMean(metric="manhattan").fit(np.eye(2), [0, 1])
