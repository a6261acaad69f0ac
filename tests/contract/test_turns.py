"""One thread asks while another teaches: every answer is that of some complete state."""

import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone

from everlearn import (
    ExStream,
    FixedCovarianceLDA,
    InitialWhitening,
    NearestClassMean,
    RecursiveRLSC,
    StreamingLDA,
    StreamPipeline,
)

LEARNERS = [
    NearestClassMean(),
    StreamingLDA(),
    FixedCovarianceLDA(),
    RecursiveRLSC(),
    ExStream(n_prototypes=3, learning_rate=0.1),
    StreamPipeline([("whiten", InitialWhitening()), ("learner", StreamingLDA())]),
]


@pytest.fixture
def eager_threads():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def a_stream(rng):
    """A first batch, batches that move every mean and add classes, and a question."""
    batches = []
    for step in range(25):
        names = rng.integers(0, 3 + step // 4, size=4)
        batches.append((rng.normal(size=(4, 12)) + names[:, None] + step, names))
    return batches, rng.normal(size=(2, 12)) + 10.0


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("ask", ["decision_function", "predict_proba"])
def test_no_answer_comes_from_the_middle_of_a_change(rng, eager_threads, learner, ask):
    batches, question = a_stream(rng)
    replayed = clone(learner).fit(*batches[0])
    possible = [getattr(replayed, ask)(question)]
    for X, y in batches[1:]:
        for x, label in zip(X, y.tolist(), strict=True):
            replayed.learn_one(x, label)
            possible.append(getattr(replayed, ask)(question))

    taught, answers, failures = clone(learner).fit(*batches[0]), [], []
    asking, done = threading.Event(), threading.Event()

    def keep_asking():
        try:
            while not done.is_set():
                answers.append(getattr(taught, ask)(question))
                asking.set()
                taught.predict_one(question[0])
        except Exception as error:
            failures.append(error)
            asking.set()

    asker = threading.Thread(target=keep_asking)
    asker.start()
    asking.wait()  # a busy machine may start the thread late
    for X, y in batches[1:]:
        for x, label in zip(X, y.tolist(), strict=True):
            taught.learn_one(x, label)
    done.set()
    asker.join()
    assert failures == []
    assert len(answers) > 0
    for answer in answers:
        same = [known for known in possible if known.shape == answer.shape]
        gap = min(
            float(np.abs(known - answer).max() / (1.0 + np.abs(known).max())) for known in same
        )
        assert gap < 1e-6


def test_merging_two_learners_into_each_other_does_not_deadlock(rng):
    one = NearestClassMean().fit(rng.normal(size=(4, 3)), [0, 1, 0, 1])
    other = NearestClassMean().fit(rng.normal(size=(4, 3)), [0, 1, 0, 1])
    threads = [
        threading.Thread(target=lambda: [one.merge(other) for _ in range(200)]),
        threading.Thread(target=lambda: [other.merge(one) for _ in range(200)]),
    ]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
