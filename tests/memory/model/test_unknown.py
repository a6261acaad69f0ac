"""Familiarity, against its definition by pairs and loops, and on features of photographs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn import Memory
from everlearn.errors import InvalidParameter
from everlearn.memory.model.conformal import ENOUGH, FEW, Acceptance
from everlearn.memory.model.head import unit
from everlearn.memory.model.unknown import PRIOR_PAIRS, Familiarity
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
    assert np.allclose(ours.near(questions).max(axis=1), expected)


def test_leave_one_out_removes_the_example_from_its_class(uneven):
    X, names = uneven
    classes = sorted(set(names))
    rows = {name: [i for i, own in enumerate(names) if own == name] for name in classes}
    pairs = [(i, j) for own in rows.values() for i in own for j in own if i != j]
    overall = np.mean([X[i] @ X[j] for i, j in pairs])

    def length(members):
        inside = [X[i] @ X[j] for place, i in enumerate(members) for j in members[:place]]
        return np.sqrt((sum(inside) + PRIOR_PAIRS * overall) / (len(inside) + PRIOR_PAIRS))

    expected = np.empty((len(X), len(classes)))
    for i, u in enumerate(X):
        for k, name in enumerate(classes):
            members = [j for j in rows[name] if j != i]
            mean = X[members].mean(axis=0) if members else np.full(X.shape[1], np.nan)
            expected[i, k] = u @ mean / length(members)
    index = np.array([classes.index(name) for name in names])
    ours = familiarity_of(X, names)
    scores = ours.near(X)
    scores[np.arange(len(X)), index] = ours.near_own_loo(scores, X, index)
    assert scores[0, 0] == -np.inf
    assert np.allclose(scores[1:], expected[1:])


def test_p_values_are_ranks():
    """Against the definition, by counting."""
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 12, 160) / 10
    nearest = np.repeat([1, 2, 3], [120, 22, 18])
    acceptance = Acceptance(scores, nearest)
    rest = scores[120:]
    for name, members in ((1, scores[:120]), (2, rest), (3, rest), (9, rest)):
        for score in (-1.0, 0.3, 0.35, 0.7, 2.0):
            below, equal = (members < score).sum(), (members == score).sum()
            expected = (1 + below + equal) / (len(members) + 1)
            assert acceptance.p_value(score, name) == pytest.approx(expected)
            for tie in (0.1, 0.9):
                expected = (below + tie * (1 + equal)) / (len(members) + 1)
                assert acceptance.p_value(score, name, tie) == pytest.approx(expected)


@given(
    scores=st.lists(st.integers(0, 30), max_size=60),
    score=st.integers(-1, 31),
    accept=st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]),
)
def test_below_the_threshold_is_a_p_value_of_at_most_one_minus_accept(scores, score, accept):
    acceptance = Acceptance(np.array(scores, dtype=float), np.zeros(len(scores), dtype=int))
    low = score < acceptance.threshold(accept, 0)
    share = 1.0 - accept
    if FEW <= len(scores) < ENOUGH:  # a score below all of them is unknown
        share = max(share, 1.0 / (len(scores) + 1))
    assert low == (acceptance.p_value(score, 0) <= share + 1e-9)


@pytest.mark.parametrize("accept", [0.8, 0.9, 0.95])
def test_new_examples_are_accepted_at_the_guaranteed_rate(accept):
    """In many small samples: at least ``accept``, and by how much more; randomised, exactly."""
    rng = np.random.default_rng(3)
    accepted, exactly = [], []
    for _ in range(300):
        draws = rng.normal(size=60)
        acceptance = Acceptance(draws[:40], np.repeat([1, 2], [25, 15]))
        threshold = acceptance.threshold(accept, 1)
        for score in draws[40:]:
            accepted.append(score >= threshold)
            exactly.append(acceptance.p_value(score, 1, rng.random()) > 1.0 - accept)
    refused = np.floor((1.0 - accept) * 41 + 1e-9) / 41
    assert np.mean(accepted) == pytest.approx(1.0 - refused, abs=0.015)
    assert 1.0 - refused >= accept
    assert np.mean(exactly) == pytest.approx(accept, abs=0.015)


@pytest.fixture
def taught(tmp_path, clusters):
    X, names = clusters(each=20)
    with Memory(tmp_path) as memory:
        memory.teach_many(zip(X, names, strict=True))
        yield memory, X


def test_unknown_is_familiarity_below_the_threshold(taught, rng):
    memory, X = taught
    asked = [*X, *rng.normal(size=(60, X.shape[1]))]
    answers = [memory.ask(x) for x in asked]
    assert {a.unknown for a in answers} == {True, False}
    for answer in answers:
        assert answer.unknown == (answer.familiarity < answer.threshold)
        assert answer.unknown == (answer.p_value <= 0.05 + 1e-9)
        assert not (answer.probably and answer.unknown)
        assert answer.probably == (0.05 + 1e-9 < answer.p_value <= 0.1 + 1e-9)


def test_noise_does_not_flip_the_verdict(taught, rng):
    """With little noise, only the verdict on what lies at the threshold may change."""
    memory, X = taught
    for x in [*X[:20], *rng.normal(size=(20, X.shape[1]))]:
        frames = [memory.ask(x + 1e-3 * rng.normal(size=len(x))) for _ in range(8)]
        if len({frame.unknown for frame in frames}) > 1:
            distance = [abs(frame.familiarity - frame.threshold) for frame in frames]
            assert min(distance) < np.ptp([frame.familiarity for frame in frames])


def test_randomised_p_values_are_an_option(tmp_path, clusters, rng):
    X, names = clusters(each=20)
    with Memory(tmp_path) as memory:
        memory.teach_many(zip(X, names, strict=True))
    asked = [*X, *rng.normal(size=(40, X.shape[1]))]
    with Memory(tmp_path) as plain, Memory(tmp_path, randomised=True, read_only=True) as drawn:
        first = [plain.ask(x) for x in asked]
        second = [drawn.ask(x) for x in asked]
        assert [a.p_value for a in second] == [drawn.ask(x).p_value for x in asked]
    for ours, theirs in zip(first, second, strict=True):
        assert theirs.familiarity == ours.familiarity
        assert theirs.p_value < ours.p_value
        # The randomised p-value is lower, so it refuses whatever the plain one refuses.
        assert theirs.unknown >= ours.unknown


def test_lengths_do_not_grow_with_the_number_of_examples(rng):
    """The mean score does not depend on the number of examples."""
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


def test_nothing_is_unknown_before_a_name_has_two_examples(tmp_path):
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
