"""Forests out of files: the same forest, or a refusal, never a wild pointer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn import NCMForest, SVMForest
from everlearn.learners.forest.conventional import ConventionalForest
from tests.learners.forest.forest_oracles import require_sound
from tests.learners.forest.test_forest_updates import stream

LEARNERS = [NCMForest, SVMForest, ConventionalForest]
X, Y = stream(np.random.default_rng(0), n_classes=8)


def forest_of(learner):
    update = "rtst" if learner is ConventionalForest else "rust"
    forest = learner(n_estimators=3, update=update, update_fraction=0.5, random_state=0)
    forest.set_params(min_samples=2, n_candidates=8)
    return forest.partial_fit(X[Y < 4], Y[Y < 4]).partial_fit(X[Y >= 4], Y[Y >= 4])


STATES = {learner: forest_of(learner)._state() for learner in LEARNERS}


def restored(learner, changes):
    arrays, notes = STATES[learner]
    fresh = learner(**forest_of(learner).get_params(deep=False))
    fresh._restore(arrays | changes, notes)
    return fresh


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_same_forest_comes_back(learner):
    forest, twin = forest_of(learner), restored(learner, {})
    np.testing.assert_array_equal(forest.predict_proba(X), twin.predict_proba(X))
    require_sound(twin)
    new, label = X[:5] + 3.0, np.full(5, 99)
    forest.partial_fit(new, label)
    twin.partial_fit(new, label)
    np.testing.assert_array_equal(forest.predict_proba(X), twin.predict_proba(X))


@pytest.mark.parametrize("learner", LEARNERS)
def test_arrays_of_another_length_are_refused(learner):
    arrays, _ = STATES[learner]
    for name, array in arrays.items():
        if not len(array) or name.startswith("0.lengths.") or name == "0.examples.seen":
            continue  # lengths are what the others are measured by; room for more classes is fine
        with pytest.raises(ValueError, match=r"has shape|lost vectors"):
            restored(learner, {name: np.concatenate([array, array[:1]])})


@pytest.mark.parametrize(
    ("name", "position", "value", "message"),
    [
        ("0.trees.node.left", 0, 10**6, "lost branches"),
        ("0.trees.node.left", 0, 0, "lost branches"),
        ("0.trees.node.right", 0, 1, "cross"),
        ("0.trees.node.parent", 0, 3, "root with a parent"),
        ("0.trees.node.member", 0, -7, "members it does not have"),
        ("0.trees.node.size", 0, 2**30, "members it does not have"),
        ("0.trees.vector_count", 0, 2**30, "lost vectors"),
        ("0.trees.vector_count", slice(0, 2), [1, 0], "lost vectors|vectors they need"),
        ("0.trees.member_slot", 0, 40, "members of no class"),
        ("0.trees.member_side", 0, 7, "no side"),
        ("0.trees.link.leaf", 0, 10**6, "in no leaf"),
        ("0.trees.link.leaf", 0, 0, "above the leaves"),
        ("0.trees.link.next", 0, 10**6, "lists of examples that cross"),
        ("0.examples.slot", 0, 40, "never seen"),
        ("0.examples.weight", 0, -1.0, "no valid weight"),
    ],
)
def test_numbers_that_point_elsewhere_are_refused(name, position, value, message):
    array = STATES[NCMForest][0][name].copy()
    array[position] = value
    with pytest.raises(ValueError, match=message):
        restored(NCMForest, {name: array})


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([NCMForest, SVMForest]),
    st.sampled_from(
        [
            "node.left",
            "node.right",
            "node.parent",
            "node.feature",
            "node.member",
            "node.size",
            "node.head",
            "link.leaf",
            "link.next",
            "link.previous",
            "member_slot",
        ]
    ),
    st.integers(0, 10**6),
    st.one_of(st.integers(-3, 200), st.integers(-(2**31), 2**31 - 1)),
)
def test_one_wrong_number_anywhere_is_refused_or_does_no_harm(learner, field, position, value):
    name = f"0.trees.{field}"
    array = STATES[learner][0][name].copy()
    array[position % len(array)] = value
    try:
        forest = restored(learner, {name: array})
    except ValueError:
        return
    shares = forest.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    forest.partial_fit(X[:8] + 1.0, np.full(8, 99))
    forest.forget_class(Y[0])
