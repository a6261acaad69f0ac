"""Familiarity, against its definition by pairs and loops, and on features of photographs."""

import numpy as np
import pytest

from everlearn import Memory
from everlearn.errors import InvalidParameter
from everlearn.memory.model.conformal import Acceptance
from everlearn.memory.model.head import unit
from everlearn.memory.model.unknown import Familiarity
from tests.memory.oracles import naive_familiarity


def familiarity_of(X, names):
    classes = sorted(set(names))
    index = np.array([classes.index(name) for name in names])
    counts = np.bincount(index).astype(float)
    means = np.array([X[index == k].mean(axis=0) for k in range(len(classes))])
    return Familiarity(counts, means)


@pytest.fixture
def uneven(rng):
    """Unit vectors of classes with 1, 2, 5 and 9 examples."""
    names = ["a"] + ["b"] * 2 + ["c"] * 5 + ["d"] * 9
    centres = {name: rng.normal(size=12) for name in "abcd"}
    X = unit(np.array([centres[name] + 0.6 * rng.normal(size=12) for name in names]))
    return X, names


def test_familiarity_matches_the_definition(uneven, rng):
    X, names = uneven
    ours = familiarity_of(X, names)
    questions = unit(rng.normal(size=(20, 12)))
    expected = [max(naive_familiarity(X, names, u)) for u in questions]
    assert np.allclose(ours.of(questions), expected)


def test_left_out_scores_leave_the_example_out_of_its_own_mean(uneven):
    X, names = uneven
    classes = sorted(set(names))
    expected, with_class = [], []
    for i, (u, name) in enumerate(zip(X, names, strict=True)):
        if names.count(name) < 2:
            continue
        others = [j for j, own in enumerate(names) if own == name and j != i]
        # Lengths are those of the whole class; only the mean leaves the example out.
        scores = naive_familiarity(X, names, u)
        own_mean = np.mean([X[j] for j in range(len(X)) if names[j] == name], axis=0)
        scores[classes.index(name)] *= (u @ X[others].mean(axis=0)) / (u @ own_mean)
        expected.append(max(scores))
        with_class.append(int(np.argmax(scores)))
    index = np.array([classes.index(name) for name in names])
    scores, nearest = familiarity_of(X, names).leave_one_out(X, index)
    assert np.allclose(scores, expected)
    assert nearest.tolist() == with_class


def test_p_values_are_ranks():
    """Against the definition, by counting."""
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 12, 60) / 10
    nearest = np.repeat([1, 2, 3], [40, 12, 8])
    acceptance = Acceptance(scores, nearest)
    for name, members in ((1, scores[:40]), (2, scores[40:]), (3, scores[40:]), (9, scores[40:])):
        for score in (-1.0, 0.3, 0.35, 0.7, 2.0):
            for tie in (0.1, 0.9):
                below, equal = (members < score).sum(), (members == score).sum()
                expected = (below + tie * (1 + equal)) / (len(members) + 1)
                assert acceptance.p_value(score, name, tie) == pytest.approx(expected)


@pytest.mark.parametrize("accept", [0.8, 0.9, 0.95])
def test_what_is_taught_is_accepted_as_often_as_promised(accept):
    """Thousands of small memories: the share of new examples accepted is what was asked for."""
    rng = np.random.default_rng(3)
    accepted = []
    for _ in range(300):
        draws = rng.normal(size=(60, 1))
        acceptance = Acceptance(draws[:40, 0], np.repeat([1, 2], [25, 15]))
        for index, score in enumerate(draws[40:, 0]):
            tie = rng.random()
            accepted.append(acceptance.p_value(score, 1 + index % 2, tie) > 1.0 - accept)
    assert np.mean(accepted) == pytest.approx(accept, abs=0.015)


def test_lengths_do_not_grow_with_the_number_of_examples(rng):
    """Few examples are no reason to look unfamiliar: the mean score stays the same."""
    centre = unit(rng.normal(size=64)[None])[0]

    def draw(n):
        return unit(centre + 0.15 * rng.normal(size=(n, 64)))

    few = [
        familiarity_of(np.concatenate([draw(2), draw(30)]), ["a"] * 2 + ["b"] * 30)
        for _ in range(200)
    ]
    new = draw(50)
    scores_few = np.mean([new @ f.directions[0] for f in few])
    scores_many = np.mean([new @ f.directions[1] for f in few])
    assert scores_few == pytest.approx(scores_many, rel=0.02)


def test_nothing_is_called_unknown_before_something_could_be_left_out(tmp_path):
    with Memory(tmp_path, accept=0.5) as memory:
        memory.teach([1.0, 0.0, 0.0], "cup")
        assert memory.ask([0.0, 0.0, -1.0]).threshold == -np.inf
        for index in range(40):
            memory.teach([1.0, 0.01 * index, 0.0], "cup", again=True)
        assert memory.ask([0.0, 0.0, -1.0]).unknown
        assert not memory.ask([1.0, 0.2, 0.0]).unknown


def test_accepting_more_lowers_the_threshold(tmp_path, clusters):
    X, names = clusters(each=20)
    with Memory(tmp_path, accept=0.5) as memory:
        memory.teach_many(zip(X, names, strict=True))
        strict = memory.ask(X[0]).threshold
    with Memory(tmp_path, accept=0.99) as memory:
        assert memory.ask(X[0]).threshold < strict
    with pytest.raises(InvalidParameter, match="accept"):
        Memory(tmp_path, accept=1.0)


def test_features_of_photographs(tmp_path, data_pack):
    """Nine classes of Caltech-101, six taught: most of the other three are unknown."""
    pack = data_pack("caltech101_effnetlite0.npz")
    labels, names = pack["labels"], pack["class_names"]
    chosen = [k for k in range(101) if (labels == k).sum() >= 30][:9]
    with Memory(tmp_path) as memory:
        for k in chosen[:6]:
            for x in pack["features"][labels == k][:8]:
                memory.teach(x, str(names[k]))
        flagged = {
            k: np.mean([memory.ask(x).unknown for x in pack["features"][labels == k][8:30]])
            for k in chosen
        }
    assert np.mean([flagged[k] for k in chosen[:6]]) < 0.2
    assert np.mean([flagged[k] for k in chosen[6:]]) > 0.8
