"""Every bad input is a named error that says what was wrong, and changes nothing."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA, errors

LEARNERS = [NearestClassMean, StreamingLDA, RecursiveRLSC]
X = np.random.default_rng(3).normal(size=(12, 4))
y = np.array(["a", "b", "c"] * 4)
X_SPARSE = sp.csr_array(X)


def with_value(value):
    changed = X.copy()
    changed[2, 1] = value
    return changed


@pytest.fixture(params=LEARNERS, ids=lambda cls: cls.__name__)
def learner(request):
    return request.param().fit(X, y)


@pytest.fixture
def unchanged(learner):
    """After the test the learner must be as it was, bit for bit."""
    before = {key: value.copy() for key, value in learner.moments_.state().items()}
    labels, answers = list(learner.registry_.by_slot), learner.decision_function(X)
    yield
    assert list(learner.registry_.by_slot) == labels
    assert learner.n_features_in_ == 4
    for key, value in learner.moments_.state().items():
        np.testing.assert_array_equal(value, before[key])
    np.testing.assert_array_equal(learner.decision_function(X), answers)


BAD_BATCHES = [
    (with_value(np.nan), y, errors.NotFinite, "NaN"),
    (with_value(np.inf), y, errors.NotFinite, "infinity"),
    (with_value(-np.inf), y, errors.NotFinite, "infinity"),
    (with_value(1e200), y, errors.NotFinite, "scale the features"),
    (X[:, :3], y, errors.WrongWidth, "X has 3 features, but .* is expecting 4"),
    (X[0], y, errors.WrongShape, "Reshape your data"),
    (X[None], y, errors.WrongShape, "dim 3"),
    (X[:0], y[:0], errors.WrongShape, "0 sample"),
    (X[:, :0], y, errors.WrongShape, "0 feature"),
    (X, y[:5], errors.WrongShape, "12 rows but y has 5 labels"),
    (X, y.reshape(6, 2), errors.WrongShape, "one label per row"),
    (X, "a", errors.WrongShape, "label"),
    (X, 3, errors.WrongShape, "1d array"),
    (X + 0j, y, errors.WrongKind, "Complex data not supported"),
    (np.full(X.shape, "word", dtype=object), y, errors.WrongKind, "plain real numbers"),
    (sp.csr_array(X + 0j), y, errors.WrongKind, "Complex data not supported"),
    (sp.csr_array(with_value(np.nan)), y, errors.NotFinite, "NaN"),
    (sp.csr_array(with_value(-np.inf)), y, errors.NotFinite, "infinity"),
    (sp.csr_array(with_value(1e200)), y, errors.NotFinite, "scale the features"),
    (sp.csr_array(X[:, :3]), y, errors.WrongWidth, "X has 3 features, but .* is expecting 4"),
    (sp.csr_array(X[:0]), y[:0], errors.WrongShape, "0 sample"),
    (sp.csr_array((12, 0)), y, errors.WrongShape, "0 feature"),
    (X_SPARSE, y[:5], errors.WrongShape, "12 rows but y has 5 labels"),
    (X_SPARSE, ["a", 1] * 6, errors.InvalidLabel, "one type of label"),
    (X, None, errors.InvalidLabel, "requires y to be passed"),
    (X, [None] * 12, errors.InvalidLabel, "missing"),
    (X, [float("nan")] * 12, errors.InvalidLabel, "missing"),
    (X, np.linspace(0, 1, 12), errors.InvalidLabel, "Unknown label type"),
    (X, ["a", 1] * 6, errors.InvalidLabel, "one type of label"),
    (X, [1] * 12, errors.InvalidLabel, "one type of label"),
]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("X_bad", "y_bad", "error", "words"), BAD_BATCHES)
def test_a_bad_batch(learner, X_bad, y_bad, error, words):
    with pytest.raises(error, match=words):
        learner.partial_fit(X_bad, y_bad)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize(
    ("X_bad", "error"),
    [(case[0], case[2]) for case in BAD_BATCHES if case[0] is not X and case[0] is not X_SPARSE],
)
def test_a_bad_question(learner, method, X_bad, error):
    with pytest.raises(error):
        getattr(learner, method)(X_bad)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("weights", "error"),
    [
        (-np.ones(12), errors.InvalidWeight),
        (np.zeros(12), errors.InvalidWeight),
        (np.ones(5), errors.WrongShape),
        (np.ones((12, 2)), errors.WrongShape),
        (np.full(12, np.nan), errors.NotFinite),
    ],
)
def test_bad_weights(learner, weights, error):
    with pytest.raises(error):
        learner.partial_fit(X, y, sample_weight=weights)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (X[0, :3], errors.WrongWidth, "got 3 features, this learner was taught 4"),
        (X[:1], errors.WrongShape, "takes one vector"),
        (with_value(np.nan)[2], errors.NotFinite, "NaN"),
        (with_value(1e200)[2], errors.NotFinite, "overflow"),
        (X[0] + 0j, errors.WrongKind, "plain real numbers"),
        (["a", "b", "c", "d"], errors.WrongKind, "plain real numbers"),
        ([None] * 4, errors.WrongKind, "plain real numbers"),
    ],
)
def test_a_bad_vector(learner, x, error, words):
    with pytest.raises(error, match=words):
        learner.learn_one(x, "a")
    with pytest.raises(error, match=words):
        learner.predict_one(x)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("label", [None, float("nan"), 0.5, 7, True, b"a", ["a"], {}])
def test_a_bad_label(learner, label):
    with pytest.raises(errors.InvalidLabel):
        learner.learn_one(X[0], label)


@pytest.mark.usefixtures("unchanged")
def test_candidates_never_taught(learner):
    with pytest.raises(errors.UnknownLabel, match="'zebra' was never taught"):
        learner.predict(X, among=["a", "zebra"])
    with pytest.raises(errors.UnknownLabel):
        learner.predict_one(X[0], among=["zebra"])
    for nothing in ([], ()):
        with pytest.raises(errors.InvalidInput, match="among"):
            learner.predict(X, among=nothing)
        with pytest.raises(errors.InvalidInput, match="among"):
            learner.predict_one(X[0], among=nothing)


@pytest.mark.usefixtures("unchanged")
def test_forgetting_what_was_never_learned(learner):
    with pytest.raises(errors.UnknownLabel):
        learner.forget(X[:1], ["zebra"])
    with pytest.raises(errors.UnknownLabel):
        learner.forget_class("zebra")
    with pytest.raises(errors.NeverLearned, match="than were learned"):
        learner.forget(np.concatenate([X, X]), np.concatenate([y, y]))
    with pytest.raises(errors.NeverLearned, match="their mean differs"):
        learner.forget(X[y == "a"] + 1.0, y[y == "a"])
    with pytest.raises(errors.WrongWidth):
        learner.forget(X[:, :2], y)


@pytest.mark.usefixtures("unchanged")
def test_merging_what_does_not_match(learner):
    cls = type(learner)
    other_parameters = {
        NearestClassMean: {"metric": "cosine"},
        StreamingLDA: {"shrinkage": 0.5},
        RecursiveRLSC: {"regularization": 9.0},
    }[cls]
    for other, words in [
        (cls().fit(X[:, :2], y), "taught 4 features, the other 2"),
        (cls(**other_parameters).fit(X, y), f"{next(iter(other_parameters))} differs"),
        (next(c for c in LEARNERS if c is not cls)().fit(X, y), "its own kind"),
        (learner, "merged with itself"),
    ]:
        with pytest.raises(errors.NotMergeable, match=words):
            learner.merge(other)
    with pytest.raises(errors.InvalidLabel):
        learner.merge(cls().fit(X, np.arange(12) % 3))


def test_asking_before_teaching():
    for cls in LEARNERS:
        for ask in (cls().predict, cls().predict_proba, cls().decision_function):
            with pytest.raises(NotFittedError, match="partial_fit or learn_one first"):
                ask(X)
        with pytest.raises(NotFittedError):
            cls().predict_one(X[0])
        with pytest.raises(NotFittedError):
            cls().forget(X, y)


def test_a_refused_first_batch_leaves_an_untaught_learner():
    for cls in LEARNERS:
        learner = cls()
        with pytest.raises(errors.InvalidLabel):
            learner.partial_fit(X, [None] * 12)
        assert vars(learner).keys() - {"_lock"} == learner.get_params().keys()
        learner.partial_fit(X[:, :2], y)  # any width will do


def test_every_error_is_documented_and_extends_the_base_class():
    for name, error in vars(errors).items():
        if isinstance(error, type):
            assert issubclass(error, errors.EverlearnError), name
            assert error.__doc__


def test_several_labels_an_example_are_refused_in_one_sentence():
    X = np.eye(4)
    with pytest.raises(errors.WrongShape, match=r"several labels at once \(multi-label\)"):
        NearestClassMean().fit(X, np.eye(4, 2, dtype=int))


def test_quantities_are_refused_as_labels():
    with pytest.raises(errors.InvalidLabel, match=r"do not predict quantities \(regression\)"):
        NearestClassMean().fit(np.eye(4), [0.1, 0.7, 1.3, 2.2])
