"""Every classifier in a Memory answers every question, or raises a named error with the reason."""

import numpy as np
import pytest

from everlearn import (
    TROL,
    LeastSquaresSVM,
    Memory,
    MultiKT,
    OnlineTransfer,
    PassiveAggressive,
    PowerNormalizer,
    StreamingPCA,
    StreamPipeline,
    TransferClassifier,
    TROLPlus,
)
from everlearn.base import parameters_by_label
from everlearn.errors import InvalidParameter, NotExplainable, NotExportable
from tests.contract.learners import LEARNERS, OTHER_LEARNERS

# Those whose parameters name labels are refused, see tests/memory/model/test_classifiers.py.
EVERY_KIND = [
    learner
    for learner in (*LEARNERS, *OTHER_LEARNERS, TransferClassifier())
    if not parameters_by_label(learner)
]
NAMES = ("cup", "pen", "key")


def questions(memory, X, tmp_path):
    """Each question, and the error with which a learner may say that it cannot answer it."""
    return {
        "ask": (lambda: memory.ask(X[0])[0].name, None),
        "why": (lambda: memory.why(X[0]).name, NotExplainable),
        "report": (lambda: memory.report().accuracy, NotExplainable),
        "correct": (lambda: memory.correct(X[0], "pen").moved_from, None),
        "undo": (lambda: memory.undo().kind, None),
        "redo": (lambda: memory.redo().kind, None),
        "again": (lambda: memory.undo().kind, None),
        "strangers": (lambda: memory.unknowns(), None),
        "rename": (lambda: memory.rename("key", "keys"), None),
        "forget": (lambda: memory.forget(name="keys").count, None),
        "forget for good": (lambda: memory.forget(name="pen", erase=True).receipt, None),
        "verify": (lambda: memory.verify().ok or 1 / 0, None),
        "export": (lambda: memory.export(tmp_path / "head.onnx"), NotExportable),
        "ask again": (lambda: memory.ask(X[0])[0].name, None),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", EVERY_KIND, ids=lambda learner: repr(learner)[:60])
def test_every_question_is_answered_or_refused_with_the_reason(tmp_path, learner):
    rng = np.random.default_rng(0)
    centres = np.eye(3, 6)
    X = np.concatenate([c + 0.1 * rng.normal(size=(8, 6)) for c in centres]).astype(np.float32)
    pairs = [(x, NAMES[i // 8]) for i, x in enumerate(X)]
    with Memory(tmp_path / "memory", classifier=learner) as memory:
        memory.teach_many(pairs)
        answers, refused = {}, {}
        for question, (asked, refusal) in questions(memory, X, tmp_path).items():
            try:
                answers[question] = asked()
            except (NotExplainable, NotExportable) as error:
                refused[question] = error, refusal
        for question, (error, refusal) in refused.items():
            assert refusal is not None, question
            # The reason, and which learner it is about.
            assert type(error) is refusal, question
            assert type(learner).__name__ in str(error), question
        assert answers["ask"] == answers["ask again"] == "cup"
        assert answers["forget"] == 8


TWO_LABELS = [
    PassiveAggressive(),
    LeastSquaresSVM(),
    MultiKT(),
    OnlineTransfer(),
    TROL(),
    TROLPlus(),
    StreamPipeline([("root", PowerNormalizer()), ("learn", TROL())]),
]


@pytest.mark.parametrize("learner", TWO_LABELS, ids=lambda learner: type(learner).__name__)
def test_a_learner_of_two_labels_is_refused_before_a_third_name_could_wedge_it(tmp_path, learner):
    with pytest.raises(InvalidParameter, match=r"new names at any time; use TransferClassifier"):
        Memory(tmp_path / "memory", classifier=learner)
    with Memory(tmp_path / "other") as memory:
        memory.teach(np.array([1.0, 0.0], np.float32), "cup")
        with pytest.raises(InvalidParameter, match="TransferClassifier"):
            memory.use(classifier=learner)
        assert memory.ask(np.array([1.0, 0.0], np.float32))[0].name == "cup"


@pytest.mark.parametrize("other", [StreamingPCA(), "RecursiveRLSC"], ids=["transformer", "word"])
def test_classifiers_of_other_libraries_are_refused(tmp_path, other):
    with pytest.raises(InvalidParameter, match="classifiers"):
        Memory(tmp_path / "memory", classifier=other)
