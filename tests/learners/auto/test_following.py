"""Single questions: a head prepared in slices equals one made at once."""

import copy
import pickle
from collections import deque

import numpy as np
import pytest

from everlearn import AutoClassifier, load, save
from everlearn.learners.auto import following, random_features, selection
from everlearn.learners.auto.arc_cosine import arc_cosine
from everlearn.learners.auto.following import FollowedHead
from everlearn.learners.auto.heads import LearnedExample, made
from everlearn.learners.auto.random_features import RandomFeatureMoments
from everlearn.learners.auto.selection import (
    DISCRIMINANT,
    FEATURES,
    KERNEL,
    NEAREST,
    RIDGE,
    Frozen,
    HeadChoice,
    LearnedState,
    Selected,
    choose,
)
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.learners.closed_form.sample import Sample
from everlearn.preprocessing.random_features import RandomFeatures
from everlearn.statistics.moments import Moments
from everlearn.statistics.slices import ALLOCATED, Slices, finished

D, K = 5, 4


def examples(rng, n):
    slots = np.arange(n) % K
    return rng.normal(size=(K, D))[slots] + 0.8 * rng.normal(size=(n, D)), slots


class Stream:
    """What AutoClassifier keeps, taught one example at a time."""

    def __init__(self, *, keeps=1000):
        self.learned = LearnedState(
            Moments(D), Sample(D, keeps), RandomFeatureMoments(D, keeps, 512.0, None)
        )
        self.rows = []

    def teach(self, x, slot):
        moments, sample, features = (
            self.learned.moments,
            self.learned.sample,
            self.learned.features,
        )
        row = moments.add_one(x, slot)
        if moments.total > features.begins_beyond:
            features.begin(sample.rows)
        features.learn(x[None], np.array([slot]), None)
        sample.offer(x[None], np.array([slot]), None)
        self.rows.append((x, slot))
        return LearnedExample(x.copy(), slot, row.copy())


def ridge(Z, slots, lam, z, n):
    """Ridge regression with a free intercept, as one system."""
    ones = np.column_stack([Z, np.ones(len(Z))])
    penalty = lam * np.eye(ones.shape[1])
    penalty[-1, -1] = 0.0
    W = np.linalg.solve(ones.T @ ones + penalty, ones.T @ np.eye(n)[slots])
    return np.append(z, 1.0) @ W


def kernel_ridge(X, slots, lam, x, n):
    system = np.ones((len(X) + 1, len(X) + 1))
    system[:-1, :-1] = arc_cosine(X, X) + lam * np.eye(len(X))
    system[-1, -1] = 0.0
    solved = np.linalg.solve(system, np.vstack([np.eye(n)[slots], np.zeros(n)]))
    return arc_cosine(x[None], X)[0] @ solved[:-1] + solved[-1]


def nearest(X, slots, x, n):
    return np.array([-0.5 * np.sum((x - X[slots == k].mean(axis=0)) ** 2) for k in range(n)])


def discriminant(X, slots, x, shrinkage, n):
    means = np.stack([X[slots == k].mean(axis=0) for k in range(n)])
    S = (X - means[slots]).T @ (X - means[slots])
    share = shrinkage / (1.0 + shrinkage)
    rho = share * np.trace(S) / D / (1.0 - share)
    grid = 1.1 ** np.round(np.log(rho) / np.log(1.1))
    gaps = x - means
    return -0.5 * np.einsum("ij,ij->i", gaps, np.linalg.solve(S + grid * np.eye(D), gaps.T).T)


@pytest.mark.parametrize("kind", [RIDGE, KERNEL, FEATURES, DISCRIMINANT, NEAREST])
def test_a_head_computed_in_slices_includes_later_examples(rng, kind):
    """Two examples come with every slice, one of them the first of a new class."""
    X, slots = examples(rng, 90)
    slots[70] = K
    stream = Stream(keeps=20 if kind == FEATURES else 1000)
    for x, slot in zip(X[:60], slots[:60], strict=True):
        stream.teach(x, int(slot))
    choice = HeadChoice(kind, 0.3)
    frozen = Frozen(stream.learned, 1.0)
    came: deque[LearnedExample] = deque()
    work = Slices(made(Selected(choice), frozen, stream.learned, came), 1.0)
    head, coming = None, list(zip(X[60:], slots[60:].tolist(), strict=True))
    while head is None or coming:
        if coming:
            example = stream.teach(*coming.pop(0))
            came.append(example) if head is None else head.follow(example)
        head = work.advance() if head is None else head
    x = rng.normal(size=D)
    scores = head.scores_one(x)
    if kind == RIDGE:
        scatter = np.sum((X[:60] - X[:60].mean(axis=0)) ** 2)
        expected = ridge(X, slots, 0.3 * scatter / D, x, K + 1)
    elif kind == FEATURES:
        seen = stream.learned.features.seen
        Z = seen(X)
        scatter = np.sum((Z[:60] - Z[:60].mean(axis=0)) ** 2)
        expected = ridge(Z, slots, 0.3 * scatter / D, seen(x[None])[0], K + 1)
    elif kind == KERNEL:
        gram = arc_cosine(X[:60], X[:60])
        scatter = 60 * (gram.diagonal().mean() - gram.mean())
        expected = kernel_ridge(X, slots, 0.3 * scatter / D, x, K + 1)
    else:
        expected = (
            nearest(X, slots, x, K + 1)
            if kind == NEAREST
            else discriminant(X, slots, x, 0.3, K + 1)
        )
        expected, scores = expected - expected[0], scores - scores[0]
    np.testing.assert_allclose(scores, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("keeps", [1000, 40])
def test_a_choice_in_slices_equals_one_at_once(rng, keeps):
    X, slots = examples(rng, 120)
    stream = Stream(keeps=keeps)
    for x, slot in zip(X, slots, strict=True):
        stream.teach(x, int(slot))
    whole = finished(choose(Frozen(stream.learned)))
    pieces = finished(choose(Frozen(stream.learned, 1.0)))
    assert pieces.choice == whole.choice
    np.testing.assert_allclose(pieces.scores, whole.scores, rtol=1e-8, atol=1e-10)


def test_a_choice_uses_the_examples_known_at_its_start(rng, monkeypatch):
    """Examples that arrive during the work do not change the choice."""
    monkeypatch.setattr(following, "LEAST_SLICE", 1e5)
    X, slots = examples(rng, 400)
    stream, head, seen = Stream(), FollowedHead(), set()
    for x, slot in zip(X, slots, strict=True):
        example = stream.teach(x, int(slot))
        head.follow(example.row, x, int(slot))
        head.advance()
        head.scores_one(x, stream.learned)
        if head.chosen_at > 20 and head.chosen_at not in seen:
            seen.add(head.chosen_at)
            apart = Stream()
            for y, other in stream.rows[: int(head.chosen_at)]:
                apart.teach(y, other)
            assert head.choice == finished(choose(Frozen(apart.learned))).choice
    assert len(seen) > 5
    assert max(seen) > 200


def test_examples_that_replace_others_in_the_sample_do_not_change_a_choice(rng):
    X, slots = examples(rng, 400)
    stream = Stream(keeps=40)
    for x, slot in zip(X[:100], slots[:100], strict=True):
        stream.teach(x, int(slot))
    whole = finished(choose(Frozen(stream.learned)))
    frozen = Frozen(stream.learned, 1.0)
    work, coming, chosen = Slices(choose(frozen), 1.0), iter(range(100, 400)), None
    while chosen is None:
        step = next(coming, None)
        if step is not None:
            stream.teach(X[step], int(slots[step]))
        chosen = work.advance()
    assert next(coming, None) is None, "all examples came during the choice"
    assert chosen.choice == whole.choice
    np.testing.assert_allclose(chosen.scores, whole.scores, rtol=1e-8, atol=1e-10)


def test_an_example_costs_no_copy_of_the_sample_and_one_projection(rng, monkeypatch):
    X, slots = examples(rng, 200)
    learner = AutoClassifier(sample_size=40).fit(X, slots)
    learner.predict_one(X[0])
    done = []
    rows, transform = Sample.rows, RandomFeatures.transform
    monkeypatch.setattr(Sample, "rows", lambda self: done.append("copy") or rows(self))
    monkeypatch.setattr(
        RandomFeatures, "transform", lambda self, X: done.append("map") or transform(self, X)
    )
    for x in rng.normal(size=(5, D)):
        learner.predict_one(x)
        learner.learn_one(x, 0)
        learner.predict_one(x)
    assert done == ["map"] * 5


def test_classes_of_one_example_cost_no_copy_of_the_sample(rng, monkeypatch):
    """A choice leaves them out."""
    monkeypatch.setattr(LearnedRows, "take", None)
    X, slots = examples(rng, 300)
    stream = Stream(keeps=0)
    for x, slot in zip(X, [*slots[:290].tolist(), *range(100, 110)], strict=True):
        stream.teach(x, int(slot))
    n_asked = len(stream.learned.sample) - 10
    pieces = list(choose(Frozen(stream.learned, 1.0)))
    assert pieces.count(D * ALLOCATED) >= n_asked
    assert finished(choose(Frozen(stream.learned))).choice.asked == n_asked


def test_random_features_begin_without_a_stall(rng, monkeypatch):
    """All examples kept so far are accumulated a few at a time, while another head answers."""
    monkeypatch.setattr(random_features, "ACCUMULATED", 8)
    X, slots = examples(rng, 700)
    learner, mapped, transform = AutoClassifier(sample_size=500), [], RandomFeatures.transform

    def counted(self, rows):
        mapped.append(len(rows))
        return transform(self, rows)

    monkeypatch.setattr(RandomFeatures, "transform", counted)
    n_behind = 0
    for x, slot in zip(X, slots, strict=True):
        mapped.clear()
        learner.learn_one(x, int(slot))
        if not learner._random_features.is_behind:
            learner.predict_one(x)
            continue
        n_behind += 1
        assert 0 < sum(mapped) <= 2 * 8
        mapped.clear()
        learner.predict_one(x)
        assert not mapped
        assert learner._running.choice.head != FEATURES
    assert n_behind > 50
    assert learner._random_features.moments.total == len(X)


def test_a_choice_waits_for_random_features_that_begin_during_it(rng, monkeypatch):
    monkeypatch.setattr(random_features, "ACCUMULATED", 8)
    X, slots = examples(rng, 60)
    coming = zip(X, slots.tolist(), strict=True)
    stream, head = Stream(keeps=40), FollowedHead()
    for _ in range(40):
        stream.teach(*next(coming))
    work = head._chosen(stream.learned, 1e9)
    next(work)  # memory for copies
    stream.teach(*next(coming))
    while stream.learned.features.is_behind:
        cost = next(work)
        stream.teach(*next(coming))
    assert cost == np.inf
    assert not head._next_at
    next(work)
    assert head._next_at == stream.learned.moments.total > 41
    choice, _ = finished(work)
    assert choice == finished(choose(Frozen(stream.learned))).choice


@pytest.mark.parametrize("change", ["predict", "learn", "forget", "merge", "save"])
def test_features_that_wait_count_in_everything_but_single_questions(rng, tmp_path, change):
    X, slots = examples(rng, 300)
    stream, batch = AutoClassifier(sample_size=200), AutoClassifier(sample_size=200)
    for x, slot in zip(X[:203], slots[:203], strict=True):
        stream.learn_one(x, int(slot))
    batch.partial_fit(X[:203], slots[:203])
    assert stream._random_features.is_behind
    found = []
    for learner in (stream, batch):
        if change == "learn":
            learner.partial_fit(X[203:], slots[203:])
        elif change == "forget":
            learner.forget(X[:2], slots[:2])
        elif change == "merge":
            learner.merge(AutoClassifier(sample_size=200).fit(X[203:], slots[203:]))
        elif change == "save":
            save(learner, tmp_path / "learner")
            learner = load(tmp_path / "learner")
        found.append(learner)
    one, other = (learner._random_features.moments for learner in found)
    assert one.total == other.total
    np.testing.assert_allclose(one.scatter(), other.scatter(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(one.means, other.means, rtol=1e-12)
    np.testing.assert_allclose(*(learner.decision_function(X) for learner in found), rtol=1e-7)


def test_the_features_of_a_forgotten_example_do_not_stay(rng):
    X, slots = examples(rng, 200)
    learner = AutoClassifier(sample_size=40).fit(X, slots)
    x = rng.normal(size=D)
    learner.learn_one(x, 0)
    assert x.tobytes() in pickle.dumps(learner)
    learner.forget(x[None], [0])
    assert x.tobytes() not in pickle.dumps(learner)


@pytest.fixture
def at_once(monkeypatch):
    """Counts computations that a single question does at once."""
    done = []
    monkeypatch.setattr(following, "finished", lambda work: done.append(1) or finished(work))
    return done


def test_a_stream_with_new_classes_never_chooses_at_once(rng, at_once):
    X, slots = examples(rng, 300)
    learner = AutoClassifier()
    for step, (x, slot) in enumerate(zip(X, slots, strict=True)):
        label = int(slot) if step % 10 else 1000 + step  # every tenth example is a new class
        learner.learn_one(x, label)
        learner.predict_one(x)
    assert len(at_once) == 2  # the first question: a choice, and its head


def test_after_a_batch_the_next_question_is_exact(rng, at_once):
    X, slots = examples(rng, 300)
    learner = AutoClassifier().fit(X[:100], slots[:100])
    learner.predict_one(X[0])
    learner.partial_fit(X[100:], slots[100:])
    assert [learner.predict_one(x) for x in X[:50]] == learner.predict(X[:50]).tolist()
    assert len(at_once) == 4


@pytest.mark.parametrize("memory_mb", [0.0, 512.0])
def test_a_head_follows_a_small_batch_as_it_follows_single_examples(rng, at_once, memory_mb):
    X, slots = examples(rng, 420)
    batches, singles = (AutoClassifier(memory_mb=memory_mb) for _ in range(2))
    for learner in (batches, singles):
        learner.fit(X[:400], slots[:400])
        learner.predict_one(X[0])
    done = len(at_once)
    for start in range(400, 420, 5):
        batches.partial_fit(X[start : start + 5], slots[start : start + 5])
        for x, slot in zip(X[start : start + 5], slots[start : start + 5], strict=True):
            singles.learn_one(x, int(slot))
        for x in X[:3]:
            one, other = (learner._scores_one(x) for learner in (batches, singles))
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert len(at_once) == done
    np.testing.assert_allclose(
        batches.decision_function(X), singles.decision_function(X), rtol=1e-9, atol=1e-9
    )


def test_batches_during_a_choice_do_one_slice_each(rng, at_once, monkeypatch):
    monkeypatch.setattr(following, "LEAST_SLICE", 1e3)
    X, slots = examples(rng, 600)
    learner = AutoClassifier().fit(X[:100], slots[:100])
    learner.predict_one(X[0])
    slices, advance = [], Slices.advance
    monkeypatch.setattr(Slices, "advance", lambda self: slices.append(1) or advance(self))
    for start in range(100, 600, 10):
        learner.partial_fit(X[start : start + 10], slots[start : start + 10])
        learner.predict_one(X[0])
    assert 20 < len(slices) <= 2 * 50
    assert len(at_once) == 2
    found = finished(choose(Frozen(learner._learned()))).choice
    assert learner.choice_.head == found.head


def test_a_copy_made_during_a_choice_answers(rng, monkeypatch):
    monkeypatch.setattr(following, "LEAST_SLICE", 1e2)
    X, slots = examples(rng, 60)
    learner = AutoClassifier()
    for x, slot in zip(X, slots, strict=True):
        learner.learn_one(x, int(slot))
        learner.predict_one(x)
    for twin in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert np.array_equal(twin.predict(X), learner.predict(X))
        assert twin.predict_one(X[0]) == twin.predict(X[:1])[0]


def test_stream_accuracy_equals_that_of_choosing_at_every_step(rng):
    """Rings that are not linearly separable: the head changes to the kernel."""
    angle, y = rng.uniform(0, 2 * np.pi, 600), rng.integers(0, 2, 600)
    radius = np.where(y == 0, 1.0, 2.0) + 0.1 * rng.normal(size=600)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), np.ones(600)])
    learner, right = AutoClassifier(), 0
    for step, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        if step >= 300:
            right += learner.predict_one(x) == label
        learner.learn_one(x, label)
        learner.predict_one(x)
    assert learner.choice_.head == selection.KERNEL
    assert right > 0.9 * 300
