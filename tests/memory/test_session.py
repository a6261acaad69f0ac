"""One answer for a stream: it ignores single frames and follows a new thing."""

import itertools

import numpy as np
import pytest

from everlearn import Memory
from everlearn.errors import EverlearnError
from everlearn.memory.answers import Answer, Answers
from everlearn.memory.session import Session


def seen(name, p=0.8, *, other="pen", unknown=False):
    found = [Answer(name, p), Answer(other, 1 - p)]
    return Answers(found, unknown=unknown, familiarity=0.5, threshold=0.5)


def changes(names):
    return sum(a != b for a, b in itertools.pairwise(names))


def test_flickering_answers_are_outvoted():
    chance = np.random.default_rng(0)
    session, alone, steady = Session(), [], []
    for index in range(300):
        right = "cup" if index < 150 else "bowl"
        p = 0.8 if chance.random() < 0.9 else 0.2
        frame = seen(right, p, unknown=chance.random() < 0.15)
        alone.append(None if frame.unknown else max(frame, key=lambda one: one.probability).name)
        steady.append(session.add(frame).name)
    assert changes(alone) > 60
    assert changes(steady[2:]) <= 3
    assert (steady[100], steady[-1]) == ("cup", "bowl")


def test_a_new_thing_is_announced_once_and_soon():
    for before in (5, 500):
        session = Session(frames=8)
        for _ in range(before):
            session.add(seen("cup", 0.95))
        after = [session.add(seen("bowl", 0.95)) for _ in range(20)]
        assert [one.changed for one in after].count(True) == 1
        assert next(i for i, one in enumerate(after) if one.changed) < 10
        unknown = [session.add(seen("bowl", 0.5, unknown=True)) for _ in range(20)]
        assert unknown[-1].name is None
        assert unknown[-1].probability > 0.9


def test_three_confident_frames_change_the_answer():
    for before in (3, 300):
        session = Session()
        for _ in range(before):
            session.add(seen("cup", 0.95))
        three = [session.add(seen("bowl", 0.99)) for _ in range(3)]
        assert [one.name for one in three] == ["cup", "cup", "bowl"]
        assert three[-1].probability > 0.5


def test_occasional_frames_do_not_change_the_answer():
    session = Session()
    names = ["cup"] * 3 + ["bowl", "bowl", "cup", "cup"] * 20
    assert {session.add(seen(name, 0.95)).name for name in names} == {"cup"}


def test_an_unsettled_answer_is_the_best_so_far():
    session = Session()
    first = session.add(seen("cup", 0.6))
    assert (first.name, first.settled, first.changed) == ("cup", False, False)
    assert 0.0 < first.probability < 1.0


def test_a_session_needs_a_frame():
    with pytest.raises(EverlearnError, match="frames"):
        Session(frames=0)


@pytest.mark.parametrize("window", [0, 2.5, None, True])
def test_the_window_of_a_stream_is_a_number_of_frames(tmp_path, window):
    with Memory(tmp_path / "m") as memory, pytest.raises(EverlearnError, match="window is a whole"):
        list(memory.ask_stream([[1.0, 0.0]], window=window))


def test_a_memory_answers_a_stream(tmp_path):
    with Memory(tmp_path / "m") as memory:
        assert [one.steady.name for one in memory.ask_stream([[1.0, 0.0]])] == [None]
        for shift in np.linspace(0, 0.3, 10):
            memory.teach([1.0, shift], "cup")
            memory.teach([shift, 1.0], "pen")
        clip = [[1.0, 0.1]] * 6 + [[0.1, 1.0]] + [[1.0, 0.2]] * 4
        answers = list(memory.ask_stream(clip))
        assert answers[6][0].name == "pen"
        assert {one.steady.name for one in answers} == {"cup"}
