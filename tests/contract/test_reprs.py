"""The ``repr`` of public objects is one informative line."""

import numpy as np
import pytest

from everlearn import Client, Memory, NearestClassMean, Pixels, StreamingLDA
from everlearn.evaluation import checkpointed, prequential
from everlearn.memory.edits.forgetting import Forgotten
from everlearn.streams import Examples


@pytest.fixture
def examples(rng):
    return Examples(rng.normal(size=(30, 4)), np.arange(30) % 3)


def test_statistics_and_labels(examples):
    learner = StreamingLDA().fit(examples.X, examples.y)
    assert repr(learner.moments_) == "<Moments: 30 examples of 3 classes, 4 features>"
    assert repr(learner.registry_) == "<3 labels: 0, 1, 2>"
    many = NearestClassMean().fit(np.zeros((9, 1)), list("abcdefghi"))
    assert repr(many.registry_) == "<9 labels: 'a', 'b', 'c', 'd', 'e', 'f', …>"
    fading = NearestClassMean(half_life=10).fit(examples.X, examples.y)
    # Σ 2^(−i/10) of the latest 30
    faded = sum(2 ** (-i / 10) for i in range(30))
    assert repr(fading.moments_) == f"<ClassMeans: {faded:g} examples of 3 classes, 4 features>"


def test_examples_and_evaluations(examples):
    assert repr(examples) == "<Examples: 30 × 4, 3 classes>"
    run = prequential(NearestClassMean(), examples.X, examples.y)
    assert repr(run) == f"<Run: 30 examples, {run.accuracy:.1%} right>"
    curve = checkpointed(NearestClassMean(), examples, examples, np.arange(30), every=15)
    last = curve.accuracies[-1]
    assert repr(curve) == f"<Curve: 2 checkpoints, {last:.1%} right after 30 examples>"


def test_a_memory_and_its_embedder(tmp_path):
    assert repr(Pixels(size=2)) == "<Pixels: pixels 2 grey, 4 features>"
    with Memory(tmp_path / "shelf", embedder=Pixels()) as memory:
        assert repr(memory) == f"<Memory in {tmp_path / 'shelf'}, open>"
    assert repr(memory) == f"<Memory in {tmp_path / 'shelf'}, closed>"
    client = Client("http://127.0.0.1:8737/", token="secret", memory="shelf")
    assert repr(client) == "<Client of http://127.0.0.1:8737, shelf>"


def test_reports_of_a_memory(tmp_path, rng):
    with Memory(tmp_path / "shelf") as memory:
        for name in "abcdefg":
            memory.teach(rng.normal(size=4), name)
        assert str(memory.history()[0]) == "teach, 1 teaching (g)"
        assert str(memory.undo()) == "teach, 1 teaching (g), undone"
        assert str(memory.would_forget(name="a")) == "1 teaching of 1 name (a)"
        many = Forgotten(7, dict.fromkeys("abcdefg", 1))
        assert str(many) == "7 teachings of 7 names (a, b, c, d, e and 2 more)"
        told = "7 teachings and 8 log entries are as they were written; the model equals a replay"
        assert str(memory.verify()) == f"{told} in every bit"
        assert str(memory.correct(rng.normal(size=4), "a")) == "taught as a"
        accuracy, *advice = str(memory.report()).splitlines()
        assert "% right, each of 7 teachings left out in turn; expect between" in accuracy
        assert [line[0] for line in advice] == list("abcdef")


def test_a_learner_wrapped_for_river_or_torch():
    pytest.importorskip("river")
    from everlearn.river import OneByOne

    assert repr(OneByOne(StreamingLDA(shrinkage=0.2))) == "OneByOne(StreamingLDA(shrinkage=0.2))"
