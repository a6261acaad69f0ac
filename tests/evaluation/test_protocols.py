"""Protocols against explicit loops, with estimators of three libraries."""

import numpy as np
import pytest
from river.naive_bayes import GaussianNB as RiverGaussianNB
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import MultinomialNB

from everlearn import NearestClassMean, StreamingLDA
from everlearn.errors import InvalidParameter, NotStreaming, WrongShape
from everlearn.evaluation import checkpointed, prequential
from everlearn.size import size_in_bytes
from everlearn.streams import class_iid, iid
from everlearn.streams.examples import Examples


class Strict:
    """Learns declared classes and refuses others, as many estimators do."""

    def partial_fit(self, X, y, classes):
        if unknown := set(y.tolist()) - set(classes.tolist()):
            raise ValueError(f"y holds {unknown}, which are none of {classes}\nsecond line")
        self.learner_ = getattr(self, "learner_", NearestClassMean()).partial_fit(X, y)

    def predict(self, X):
        return self.learner_.predict(X)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return Examples(X[:900], y[:900]), Examples(X[900:], y[900:])


def test_prequential_asks_then_learns(digits):
    train, _ = digits
    order = iid(train.y, 0)
    run = prequential(NearestClassMean(), train.X, train.y, order=order)
    learner, answers = NearestClassMean(), [None]
    learner.learn_one(train.X[order[0]], train.y[order[0]])
    for index in order[1:]:
        answers.append(learner.predict_one(train.X[index]))
        learner.learn_one(train.X[index], train.y[index])
    assert run.answers.tolist() == answers
    assert run.accuracy == np.mean([a == t for a, t in zip(answers, train.y[order], strict=True)])
    assert run.mistake_rate[-1] == pytest.approx(1 - run.accuracy)
    assert run.rejected == {}
    assert np.all(run.learning > 0)
    assert run.as_row()["examples"] == 900


def test_a_prequential_run_stops_at_the_given_positions(digits):
    train, test = digits
    learner, stops = NearestClassMean(), [6, 256, 900]
    seen = []
    run = prequential(
        learner,
        train.X,
        train.y,
        stops=stops,
        at_stop=lambda n: seen.append((n, learner.score(test.X, test.y))),
    )
    plain = prequential(NearestClassMean(), train.X, train.y)
    assert run.answers.tolist() == plain.answers.tolist()
    expected = [
        (n, NearestClassMean().fit(train.X[:n], train.y[:n]).score(test.X, test.y)) for n in stops
    ]
    assert seen == expected
    with pytest.raises(InvalidParameter, match="between 1 and 900"):
        prequential(NearestClassMean(), train.X, train.y, stops=[901])


@pytest.mark.parametrize(
    ("estimator", "least"),
    [
        (MultinomialNB(), 0.7),
        (SGDClassifier(random_state=0), 0.75),
        (RiverGaussianNB(), 0.35),
        (StreamingLDA(shrinkage=1e-2), 0.85),
    ],
    ids=lambda value: type(value).__module__.split(".")[0] + type(value).__name__,
)
def test_estimators_of_every_library(digits, estimator, least):
    train, test = digits
    run = prequential(estimator, train.X[:300], train.y[:300])
    assert run.accuracy > least - 0.15
    curve = checkpointed(estimator, train, test, np.arange(300, 900), every=300, batch=50)
    assert curve.seen == [300, 600]
    assert curve.accuracies[-1] > least
    assert curve.rejected == {}


def test_checkpointed_equals_a_loop_with_tests(digits):
    train, test = digits
    order = class_iid(train.y, 1)
    curve = checkpointed(NearestClassMean(), train, test, order, every=200, base=200, batch=7)
    learner = NearestClassMean()
    expected = []
    for start, stop in ((0, 200), (200, 400), (400, 600), (600, 800), (800, 900)):
        learner.partial_fit(train.X[order[start:stop]], train.y[order[start:stop]])
        expected.append(learner.score(test.X, test.y))
    assert curve.accuracies == pytest.approx(expected)
    assert curve.seen == [200, 400, 600, 800, 900]
    assert [row["seen"] for row in curve.as_rows()] == curve.seen


def test_the_distance_of_checkpoints_may_be_a_numpy_integer(digits):
    train, test = digits
    curve = checkpointed(NearestClassMean(), train, test, np.arange(10), every=np.int64(4))
    assert curve.seen == [4, 8, 10]


def test_only_seen_classes_are_asked_about(digits):
    train, test = digits
    order = class_iid(train.y, 1)
    curve = checkpointed(NearestClassMean(), train, test, order, every=[50, 900], only_seen=True)
    assert curve.accuracies[0] == 1.0
    assert np.isnan(curve.per_class[0]).sum() == 9
    assert not np.isnan(curve.per_class[1]).any()


def test_a_class_without_test_examples(digits):
    train, test = digits
    rest = test.take(test.y != 4)
    curve = checkpointed(NearestClassMean(), train, rest, iid(train.y), every=900, batch=100)
    assert np.isnan(curve.per_class[0][4])
    assert curve.accuracies[0] == pytest.approx(np.nanmean(curve.per_class[0]), abs=0.02)


def test_an_estimator_that_rejects_a_class_is_reported_and_the_run_goes_on(digits):
    train, test = digits
    order = class_iid(train.y, 0)
    known = [label for label in range(10) if label != 3]
    curve = checkpointed(Strict(), train, test, order, every=900, batch=64, classes=known)
    assert list(curve.rejected) == [3]
    assert curve.rejected[3].count == np.sum(train.y == 3)
    assert curve.rejected[3].reason.startswith("y holds {3}")
    assert "second line" not in curve.rejected[3].reason
    assert curve.per_class[0][3] == 0.0
    assert np.delete(curve.per_class[0], 3).mean() > 0.6
    run = prequential(Strict(), train.X, train.y, order=iid(train.y), classes=known)
    assert run.rejected[3].count == np.sum(train.y == 3)


def test_an_estimator_that_rejects_everything(digits):
    train, test = digits
    curve = checkpointed(Strict(), train, test, np.arange(20), every=20, classes=["a", "b"])
    assert curve.accuracies == [0.0]
    assert sum(r.count for r in curve.rejected.values()) == 20


def test_progress_adds_up(digits):
    train, test = digits
    steps = []
    prequential(NearestClassMean(), train.X, train.y, progress=steps.append)
    assert sum(steps) == 900
    steps.clear()
    checkpointed(
        NearestClassMean(), train, test, np.arange(900), every=250, batch=50, progress=steps.append
    )
    assert sum(steps) == 900


def test_estimators_that_cannot_stream_are_refused(digits):
    train, test = digits
    with pytest.raises(NotStreaming, match="needs partial_fit and predict"):
        prequential(LogisticRegression(), train.X, train.y)
    with pytest.raises(WrongShape, match="rows"):
        prequential(NearestClassMean(), train.X, train.y[:-1])
    with pytest.raises(InvalidParameter, match="between 1 and 10 examples"):
        checkpointed(NearestClassMean(), train, test, np.arange(10), every=[11])


def test_memory_counts_arrays_once():
    class Holder:
        def __init__(self):
            self.array = np.zeros(1000)
            self.view = self.array[10:20]
            self.again = {"same": [self.array]}

    assert 8000 < size_in_bytes(Holder()) < 10_000


def test_dictionaries_are_refused_not_counted_as_mistakes():
    with pytest.raises(WrongShape, match="convert dictionaries to rows"):
        prequential(NearestClassMean(), [{"a": 1.0}, {"a": 2.0}], ["cup", "chair"])


def test_first_use_is_warmed_up_on_a_copy_before_timing(digits):
    taught = []

    class Noted(NearestClassMean):
        def _learn_one(self, x, slot):
            taught.append(self)
            super()._learn_one(x, slot)

    train, _ = digits
    learner = Noted()
    run = prequential(learner, train.X[:20], train.y[:20] % 2)
    assert taught[0] is not learner
    assert learner.moments_.total == 20
    assert run.answers[0] is None
