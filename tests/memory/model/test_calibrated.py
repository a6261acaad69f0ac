"""When a Memory is recalibrated: at once, or, with many names, after some forgetting."""

import numpy as np
import pytest

from everlearn import Memory
from everlearn.memory.model import calibrated, live
from everlearn.memory.model.calibrated import familiarity_of

WIDTH, NAMES = 12, 30


@pytest.fixture
def many_from_two_names(monkeypatch):
    monkeypatch.setattr(live, "MANY_NAMES", 2)


@pytest.fixture
def examples(rng):
    """150 vectors and names, and questions."""
    centres = rng.normal(size=(NAMES, WIDTH))
    vectors = np.repeat(centres, 5, axis=0) + 0.3 * rng.normal(size=(5 * NAMES, WIDTH))
    return [(x, f"name {i // 5}") for i, x in enumerate(vectors)]


def in_use(memory):
    """The calibration that answers."""
    return memory._answering.calibrated._calibration


def at_once(memory):
    """A calibration of the Memory as it is now."""
    opened = memory._opened

    def compute():
        model = opened.model()
        return calibrated.calibrated(model, opened.journal, familiarity_of(model))

    return opened.read(compute)


def require_alike(one, other):
    assert one.keys() == other.keys()
    for key in one:
        np.testing.assert_allclose(one[key], other[key], rtol=1e-8, atol=1e-10, err_msg=key)


def forget_one(memory, examples, step):
    memory.forget(id=step + 1)


def undo_one(memory, examples, step):
    memory.teach(-examples[step][0], examples[step][1])
    memory.ask(examples[0][0])
    memory.undo()


def correct_one(memory, examples, step):
    memory.correct(examples[step][0], "name 29")


CHANGES = pytest.mark.parametrize("change", [forget_one, undo_one, correct_one])


@CHANGES
def test_with_many_names_a_calibration_in_use_stays_until_a_share_was_forgotten(
    tmp_path, monkeypatch, many_from_two_names, examples, change
):
    monkeypatch.setattr(calibrated, "FORGOTTEN", 0.02)  # three of 150
    question = examples[70][0] + 0.1
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(examples)
        threshold = memory.ask(question).threshold
        first = in_use(memory)
        for step in range(3):
            change(memory, examples, step)
            assert memory.ask(question).threshold == threshold
            assert in_use(memory) is first
        change(memory, examples, 3)
        memory.ask(question)
        require_alike(in_use(memory), at_once(memory))
        assert in_use(memory)["position"] == memory.position
        assert memory.verify().ok


@CHANGES
def test_with_fewer_names_every_forgetting_recalibrates(tmp_path, monkeypatch, examples, change):
    monkeypatch.setattr(calibrated, "FORGOTTEN", 0.5)
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(examples)
        memory.ask(examples[0][0])
        for step in range(3):
            change(memory, examples, step)
            memory.ask(examples[0][0])
            require_alike(in_use(memory), at_once(memory))


def test_with_many_names_growth_recalibrates_also_after_forgetting(
    tmp_path, monkeypatch, many_from_two_names, examples
):
    monkeypatch.setattr(calibrated, "FORGOTTEN", 0.5)
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(examples[:100])
        memory.ask(examples[0][0])
        first = in_use(memory)
        memory.forget(id=1)
        memory.undo()
        memory.teach_many(examples[100:125])
        memory.ask(examples[0][0])
        assert in_use(memory) is first
        memory.teach(*examples[125])
        memory.ask(examples[0][0])
        require_alike(in_use(memory), at_once(memory))


@pytest.mark.parametrize("method", ["report", "export"])
def test_a_report_and_an_export_use_a_calibration_without_anything_forgotten(
    tmp_path, monkeypatch, many_from_two_names, examples, method
):
    monkeypatch.setattr(calibrated, "FORGOTTEN", 0.5)
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(examples)
        memory.ask(examples[0][0])
        memory.forget(name="name 3")
        memory.ask(examples[0][0])
        memory.report() if method == "report" else memory.export(tmp_path / "memory.onnx")
        require_alike(in_use(memory), at_once(memory))


def test_a_reopened_memory_uses_a_calibration_without_anything_forgotten(
    tmp_path, monkeypatch, many_from_two_names, examples
):
    monkeypatch.setattr(calibrated, "FORGOTTEN", 0.5)
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(examples)
        memory.ask(examples[0][0])
        memory.forget(name="name 3")
        memory.ask(examples[0][0])
        assert in_use(memory)["position"] == 150
    for read_only in (True, False):
        with Memory(tmp_path / "memory", read_only=read_only) as memory:
            memory.ask(examples[0][0])
            require_alike(in_use(memory), at_once(memory))
            assert memory.verify().ok


def test_nothing_erased_stays_in_a_calibration(
    tmp_path, monkeypatch, many_from_two_names, examples
):
    """After an erase the calibration equals that of a Memory taught only the rest."""
    monkeypatch.setattr(calibrated, "FORGOTTEN", 0.5)
    with Memory(tmp_path / "memory") as memory, Memory(tmp_path / "other") as other:
        memory.teach_many(examples)
        memory.ask(examples[0][0])
        memory.forget(name="name 29")
        memory.ask(examples[0][0])
        memory.forget(name="name 29", erase=True)
        memory.ask(examples[0][0])
        require_alike(in_use(memory), at_once(memory))
        other.teach_many(examples[:-5])
        other.ask(examples[0][0])
        require_alike(in_use(memory), in_use(other))
        assert memory.verify().ok
