"""Write the golden files of this version: models and a Memory that every later version must load.

    python scripts/golden_files.py tests/golden/0.1

Run once for each released version, never again for the same one: what is in the folder is what
people have on their disks. ``tests/golden/test_golden.py`` loads all of them and
compares the answers.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from everlearn import (
    TROL,
    AutoClassifier,
    ClassWhitening,
    ExStream,
    FixedCovarianceLDA,
    InitialWhitening,
    LeastSquaresSVM,
    Memory,
    MultiKT,
    NCMForest,
    NearestClassMean,
    OnlineTransfer,
    PassiveAggressive,
    PowerNormalizer,
    RandomFeatures,
    RecursiveRLSC,
    RobustStreamingPCA,
    StreamingLDA,
    StreamingPCA,
    StreamPipeline,
    SVMForest,
    TransferClassifier,
    TROLPlus,
    save,
)

TWO_LABELS = ("passive-aggressive", "ls-svm", "multi-kt", "trol", "trol-plus", "online-transfer")


def stream() -> tuple[Any, Any, Any]:
    """Examples of four classes, and others to ask about."""
    rng = np.random.default_rng(7)
    centres = 2.0 * rng.normal(size=(4, 6))
    y = rng.permutation(np.repeat(np.arange(4), 12))
    names = np.array(["cup", "chair", "apple", "lamp"])
    X_new = centres[rng.integers(0, 4, 20)] + rng.normal(size=(20, 6))
    return centres[y] + rng.normal(size=(48, 6)), names[y], X_new


def learners() -> dict[str, Any]:
    """One learner of every kind, in configurations with different state."""
    X, y, _ = stream()
    two = np.isin(y, ["cup", "chair"])
    prior = LeastSquaresSVM().fit(X[two], y[two])
    made: dict[str, Any] = {
        "auto": AutoClassifier(),
        "exstream": ExStream(n_prototypes=3),
        "fixed-lda": FixedCovarianceLDA(),
        "lda": StreamingLDA(),
        "lda-oas-by-class": StreamingLDA(shrinkage="oas", class_scatter=True),
        "ncm": NearestClassMean(),
        "ncm-learned": NearestClassMean(metric="learned"),
        "ncm-forest": NCMForest(n_estimators=4, random_state=0),
        "svm-forest": SVMForest(n_estimators=4, random_state=0),
        "rlsc": RecursiveRLSC(),
        "rlsc-auto": RecursiveRLSC(regularization="auto", recoding="auto"),
        "transfer-classifier": TransferClassifier(),
        "pipeline-whitened": StreamPipeline(
            [("whiten", InitialWhitening()), ("learn", NearestClassMean())]
        ),
        "pipeline-wide": StreamPipeline(
            [
                ("root", PowerNormalizer()),
                ("wide", RandomFeatures(n_components=20)),
                ("learn", RecursiveRLSC()),
            ]
        ),
        "passive-aggressive": PassiveAggressive(kernel="rbf"),
        "ls-svm": LeastSquaresSVM(kernel="rbf"),
        "multi-kt": MultiKT(prior_models=[prior]),
        "trol": TROL(prior_models=[prior]),
        "trol-plus": TROLPlus(prior_models=[prior]),
        "online-transfer": OnlineTransfer(prior_models=[prior]),
    }
    for name, learner in made.items():
        chosen = two if name in TWO_LABELS else slice(None)
        learner.partial_fit(X[chosen], y[chosen])
    made["pca"] = StreamingPCA(n_components=3).partial_fit(X)
    made["class-whitening"] = ClassWhitening().fit(X, y)
    made["robust-pca"] = RobustStreamingPCA(n_components=2).fit(X)
    return made


def answers(learner: Any, X: Any) -> dict[str, Any]:
    """The answers a loaded learner must reproduce."""
    if hasattr(learner, "predict"):
        scores = np.asarray(learner.decision_function(X), dtype=np.float64)
        return {"labels": learner.predict(X).tolist(), "scores": scores.tolist()}
    return {"transformed": np.abs(learner.transform(X)).tolist()}


def main(folder: Path) -> None:
    X, y, X_new = stream()
    folder.mkdir(parents=True)
    expected = {}
    for name, learner in learners().items():
        save(learner, folder / f"{name}.everlearn")
        expected[name] = answers(learner, X_new)
    with Memory(folder / "memory") as memory:
        for x, name in zip(X, y, strict=True):
            memory.teach(x, str(name), source=f"photos/{name}.jpg")
        memory.rename("lamp", "light")
        memory.forget(X[0])
        memory.undo()
        memory.forget(X[1])
        expected["memory"] = {
            "names": {name: record.count for name, record in memory.names().items()},
            "answers": [[memory.ask(x)[0].name, memory.ask(x)[0].probability] for x in X_new],
        }
    (folder / "memory" / "writer.lock").unlink(missing_ok=True)
    (folder / "questions.json").write_text(json.dumps(X_new.tolist()))
    (folder / "answers.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
