"""AutoClassifier chooses the head that suits the examples."""

import numpy as np
import pytest
from sklearn.base import clone

from everlearn import AutoClassifier, NearestClassMean, RecursiveRLSC, StreamingLDA, load, save
from everlearn.errors import NotForgettable
from everlearn.learners.auto import selection
from everlearn.learners.auto.arc_cosine import arc_cosine
from everlearn.persistence import load_arrays


def blobs(rng, n, *, spread, n_classes=6, d=12):
    centres = rng.normal(size=(n_classes, d))
    y = rng.integers(0, n_classes, n)
    return centres[y] + rng.normal(size=(n, d)) * spread, y


def in_file(learner, folder):
    """The arrays a learner is saved as."""
    save(learner, folder / "model")
    return load_arrays(folder / "model")[2]


def chosen(learner):
    choice = learner.choice_
    return choice.head, choice.regularization, choice.recoding


def best_single(X, y, X_new, y_new):
    singles = (
        NearestClassMean(),
        StreamingLDA(),
        RecursiveRLSC(regularization="auto", recoding=0.0, fit_intercept=True),
    )
    return max(learner.fit(X, y).score(X_new, y_new) for learner in singles)


def test_spherical_classes_select_the_nearest_mean(rng):
    """With few examples and one variance for all, nothing beats the nearest mean by much."""
    X, y = blobs(rng, 3030, spread=0.8)
    learner = AutoClassifier().fit(X[:30], y[:30])
    assert learner.score(X[30:], y[30:]) > best_single(X[:30], y[:30], X[30:], y[30:]) - 0.03


def test_elongated_classes_do_not_select_the_nearest_mean(rng):
    """One direction varies a hundred times more than the classes differ: means alone fail."""
    spread = np.r_[30.0, np.full(11, 0.3)]
    X, y = blobs(rng, 2600, spread=spread)
    learner = AutoClassifier().fit(X[:600], y[:600])
    assert learner.choice_.head != selection.NEAREST
    assert NearestClassMean().fit(X[:600], y[:600]).score(X[600:], y[600:]) < 0.5
    assert learner.score(X[600:], y[600:]) > best_single(X[:600], y[:600], X[600:], y[600:]) - 0.01


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("origin", [0.0, 1e3])
def test_the_choice_does_not_depend_on_scale_and_origin(rng, scale, origin):
    X, y = blobs(rng, 400, spread=1.0)
    linear = AutoClassifier(memory_mb=0)
    plain, moved = clone(linear).fit(X, y), linear.fit(scale * (X + origin), y)
    assert plain.choice_.head == moved.choice_.head
    assert plain.choice_.regularization == moved.choice_.regularization
    new, _ = blobs(rng, 200, spread=1.0)
    assert np.array_equal(plain.predict(new), moved.predict(scale * (new + origin)))


def test_probabilities_are_calibrated_on_what_was_never_seen(rng):
    X, y = blobs(rng, 4500, spread=1.3)
    learner = AutoClassifier().fit(X[:500], y[:500])
    shares = learner.predict_proba(X[500:]).max(axis=1)
    right = learner.predict(X[500:]) == y[500:]
    assert abs(shares.mean() - right.mean()) < 0.04


def test_the_old_name_of_the_chosen_head_warns(rng):
    choice = AutoClassifier().fit(*blobs(rng, 300, spread=1.0)).choice_
    with pytest.warns(FutureWarning, match="HeadChoice.reading is now called head"):
        assert choice.reading == choice.head
    with pytest.raises(AttributeError, match="has no attribute 'lens'"):
        choice.lens  # noqa: B018


def test_why_explains_the_choice(rng):
    X, y = blobs(rng, 300, spread=1.0)
    learner = AutoClassifier().fit(X, y)
    assert "leave-one-out accuracy on 300 examples is" in learner.why_
    assert learner.choice_.head in learner.why_
    alone = AutoClassifier().fit(X[:2], ["cup", "chair"])
    assert "no class has two examples yet" in alone.why_


def one_by_one(learner, X):
    return [learner.predict_one(x) for x in X]


@pytest.mark.parametrize("memory_mb", [0, 512])
def test_the_fast_path_follows_every_example(rng, memory_mb):
    """While the choice stays the same, single answers are those of a batch."""
    X, y = blobs(rng, 430, spread=1.5)
    learner = AutoClassifier(memory_mb=memory_mb).fit(X[:400], y[:400])
    before = chosen(learner)
    learner.predict_one(X[0])
    for x, label in zip(X[400:420], y[400:420].tolist(), strict=True):
        learner.learn_one(x, label)
    assert chosen(learner) == before
    assert one_by_one(learner, X[420:]) == learner.predict(X[420:]).tolist()


def test_a_file_keeps_the_sample(rng, tmp_path):
    X, y = blobs(rng, 200, spread=1.0)
    learner = AutoClassifier(sample_size=50).fit(X, y)
    save(learner, tmp_path / "auto")
    again = load(tmp_path / "auto")
    assert again.choice_ == learner.choice_
    assert np.array_equal(again.decision_function(X), learner.decision_function(X))


def test_a_class_cannot_be_removed_from_a_pooled_scatter(rng):
    X, y = blobs(rng, 50, spread=1.0)
    with pytest.raises(NotForgettable, match="pass its examples to forget"):
        AutoClassifier().fit(X, y).forget_class(0)


def test_factors_and_eigenvectors_choose_the_same(rng, monkeypatch):
    X, y = blobs(rng, 300, spread=1.0)
    narrow = AutoClassifier(memory_mb=0).fit(X, y)
    narrow_ridge = dict(narrow.choice_.right)[selection.RIDGE]
    monkeypatch.setattr("everlearn.learners.closed_form.leave_one_out.MANY_FEATURES", 5)
    monkeypatch.setattr(selection, "MANY_FEATURES", 5)
    monkeypatch.setattr(selection, "RANDOM_FEATURE_RIDGES", selection.RIDGES)
    wide = AutoClassifier(memory_mb=0).fit(X, y)
    assert wide.choice_.head == selection.RIDGE
    assert dict(wide.choice_.right)[selection.RIDGE] == pytest.approx(narrow_ridge)


@pytest.fixture
def rings(rng):
    """Two classes that no plane tells apart."""
    angle, y = rng.uniform(0, 2 * np.pi, 900), rng.integers(0, 2, 900)
    radius = np.where(y == 0, 1.0, 2.0) + 0.1 * rng.normal(size=900)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), np.ones(900)])
    return np.column_stack([X, 0.3 * rng.normal(size=(900, 3))]), y


def test_nonlinear_classes_select_the_kernel_and_later_random_features(rings):
    X, y = rings
    linear = AutoClassifier(memory_mb=0).fit(X[:600], y[:600])
    kernel = AutoClassifier().fit(X[:600], y[:600])
    wide = AutoClassifier(sample_size=100).fit(X[:600], y[:600])
    assert linear.score(X[600:], y[600:]) < 0.8
    assert kernel.choice_.head == selection.KERNEL
    assert wide.choice_.head == selection.FEATURES
    assert wide.choice_.width == 16 * 6
    assert "96 of them" in wide.why_
    assert min(kernel.score(X[600:], y[600:]), wide.score(X[600:], y[600:])) > 0.9


@pytest.mark.parametrize("sample_size", [2000, 100])
def test_the_fast_path_follows_heads_on_random_features(rings, sample_size):
    X, y = rings
    learner = AutoClassifier(sample_size=sample_size).fit(X[:600], y[:600])
    before = chosen(learner)
    assert before[0] in (selection.KERNEL, selection.FEATURES)
    learner.predict_one(X[0])
    for x, label in zip(X[600:640], y[600:640].tolist(), strict=True):
        learner.learn_one(x, label)
        learner.predict_one(x)
    assert chosen(learner) == before
    assert one_by_one(learner, X[640:700]) == learner.predict(X[640:700]).tolist()


def test_merged_shards_forgotten_halves_and_any_order_agree_with_random_features(rng, tmp_path):
    X, y = blobs(rng, 1280, spread=1.5)
    X_new, _ = blobs(rng, 100, spread=1.5)

    def make():
        return AutoClassifier(sample_size=60)

    whole = make().fit(X, y)
    assert "wide_means" in in_file(whole, tmp_path)
    expected = whole.decision_function(X_new)
    order = rng.permutation(len(y))
    merged = make()
    for shard in np.array_split(order, 64):
        merged.merge(make().fit(X[shard], y[shard]))
    for other in (make().fit(X[order], y[order]), merged):
        np.testing.assert_allclose(other.decision_function(X_new), expected, rtol=0, atol=1e-8)
    half = make().fit(X[np.sort(order[:640])], y[np.sort(order[:640])])
    merged.forget(X[order[640:]], y[order[640:]])
    # Slots differ with the order of teaching; what does not depend on them is compared.
    found, expected = in_file(merged, tmp_path), in_file(half, tmp_path)
    for name in ("wide_scatter", "wide_mean"):
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-8)
    found, expected = (np.sort(arrays["wide_means"], axis=0) for arrays in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_the_budget_determines_the_number_of_random_features():
    from everlearn.learners.auto.random_features import width_within

    assert width_within(1280, 512.0, None) == 5656
    assert width_within(1280, 8000.0, None) == 16 * 1280
    assert width_within(1280, 512.0, 1000.0) == 0  # less than four times the features: no gain
    assert width_within(100, 512.0, 100.0) == 1317
    assert width_within(100, 0.0, None) == 0


def test_a_file_keeps_random_features(rings, tmp_path):
    X, y = rings
    learner = AutoClassifier(sample_size=100).fit(X[:300], y[:300])
    save(learner, tmp_path / "wide")
    again = load(tmp_path / "wide").partial_fit(X[300:500], y[300:500])
    learner.partial_fit(X[300:500], y[300:500])
    assert np.array_equal(again.decision_function(X), learner.decision_function(X))


def test_the_scored_examples_do_not_depend_on_the_order(rng, monkeypatch):
    """Of many examples kept some are asked about: the same ones, whatever came first."""
    monkeypatch.setattr(selection, "MOST_ASKED", 60)
    monkeypatch.setattr(selection, "MANY", 200)
    X, y = blobs(rng, 400, spread=1.5)
    whole = AutoClassifier().fit(X, y)
    assert whole.choice_.asked == 60
    for _ in range(3):
        order = rng.permutation(len(y))
        shuffled = AutoClassifier().fit(X[order], y[order])
        assert dict(shuffled.choice_.right) == pytest.approx(dict(whole.choice_.right))
        np.testing.assert_allclose(
            shuffled.decision_function(X), whole.decision_function(X), rtol=0, atol=1e-8
        )


def test_a_regularization_found_on_half_of_the_examples_suits_all(rings, monkeypatch):
    X, y = rings
    every = AutoClassifier().fit(X[:600], y[:600])
    monkeypatch.setattr(selection, "MANY", 100)
    half = AutoClassifier().fit(X[:600], y[:600])
    assert half.choice_.head == every.choice_.head == selection.KERNEL
    assert abs(half.score(X[600:], y[600:]) - every.score(X[600:], y[600:])) < 0.02


def kernel_ridge_answers(X, y, X_new, regularization):
    """Kernel ridge regression with an intercept, without recoding, by dense algebra."""
    K = arc_cosine(X, X)
    variance = len(X) * (K.diagonal().mean() - K.mean())
    A = K + regularization * variance / X.shape[1] * np.eye(len(X))
    classes = np.unique(y)
    Y = (y[:, None] == classes).astype(float)
    ones = np.linalg.solve(A, np.ones(len(X)))
    bias = ones @ Y / ones.sum()
    scores = arc_cosine(X_new, X) @ np.linalg.solve(A, Y - bias) + bias
    return classes[scores.argmax(axis=1)]


def test_uneven_classes_are_recoded_without_loss_of_accuracy(rng):
    """Rare classes gain much; the right answers among all stay within the noise of choosing."""
    X, y = blobs(rng, 6000, spread=1.0)
    often = np.flatnonzero((y % 2 == 0) | (np.arange(len(y)) % 20 == 0))
    taught, asked = often[:800], often[800:]
    learner = AutoClassifier().fit(X[taught], y[taught])
    choice = learner.choice_
    assert choice.head == selection.KERNEL
    assert 0 < choice.recoding <= max(selection.RECODINGS)
    plain = kernel_ridge_answers(X[taught], y[taught], X[asked], choice.regularization)
    before = plain == y[asked]
    after = learner.predict(X[asked]) == y[asked]
    rare = y[asked] % 2 == 1
    assert after[rare].mean() > before[rare].mean() + 0.05
    assert after.mean() > before.mean() - 0.03


def test_memory_and_time_limit_the_examples_of_the_kernel():
    from everlearn.learners.auto.random_features import kept_within

    assert kept_within(8000, 512.0, None) == 8000
    assert kept_within(8000, 128.0, None) == 4000
    assert kept_within(100, 512.0, None) == 100
    assert kept_within(8000, 512.0, 800.0) == 2000
    assert kept_within(8000, 0.0, None) == 0


def test_random_features_start_when_the_kernel_is_full(rings, tmp_path):
    """With memory for a kernel of 100 examples, the 101st starts the random features."""
    X, y = rings
    small = AutoClassifier(memory_mb=8 * 100**2 / 1e6).fit(X[:100], y[:100])
    assert "wide_counts" not in in_file(small, tmp_path)
    small.partial_fit(X[100:300], y[100:300])
    assert in_file(small, tmp_path)["wide_counts"].sum() == 300


def test_merging_after_forgetting_keeps_all_remaining_examples(rings, tmp_path):
    """Less than the kernel could read is left, but not all of it is kept."""
    X, y = rings
    whole = AutoClassifier(sample_size=100).fit(X[:300], y[:300])
    whole.forget(X[60:300], y[60:300])
    other = AutoClassifier(sample_size=100).fit(X[300:320], y[300:320])
    other.merge(whole)
    assert in_file(other, tmp_path)["wide_counts"].sum() == pytest.approx(80)
