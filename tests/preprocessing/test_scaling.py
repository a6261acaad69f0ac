"""The scaler that follows the stream, against scikit-learn's."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from everlearn import NearestClassMean, StreamingScaler, load, save
from everlearn.errors import NeverLearned, NotFinite, NotMergeable, WrongWidth


@pytest.fixture
def rows(rng):
    return rng.standard_normal((90, 4)) * [1.0, 1e-3, 30.0, 0.0] + [7.0, 1e4, 0.0, 5.0]


def compared(ours, theirs, X):
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(ours.var_, theirs.var_, rtol=1e-6, atol=1e-20)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-6, atol=1e-6)


def test_check_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(StreamingScaler(), on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}


def test_batches_in_any_order_give_scikit_learns_numbers(rows, rng):
    weights = rng.uniform(0.1, 3.0, len(rows))
    varying = rows[:, :3]
    theirs = StandardScaler().fit(varying, sample_weight=weights)
    ours = StreamingScaler()
    for part in np.array_split(rng.permutation(len(rows)), 13):
        ours.partial_fit(varying[part], sample_weight=weights[part])
    compared(ours, theirs, varying)
    back = ours.inverse_transform(ours.transform(varying))
    np.testing.assert_allclose(back, varying, rtol=1e-10, atol=1e-10)


def test_merging_is_learning_both_and_forgetting_is_never_having_learned(rows):
    theirs = StandardScaler().fit(rows)
    merged = StreamingScaler().fit(rows[:20]).merge(StreamingScaler().fit(rows[20:]))
    compared(merged, theirs, rows)
    compared(StreamingScaler().merge(merged), theirs, rows)
    compared(merged.forget(rows[:35]), StandardScaler().fit(rows[35:]), rows)


def test_a_saved_scaler_continues(rows, tmp_path):
    ours = StreamingScaler().fit(rows[:50])
    save(ours, tmp_path / "scaler")
    loaded = load(tmp_path / "scaler").partial_fit(rows[50:])
    np.testing.assert_array_equal(loaded.mean_, ours.partial_fit(rows[50:]).mean_)
    assert loaded.n_samples_seen_ == 90


def test_refused_input_changes_nothing(rows):
    ours = StreamingScaler().fit(rows)
    before = ours.mean_.copy(), ours.var_, ours.n_samples_seen_
    with pytest.raises(WrongWidth):
        ours.partial_fit(rows[:, :3])
    with pytest.raises(NotFinite):
        ours.partial_fit(np.full((2, 4), np.nan))
    with pytest.raises(NeverLearned, match="something has to be left"):
        ours.forget(rows)
    with pytest.raises(NotMergeable):
        ours.merge(NearestClassMean())
    with pytest.raises(NotMergeable, match="2 features"):
        ours.merge(StreamingScaler().fit(rows[:, :2]))
    with pytest.raises(NotFittedError):
        StreamingScaler().transform(rows)
    assert np.array_equal(before[0], ours.mean_)
    assert np.array_equal(before[1], ours.var_)
    assert before[2] == ours.n_samples_seen_
