"""Familiarity, against its definition by pairs and loops, and on features of photographs."""

import numpy as np
import pytest

from everlearn import Learner
from everlearn.errors import InvalidParameter
from everlearn.memory.model import unit
from everlearn.memory.unknown import Familiarity
from tests.memory.oracles import naive_familiarity


def familiarity_of(X, names, accept=0.9):
    classes = sorted(set(names))
    index = np.array([classes.index(name) for name in names])
    counts = np.bincount(index).astype(float)
    means = np.array([X[index == k].mean(axis=0) for k in range(len(classes))])
    return Familiarity(counts, means, X, index, accept)


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


def test_threshold_is_the_quantile_of_examples_scored_without_themselves(uneven):
    X, names = uneven
    classes = sorted(set(names))
    scores = []
    for i, (u, name) in enumerate(zip(X, names, strict=True)):
        if names.count(name) < 2:
            continue
        others = [j for j, own in enumerate(names) if own == name and j != i]
        # Lengths are those of the whole class; only the mean leaves the example out.
        whole = naive_familiarity(X, names, u)[classes.index(name)]
        own_mean = np.mean([X[j] for j in range(len(X)) if names[j] == name], axis=0)
        scores.append(whole * (u @ X[others].mean(axis=0)) / (u @ own_mean))
    assert familiarity_of(X, names, accept=0.8).threshold == pytest.approx(np.quantile(scores, 0.2))


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


def test_without_pairs_nothing_is_called_unknown(tmp_path):
    with Learner(tmp_path) as learner:
        learner.teach([1.0, 0.0, 0.0], "cup")
        learner.teach([0.0, 1.0, 0.0], "pen")
        assert not learner.ask([0.0, 0.0, -1.0]).unknown
        learner.teach([1.0, 0.1, 0.0], "cup")
        assert learner.ask([0.0, 0.0, -1.0]).unknown
        assert not learner.ask([1.0, 0.05, 0.0]).unknown


def test_accepting_more_lowers_the_threshold(tmp_path, clusters):
    X, names = clusters(each=20)
    with Learner(tmp_path, accept=0.5) as learner:
        learner.teach_many(zip(X, names, strict=True))
        strict = learner.ask(X[0]).threshold
    with Learner(tmp_path, accept=0.99) as learner:
        assert learner.ask(X[0]).threshold < strict
    with pytest.raises(InvalidParameter, match="accept"):
        Learner(tmp_path, accept=1.0)


def test_features_of_photographs(tmp_path, data_pack):
    """Nine classes of Caltech-101, six taught: most of the other three are unknown."""
    pack = data_pack("caltech101_effnetlite0.npz")
    labels, names = pack["labels"], pack["class_names"]
    chosen = [k for k in range(101) if (labels == k).sum() >= 30][:9]
    with Learner(tmp_path) as learner:
        for k in chosen[:6]:
            for x in pack["features"][labels == k][:8]:
                learner.teach(x, str(names[k]))
        flagged = {
            k: np.mean([learner.ask(x).unknown for x in pack["features"][labels == k][8:30]])
            for k in chosen
        }
    assert np.mean([flagged[k] for k in chosen[:6]]) < 0.2
    assert np.mean([flagged[k] for k in chosen[6:]]) > 0.8
