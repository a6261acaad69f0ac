"""Loading forests: the same forest, or a named error, never memory out of bounds."""

import re
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from everlearn_papers.forests.conventional import ConventionalForest
from hypothesis import strategies as st

from everlearn import NCMForest, SVMForest
from everlearn.errors import DamagedModel, InvalidParameter
from tests.forest.forest_oracles import require_consistent
from tests.forest.test_update import stream

LEARNERS = [NCMForest, SVMForest, ConventionalForest]
X, Y = stream(np.random.default_rng(0), n_classes=8)


def untaught(learner):
    update = "rtst" if learner is ConventionalForest else "rust"
    forest = learner(n_estimators=3, update=update, update_fraction=0.5, random_state=0)
    return forest.set_params(min_samples=2, n_candidates=8)


def forest_of(learner):
    forest = untaught(learner)
    return forest.partial_fit(X[Y < 4], Y[Y < 4]).partial_fit(X[Y >= 4], Y[Y >= 4])


@cache
def state_of(learner):
    return forest_of(learner)._state()


def restored(learner, changes):
    arrays, notes = state_of(learner)
    fresh = untaught(learner)
    fresh._restore(arrays | changes, notes)
    return fresh


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_same_forest_comes_back(learner):
    forest, loaded = forest_of(learner), restored(learner, {})
    np.testing.assert_array_equal(forest.predict_proba(X), loaded.predict_proba(X))
    require_consistent(loaded)
    new, label = X[:5] + 3.0, np.full(5, 99)
    forest.partial_fit(new, label)
    loaded.partial_fit(new, label)
    np.testing.assert_array_equal(forest.predict_proba(X), loaded.predict_proba(X))


@pytest.mark.parametrize("learner", LEARNERS)
def test_arrays_of_another_length_are_refused(learner):
    arrays, _ = state_of(learner)
    for name, array in arrays.items():
        if not len(array) or name == "0.examples.seen":
            continue  # room for more classes is fine
        with pytest.raises(DamagedModel, match=r"has shape|lengths"):
            restored(learner, {name: np.concatenate([array, array[:1]])})


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [
        ("trees.node.left", 0, 10**6),
        ("trees.node.left", 0, 0),
        ("trees.node.right", 0, 1),
        ("trees.node.parent", 0, 3),
        ("trees.node.parent", 1, 10**6),
        ("trees.node.member", 0, -7),
        ("trees.node.vector", 0, -7),
        ("trees.node.vector", 0, 2**30),
        ("trees.node.n_vectors", 0, 1),
        ("trees.node.head", 0, 0),
        ("trees.node.threshold", 0, np.nan),
        ("trees.node.limit", 0, np.nan),
        ("trees.vectors", 0, np.nan),
        ("trees.vectors", (0, 2), np.inf),
        ("trees.half_square", 0, np.nan),
        ("trees.member_slot", 0, 40),
        ("trees.member_slot", 0, -2),
        ("trees.member_side", 0, 7),
        ("trees.link.leaf", 0, 10**6),
        ("trees.link.leaf", 0, 0),
        ("trees.link.leaf", 0, -1),
        ("trees.link.next", 0, 10**6),
        ("lengths.node.left", 0, -1),
        ("lengths.node.left", 0, 2**62),
        ("examples.slot", 0, 40),
        ("examples.slot", 0, -2),
        ("examples.weight", 0, -1.0),
        ("examples.weight", 0, 0.0),
        ("examples.weight", 0, np.nan),
        ("examples.seen", 0, -np.inf),
        ("examples.seen", 0, np.nan),
        ("examples.X", (0, 0), np.nan),
        ("examples.key", 0, np.nan),
        ("examples.number", 0, -1),
        ("examples.n_taught", 0, -(2**40)),
        ("mean", 0, np.nan),
        ("deviation", 0, np.nan),
        ("deviation", 0, 0.0),
        ("deviation", 0, -1.0),
    ],
)
def test_wrong_numbers_in_a_file_raise_a_named_error(name, position, value):
    array = state_of(NCMForest)[0][f"0.{name}"].copy()
    array[position] = value
    field = name.removeprefix("trees.").removeprefix("examples.")
    with pytest.raises(DamagedModel, match=re.escape(field)):
        restored(NCMForest, {f"0.{name}": array})


def test_children_that_form_a_circle_are_refused():
    arrays = state_of(NCMForest)[0]
    left, parent = arrays["0.trees.node.left"].copy(), arrays["0.trees.node.parent"]
    deep = next(n for n in range(1, len(left)) if left[n] != -1 and parent[n] > 0)
    left[deep] = parent[deep]
    with pytest.raises(DamagedModel, match=r"node\.left"):
        restored(NCMForest, {"0.trees.node.left": left})


@pytest.mark.parametrize("count", [-360, 2**31 - 1])
def test_a_leaf_with_missing_members_is_refused(count):
    arrays = state_of(NCMForest)[0]
    size = arrays["0.trees.node.size"].copy()
    size[np.flatnonzero(arrays["0.trees.node.left"] == -1)[0]] = count
    with pytest.raises(DamagedModel, match=r"node\.member"):
        restored(NCMForest, {"0.trees.node.size": size})


def test_a_tree_with_no_nodes_is_refused():
    arrays = state_of(NCMForest)[0]
    changes = {name: array[:0] for name, array in arrays.items() if ".trees." in name}
    changes |= {name: 0 * array for name, array in arrays.items() if ".lengths." in name}
    changes["0.trees.random"] = arrays["0.trees.random"]
    changes["0.lengths.random"] = arrays["0.lengths.random"]
    with pytest.raises(DamagedModel, match="no root"):
        restored(NCMForest, changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_groves", 0), ("n_groves", -1), ("n_groves", 10**12), ("seed", -1), ("n_batches", "2")],
)
def test_wrong_notes_raise_a_named_error(name, value):
    arrays, notes = state_of(NCMForest)
    with pytest.raises(DamagedModel, match=f"{name}|labels|mean is missing"):
        NCMForest()._restore(arrays, notes | {name: value})


@pytest.mark.parametrize(
    ("learner", "name", "value"),
    [
        (NCMForest, "n_candidates", 10**12),
        (NCMForest, "n_estimators", -1),
        (NCMForest, "class_subset", np.nan),
        (NCMForest, "min_samples", np.nan),
        (NCMForest, "update", "rust\0"),
        (SVMForest, "epochs", 10**12),
        (SVMForest, "regularization", np.nan),
        (SVMForest, "n_candidates", 10**12),
    ],
)
def test_parameters_that_are_wrong_are_refused_on_loading(learner, name, value):
    arrays, notes = state_of(learner)
    with pytest.raises(InvalidParameter, match=name):
        learner(**{name: value})._restore(arrays, notes)


INTEGERS = st.one_of(st.integers(-3, 200), st.integers(-(2**31), 2**31 - 1))
NUMBERS = st.one_of(st.floats(), st.floats(-10.0, 10.0))


def altered(learner, draw):
    """The state of a forest with up to three numbers changed anywhere."""
    arrays, _ = state_of(learner)
    changes = {}
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(name for name in arrays if arrays[name].size)))
        array = changes.get(name, arrays[name]).copy()
        value = draw(INTEGERS if array.dtype.kind in "iu" else NUMBERS)
        with np.errstate(all="ignore"):
            array.flat[draw(st.integers(0, array.size - 1))] = np.array(value).astype(array.dtype)
        changes[name] = array
    return changes


def use(learner, changes):
    """Load, ask, teach, forget and save: named errors or answers that are distributions."""
    try:
        forest = restored(learner, changes)
    except DamagedModel:
        return
    with np.errstate(all="ignore"):
        shares = forest.predict_proba(X)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        assert set(forest.predict(X).tolist()) <= set(Y.tolist())
        forest.partial_fit(X[:8] + 1.0, np.full(8, 99))
        forest.forget_class(Y[0])
        np.testing.assert_allclose(forest.predict_proba(X).sum(axis=1), 1.0)
        forest._state()


FUZZ = """
from hypothesis import given, settings, strategies as st
from everlearn import NCMForest, SVMForest
from everlearn.errors import DamagedModel, InvalidParameter
from tests.forest.test_tree_state import altered, use

@settings(max_examples=400, deadline=None, database=None, derandomize=True)
@given(st.data(), st.sampled_from([NCMForest, SVMForest]))
def fuzz(data, learner):
    use(learner, altered(learner, data.draw))

fuzz()
"""


def test_altered_numbers_raise_a_named_error_or_give_valid_answers():
    """In another process: a memory error would end this one."""
    found = subprocess.run(
        [sys.executable, "-c", FUZZ], capture_output=True, text=True, check=False, timeout=1800
    )
    assert found.returncode == 0, found.stderr[-3000:]
