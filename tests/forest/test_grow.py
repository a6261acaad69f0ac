"""Training (Sec. 3) against its definition."""

import numpy as np
import pytest
from everlearn_papers.forests.conventional import ConventionalForest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn import NCMForest, SVMForest
from everlearn.forest.settings import entropy_table
from tests.forest.forest_oracles import (
    TreeView,
    best_assignment,
    best_gain,
    best_partition,
    information_gain,
    naive_probabilities,
    require_centroids_are_means,
    require_consistent,
)

FORESTS = [
    NCMForest(n_estimators=4, min_samples=1, random_state=3),
    SVMForest(n_estimators=4, min_samples=1, random_state=3),
    ConventionalForest(n_estimators=4, min_samples=1, random_state=3, splits="axis"),
    ConventionalForest(n_estimators=4, min_samples=1, random_state=3, splits="linear"),
]


def blobs(rng, n_classes=8, per_class=12, n_features=5, spread=1.0):
    centres = 2.0 * rng.standard_normal((n_classes, n_features))
    y = np.repeat(np.arange(n_classes), per_class)
    return centres[y] + spread * rng.standard_normal((len(y), n_features)), y


@pytest.mark.parametrize("forest", FORESTS, ids=str)
def test_every_example_is_in_the_leaf_the_tree_routes_it_to(rng, forest):
    require_consistent(forest.fit(*blobs(rng)))


@pytest.mark.parametrize("forest", FORESTS, ids=str)
def test_probabilities_are_averaged_leaf_distributions(rng, forest):
    X, y = blobs(rng)
    forest.fit(X, y)
    X_new = X + 0.1 * rng.standard_normal(X.shape)
    np.testing.assert_allclose(forest.predict_proba(X_new), naive_probabilities(forest, X_new))


@pytest.mark.parametrize("forest", FORESTS, ids=str)
def test_both_children_have_more_than_min_samples(rng, forest):
    forest.fit(*blobs(rng))
    for number in range(forest.n_estimators):
        view = TreeView(forest, number)
        leaves = [node for node in view.nodes() if view.is_leaf(node)]
        assert len(leaves) > 4
        assert min(len(view.leaf_rows(leaf)) for leaf in leaves) > forest.min_samples


def test_centroids_are_class_means_of_the_examples_at_the_node(rng):
    forest = NCMForest(n_estimators=3, min_samples=1, random_state=0).fit(*blobs(rng))
    for number in range(3):
        view = TreeView(forest, number)
        require_centroids_are_means(view)


def test_partitions_have_the_highest_possible_gain(rng):
    forest = NCMForest(n_estimators=3, min_samples=1, random_state=0).fit(*blobs(rng))
    n_checked = 0
    for number in range(3):
        view = TreeView(forest, number)
        for node in view.nodes():
            if view.is_leaf(node):
                continue
            rows = np.array(view.rows(node))
            slots, weights = view.slots_and_weights(rows)
            cells = view.cells(node, rows)
            sides = view.members(node)[1]
            ours = information_gain(slots, weights, sides[cells].astype(int))
            best = best_gain(cells, slots, weights, len(sides), forest.min_samples)
            assert ours == pytest.approx(best, abs=1e-9)
            n_checked += 1
    assert n_checked > 15


def test_a_node_has_the_requested_number_of_centroids(rng):
    X, y = blobs(rng, n_classes=25, per_class=6)
    for subset, size in (("sqrt", 5), ("log2", 5), (0.4, 10)):
        forest = NCMForest(n_estimators=2, class_subset=subset, min_samples=1, random_state=0)
        view = TreeView(forest.fit(X, y))
        assert view.tree.nodes["size"][0] == size
        assert len(set(view.members(0)[0].tolist())) == size


def test_a_leaf_cannot_be_split_further(rng):
    """With all classes as centroids every partition is tried, so none has a gain in a leaf."""
    forest = NCMForest(n_estimators=2, class_subset=1.0, min_samples=1, random_state=0)
    view = TreeView(forest.fit(*blobs(rng)))
    for leaf in view.nodes():
        if not view.is_leaf(leaf):
            continue
        rows = np.array(view.leaf_rows(leaf))
        slots, weights = view.slots_and_weights(rows)
        present = np.unique(slots)
        means = np.stack([view.X[rows[slots == slot]].mean(axis=0) for slot in present])
        cells = ((view.X[rows][:, None] - means[None]) ** 2).sum(axis=2).argmin(axis=1)
        assert best_gain(cells, slots, weights, len(present), 1) == pytest.approx(0.0, abs=1e-9)


def test_a_hyperplane_separates_what_can_be_separated(rng):
    X, y = blobs(rng, n_classes=2, per_class=40, spread=0.2)
    view = TreeView(SVMForest(n_estimators=1, random_state=0).fit(X, y))
    assert sorted(len(np.unique(view.examples.slot[view.rows(c)])) for c in view.children(0)) == [
        1,
        1,
    ]


def test_svm_reaches_the_objective_of_a_batch_solver(rng):
    from sklearn.svm import LinearSVC

    X, y = blobs(rng, n_classes=2, per_class=150, n_features=8, spread=2.5)
    regularization = 0.01
    forest = SVMForest(n_estimators=1, regularization=regularization, epochs=60, random_state=0)
    view = TreeView(forest.fit(X, y))
    w = view.tree.vectors_of(0)[0].astype(np.float64)
    w = np.append(w, -view.tree.nodes["threshold"][0])
    rows = view.examples.stored
    slots, sides = view.members(0)
    signs = np.where(sides[np.searchsorted(slots, view.examples.slot[rows])] == 1, 1.0, -1.0)
    X1 = np.column_stack([view.X[rows], np.ones(len(rows))])

    def objective(w):
        return regularization / 2 * w @ w + np.maximum(0.0, 1.0 - signs * (X1 @ w)).mean()

    batch = LinearSVC(
        loss="hinge", C=1.0 / (regularization * len(rows)), fit_intercept=False, max_iter=200_000
    ).fit(X1, signs)
    assert objective(w) < 1.05 * objective(batch.coef_[0])


def test_same_seed_same_forest_whatever_the_number_of_workers(rng):
    X, y = blobs(rng, n_classes=12)
    X_new = rng.standard_normal((50, X.shape[1]))
    for learner in (NCMForest, SVMForest):
        answers = []
        for workers in (1, 2, 4):
            forest = learner(n_estimators=6, min_samples=1, random_state=5, n_jobs=workers)
            forest.fit(X[y < 6], y[y < 6]).partial_fit(X[y >= 6], y[y >= 6])
            answers.append(forest.predict_proba(X_new))
        np.testing.assert_array_equal(answers[0], answers[1])
        np.testing.assert_array_equal(answers[0], answers[2])


def test_another_seed_gives_another_forest(rng):
    X, y = blobs(rng, spread=3.0)
    one, other = (NCMForest(n_estimators=4, random_state=seed).fit(X, y) for seed in (0, 1))
    assert np.any(one.predict_proba(X) != other.predict_proba(X))


def test_whitening_uses_the_first_batch_and_floors_the_deviation(rng):
    X, y = blobs(rng)
    X = X * np.array([1.0, 100.0, 1e-3, 1.0, 1.0]) + 7.0
    X[:, 4] = 3.0
    forest = NCMForest(n_estimators=1, random_state=0).fit(X, y)
    whitening = forest.groves_[0].whitening
    rms = np.sqrt(X.var(axis=0).mean())
    np.testing.assert_allclose(whitening.mean, X.mean(axis=0))
    np.testing.assert_allclose(whitening.scale, np.maximum(X.std(axis=0), 0.1 * rms))
    forest.partial_fit(50.0 + X, y + 100)
    assert forest.groves_[0].whitening is whitening


def test_weights_are_repetitions(rng):
    X, y = blobs(rng)
    weights = rng.integers(0, 4, len(y))
    shuffled = rng.permutation(len(y))
    for learner in (NCMForest, SVMForest):
        forest = learner(n_estimators=5, min_samples=1, random_state=0)
        repeated = forest.fit(X.repeat(weights, axis=0), y.repeat(weights)).predict_proba(X)
        forest.fit(X[shuffled], y[shuffled], sample_weight=weights[shuffled])
        np.testing.assert_allclose(forest.predict_proba(X), repeated)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.integers(2, 8), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_best_partition_equals_that_of_exhaustive_search(
    n_cells, n_classes, whole_numbers, seed
):
    random = np.random.default_rng(seed)
    histogram = random.integers(0, 4, (n_cells, n_classes)).astype(float)
    if not whole_numbers:
        histogram *= random.random((n_cells, n_classes))
    smallest = float(random.integers(0, 4))
    every = np.arange(1, 2 ** (n_cells - 1))[:, None] >> np.arange(n_cells) & 1
    found, gain = best_assignment(every.astype(np.uint8), histogram, smallest, entropy_table())
    code, fast_gain = best_partition(histogram, smallest, entropy_table())
    assert (code == 0) == (found == -1)
    assert fast_gain == pytest.approx(gain, abs=1e-9)
    if code:  # ways that differ by an empty cell are as good as each other, so codes may differ
        own = every[code - 1 : code].astype(np.uint8)
        _, own_gain = best_assignment(own, histogram, smallest, entropy_table())
        assert own_gain == pytest.approx(gain, abs=1e-9)


def test_the_number_of_passes_is_limited(rng):
    """Above the limit more passes give the same forest, below it another."""
    X = rng.standard_normal((300, 5))
    y = np.arange(300) % 6
    X += y[:, None]

    def plane(epochs, max_steps):
        forest = SVMForest(n_estimators=1, epochs=epochs, max_steps=max_steps, random_state=0)
        tree = next(iter(forest.fit(X, y)._trees()))
        return tree.vectors_of(0).copy()

    np.testing.assert_array_equal(plane(10, 900), plane(50, 900))
    assert not np.array_equal(plane(10, 900), plane(10, 3000))
