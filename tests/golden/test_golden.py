"""Files of every version can be loaded and give the same answers.

``tests/golden/VERSION`` was written by ``scripts/golden_files.py`` when that version was current.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from everlearn import Memory, load

GOLDEN = sorted(path for path in Path(__file__).parent.iterdir() if path.is_dir())
MEMORIES = [path for version in GOLDEN for path in sorted(version.glob("memory*"))]
MODELS = [path for version in GOLDEN for path in sorted(version.glob("*.everlearn"))]


def read(version, name):
    return json.loads((version / name).read_text())


def test_every_kind_of_learner_has_a_golden_file():
    assert len(MODELS) >= 22


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_model_answers_as_it_did(path):
    X, expected = np.array(read(path.parent, "questions.json")), read(path.parent, "answers.json")
    learner, said = load(path), expected[path.stem]
    if "transformed" in said:
        found = np.abs(learner.transform(X))
        assert np.allclose(found, said["transformed"], rtol=1e-8, atol=1e-10)
        return
    assert learner.predict(X).tolist() == said["labels"]
    assert np.allclose(learner.decision_function(X), said["scores"], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_loaded_model_can_learn_more(path):
    learner = load(path)
    X = np.array(read(path.parent, "questions.json"))
    if hasattr(learner, "predict"):
        labels = np.resize(learner.classes_, len(X))
        learner.partial_fit(X, labels)
        assert set(learner.predict(X)) <= set(learner.classes_)
    elif hasattr(learner, "partial_fit"):
        assert np.all(np.isfinite(learner.partial_fit(X).transform(X)))


@pytest.mark.parametrize("folder", MEMORIES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_memory_answers_as_it_did_and_passes_verify(folder, tmp_path):
    version = folder.parent
    shutil.copytree(folder, tmp_path / "memory")
    expected = read(version, "answers.json")[folder.name]
    with Memory(tmp_path / "memory") as memory:
        assert {name: record.count for name, record in memory.names().items()} == expected["names"]
        for x, (name, probability) in zip(
            np.array(read(version, "questions.json")), expected["answers"], strict=True
        ):
            best = memory.ask(x)[0]
            assert best.name == name
            assert best.probability == pytest.approx(probability, rel=1e-6)
        assert memory.verify().ok
        assert memory.unknowns() == []
        assert memory.teach(np.arange(6.0), "something new")


@pytest.mark.parametrize("folder", MEMORIES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_memory_is_read_without_being_upgraded(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "memory")
    before = (tmp_path / "memory" / "journal.sqlite").read_bytes()
    with Memory(tmp_path / "memory", read_only=True) as memory:
        assert memory.unknowns() == []
        assert memory.verify().problems == ()
    assert (tmp_path / "memory" / "journal.sqlite").read_bytes() == before
