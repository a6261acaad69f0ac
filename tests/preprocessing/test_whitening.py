"""Whitening by the first batch against scikit-learn and its definition."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from everlearn import InitialWhitening, NCMForest, NearestClassMean, StreamPipeline, load, save
from everlearn.errors import WrongWidth


def test_check_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(InitialWhitening(), on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}
    assert not any(r["expected_to_fail"] for r in results)


def test_is_scikit_learns_scaler_where_features_vary_alike(rng):
    X = rng.standard_normal((50, 4)) * [1.0, 2.0, 3.0, 4.0] + 7.0
    weights = rng.integers(1, 5, 50).astype(float)
    ours = InitialWhitening().fit(X, sample_weight=weights)
    theirs = StandardScaler().fit(X, sample_weight=weights)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, rtol=1e-12)


def test_later_batches_change_nothing(rng):
    X = rng.standard_normal((20, 3))
    whitening = InitialWhitening().partial_fit(X)
    before = whitening.transform(X)
    whitening.partial_fit(100.0 * X + 5.0)
    np.testing.assert_array_equal(whitening.transform(X), before)
    with pytest.raises(WrongWidth):
        whitening.partial_fit(X[:, :2])


def test_a_nearly_constant_feature_is_not_amplified(rng):
    X = np.column_stack([rng.standard_normal(200), 1e-9 * rng.standard_normal(200), np.ones(200)])
    whitened = InitialWhitening().fit(X).transform(X)
    assert np.abs(whitened[:, 1:]).max() < 1e-6
    assert whitened[:, 0].std() == pytest.approx(1.0)


def test_before_a_forest_it_equals_the_whitening_of_the_forest(rng):
    y = np.repeat(np.arange(6), 15)
    X = rng.standard_normal((6, 5))[y] * 4.0 + rng.standard_normal((90, 5)) * [1, 10, 0.1, 1, 1]
    inside = NCMForest(n_estimators=5, random_state=0)
    outside = StreamPipeline(
        [
            ("whiten", InitialWhitening()),
            ("forest", NCMForest(n_estimators=5, random_state=0, whiten=False)),
        ]
    )
    for learner in (inside, outside):
        learner.partial_fit(X[y < 3], y[y < 3])
        learner.partial_fit(X[y >= 3], y[y >= 3])
    # In between the pipeline has float64 and the forest float32: a tie may fall the other way.
    assert np.mean(inside.predict(X) == outside.predict(X)) > 0.97


def test_a_pipeline_with_it_can_be_saved(rng, tmp_path):
    X, y = rng.standard_normal((20, 3)), np.arange(20) % 2
    steps = [("whiten", InitialWhitening()), ("learn", NearestClassMean())]
    pipeline = StreamPipeline(steps).fit(X, y)
    save(pipeline, tmp_path / "pipeline")
    twin = load(tmp_path / "pipeline")
    np.testing.assert_array_equal(twin.predict_proba(X), pipeline.predict_proba(X))
