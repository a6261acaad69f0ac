import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.utils.class_weight import compute_sample_weight

from everlearn import NearestClassMean, RecursiveRLSC
from everlearn.errors import InvalidParameter, NotForgettable
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


CLASS_WEIGHTS = {"balanced": "balanced", "mapping": {"lime": 5.0, "kiwi": 0.25}}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("word", CLASS_WEIGHTS)
def test_class_weight_is_that_of_scikit_learn(examples, word, intercept):
    weight, half = CLASS_WEIGHTS[word], len(examples.X) // 2

    def expected(X, y):
        theirs = Ridge(alpha=3.0, fit_intercept=intercept)
        indicators = y[:, None] == np.unique(y)
        given = weight if word == "balanced" else dict.fromkeys(np.unique(y), 1.0) | weight
        return theirs.fit(X, indicators, sample_weight=compute_sample_weight(given, y))

    ours = RecursiveRLSC(
        regularization=3.0, recoding=0.0, fit_intercept=intercept, class_weight=weight
    )
    ours.partial_fit(examples.X[:half], examples.y[:half]).predict(examples.X_new)
    for x, y in zip(examples.X[half:], examples.y[half:], strict=True):
        ours.learn_one(x, y)
    theirs = expected(examples.X, examples.y)
    assert ours.regularization_ == pytest.approx(3.0, rel=1e-12)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)
    answers = ours.classes_[theirs.predict(examples.X_new).argmax(axis=1)].tolist()
    assert ours.predict(examples.X_new).tolist() == answers
    assert [ours.predict_one(x) for x in examples.X_new] == answers
    ours.forget(examples.X[:half], examples.y[:half])
    rest = expected(examples.X[half:], examples.y[half:])
    np.testing.assert_allclose(ours.coef_, rest.coef_, rtol=1e-6, atol=1e-8)


def test_balanced_is_a_reading_of_the_state(examples):
    learner = RecursiveRLSC(class_scatter=True, recoding=0.0).fit(examples.X, examples.y)
    learner.predict(examples.X_new)
    learner.set_params(class_weight="balanced")
    theirs = RidgeClassifier(class_weight="balanced")
    theirs.fit(examples.X, examples.y)
    np.testing.assert_allclose(2 * learner.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)


def test_candidates_of_a_balanced_learner_are_in_its_own_units(examples):
    chosen = RecursiveRLSC(regularization="auto", candidates=[7.0], class_weight="balanced")
    given = RecursiveRLSC(regularization=7.0, class_weight="balanced")
    for learner in (chosen, given):
        learner.fit(examples.X, examples.y)
    assert chosen.regularization_ == pytest.approx(7.0)
    np.testing.assert_allclose(chosen.coef_, given.coef_, **ROUNDING)


def test_recoding_improves_a_rare_class(examples):
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


def answered_without_themselves(examples, chosen=None, **words):
    """Answers to examples by retraining without each of them; only those with a class left."""
    right, asked = [], []
    for index in range(len(examples.y)) if chosen is None else chosen:
        rest = np.arange(len(examples.y)) != index
        X, y = examples.X[rest], examples.y[rest]
        if examples.y[index] not in y:
            continue
        scores = ridge_scores(X, y, examples.X[index][None], **words)
        right.append(np.unique(y)[scores[0].argmax()] == examples.y[index])
        asked.append(index)
    return np.array(right), np.array(asked)


class TestChoosing:
    @pytest.mark.parametrize("intercept", [False, True])
    def test_the_choice_is_that_of_retraining_without_each_example(self, examples, intercept):
        """What is chosen is the middle of the plateau that explicit retraining shows."""
        candidates = np.logspace(4, -2, 12)
        learner = RecursiveRLSC(
            regularization="auto", recoding=0.0, candidates=candidates, fit_intercept=intercept
        ).fit(examples.X, examples.y)
        hits = np.array(
            [
                answered_without_themselves(examples, regularization=lam, intercept=intercept)[
                    0
                ].mean()
                for lam in candidates
            ]
        )
        error = np.sqrt(hits.max() * (1 - hits.max()) / len(examples.y))
        plateau = np.flatnonzero(hits >= hits.max() - error)
        chosen = candidates[plateau[len(plateau) // 2]]
        np.testing.assert_allclose(learner.regularization_, chosen)

    def test_the_largest_recoding_without_loss_is_chosen(self, examples):
        learner = RecursiveRLSC(regularization=5.0, recoding="auto").fit(examples.X, examples.y)
        hits = {
            alpha: answered_without_themselves(examples, regularization=5.0, recoding=alpha)[0]
            for alpha in np.linspace(0, 1, 11)
        }
        best = max(hits.values(), key=lambda right: right.sum())

        def is_as_good(right):
            return best.sum() - right.sum() <= np.sqrt(np.sum(best != right)) + 1

        assert learner.recoding_ == pytest.approx(max(a for a in hits if is_as_good(hits[a])))

    @pytest.mark.parametrize("size", [2000, 40])
    def test_the_choice_does_not_depend_on_order_merging_or_forgetting(self, examples, rng, size):
        words = {"regularization": "auto", "recoding": "auto", "validation_size": size}
        whole = RecursiveRLSC(**words).fit(examples.X, examples.y)
        order = rng.permutation(len(examples.y))
        shuffled = RecursiveRLSC(**words)
        for x, label in zip(examples.X[order], examples.y[order].tolist(), strict=True):
            shuffled.learn_one(x, label)
        merged = RecursiveRLSC(**words).fit(examples.X[:70], examples.y[:70])
        merged.merge(RecursiveRLSC(**words).fit(examples.X[70:], examples.y[70:]))
        others = [shuffled, merged]
        if size > len(examples.y):
            more = RecursiveRLSC(**words).fit(examples.X, examples.y)
            more.partial_fit(examples.X_new, examples.y_new)
            others.append(more.forget(examples.X_new, examples.y_new))
        for other in others:
            assert other.recoding_ == whole.recoding_
            assert other.regularization_ == pytest.approx(whole.regularization_)
            np.testing.assert_allclose(
                other.decision_function(examples.X_new),
                whole.decision_function(examples.X_new),
                rtol=0,
                atol=1e-8,
            )

    def test_nothing_is_held_out_any_more(self, examples):
        learner = RecursiveRLSC(regularization="auto", hold_out_every=5)
        with pytest.warns(FutureWarning, match="hold_out_every"):
            learner.fit(examples.X, examples.y)

    def test_all_examples_are_learned(self, examples):
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

    def test_it_answers_before_any_class_has_two_examples(self):
        learner = RecursiveRLSC(regularization="auto", recoding="auto")
        learner.learn_one([1.0, 0.0], "a").learn_one([0.0, 1.0], "b")
        assert learner.predict_one([0.9, 0.1]) == "a"
        assert learner.predict([[0.1, 0.9]]).tolist() == ["b"]

    def test_rebalancing_works_with_automatic_regularization(self, examples):
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
        {"class_weight": "even"},
        {"class_weight": {"lime": 0.0}},
        {"class_weight": [1.0, 2.0]},
        {"candidates": []},
        {"candidates": [1.0, -2.0]},
        {"validation_size": 0},
    ],
)
def test_parameters_out_of_range_raise_a_named_error(parameters, examples):
    (name,) = parameters
    with pytest.raises(InvalidParameter, match=name):
        RecursiveRLSC(**parameters).fit(examples.X, examples.y)


def test_rebalancing_cannot_be_switched_on_later(examples):
    for later in ({"weighting": "rebalance"}, {"class_weight": "balanced"}):
        learner = RecursiveRLSC().fit(examples.X, examples.y).set_params(**later)
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
