"""Transfer for many classes, against a naive version of its three steps."""

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from everlearn import (
    TROL,
    LeastSquaresSVM,
    MultiKT,
    NearestClassMean,
    PassiveAggressive,
    TransferClassifier,
    load,
    save,
)
from everlearn.errors import InvalidParameter, NotForgettable, NotMergeable


def one_after_the_other(rng, n_classes=12, d=40, m=4, noise=0.6):
    """Training examples sorted by class, and test examples."""
    centres = rng.normal(size=(n_classes, d)) / np.sqrt(d) * 3
    y = np.repeat(np.arange(n_classes), m)
    y_new = np.repeat(np.arange(n_classes), 20)
    X = centres[y] + noise * rng.normal(size=(len(y), d))
    return X, y, centres[y_new] + noise * rng.normal(size=(len(y_new), d)), y_new


def naive(X, y, *, n_exemplars, replay, average_over, max_rivals=50, warm_up=20):
    """The three steps and the average, with lists."""
    W, b, averages, history, means, counts, exemplars = [], [], [], [], [], [], []
    cursor, squares = 0, []

    def rival_step(x, k):
        scores = [w @ x + bias for w, bias in zip(W, b, strict=True)]
        rivals = [j for j in range(len(W)) if j != k]
        if not rivals:
            return
        r = max(rivals, key=lambda j: scores[j])
        loss = max(0.0, 1.0 - scores[k] + scores[r])
        c = np.mean(squares)
        gamma = min(1.0 / (x @ x), loss / (2 * (x @ x + c)))
        for j, sign in ((k, 1.0), (r, -1.0)):
            W[j] = W[j] + sign * gamma * x
            b[j] = b[j] + sign * gamma * c

    for x, k in zip(X, y, strict=True):
        squares.append(x @ x)
        if k == len(W):
            for store, empty in ((W, 0 * x), (b, 0.0), (means, 0 * x), (counts, 0)):
                store.append(empty)
            exemplars.append([])
            history.append([])
            averages.append(None)
        counts[k] += 1
        means[k] = means[k] + (x - means[k]) / counts[k]
        if len(exemplars[k]) < n_exemplars:
            exemplars[k].append(x)
        others = [j for j in range(len(W)) if j != k]
        others = sorted(others, key=lambda j: np.sum((means[j] - means[k]) ** 2))[:max_rivals]
        others.sort()
        if counts[k] <= warm_up and others:
            own, weights = list(exemplars[k]), [1.0] * len(exemplars[k])
            if counts[k] > len(own):
                own.append(means[k])
                weights.append(counts[k] - len(exemplars[k]))
            P = np.array([*own, *(means[j] for j in others)])
            signs = np.array([1.0] * len(own) + [-1.0] * len(others))
            weights += [1.0] * len(others)
            C = 1.0 / np.mean(np.sum(P**2, axis=1))
            start = MultiKT(prior_models=[(W[j], b[j]) for j in others], C=C).fit(P, signs, weights)
            W[k] = P.T @ start.dual_coef_ + sum(
                beta * W[j] for beta, j in zip(start.beta_, others, strict=True)
            )
            b[k] = start.margin(np.zeros((1, len(x))))[0]
            history[k] = []
        rival_step(x, k)
        stored = sum(map(len, exemplars))
        for _ in range(min(replay, stored)):
            cursor %= len(W) * n_exemplars
            while cursor // len(W) >= len(exemplars[cursor % len(W)]):
                cursor = (cursor + 1) % (len(W) * n_exemplars)
            j = cursor % len(W)
            rival_step(exemplars[j][cursor // len(W)], j)
            cursor += 1
        for j in range(len(W)):
            now = np.append(W[j], b[j])
            history[j].append(now)
            span = max(1.0, average_over * len(squares) / len(W))
            if len(history[j]) <= span:
                averages[j] = np.mean(history[j], axis=0)
            else:
                averages[j] = averages[j] + (now - averages[j]) / span
    return np.array(averages)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_exemplars": 3, "replay": 7, "average_over": 1.5},
        {"n_exemplars": 2, "replay": 0, "average_over": 0},
        {"n_exemplars": 0, "replay": 5, "average_over": 1},
        {"n_exemplars": 1, "replay": 4, "average_over": 3, "warm_up": 2},
        {"n_exemplars": 2, "replay": 3, "average_over": 10, "max_rivals": 3},
    ],
)
def test_it_follows_the_three_steps(rng, parameters):
    X, y, X_new, _ = one_after_the_other(rng, n_classes=6, d=8)
    order = np.concatenate([[0, 4, 8, 12, 16, 20], rng.permutation(24)])
    expected = naive(X[order], y[order], **parameters)
    learner = TransferClassifier(**parameters).fit(X[order], y[order])
    np.testing.assert_allclose(learner.coef_, expected[:, :-1], rtol=1e-5, atol=1e-7)
    scores = X_new @ expected[:, :-1].T + expected[:, -1]
    np.testing.assert_allclose(learner.decision_function(X_new), scores, rtol=1e-5, atol=1e-6)


def test_answers_do_not_depend_on_the_unit_of_the_features(rng):
    X, y, X_new, _ = one_after_the_other(rng)
    scores = TransferClassifier().fit(X, y).decision_function(X_new)
    for unit in (1e-4, 1e4):
        scaled = TransferClassifier().fit(unit * X, y).decision_function(unit * X_new)
        np.testing.assert_allclose(scaled, scores, rtol=1e-5, atol=1e-6)


def test_old_classes_are_not_forgotten(rng):
    X, y, X_new, y_new = one_after_the_other(rng, n_classes=25, m=5)
    learner = TransferClassifier().fit(X, y)
    mean = NearestClassMean().fit(X, y)
    old = y_new < 5
    assert np.mean(learner.predict(X_new[old]) == y_new[old]) > 0.8
    ours, theirs = (np.mean(each.predict(X_new) == y_new) for each in (learner, mean))
    assert ours > theirs - 0.05


def test_a_class_is_known_from_its_first_example(rng):
    X, y, X_new, y_new = one_after_the_other(rng, m=1, noise=0.3)
    learner = TransferClassifier().fit(X, y)
    mean = NearestClassMean().fit(X, y)
    ours, theirs = (np.mean(each.predict(X_new) == y_new) for each in (learner, mean))
    assert ours > max(0.8, theirs - 0.1)


def test_transfer_beats_starting_from_zero(data_pack):
    pack = data_pack("caltech101_effnetlite0.npz")
    X, labels, train = normalize(pack["features"].astype(float)), pack["labels"], pack["is_train"]
    classes = np.arange(20, 60)
    shown = np.concatenate([np.flatnonzero(train & (labels == c))[:2] for c in classes])
    tested = ~train & np.isin(labels, classes)

    def rate(learner):
        return np.mean(learner.fit(X[shown], labels[shown]).predict(X[tested]) == labels[tested])

    transferred, scratch = TransferClassifier(), TransferClassifier(base=PassiveAggressive())
    assert rate(transferred) > rate(scratch)
    assert rate(transferred) > rate(NearestClassMean()) - 0.01


def test_zero_vectors_are_learned_as_a_class(rng):
    learner = TransferClassifier()
    for _ in range(3):
        learner.learn_one(np.zeros(4), "nothing").learn_one(np.ones(4), "something")
    assert learner.predict(np.ones((1, 4))).tolist() == ["something"]
    assert np.all(np.isfinite(learner.decision_function(np.zeros((1, 4)))))


def test_is_saved_with_its_base(rng, tmp_path):
    X, y, X_new, _ = one_after_the_other(rng)
    learner = TransferClassifier(base=TROL(penalty="ball"), n_exemplars=2).fit(X, y)
    save(learner, tmp_path / "classifier")
    loaded = load(tmp_path / "classifier")
    assert loaded.base.penalty == "ball"
    for each in (learner, loaded):
        each.partial_fit(X[::-1], y[::-1])
    np.testing.assert_array_equal(loaded.decision_function(X_new), learner.decision_function(X_new))


def test_unsupported_operations_raise_a_named_error(rng):
    X, y, _, _ = one_after_the_other(rng)
    learner = TransferClassifier().fit(X, y)
    with pytest.raises(NotForgettable):
        learner.forget_class(3)
    with pytest.raises(NotMergeable):
        learner.merge(TransferClassifier().fit(X, y))
    assert len(learner.classes_) == 12


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"base": LeastSquaresSVM()}, "base must be a TROL"),
        ({"base": TROL(online=PassiveAggressive(kernel="rbf"))}, "linear kernel"),
        ({"base": TROL(prior_models=[np.ones(40)])}, "no prior_models"),
        ({"base": TROL(batch_C=-1.0)}, "batch_C"),
        ({"warm_up": 0}, "warm_up"),
        ({"n_exemplars": -1}, "n_exemplars"),
        ({"replay": 1.5}, "replay"),
        ({"max_rivals": 0}, "max_rivals"),
        ({"average_over": -1}, "average_over"),
    ],
)
def test_parameters_out_of_range_raise_a_named_error(rng, wrong, complaint):
    X, y, _, _ = one_after_the_other(rng)
    with pytest.raises(InvalidParameter, match=complaint):
        TransferClassifier(**wrong).fit(X, y)
