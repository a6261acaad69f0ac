"""A learner in River's loops, pipelines and evaluation."""

import numpy as np
import pytest

from everlearn import NearestClassMean, StreamingLDA
from everlearn.errors import OtherFeatures

pytest.importorskip("river")

from river import compose, datasets, evaluate, metrics, preprocessing

from everlearn.river import OneByOne


def test_it_answers_like_the_learner(rng):
    X, y = rng.normal(size=(40, 3)), rng.choice(["cup", "pen"], size=40)
    model, learner = OneByOne(StreamingLDA()), StreamingLDA()
    names = ["b", "a", "c"]  # a dictionary has no order of its own
    for x, label in zip(X, y, strict=True):
        model.learn_one(dict(zip(names, x, strict=True)), str(label))
        learner.learn_one(x[[1, 0, 2]], str(label))
        question = rng.normal(size=3)
        asked = dict(zip(names, question, strict=True))
        assert model.predict_one(asked) == learner.predict_one(question[[1, 0, 2]])
        shares = learner.predict_proba(question[[1, 0, 2]][None])[0]
        assert list(model.predict_proba_one(asked).values()) == pytest.approx(shares.tolist())


def test_before_the_first_example_there_is_no_answer():
    model = OneByOne(NearestClassMean())
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}


def test_other_features_are_refused_and_change_nothing():
    model = OneByOne(NearestClassMean())
    model.learn_one({"a": 1.0, "b": 2.0}, "cup")
    for wrong in ({"a": 1.0}, {"a": 1.0, "c": 2.0}, {"a": 1.0, "b": 2.0, "c": 0.0}):
        with pytest.raises(OtherFeatures):
            model.learn_one(wrong, "pen")
    assert model.taught.classes_.tolist() == ["cup"]


def test_it_works_in_pipelines_and_evaluation():
    model = compose.Pipeline(preprocessing.StandardScaler(), OneByOne(StreamingLDA()))
    score = evaluate.progressive_val_score(datasets.Phishing().take(400), model, metrics.Accuracy())
    assert score.get() > 0.75


def test_a_clone_knows_nothing():
    model = OneByOne(NearestClassMean())
    model.learn_one({"a": 1.0}, "cup")
    assert model.clone().predict_one({"a": 1.0}) is None


def test_frames_are_learned_at_once(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rng.normal(size=(20, 2)), columns=["b", "a"])
    labels = pandas.Series(np.where(frame["a"] > 0, "up", "down"))
    many, one = OneByOne(StreamingLDA()), OneByOne(StreamingLDA())
    many.learn_many(frame, labels)
    for x, y in zip(frame.to_dict("records"), labels, strict=True):
        one.learn_one(x, y)
    assert many.predict_many(frame).tolist() == one.predict_many(frame).tolist()
    assert np.allclose(many.predict_proba_many(frame), one.predict_proba_many(frame))
