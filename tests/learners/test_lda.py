import copy

import numpy as np
import pytest
from sklearn.covariance import OAS
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from everlearn import StreamingLDA, load, save
from everlearn.errors import InvalidParameter, LostDefiniteness, NotForgettable
from tests.oracles import (
    class_moments,
    discriminant_scores,
    slda_scores,
    up_to_a_common_term,
)


def assert_same_scores(learner, X_new, expected, rtol=1e-9):
    np.testing.assert_allclose(
        up_to_a_common_term(learner.decision_function(X_new)),
        up_to_a_common_term(expected),
        rtol=rtol,
        atol=rtol * np.abs(expected).max(),
    )


def test_scores_are_equations_1_6_and_7(examples):
    learner = StreamingLDA(shrinkage=0.01).fit(examples.X, examples.y)
    expected = slda_scores(examples.X, examples.y, examples.X_new, 0.01)
    assert_same_scores(learner, examples.X_new, expected)


def test_coef_and_intercept_give_the_scores(examples):
    learner = StreamingLDA(shrinkage=0.01).fit(examples.X, examples.y)
    np.testing.assert_allclose(
        examples.X_new @ learner.coef_.T + learner.intercept_,
        learner.decision_function(examples.X_new),
        rtol=1e-9,
        atol=1e-8,
    )


def test_answers_are_those_of_scikit_learns_lda_with_equal_priors(examples):
    _, _, _, scatter = class_moments(examples.X, examples.y)
    ours = StreamingLDA(shrinkage=1e-9).fit(examples.X, examples.y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(5, 0.2))
    theirs.fit(examples.X, examples.y)
    assert np.mean(ours.predict(examples.X_new) == theirs.predict(examples.X_new)) > 0.95
    np.testing.assert_allclose(ours.covariance_, scatter / len(examples.X), rtol=1e-10, atol=1e-10)


def test_probabilities_are_the_gaussian_posterior(examples):
    learner = StreamingLDA(shrinkage=0.1).fit(examples.X, examples.y)
    _, _, means, scatter = class_moments(examples.X, examples.y)
    covariance = scatter / len(examples.X)
    covariance = 0.9 * covariance + 0.1 * np.trace(covariance) / 8 * np.eye(8)
    gaps = examples.X_new[:, None] - means
    log_density = -0.5 * np.einsum("nki,ij,nkj->nk", gaps, np.linalg.inv(covariance), gaps)
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    expected = density / density.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(learner.predict_proba(examples.X_new), expected, atol=1e-10)


def test_oracle_shrinkage_is_scikit_learns(examples):
    learner = StreamingLDA(shrinkage="oas").fit(examples.X, examples.y)
    classes, _, means, _ = class_moments(examples.X, examples.y)
    centred = examples.X - means[np.searchsorted(classes, examples.y)]
    covariance = OAS(assume_centered=True).fit(centred).covariance_
    expected = discriminant_scores(means, covariance, examples.X_new, 0.0)
    assert_same_scores(learner, examples.X_new, expected)


@pytest.mark.parametrize("shrinkage", [1e-4, 0.3, "oas"])
def test_the_running_scores_are_exact_for_the_shrinkage_on_the_grid(examples, shrinkage):
    learner = StreamingLDA(shrinkage=shrinkage)
    learner.partial_fit(examples.X[:20], examples.y[:20])
    stream = zip(examples.X[20:], examples.y[20:].tolist(), strict=True)
    for step, (x, label) in enumerate(stream):
        learner.learn_one(x, label)
        if step % 4 == 3:  # four examples between two questions, then one, then one
            continue
        running = learner._scores_one(examples.X_new[step % 50])
        ridge = learner._running.ridge
        moments = learner.moments_
        A = moments.scatter() + ridge * np.eye(8)
        gaps = examples.X_new[step % 50] - moments.means
        expected = -0.5 * np.einsum("ki,ki->k", gaps, np.linalg.solve(A, gaps.T).T)
        np.testing.assert_allclose(
            running - running.mean(), expected - expected.mean(), rtol=1e-7, atol=1e-9
        )
        if shrinkage != "oas":
            exact_ridge = shrinkage * np.trace(moments.scatter()) / 8 / (1 - shrinkage)
            assert exact_ridge / 1.05 <= ridge <= exact_ridge * 1.05


def test_one_at_a_time_answers_like_the_batch(examples):
    learner = StreamingLDA()
    for x, label in zip(examples.X, examples.y.tolist(), strict=True):
        learner.learn_one(x, label)
        learner.predict_one(x)
    one_by_one = [learner.predict_one(x) for x in examples.X_new]
    assert one_by_one == learner.predict(examples.X_new).tolist()


def test_features_far_from_zero_change_no_answer(examples):
    near = StreamingLDA().fit(examples.X, examples.y)
    far = StreamingLDA()
    for x, label in zip(examples.X + 1e6, examples.y.tolist(), strict=True):
        far.learn_one(x, label)
        far.predict_one(x)
    expected = near.predict(examples.X_new).tolist()
    assert far.predict(examples.X_new + 1e6).tolist() == expected
    assert [far.predict_one(x) for x in examples.X_new + 1e6] == expected


def test_candidates_restrict_the_answer_as_task_labels_do(examples):
    learner = StreamingLDA().fit(examples.X, examples.y)
    task = ["fig", "kiwi"]
    scores = up_to_a_common_term(learner.decision_function(examples.X_new))
    columns = [learner.classes_.tolist().index(name) for name in task]
    expected = np.array(task)[scores[:, columns].argmax(axis=1)]
    assert learner.predict(examples.X_new, among=task).tolist() == expected.tolist()
    assert [learner.predict_one(x, among=task) for x in examples.X_new] == expected.tolist()
    p = learner.predict_proba(examples.X_new, among=task)
    assert np.allclose(p[:, columns].sum(axis=1), 1.0)
    assert np.all(np.delete(p, columns, axis=1) == 0)


def test_shrinkage_can_be_changed_after_the_fact(examples):
    learner = StreamingLDA(shrinkage=1e-4).fit(examples.X, examples.y)
    learner.predict(examples.X_new)
    learner.set_params(shrinkage=0.5)
    expected = slda_scores(examples.X, examples.y, examples.X_new, 0.5)
    assert_same_scores(learner, examples.X_new, expected)


def test_forget_class_needs_the_scatter_of_each_class(examples):
    learner = StreamingLDA().fit(examples.X, examples.y)
    before = learner.decision_function(examples.X_new)
    with pytest.raises(NotForgettable, match="class_scatter=True"):
        learner.forget_class("fig")
    np.testing.assert_array_equal(learner.decision_function(examples.X_new), before)


@pytest.mark.parametrize(
    "parameters",
    [
        {"shrinkage": 0.0},
        {"shrinkage": 1.0},
        {"shrinkage": "lw"},
        {"class_scatter": "yes"},
    ],
)
def test_parameters_out_of_range_raise_a_named_error(parameters, examples):
    name = next(reversed(parameters))
    with pytest.raises(InvalidParameter, match=name):
        StreamingLDA(**parameters).fit(examples.X, examples.y)


def test_accuracy_on_image_features_class_by_class(data_pack):
    pack = data_pack("cifar100_small_effnetlite0.npz")
    X, y = pack["features_train"].astype(float), pack["labels_train"]
    learner = StreamingLDA()
    for label in np.unique(y):
        learner.partial_fit(X[y == label], y[y == label])
    assert learner.score(pack["features_test"].astype(float), pack["labels_test"]) >= 0.675


@pytest.mark.parametrize("shrinkage", [0.1, "oas"])
@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e-60, 1e100])
def test_the_scale_of_the_features_changes_no_answer(examples, shrinkage, scale):
    plain = StreamingLDA(shrinkage=shrinkage).fit(examples.X, examples.y)
    scaled = StreamingLDA(shrinkage=shrinkage).fit(scale * examples.X, examples.y)
    X_new = scale * examples.X_new
    np.testing.assert_allclose(
        scaled.predict_proba(X_new), plain.predict_proba(examples.X_new), atol=1e-9
    )
    one_by_one = [scaled.predict_one(x) for x in X_new]
    assert one_by_one == scaled.predict(X_new).tolist() == plain.predict(examples.X_new).tolist()


def test_forgetting_is_exact_one_by_one(examples):
    never = StreamingLDA().fit(examples.X[30:], examples.y[30:])
    learner = StreamingLDA().fit(examples.X, examples.y)
    learner.predict_one(examples.X_new[0])
    learner.forget(examples.X[:30], examples.y[:30])
    for x in examples.X_new:
        ours, expected = (each._scores_one(x)[each.registry_.order] for each in (learner, never))
        np.testing.assert_allclose(
            up_to_a_common_term(ours[None]),
            up_to_a_common_term(expected[None]),
            rtol=1e-7,
            atol=1e-9,
        )


def test_priors_means_and_directions_are_those_of_scikit_learn(rng):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    y = np.repeat(["a", "b", "c"], [60, 30, 10])
    X = (
        rng.normal(size=(100, 5)) @ rng.normal(size=(5, 5))
        + (y == "b")[:, None]
        - 2.0 * (y == "c")[:, None]
    )
    theirs = LinearDiscriminantAnalysis(solver="eigen", shrinkage=1e-9).fit(X, y)
    ours = StreamingLDA(shrinkage=1e-9, priors="empirical").fit(X, y)
    assert np.allclose(ours.priors_, theirs.priors_)
    assert np.allclose(ours.means_, theirs.means_)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert np.allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), atol=1e-4)
    weights, bias = ours.linear_head()
    assert (ours.classes_[(X @ weights.T + bias).argmax(axis=1)] == theirs.predict(X)).all()
    assert [ours.predict_one(x) for x in X[:20]] == theirs.predict(X[:20]).tolist()
    # The same plane, axis by axis, up to signs and where it is centred.
    a, b = ours.transform(X), theirs.transform(X)
    assert a.shape == b.shape == (100, 2)
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    assert np.allclose(np.abs(a), np.abs(b), atol=1e-5)


def test_directions_come_as_a_frame_where_one_is_wanted(rng):
    pandas = pytest.importorskip("pandas")
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 3
    frame = StreamingLDA().set_output(transform="pandas").fit(X, y).transform(X)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["streaminglda0", "streaminglda1"]


@pytest.mark.parametrize("labels", [("a", "b", "c"), (1, 2, 3)])
def test_named_priors_equal_those_of_batch_lda(rng, tmp_path, labels):
    y = np.repeat(labels, [30, 30, 30])
    X = rng.normal(size=(90, 4)) @ rng.normal(size=(4, 4)) + np.arange(90)[:, None] // 30
    shares = np.array([0.6, 0.3, 0.1])
    theirs = LinearDiscriminantAnalysis(solver="svd", priors=shares).fit(X, y)
    priors = dict(zip(labels, (10.0 * shares).tolist(), strict=True))
    ours = StreamingLDA(shrinkage=1e-9, priors=priors).fit(X, y)
    save(ours, tmp_path / "model")
    for learner in (ours, load(tmp_path / "model")):
        assert np.allclose(learner.priors_, shares)
        # scikit-learn divides the scatter by N − K, we by N.
        assert np.allclose(learner.predict_proba(X), theirs.predict_proba(X), atol=0.03)
        assert [learner.predict_one(x) for x in X] == learner.predict(X).tolist()
    equal = StreamingLDA(shrinkage=1e-9).fit(X, y).predict_proba(X) * shares
    assert np.allclose(ours.predict_proba(X), equal / equal.sum(axis=1, keepdims=True))


def test_a_class_without_a_prior_weighs_one_and_nonsense_is_refused(rng):
    X, y = rng.normal(size=(20, 3)), ["a", "b"] * 10
    assert StreamingLDA(priors={"a": 3}).fit(X, y).priors_.tolist() == pytest.approx([0.75, 0.25])
    for wrong in ([0.5, 0.5], "often", {"a": 0.0}, {"a": float("nan")}, None):
        with pytest.raises(InvalidParameter, match="priors"):
            StreamingLDA(priors=wrong).fit(X, y)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"start_covariance": 1.0}, {"start_covariance": 50.0}),
        ({}, {"start_covariance": 50.0}),
        ({"start_covariance": 1.0}, {"start_covariance": None}),
        ({"start_covariance": 1.0}, {"start_weight": 9.0}),
        ({"start_covariance": np.eye(3)}, {"start_covariance": 2 * np.eye(3)}),
    ],
)
def test_a_start_that_was_changed_after_learning_is_noticed(rng, tmp_path, before, after):
    """A file of it would answer otherwise than the learner does."""
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    learner = StreamingLDA(**before).fit(X, y)
    scores = learner.decision_function(X)
    learner.set_params(**after)
    with pytest.raises(InvalidParameter, match="changed after examples were learned"):
        learner.partial_fit(X[:4], y[:4])
    with pytest.raises(InvalidParameter, match="changed after examples were learned"):
        save(learner, tmp_path / "model")
    np.testing.assert_array_equal(learner.decision_function(X), scores)
    again = copy.deepcopy(learner).fit(X, y)
    np.testing.assert_array_equal(
        again.decision_function(X), StreamingLDA(**before | after).fit(X, y).decision_function(X)
    )
    learner.set_params(**{"start_covariance": None, "start_weight": 1.0} | before)
    learner.partial_fit(X[:4], y[:4])
    save(learner, tmp_path / "model")
    copied = copy.deepcopy(load(tmp_path / "model")).partial_fit(X[4:8], y[4:8])
    expected = learner.partial_fit(X[4:8], y[4:8]).decision_function(X)
    np.testing.assert_allclose(copied.decision_function(X), expected, rtol=1e-10, atol=1e-10)


def test_directions_of_a_singular_scatter_are_a_named_error(rng):
    """Collinear features, and a shrinkage too small to count."""
    X = np.outer(rng.normal(size=40), 1.0 / np.arange(3.0, 11.0))
    learner = StreamingLDA(shrinkage=1e-300).fit(X, np.arange(40) % 2)
    with pytest.raises(LostDefiniteness, match="larger shrinkage"):
        learner.transform(X)
