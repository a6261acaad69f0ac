"""Within-class whitening against its formula, and for unseen classes."""

import warnings

import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from everlearn import (
    ClassWhitening,
    InitialWhitening,
    NearestClassMean,
    StreamPipeline,
    load,
    save,
)
from everlearn.errors import InvalidLabel, InvalidParameter, NotForgettable, WrongWidth


def nuisance(rng, n_classes, n, d=20):
    """Examples that vary in the same few directions in every class."""
    spread = np.r_[np.full(4, 5.0), np.full(d - 4, 0.5)]
    y, turn = np.repeat(np.arange(n_classes), n), np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n_classes, d))[y] + rng.normal(size=(len(y), d)) * spread @ turn, y


def test_check_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(ClassWhitening(), on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}
    assert not any(r["expected_to_fail"] for r in results)


@pytest.mark.parametrize("shrinkage", [0.1, 0.75, 1.0])
def test_it_equals_its_formula(rng, shrinkage):
    X, y = nuisance(rng, 5, 8, d=6)
    centred = X - np.array([X[y == k].mean(axis=0) for k in range(5)])[y]
    W = centred.T @ centred / len(X)
    matrix = shrinkage * np.eye(6) + (1 - shrinkage) * W / (np.trace(W) / 6)
    expected = (X - X.mean(axis=0)) @ np.linalg.inv(sqrtm(matrix))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = ClassWhitening(shrinkage=shrinkage).fit_transform(X, y)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_it_improves_accuracy_on_unseen_classes(rng):
    """One example of each of 20 new classes: others have shown which differences do not matter."""
    X, y = nuisance(rng, 40, 30)
    old, shown = y < 20, (y >= 20) & (np.arange(len(y)) % 30 == 0)
    asked = (y >= 20) & ~shown
    known = ClassWhitening(shrinkage=0.05).fit(X[old], y[old])
    each = InitialWhitening().fit(X[old])

    def right(see):
        learner = NearestClassMean().fit(see(X[shown]), y[shown])
        return learner.score(see(X[asked]), y[asked])

    assert right(known.transform) > right(each.transform) + 0.1
    assert right(known.transform) > right(lambda rows: rows) + 0.1


def test_the_order_and_weights_of_the_first_batch_do_not_matter(rng):
    X, y = nuisance(rng, 4, 6)
    order, copies = rng.permutation(24), np.resize([1, 2, 3], 24)
    plain = ClassWhitening().fit(X.repeat(copies, axis=0), y.repeat(copies)).transform(X)
    found = ClassWhitening().fit(X[order], y[order], copies[order].astype(float)).transform(X)
    np.testing.assert_allclose(found, plain, rtol=0, atol=1e-10)


def test_later_batches_change_nothing(rng):
    X, y = nuisance(rng, 4, 6)
    whitening = ClassWhitening().partial_fit(X, y)
    before = whitening.transform(X)
    whitening.partial_fit(9.0 * X + 5.0, y)
    np.testing.assert_array_equal(whitening.transform(X), before)
    with pytest.raises(WrongWidth):
        whitening.partial_fit(X[:, :2], y)


def test_scale_and_origin_do_not_matter(rng):
    X, y = nuisance(rng, 4, 6)
    moved = ClassWhitening().fit_transform(1e5 * (X + 7.0), y)
    np.testing.assert_allclose(moved, ClassWhitening().fit_transform(X, y), rtol=0, atol=1e-9)


def test_with_one_example_per_class_rows_are_only_centred_and_normalised(rng):
    X = rng.normal(size=(4, 3))
    centred = X - X.mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(ClassWhitening().fit_transform(X, list("abcd")), expected)


def test_wrong_words_are_refused(rng):
    X, y = nuisance(rng, 2, 3)
    with pytest.raises(InvalidLabel, match="requires y"):
        ClassWhitening().fit(X)
    for shrinkage in (0.0, 1.5):
        with pytest.raises(InvalidParameter, match="shrinkage"):
            ClassWhitening(shrinkage=shrinkage).fit(X, y)


def test_a_pipeline_with_it_learns_and_saves_but_cannot_forget(rng, tmp_path):
    X, y = nuisance(rng, 4, 6)
    steps = [("whiten", ClassWhitening()), ("learn", NearestClassMean())]
    pipeline = StreamPipeline(steps).fit(X, y)
    pipeline.learn_one(X[0], 0)
    pipeline.learn_one(X[1], 99)
    save(pipeline, tmp_path / "pipeline")
    twin = load(tmp_path / "pipeline")
    np.testing.assert_array_equal(twin.predict_proba(X), pipeline.predict_proba(X))
    with pytest.raises(NotForgettable):
        pipeline.forget(X[:1], y[:1])
