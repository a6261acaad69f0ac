"""The exported classifier, run by onnxruntime."""

import json

import numpy as np
import onnxruntime
import pytest

from everlearn import Memory, NearestClassMean, RecursiveRLSC, StreamingLDA
from everlearn.errors import CannotWrite, NotExportable


@pytest.mark.parametrize("classifier", [None, NearestClassMean(), StreamingLDA(shrinkage=0.1)])
def test_the_file_answers_like_the_learner(tmp_path, clusters, classifier):
    X, names = clusters(n_classes=5)
    with Memory(tmp_path / "memory", classifier=classifier) as memory:
        memory.teach_many(zip(X, names, strict=True))
        memory.rename("class 0", "Tasse ☕")
        memory.export(tmp_path / "head.onnx")
        session = onnxruntime.InferenceSession(
            tmp_path / "head.onnx", providers=["CPUExecutionProvider"]
        )
        columns = json.loads(session.get_modelmeta().custom_metadata_map["names"])
        shares = session.run(None, {"features": 3 * X})[0]
        assert set(columns) == set(memory.names())
        for x, row in zip(X, shares, strict=True):
            answers = {a.name: a.probability for a in memory.ask(x, top=None)}
            assert np.allclose(row, [answers[name] for name in columns], atol=1e-4)


def test_an_unwritable_file_raises_a_named_error(tmp_path):
    with Memory(tmp_path / "memory") as memory:
        memory.teach([1.0, 2.0], "cup")
        with pytest.raises(CannotWrite):
            memory.export(tmp_path / "no folder" / "head.onnx")


def test_nonlinear_classifiers_are_not_exported():
    learner = NearestClassMean(metric="cosine").fit([[1.0, 2.0], [2.0, 1.0]], [0, 1])
    with pytest.raises(NotExportable, match="not a linear function"):
        learner.linear_head()


@pytest.mark.parametrize(
    "learner", [NearestClassMean(), StreamingLDA(shrinkage=0.1), RecursiveRLSC(fit_intercept=True)]
)
def test_the_head_scores_like_the_classifier(rng, learner):
    X, y = rng.normal(size=(60, 7)), np.arange(60) % 4
    learner.fit(X, y)
    weights, bias = learner.linear_head()
    ours, theirs = X @ weights.T + bias, learner.decision_function(X)
    shared = ours - theirs
    assert np.allclose(shared, shared[:, :1])
