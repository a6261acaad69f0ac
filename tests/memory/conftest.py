"""Things many tests of the Memory need."""

import numpy as np
import pytest


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


def state_of(memory):
    """Every number of the model, by name."""
    classifier = memory.classifier
    arrays, notes = classifier._state()
    return {key: np.array(value) for key, value in arrays.items()}, notes


def same_bits(one, other):
    (arrays, notes), (others, other_notes) = one, other
    return (
        notes == other_notes
        and arrays.keys() == others.keys()
        and all(arrays[key].tobytes() == others[key].tobytes() for key in arrays)
    )
