import numpy as np
import pytest

from everlearn import NearestClassMean, StreamingLDA, load, save
from everlearn.cluster.federated import require_plausible, revealing
from everlearn.errors import Implausible, NotMergeable


def site(seed, n=200, d=5, scale=1.0, offset=0.0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(4, d)) * 3
    y = rng.integers(0, 4, n)
    X = centres[y] + rng.normal(size=(n, d))
    return scale * X + offset, np.array(["cup", "lamp", "book", "shoe"])[y]


def test_one_round_between_sites_equals_all_examples_in_one_place(tmp_path):
    everything = [site(seed) for seed in range(3)]
    whole = StreamingLDA()
    for index, (X, y) in enumerate(everything):
        save(StreamingLDA().fit(X, y), tmp_path / f"{index}.everlearn")
    for index in range(3):
        received = load(tmp_path / f"{index}.everlearn")
        require_plausible(received, like=whole if index else None, most_rows=200)
        whole.merge(received)
    X, y = (np.concatenate(parts) for parts in zip(*everything, strict=True))
    central = StreamingLDA().fit(X, y)
    np.testing.assert_allclose(
        whole.decision_function(X), central.decision_function(X), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("n", [3, 4, 5, 8, 200])
def test_statistics_of_real_examples_are_plausible(n):
    X, y = site(1, n=n)
    require_plausible(StreamingLDA().fit(X, y))
    require_plausible(NearestClassMean().fit(X, y))


def tampered(change, n=200):
    learner = StreamingLDA().fit(*site(1, n=n))
    arrays = {key: array.copy() for key, array in learner.moments_.state().items()}
    change(arrays)
    learner.moments_.restore(arrays)
    return learner


def negative_direction(arrays):
    arrays["scatter"][0, 1] = 1e6


def too_much_rank(arrays):
    arrays["scatter"] += np.eye(5)


def half_an_example(arrays):
    arrays["counts"][0] += 0.5
    arrays["mean"] = arrays["counts"] @ arrays["means"] / arrays["counts"].sum()


@pytest.mark.parametrize(
    ("change", "n", "message"),
    [
        (negative_direction, 200, "negative eigenvalue"),
        (too_much_rank, 6, "rank"),
        (half_an_example, 200, "not integers"),
    ],
)
def test_statistics_that_no_examples_can_produce_are_refused(change, n, message):
    with pytest.raises(Implausible, match=message):
        require_plausible(tampered(change, n))


@pytest.mark.parametrize(
    ("theirs", "message"),
    [({"scale": 100.0}, "vary by"), ({"offset": 1000.0}, "standard deviations")],
)
def test_another_embedder_or_scale_is_detected(theirs, message):
    here = StreamingLDA().fit(*site(1))
    with pytest.raises(Implausible, match=message):
        require_plausible(StreamingLDA().fit(*site(2, **theirs)), like=here)


def test_more_examples_than_possible_are_refused():
    with pytest.raises(Implausible, match="the site has at most 100"):
        require_plausible(StreamingLDA().fit(*site(1)), most_rows=100)


def test_another_kind_or_width_is_refused():
    here = StreamingLDA().fit(*site(1))
    for other in (NearestClassMean().fit(*site(2)), StreamingLDA().fit(*site(2, d=6))):
        with pytest.raises(NotMergeable):
            require_plausible(other, like=here)


def test_classes_too_small_to_be_private_are_listed():
    learner = NearestClassMean().fit(np.eye(5), ["a", "b", "b", "b", "c"])
    assert revealing(learner, least=3) == ["a", "c"]
    mean = learner.moments_.means[learner.registry_.slot("a")]
    np.testing.assert_array_equal(mean, np.eye(5)[0])
