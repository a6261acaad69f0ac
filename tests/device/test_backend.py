"""Learners over numpy, torch, CuPy and a strict array API: the same statistics and answers."""

import copy
import io
import pickle

import numpy as np
import pytest

from everlearn import (
    NearestClassMean,
    PowerNormalizer,
    RandomFeatures,
    RecursiveRLSC,
    StreamingLDA,
    StreamPipeline,
    load,
    save,
)
from everlearn.arrays import as_numpy
from everlearn.errors import (
    InvalidLabel,
    InvalidParameter,
    InvalidWeight,
    NeverLearned,
    NotFinite,
    WrongKind,
    WrongShape,
    WrongWidth,
)

LEARNERS = {
    "NCM": NearestClassMean(),
    "NCM cosine": NearestClassMean(metric="cosine"),
    "LDA": StreamingLDA(),
    "LDA oas, empirical": StreamingLDA(shrinkage="oas", priors="empirical"),
    "RLSC": RecursiveRLSC(),
    "RLSC with intercept": RecursiveRLSC(fit_intercept=True, recoding=1.0),
    "RLSC with class weights": RecursiveRLSC(class_weight={"fig": 3.0, "lime": 0.5}),
    "RLSC that chooses": RecursiveRLSC(regularization="auto", recoding="auto", validation_size=12),
    "wide RLSC": StreamPipeline(
        [
            ("normal", PowerNormalizer()),
            ("wide", RandomFeatures(n_components=40)),
            ("learn", RecursiveRLSC(regularization=0.01)),
        ]
    ),
}
EXACT = {name: learner for name, learner in LEARNERS.items() if "chooses" not in name}


@pytest.fixture(params=LEARNERS)
def learner(request):
    return copy.deepcopy(LEARNERS[request.param])


@pytest.fixture(params=EXACT)
def exact(request):
    return copy.deepcopy(EXACT[request.param])


def close(found, expected, tolerance=1e-9):
    expected = np.asarray(expected)
    gap = np.abs(as_numpy(found) - expected).max()
    assert gap <= tolerance * max(np.abs(expected).max(), 1.0)


def same(there, host, X, kind, tolerance=1e-9):
    """Require the same answers for arrays of this kind and for numpy's."""
    rows = kind.make(X)
    assert there.classes_.tolist() == host.classes_.tolist()
    assert there.predict(rows).tolist() == host.predict(X).tolist()
    scores = there.decision_function(rows)
    assert type(scores) is type(rows)
    close(scores, host.decision_function(X), tolerance)
    shares = there.predict_proba(rows)
    assert type(shares) is type(rows)
    close(shares, host.predict_proba(X), tolerance)
    assert there.predict_one(rows[0, :]) == host.predict_one(X[0])
    close(there.decision_function(X), host.decision_function(X), tolerance)


def test_results_on_a_device_equal_those_on_the_host(kind, learner, examples):
    X, y = examples
    host = copy.deepcopy(learner).fit(X[:70], y[:70]).partial_fit(X[70:], y[70:])
    there = kind.on_device(learner).fit(kind.make(X[:70]), y[:70])
    there.partial_fit(kind.make(X[70:]), y[70:])
    same(there, host, X, kind)
    among = ["fig", "lime"]
    assert (
        there.predict(kind.make(X), among=among).tolist() == host.predict(X, among=among).tolist()
    )
    assert there.predict_one(kind.make(X[3]), among=among) in among


def test_single_examples_after_batches_on_a_device(kind, exact, examples):
    X, y = examples
    host = copy.deepcopy(exact)
    there = kind.on_device(exact)
    rows = kind.make(X)
    for i in range(len(X)):
        there.learn_one(rows[i, :], y[i])
        host.learn_one(X[i], y[i])
        if i % 3 == 0:
            assert there.predict_one(rows[i, :]) == host.predict_one(X[i])
    same(there, host, X, kind)


def test_host_rows_are_copied_to_the_device_of_a_learner(kind, learner, examples, tmp_path):
    X, y = examples
    np.save(tmp_path / "rows.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    single = np.asarray(mapped)
    host = copy.deepcopy(learner).fit(single, y)
    same(kind.on_device(copy.deepcopy(learner)).fit(single, y), host, X, kind)
    same(kind.on_device(copy.deepcopy(learner)).fit(mapped, list(y)), host, X, kind)
    there = kind.on_device(learner)
    there.fit(single[:5].tolist(), y[:5])
    there.fit(single, y)
    scores = there.decision_function(X)
    assert type(scores) is np.ndarray
    close(scores, host.decision_function(X))


def test_an_iterator_of_batches_is_learned_atomically(kind, exact, examples):
    X, y = examples
    host = copy.deepcopy(exact).fit(X, y)
    parts = [slice(0, 50), slice(50, 90), slice(90, len(X))]
    there = kind.on_device(exact).partial_fit((kind.make(X[part]), y[part]) for part in parts)
    same(there, host, X, kind)
    bad = X[:9].copy()
    bad[4, 2] = np.nan
    with pytest.raises(NotFinite):
        there.partial_fit(iter([(kind.make(X[:9]), y[:9]), (kind.make(bad), y[:9])]))
    with pytest.raises(WrongShape, match="pairs of rows and labels"):
        there.partial_fit(iter([kind.make(X[:9])]))
    same(there, host, X, kind)


def test_weights_count_and_weight_zero_creates_no_class(kind, exact, examples, rng):
    X, y = examples
    weights = rng.integers(0, 3, len(X)).astype(float)
    weights[y == "kiwi"] = 0.0
    host = copy.deepcopy(exact).fit(X, y, sample_weight=weights)
    there = kind.on_device(exact).fit(kind.make(X), y, sample_weight=weights)
    assert "kiwi" not in there.classes_
    same(there, host, X, kind)


def test_models_of_different_devices_merge_forget_and_save(kind, exact, examples, tmp_path):
    X, y = examples
    host = copy.deepcopy(exact).fit(X, y)
    first = kind.on_device(copy.deepcopy(exact)).fit(kind.make(X[:60]), y[:60])
    first.merge(copy.deepcopy(exact).fit(X[60:], y[60:]))
    same(first, host, X, kind)
    onto = copy.deepcopy(exact).fit(X[60:], y[60:])
    onto.merge(kind.on_device(copy.deepcopy(exact)).fit(kind.make(X[:60]), y[:60]))
    close(onto.decision_function(X), host.decision_function(X))

    there = kind.on_device(copy.deepcopy(exact)).fit(kind.make(X), y)
    save(there, tmp_path / "there")
    loaded = load(tmp_path / "there")
    close(loaded.decision_function(X), host.decision_function(X))
    same(kind.on_device(loaded), host, X, kind)
    again = pickle.load(io.BytesIO(pickle.dumps(there)))
    close(again.decision_function(X), host.decision_function(X))

    lime = y == "lime"
    there.forget(kind.make(X[lime]), y[lime])
    host.forget(X[lime], y[lime])
    assert "lime" not in there.classes_
    same(there, host, X, kind)
    there.partial_fit(kind.make(X[:20]), np.full(20, "melon"))
    host.partial_fit(X[:20], np.full(20, "melon"))
    same(there, host, X, kind)


def test_bad_input_raises_a_named_error_and_changes_nothing(kind, learner, examples):
    X, y = examples
    there = kind.on_device(learner).fit(kind.make(X), y)
    before = as_numpy(there.decision_function(kind.make(X)))

    def spoiled(value):
        rows = X[:10].copy()
        rows[7, 1] = value
        return kind.make(rows)

    good, labels = kind.make(X[:10]), y[:10]
    strange = np.array(["melon"] * 10)
    for value in (np.nan, np.inf, -np.inf, 1e200):
        for call in (
            lambda rows: there.partial_fit(rows, strange),
            lambda rows: there.learn_one(rows[7, :], "fig"),
            lambda rows: there.learn_one(rows[7, :], "melon"),
            there.predict,
            there.decision_function,
            lambda rows: there.predict_one(rows[7, :]),
        ):
            with pytest.raises(NotFinite):
                call(spoiled(value))
    with pytest.raises(WrongShape):
        there.partial_fit(good, labels[:9])
    with pytest.raises(WrongShape):
        there.partial_fit(good[0, :], labels)
    with pytest.raises(WrongShape):
        there.predict_one(good)
    with pytest.raises(WrongWidth):
        there.partial_fit(kind.make(X[:10, :4]), labels)
    with pytest.raises(WrongWidth):
        there.predict(kind.make(X[:10, :4]))
    with pytest.raises(WrongWidth):
        there.learn_one(kind.make(X[0, :4]), "fig")
    with pytest.raises(InvalidLabel):
        there.partial_fit(good, [1] * 10)
    with pytest.raises(InvalidLabel):
        there.partial_fit(good, None)
    with pytest.raises(InvalidLabel):
        there.learn_one(good[0, :], None)
    with pytest.raises(InvalidWeight):
        there.partial_fit(good, labels, sample_weight=-np.ones(10))
    with pytest.raises(WrongKind):
        there.partial_fit(kind.make(X[:10].astype(complex)), labels)
    assert there.classes_.tolist() == sorted(set(y))
    np.testing.assert_array_equal(as_numpy(there.decision_function(kind.make(X))), before)


def test_forgetting_what_was_never_learned_changes_nothing(kind, examples):
    X, y = examples
    there = kind.on_device(StreamingLDA()).fit(kind.make(X), y)
    before = there.decision_function(X)
    with pytest.raises(NeverLearned):
        there.forget(kind.make(X[y == "lime"] + 3.0), y[y == "lime"])
    np.testing.assert_array_equal(there.decision_function(X), before)


def test_statistics_only_on_the_host_stay_there_and_to_is_refused(kind, examples):
    X, y = examples
    for learner in (
        StreamingLDA(half_life=50.0),
        RecursiveRLSC(weighting="rebalance"),
        NearestClassMean(metric="learned", rank=3),
    ):
        with pytest.raises(InvalidParameter, match="only the host"):
            kind.on_device(copy.deepcopy(learner))
        host = copy.deepcopy(learner).fit(X, y)
        rows = kind.make(X)
        scores = learner.fit(rows, y).decision_function(rows)
        assert type(scores) is type(rows)
        close(scores, host.decision_function(X))


def test_offsets_and_distances_lose_no_precision(kind, rng):
    slots = np.arange(400) % 4
    noise = rng.normal(size=(400, 5))
    far = noise + 1e6 + 1e5 * slots[:, None]
    for learner in (StreamingLDA(), RecursiveRLSC(fit_intercept=True)):
        host = copy.deepcopy(learner).fit(far, slots)
        there = kind.on_device(learner).fit(kind.make(far[:150]), slots[:150])
        there.partial_fit(kind.make(far[150:]), slots[150:])
        S, expected = there.moments_.scatter(), host.moments_.scatter()
        close(S / np.abs(expected).max(), expected / np.abs(expected).max(), 1e-9)


def test_a_copy_has_statistics_of_its_own(kind, exact, examples):
    X, y = examples
    there = kind.on_device(exact).fit(kind.make(X), y)
    before = there.decision_function(X)
    twin = copy.deepcopy(there)
    twin.learn_one(kind.make(X[0] + 5.0), "fig")
    twin.predict_one(kind.make(X[0]))
    np.testing.assert_array_equal(there.decision_function(X), before)


def test_moving_between_host_and_device_changes_nothing(kind, exact, examples):
    X, y = examples
    host = copy.deepcopy(exact)
    there = kind.on_device(exact)
    for start in range(0, 120, 15):
        part = slice(start, start + 15)
        host.partial_fit(X[part], y[part])
        if start % 30:
            there.to(kind.device).partial_fit(kind.make(X[part]), y[part])
        else:
            there.to("cpu").partial_fit(X[part], y[part])
        close(there.decision_function(X), host.decision_function(X))
    same(there.to(kind.device), host, X, kind)


def test_an_unknown_device_raises_a_named_error():
    with pytest.raises(InvalidParameter, match="device"):
        StreamingLDA().to(3.5)
    assert StreamingLDA().to("cpu")._sent_to is None
