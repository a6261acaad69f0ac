"""Classifiers selected by a word, and their cross-validated accuracy."""

import itertools
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

from everlearn import (
    Memory,
    NearestClassMean,
    RecursiveRLSC,
    StreamingLDA,
    StreamingPCA,
    StreamPipeline,
)
from everlearn.errors import DamagedJournal, InvalidParameter, NeverLearned
from everlearn.evaluation.metrics import better_than_chance
from everlearn.memory.model.classifiers import DEFAULTS, FOLDS, WORDS, classifier_for
from everlearn.memory.model.head import unit
from everlearn.persistence import digest_of
from tests.memory.conftest import mapped


def stretched(rng, n_classes=6, each=15):
    """Classes differ along short axes; three shared long axes are noise."""
    y = np.repeat(np.arange(n_classes), each)
    X = rng.normal(size=(n_classes, 12))[y] + 0.5 * rng.normal(size=(len(y), 12))
    X[:, :3] += 20.0 * rng.normal(size=(len(y), 3))
    return X.astype(np.float32), y


def test_comparisons_of_classifiers_equal_cross_validation(tmp_path, rng):
    """Against scikit-learn's, with the same folds."""
    X, y = stretched(rng)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    fold_of = np.array([np.sum(y[:i] == y[i]) for i in range(len(y))]) % FOLDS
    splits = [(np.flatnonzero(fold_of != k), np.flatnonzero(fold_of == k)) for k in range(FOLDS)]
    with Memory(tmp_path) as memory:
        memory.teach_many((x, f"class {k}") for x, k in zip(X, y, strict=True))
        before = memory.info()["classifier"]
        told = []
        found = memory.compare_classifiers(progress=lambda: told.append(1))
        assert memory.info()["classifier"] == before
    assert len(told) == FOLDS * len(WORDS)
    assert [s.accuracy for s in found] == sorted((s.accuracy for s in found), reverse=True)
    for standing in found:
        if standing.classifier == "auto":
            continue
        expected = cross_val_predict(WORDS[standing.classifier](), mapped(X), y, cv=splits) == y
        assert (standing.accuracy, standing.asked) == (expected.mean(), len(y)), standing
    by_word = {standing.classifier: standing.accuracy for standing in found}
    assert by_word["lda"] > by_word["mean"]


def test_names_with_one_example_are_not_tested(tmp_path, rng):
    with Memory(tmp_path) as memory:
        for number in range(3):
            memory.teach([1.0, 0.1 * number], f"lone {number}")
        with pytest.raises(NeverLearned, match="no name has two teachings"):
            memory.compare_classifiers()
        memory.teach([1.0, 0.11], "lone 1")
        assert memory.compare_classifiers(["mean"])[0].asked == 2


@pytest.mark.parametrize("word", WORDS)
def test_a_word_selects_its_classifier(tmp_path, rng, word):
    X, y = stretched(rng)
    with Memory(tmp_path / "switched") as memory, Memory(tmp_path / "new", classifier=word) as new:
        for each in (memory, new):
            each.teach_many((x, f"class {k}") for x, k in zip(X, y, strict=True))
        memory.use(classifier=word)
        reference = classifier_for(word).fit(X, y)
        assert memory.info()["classifier"] == new.info()["classifier"]
        for x, label in zip(X[::7], reference.predict(X[::7]), strict=True):
            assert memory.ask(x)[0].name == new.ask(x)[0].name == f"class {label}"
        assert memory.verify().problems == ()


def test_custom_learners_can_be_compared(tmp_path, rng):
    X, y = stretched(rng)
    with Memory(tmp_path) as memory:
        memory.teach_many((x, f"class {k}") for x, k in zip(X, y, strict=True))
        own = NearestClassMean(metric="cosine")
        (standing,) = memory.compare_classifiers([own])
        assert standing.classifier == repr(own)
        with pytest.raises(InvalidParameter, match="'lda'"):
            memory.compare_classifiers(["svm"])
        with pytest.raises(InvalidParameter, match="classifier"):
            memory.compare_classifiers([StreamingPCA()])
        with pytest.raises(InvalidParameter, match="'lda'"):
            memory.use(classifier="svm")


def test_a_difference_of_one_picture_is_not_significant():
    before = np.ones(100, dtype=bool)
    before[:31] = False
    after = before.copy()
    after[0] = True
    assert not better_than_chance(before, after, deviations=2.0)
    after[:12] = True
    after[99] = False  # 12 became right and 1 wrong: 11 is more than twice the root of 13
    assert better_than_chance(before, after, deviations=2.0)


def test_classifiers_are_compared_with_the_one_in_use(tmp_path):
    """The names differ along an axis of little spread, which class means do not weight higher."""
    rng = np.random.default_rng(0)
    with Memory(tmp_path / "memory", classifier="mean") as memory:
        for name, side in (("left", -0.3), ("right", 0.3)):
            for x in rng.normal(size=(60, 6)) * (0.05, 2, 2, 2, 2, 2) + (side, 0, 0, 0, 0, 0):
                memory.teach(x, name)
        found = {one.classifier: one for one in memory.compare_classifiers(["ridge", "mean"])}
        assert found["ridge"].accuracy > found["mean"].accuracy + 0.1
        assert found["ridge"].better
        assert not found["mean"].better, "it is in use"
        (alone,) = memory.compare_classifiers(["ridge"])
        assert alone.better, "compared with the one in use, though that was not asked for"


def test_a_lead_within_chance_is_no_recommendation(tmp_path):
    """The two names are nearly alike, so classifiers differ by single pictures."""
    rng = np.random.default_rng(4)
    with Memory(tmp_path / "memory", classifier="mean") as memory:
        for name, side in (("left", -0.15), ("right", 0.15)):
            memory.teach_many((x + side, name) for x in rng.normal(size=(50, 6)))
        mean, *others = sorted(
            memory.compare_classifiers(["mean", "ridge", "lda"]),
            key=lambda one: one.classifier != "mean",
        )
        ahead = [one for one in others if one.accuracy > mean.accuracy]
        assert ahead, "otherwise this tests nothing"
        assert all(one.accuracy < mean.accuracy + 0.08 for one in ahead)
        assert not any(one.better for one in ahead)


def test_only_what_is_linear_answers_without_learning_again(tmp_path, rng, monkeypatch):
    X, y = stretched(rng)
    with Memory(tmp_path) as memory:
        memory.teach_many((x, f"class {k}") for x, k in zip(X, y, strict=True))
        ticks = itertools.count()
        clock = SimpleNamespace(perf_counter=lambda: next(ticks))
        monkeypatch.setattr("everlearn.memory.model.classifiers.time", clock)
        found = {one.classifier: one for one in memory.compare_classifiers()}
    # One tick to learn and answer first, another for each further answer.
    assert {one.seconds for one in found.values()} == {1.0}
    ask = {word: one.ask_seconds for word, one in found.items()}
    assert ask == {"ridge": 1.0, "lda": 1.0, "mean": 1.0, "auto": 2.0}


GOLDEN = Path(__file__).parents[2] / "golden" / "0.1" / "memory-root"


def test_an_old_folder_keeps_its_default_classifier(tmp_path):
    """The folder contains the classifier itself, as before defaults had words."""
    shutil.copytree(GOLDEN, tmp_path / "memory")
    with Memory(tmp_path / "memory") as memory:
        before = memory._opened.history.classifier()
    assert digest_of(clone(DEFAULTS["default-1"]())) == digest_of(clone(before))


def test_a_word_for_the_default_answers_as_the_classifier_itself(tmp_path, rng):
    X, y = stretched(rng)
    default = DEFAULTS["default-1"]()
    with Memory(tmp_path / "word") as word, Memory(tmp_path / "itself", classifier=default) as own:
        assert word._opened.journal.fact("classifier") == "default-1"
        assert len(own._opened.journal.fact("classifier")) > 100
        for each in (word, own):
            each.teach_many((x, f"class {k}") for x, k in zip(X, y, strict=True))
        digests = [m._opened.read(m._opened.model).digest() for m in (word, own)]
        assert digests[0] == digests[1]
    with Memory(tmp_path / "word", classifier=default) as again:
        assert again.verify().ok
    with pytest.raises(InvalidParameter, match="use"):
        Memory(tmp_path / "word", classifier="lda")


def test_a_default_of_a_newer_version_asks_for_an_upgrade(tmp_path):
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 0.0], "cup")
        with memory._opened.one_change() as journal:
            journal.set_fact("classifier", "default-99")
        with pytest.raises(DamagedJournal, match=r"upgrade everlearn.*use ridge"):
            memory.ask([1.0, 0.0])
        memory.use(classifier="ridge")
        assert memory.ask([1.0, 0.0])[0].name == "cup"


@pytest.mark.parametrize(
    "classifier",
    [
        StreamingLDA(priors={"cup": 3.0}),
        StreamPipeline([("learn", RecursiveRLSC(class_weight={"cup": 3.0}))]),
    ],
    ids=["priors", "class_weight"],
)
def test_parameters_that_name_labels_are_refused(classifier, tmp_path):
    """The classifier is taught numbers of names, so they would have no effect."""
    with Memory(tmp_path / "m") as memory:
        before = repr(memory.info()["classifier"])
        with pytest.raises(InvalidParameter, match="taught numbers of names"):
            memory.use(classifier=classifier)
        assert repr(memory.info()["classifier"]) == before


def test_balanced_weights_are_those_of_a_learner_of_names(tmp_path, rng):
    X = rng.normal(size=(40, 6)).astype(np.float32)
    names = ["cup"] * 34 + ["pen"] * 6
    classifier = RecursiveRLSC(class_weight="balanced")
    with Memory(tmp_path / "m", classifier=classifier) as memory:
        memory.teach_many(zip(X, names, strict=True))
        learner = clone(classifier).fit(unit(X), names)
        answers = [memory.ask(x)[0].name for x in X]
    assert answers == learner.predict(unit(X)).tolist()
