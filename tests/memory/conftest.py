"""Fixtures for tests of the Memory."""

import numpy as np
import pytest

from everlearn.memory.storage.backup import restore
from everlearn.memory.storage.journal import Journal


@pytest.fixture
def clusters(rng):
    """Make examples of some well-separated classes: vectors and names, shuffled."""

    def make(n_classes=4, each=6, width=16, spread=0.25):
        centres = rng.normal(size=(n_classes, width))
        X = np.repeat(centres, each, axis=0)
        X = (X + spread * rng.normal(size=X.shape)).astype(np.float32)
        names = np.repeat([f"class {k}" for k in range(n_classes)], each)
        order = rng.permutation(len(X))
        return X[order], names[order].tolist()

    return make


@pytest.fixture
def restore_between_words(monkeypatch):
    """Have a backup restored just before the second word of a name is read."""
    read, of_journal = [], Journal.name_by_id

    def set_up(backup, folder):
        def name_by_id(journal, number):
            read.append(number)
            if len(read) == 2:
                restore(backup, folder)
            return of_journal(journal, number)

        monkeypatch.setattr(Journal, "name_by_id", name_by_id)

    yield set_up
    assert len(read) > 2  # restored, and read again


def state_of(memory):
    """The state of a Memory's classifier, as :func:`numbers_of`."""
    return numbers_of(memory.classifier)


def numbers_of(learner):
    """The arrays of a learner's state, and the rest of it; with those of a pipeline's steps."""
    arrays, notes = learner._state()
    numbers = {key: np.array(value) for key, value in arrays.items()}
    notes = dict(notes)
    for index, step in enumerate(notes.pop("learners", [])):
        inner, more = numbers_of(step)
        numbers |= {f"{index}.{key}": value for key, value in inner.items()}
        notes |= {f"{index}.{key}": value for key, value in more.items()}
    return numbers, notes


def same_bits(one, other):
    """Whether two states are equal in every bit."""
    (arrays, notes), (others, other_notes) = one, other
    return (
        notes == other_notes
        and arrays.keys() == others.keys()
        and all(arrays[key].tobytes() == others[key].tobytes() for key in arrays)
    )


def mapped(X):
    """Vectors after the feature map of a new Memory's classifier: signed roots, at length one."""
    roots = np.sign(X) * np.sqrt(np.abs(np.asarray(X, dtype=np.float64)))
    return roots / np.linalg.norm(roots, axis=1, keepdims=True)
