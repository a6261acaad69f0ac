import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

from everlearn import NearestClassMean, RecursiveRLSC
from everlearn.errors import InvalidParameter, NotForgettable
from everlearn.learners.closed_form.model_selection import HeldOut
from tests.oracles import ridge_scores

ROUNDING = {"rtol": 1e-8, "atol": 1e-9}
VARIANTS = [
    pytest.param(
        {"weighting": weighting, "fit_intercept": intercept}, id=f"{weighting}-{intercept}"
    )
    for weighting in ("recode", "rebalance")
    for intercept in (False, True)
]


def expected_scores(examples, variant, *, regularization, recoding):
    return ridge_scores(
        examples.X,
        examples.y,
        examples.X_new,
        regularization=regularization,
        recoding=recoding,
        rebalance=variant["weighting"] == "rebalance",
        intercept=variant["fit_intercept"],
    )


@pytest.mark.parametrize("recoding", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_are_those_of_the_batch_formula(examples, variant, recoding):
    learner = RecursiveRLSC(regularization=2.5, recoding=recoding, **variant)
    learner.partial_fit(examples.X[:50], examples.y[:50])
    learner.predict_one(examples.X[0])
    for x, label in zip(examples.X[50:], examples.y[50:].tolist(), strict=True):
        learner.learn_one(x, label)
    expected = expected_scores(examples, variant, regularization=2.5, recoding=recoding)
    np.testing.assert_allclose(learner.decision_function(examples.X_new), expected, **ROUNDING)
    few = learner.decision_function(examples.X_new[:2])  # fewer rows than classes: another path
    np.testing.assert_allclose(few, expected[:2], **ROUNDING)
    linear = examples.X_new @ learner.coef_.T + learner.intercept_
    np.testing.assert_allclose(linear, expected, **ROUNDING)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_fast_path_follows_every_example(examples, variant):
    learner = RecursiveRLSC(recoding=0.6, **variant)
    for index, (x, label) in enumerate(zip(examples.X, examples.y.tolist(), strict=True)):
        learner.learn_one(x, label)
        scores = learner._scores_one(examples.X_new[index % 50]) * (index + 1) ** 0.6
        order = learner.registry_.order
        if index % 10 == 9:
            expected = ridge_scores(
                examples.X[: index + 1],
                examples.y[: index + 1],
                examples.X_new[index % 50][None],
                regularization=1.0,
                recoding=0.6,
                rebalance=variant["weighting"] == "rebalance",
                intercept=variant["fit_intercept"],
            )
            np.testing.assert_allclose(scores[order], expected[0], **ROUNDING)
    assert learner._running.solution._factor.rebuilds < len(examples.X) or (
        variant["weighting"] == "rebalance"
    )


def test_without_recoding_it_is_scikit_learns_ridge_classifier(examples):
    ours = RecursiveRLSC(regularization=3.0, recoding=0.0, fit_intercept=True)
    theirs = RidgeClassifier(alpha=3.0).fit(examples.X, examples.y)
    ours.fit(examples.X, examples.y)
    # scikit-learn codes classes as −1 and 1, we as 0 and 1: twice the weights, no more.
    np.testing.assert_allclose(2 * ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)
    assert ours.predict(examples.X_new).tolist() == theirs.predict(examples.X_new).tolist()


def test_recoding_lets_a_rare_class_be_heard(examples):
    plain = RecursiveRLSC(recoding=0.0).fit(examples.X, examples.y)
    recoded = RecursiveRLSC(recoding=1.0).fit(examples.X, examples.y)
    rare = examples.y_new == "lime"
    heard = np.mean(recoded.predict(examples.X_new[rare]) == "lime")
    assert heard > np.mean(plain.predict(examples.X_new[rare]) == "lime")


def test_parameters_can_be_changed_after_the_fact(examples):
    learner = RecursiveRLSC(regularization=1.0, recoding=0.0).fit(examples.X, examples.y)
    learner.predict(examples.X_new)
    learner.set_params(regularization=50.0, recoding=0.9)
    expected = ridge_scores(
        examples.X, examples.y, examples.X_new, regularization=50.0, recoding=0.9
    )
    np.testing.assert_allclose(learner.decision_function(examples.X_new), expected, **ROUNDING)


def test_residual_variance_is_that_of_the_residuals(examples):
    learner = RecursiveRLSC(regularization=4.0, recoding=0.0, fit_intercept=True)
    learner.fit(examples.X, examples.y)
    fitted = ridge_scores(examples.X, examples.y, examples.X, regularization=4.0, intercept=True)
    targets = (examples.y[:, None] == learner.classes_).astype(float)
    centred = examples.X - examples.X.mean(axis=0)
    gram = centred.T @ centred
    used = np.trace(np.linalg.solve(gram + 4.0 * np.eye(8), gram))
    n = len(examples.X)
    expected = n * np.sum((targets - fitted) ** 2) / ((n - used) ** 2 * 5)
    np.testing.assert_allclose(learner.temperature_, expected, rtol=1e-8)


def test_forgetting_downdates_the_factor_without_a_rebuild(examples):
    learner = RecursiveRLSC(regularization=2.0, recoding=0.5, fit_intercept=True)
    learner.fit(examples.X, examples.y)
    learner.predict_one(examples.X[0])
    for start in range(0, 60, 3):
        learner.forget(examples.X[start : start + 3], examples.y[start : start + 3])
        learner.predict_one(examples.X[0])
    assert learner._running.solution._factor.rebuilds == 1
    expected = ridge_scores(
        examples.X[60:],
        examples.y[60:],
        examples.X_new,
        regularization=2.0,
        recoding=0.5,
        intercept=True,
    )
    np.testing.assert_allclose(learner.decision_function(examples.X_new), expected, **ROUNDING)


def test_forget_class_needs_the_scatter_of_each_class(examples):
    with pytest.raises(NotForgettable, match="class_scatter=True"):
        RecursiveRLSC().fit(examples.X, examples.y).forget_class("fig")


class TestChoosing:
    def test_every_sixth_example_is_held_out(self, rng):
        X = rng.normal(size=(40, 3))
        slots = rng.integers(0, 4, 40)
        together, one_by_one = (HeldOut(3, every=6, size=100) for _ in range(2))
        together.offer(X, slots)
        for start in range(0, 40, 7):
            one_by_one.offer(X[start : start + 7], slots[start : start + 7])
        np.testing.assert_array_equal(together.rows, X[5::6])
        np.testing.assert_array_equal(one_by_one.rows, X[5::6])

    def test_the_largest_class_makes_room(self, rng):
        held_out = HeldOut(2, every=2, size=10)
        held_out.offer(rng.normal(size=(200, 2)), np.zeros(200, dtype=int))
        held_out.offer(rng.normal(size=(10, 2)), np.ones(10, dtype=int))
        assert np.bincount(held_out.slots).tolist() == [5, 5]

    def test_the_path_of_one_eigendecomposition_is_that_of_single_solutions(self, examples):
        """What is chosen is the middle of the plateau that explicit retraining shows."""
        candidates = np.logspace(4, -2, 12)
        learner = RecursiveRLSC(
            regularization="auto", recoding=0.0, candidates=candidates, fit_intercept=True
        ).fit(examples.X, examples.y)
        held = np.arange(len(examples.y)) % 6 == 5
        X, y = examples.X[~held], examples.y[~held]
        counts = {name: np.sum(examples.y[held] == name) for name in np.unique(examples.y)}
        median = np.median([count for count in counts.values() if count])
        counted = held & np.array([counts[name] >= median / 2 for name in examples.y])
        classes = np.unique(y)
        hits = np.array(
            [
                np.mean(
                    classes[
                        ridge_scores(
                            X, y, examples.X[counted], regularization=lam, intercept=True
                        ).argmax(axis=1)
                    ]
                    == examples.y[counted]
                )
                for lam in candidates
            ]
        )
        error = np.sqrt(hits.max() * (1 - hits.max()) / counted.sum())
        plateau = np.flatnonzero(hits >= hits.max() - error)
        chosen = candidates[plateau[len(plateau) // 2]]
        np.testing.assert_allclose(learner.regularization_, chosen * len(examples.y) / len(y))

    def test_the_largest_recoding_that_costs_known_classes_nothing(self, examples):
        learner = RecursiveRLSC(regularization=5.0, recoding="auto").fit(examples.X, examples.y)
        held = np.arange(len(examples.y)) % 6 == 5
        X, y = examples.X[~held], examples.y[~held]
        names, counts = np.unique(examples.y[held], return_counts=True)
        enough = names[counts >= np.median(counts) / 2]
        counted = held & np.isin(examples.y, enough)
        classes = np.unique(y)

        def accuracy(alpha):
            scores = ridge_scores(X, y, examples.X[counted], regularization=5.0, recoding=alpha)
            return np.mean(classes[scores.argmax(axis=1)] == examples.y[counted])

        allowed = [a for a in np.linspace(0, 1, 11) if accuracy(a) >= accuracy(0.0)]
        assert learner.recoding_ == pytest.approx(max(allowed))

    def test_held_out_examples_are_learned_too(self, examples):
        learner = RecursiveRLSC(regularization="auto", recoding="auto")
        learner.fit(examples.X, examples.y)
        expected = ridge_scores(
            examples.X,
            examples.y,
            examples.X_new,
            regularization=learner.regularization_,
            recoding=learner.recoding_,
        )
        np.testing.assert_allclose(learner.decision_function(examples.X_new), expected, **ROUNDING)

    def test_a_forgotten_example_is_not_held_out_any_more(self, examples):
        learner = RecursiveRLSC(regularization="auto").fit(examples.X, examples.y)
        learner.forget(examples.X[:60], examples.y[:60])
        remaining = {row.tobytes() for row in examples.X[60:]}
        assert len(learner._held_out) > 0
        assert all(row.tobytes() in remaining for row in learner._held_out.rows)
        learner.predict(examples.X_new)

    def test_it_answers_before_anything_was_held_out(self):
        learner = RecursiveRLSC(regularization="auto", recoding="auto")
        learner.learn_one([1.0, 0.0], "a").learn_one([0.0, 1.0], "b")
        assert learner.predict_one([0.9, 0.1]) == "a"
        assert learner.predict([[0.1, 0.9]]).tolist() == ["b"]

    def test_rebalancing_can_choose_as_well(self, examples):
        learner = RecursiveRLSC(regularization="auto", recoding="auto", weighting="rebalance")
        learner.fit(examples.X, examples.y)
        expected = ridge_scores(
            examples.X,
            examples.y,
            examples.X_new,
            regularization=learner.regularization_,
            recoding=learner.recoding_,
            rebalance=True,
        )
        np.testing.assert_allclose(learner.decision_function(examples.X_new), expected, **ROUNDING)

    def test_accuracy_on_image_features_class_by_class(self, data_pack):
        pack = data_pack("cifar100_small_effnetlite0.npz")
        X, y = pack["features_train"].astype(float), pack["labels_train"]
        X_new, y_new = pack["features_test"].astype(float), pack["labels_test"]
        learner = RecursiveRLSC(regularization="auto", recoding="auto")
        means = NearestClassMean()
        for label in np.unique(y):
            learner.partial_fit(X[y == label], y[y == label])
            means.partial_fit(X[y == label], y[y == label])
        assert learner.score(X_new, y_new) >= 0.685
        assert means.score(X_new, y_new) >= 0.59


@pytest.mark.parametrize(
    "parameters",
    [
        {"regularization": 0.0},
        {"regularization": -1.0},
        {"regularization": "best"},
        {"regularization": float("nan")},
        {"recoding": 1.5},
        {"recoding": -0.1},
        {"weighting": "both"},
        {"candidates": []},
        {"candidates": [1.0, -2.0]},
        {"hold_out_every": 1},
        {"validation_size": 0},
    ],
)
def test_parameters_out_of_range_are_named(parameters, examples):
    (name,) = parameters
    with pytest.raises(InvalidParameter, match=name):
        RecursiveRLSC(**parameters).fit(examples.X, examples.y)


def test_rebalancing_cannot_be_switched_on_later(examples):
    learner = RecursiveRLSC().fit(examples.X, examples.y).set_params(weighting="rebalance")
    with pytest.raises(InvalidParameter, match="from the first example on"):
        learner.predict(examples.X_new)


@pytest.mark.parametrize("origin", [30.0, 1e4])
def test_the_choice_does_not_depend_on_the_origin(origin):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    words = {"regularization": "auto", "recoding": "auto"}
    near = RecursiveRLSC(**words).fit(X[:1200], y[:1200])
    far = RecursiveRLSC(**words).fit(X[:1200] + origin, y[:1200])
    assert far.regularization_ == pytest.approx(near.regularization_, rel=1e-6)
    assert far.score(X[1200:] + origin, y[1200:]) > near.score(X[1200:], y[1200:]) - 0.02
