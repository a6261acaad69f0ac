"""When a Memory is recalibrated: at once, or, with many names, by a slice with every question."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from attacks import traces
from everlearn import Memory
from everlearn.errors import CannotRead
from everlearn.memory.model import calibrated, follower, live, recalibration, sample
from everlearn.memory.model.calibrated import familiarity_of
from everlearn.memory.model.model import Model

WIDTH, NAMES = 12, 30


@pytest.fixture
def many_from_two_names(monkeypatch):
    """Slices so small that a recalibration takes hundreds of questions."""
    monkeypatch.setattr(live, "MANY_NAMES", 2)
    monkeypatch.setattr(recalibration, "LEAST_SLICE", 3e4)


def made(rng):
    """150 vectors with names, five for each."""
    centres = rng.normal(size=(NAMES, WIDTH))
    vectors = np.repeat(centres, 5, axis=0) + 0.3 * rng.normal(size=(5 * NAMES, WIDTH))
    return [(x, f"name {i // 5}") for i, x in enumerate(vectors)]


@pytest.fixture
def examples(rng):
    return made(rng)


def in_use(memory):
    """The calibration that answers."""
    return memory._answering.calibrated._calibration


def is_recalibrating(memory):
    return memory._answering.calibrated.is_recalibrating


def at_once(memory, position=None):
    """A calibration of the Memory at a position, from a replay of the journal."""
    opened = memory._opened

    def compute():
        journal = opened.journal
        model = Model(clone(opened.history.classifier()))
        model.follow(journal, journal.last_position if position is None else position)
        return recalibration.calibrated(model, journal, familiarity_of(model))

    return opened.read(compute)


def require_alike(one, other):
    assert one.keys() == other.keys()
    for key in one:
        np.testing.assert_allclose(one[key], other[key], rtol=1e-8, atol=1e-10, err_msg=key)


def ask_until_calibrated(memory, question, most=5000):
    """Ask until a recalibration is finished; returns the number of questions."""
    for count in range(most):
        if not is_recalibrating(memory):
            return count
        memory.ask(question)
    raise AssertionError("the recalibration does not end")


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
@pytest.mark.parametrize("classifier", ["ridge", "mean"])
def test_with_many_names_a_calibration_in_use_stays_until_a_share_was_forgotten(
    tmp_path, monkeypatch, many_from_two_names, examples, change, classifier
):
    monkeypatch.setattr(calibrated, "FORGOTTEN", 0.02)  # three of 150
    question = examples[70][0] + 0.1
    with Memory(tmp_path / "memory", classifier=classifier) as memory:
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


def test_with_many_names_growth_recalibrates_in_slices(tmp_path, many_from_two_names, examples):
    question = examples[0][0]
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(examples[:100])
        memory.ask(question)
        first = in_use(memory)
        memory.teach_many(examples[100:125])
        memory.ask(question)
        assert not is_recalibrating(memory)
        memory.teach(*examples[125])
        threshold = memory.ask(question).threshold
        assert is_recalibrating(memory)
        for example in examples[126:140]:
            memory.teach(*example)
            for _ in range(3):
                assert memory.ask(question).threshold == threshold
                assert in_use(memory) is first
        assert ask_until_calibrated(memory, question) > 10
        assert in_use(memory)["position"] == 126
        require_alike(in_use(memory), at_once(memory, 126))
        assert memory.verify().ok


@pytest.mark.parametrize(("classifier", "most"), [("ridge", 120), ("mean", 100)])
def test_much_growth_recalibrates_at_once(
    tmp_path, many_from_two_names, examples, classifier, most
):
    """As does any, with a classifier that cannot be calibrated in slices."""
    with Memory(tmp_path / "memory", classifier=classifier) as memory:
        memory.teach_many(examples[:80])
        memory.ask(examples[0][0])
        memory.teach_many(examples[80:most])
        memory.ask(examples[0][0])
        assert in_use(memory)["position"] == 80
        memory.teach(*examples[most])
        memory.ask(examples[0][0])
        require_alike(in_use(memory), at_once(memory))


ACTIONS = ["teach", "teach a new name", "teach some", "forget", "undo", "correct", "report"]


@settings(max_examples=8)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 149), st.integers(0, 150)),
        min_size=1,
        max_size=8,
    ),
    least=st.sampled_from([1e5, 1e6]),
)
def test_a_recalibration_in_slices_equals_one_at_once(tmp_path_factory, steps, least):
    """Whatever happens meanwhile: it is that of the position at which it began."""
    rng = np.random.default_rng(5)
    examples = made(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "MANY_NAMES", 2)
        patch.setattr(recalibration, "LEAST_SLICE", least)
        patch.setattr(calibrated, "GROWTH", 1.01)
        patch.setattr(calibrated, "LATEST", 2.0)
        patch.setattr(calibrated, "FORGOTTEN", 0.3)
        with Memory(tmp_path_factory.mktemp("slices") / "memory") as memory:
            memory.teach_many(examples)
            threshold = memory.ask(examples[0][0]).threshold
            known = in_use(memory)
            for action, which, questions in [*steps, ("teach some", 0, 5000)]:
                act(memory, action, which, examples, rng)
                for _ in range(questions):
                    answers = memory.ask(examples[0][0])
                    if in_use(memory) is not known:
                        known, threshold = in_use(memory), answers.threshold
                        require_alike(known, at_once(memory, known["position"]))
                    assert answers.threshold == threshold
                    if not is_recalibrating(memory):
                        break
            assert not is_recalibrating(memory)
            assert memory.verify().ok


def act(memory, action, which, examples, rng):
    x, name = examples[which]
    near = x + 0.3 * rng.normal(size=WIDTH)
    if action == "teach":
        memory.teach(near, name)
    elif action == "teach a new name":
        memory.teach(rng.normal(size=WIDTH), f"new {memory.position}")
    elif action == "teach some":
        memory.teach_many((y + 0.2 * rng.normal(size=WIDTH), name) for y, name in examples[:9])
    elif action == "forget":
        memory.teach(near, name)
        memory.forget(near)
    elif action == "undo":
        memory.teach(near, name)
        memory.undo()
    elif action == "correct":
        memory.correct(x, "name 7")
    elif action == "report":
        memory.report()


def test_a_finished_recalibration_is_stored_and_a_half_done_one_is_not(
    tmp_path, monkeypatch, many_from_two_names, examples
):
    monkeypatch.setattr(follower, "BYTES_PER_ENTRY", 1)  # it is stored beside the snapshot
    monkeypatch.setattr(calibrated, "GROWTH", 1.01)
    question = examples[0][0]

    def teach_four_more(memory):
        memory.teach_many((x + memory.position, name) for x, name in examples[:4])
        memory.ask(question)
        assert is_recalibrating(memory)

    with Memory(tmp_path / "memory") as memory:
        memory.teach_many([*examples, *((-x, name) for x, name in examples)])
        memory.ask(question)
        teach_four_more(memory)
    with Memory(tmp_path / "memory") as memory:
        assert memory.verify().ok
        memory.ask(question)
        assert in_use(memory)["position"] == 304
        teach_four_more(memory)
        ask_until_calibrated(memory, question)
    with Memory(tmp_path / "memory", read_only=True) as memory:
        memory.ask(question)
        assert in_use(memory)["position"] == 308
        assert not memory._opened.history.model.has_new_calibration
        require_alike(in_use(memory), at_once(memory))
        assert memory.verify().ok


def test_after_an_interrupted_slice_a_recalibration_begins_again(
    tmp_path, monkeypatch, many_from_two_names, examples
):
    monkeypatch.setattr(calibrated, "GROWTH", 1.01)
    question = examples[0][0]

    def fails(journal, ids, through):
        raise CannotRead("no")

    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(examples[:140])
        memory.ask(question)
        memory.teach_many(examples[140:])
        memory.ask(question)
        with monkeypatch.context() as patch:
            patch.setattr(sample, "counting_among", fails)
            for _ in range(50):
                try:
                    memory.ask(question)
                except CannotRead:
                    break
            else:
                raise AssertionError("nothing was read in fifty slices")
        ask_until_calibrated(memory, question)
        require_alike(in_use(memory), at_once(memory))
        assert in_use(memory)["position"] == 150


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
        assert is_recalibrating(memory)
        memory.forget(name="name 29", erase=True)
        memory.ask(examples[0][0])
        require_alike(in_use(memory), at_once(memory))
        other.teach_many(examples[:-5])
        other.ask(examples[0][0])
        require_alike(in_use(memory), in_use(other))
        assert memory.verify().ok
    erased = traces.of_text("a name", "name 29") + traces.of_vector("a vector", examples[-1][0])
    assert not traces.found([tmp_path / "memory"], erased)
