"""Inconsistent files are refused before compiled code uses them."""

import numpy as np
import pytest

from everlearn import (
    TROL,
    LeastSquaresSVM,
    OnlineTransfer,
    PassiveAggressive,
    TransferClassifier,
    TROLPlus,
)
from tests.transfer.oracles import two_classes

PRIORS = [np.array([0.1, 0.0, -0.2, 0.0, 0.0, 0.1])]
LEARNERS = [
    PassiveAggressive(),
    PassiveAggressive(kernel="rbf", budget=5),
    LeastSquaresSVM(),
    OnlineTransfer(prior_models=PRIORS),
    TROL(prior_models=PRIORS, online=PassiveAggressive(kernel="rbf")),
    TROLPlus(prior_models=PRIORS),
    TransferClassifier(n_exemplars=2),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_arrays_of_another_shape_are_refused(rng, learner):
    X, signs = two_classes(rng, 20)
    arrays, notes = learner.fit(X, signs)._state()
    for name, array in arrays.items():
        longer = np.concatenate([array, np.zeros((*array.shape[:-1], 1), array.dtype)], axis=-1)
        fresh = type(learner)(**learner.get_params(deep=False))
        with pytest.raises(ValueError, match=r"has shape .*, expected"):
            fresh._restore(arrays | {name: longer}, notes)


def test_more_exemplars_than_the_limit_are_refused(rng):
    X, signs = two_classes(rng, 20)
    arrays, notes = TransferClassifier(n_exemplars=2).fit(X, signs)._state()
    inconsistent = arrays | {"exemplar_counts": arrays["exemplar_counts"] + 1000}
    with pytest.raises(ValueError, match="exemplar_counts holds a value above 2"):
        TransferClassifier(n_exemplars=2)._restore(inconsistent, notes)


@pytest.mark.parametrize("n_taught", [-1, 31])
def test_more_columns_than_the_matrix_has_are_refused(rng, n_taught):
    X, signs = two_classes(rng, 30)
    learner = PassiveAggressive(kernel="precomputed")
    arrays, notes = learner.fit(X @ X.T, signs)._state()
    inconsistent = arrays | {"n_taught": np.array([n_taught])}
    with pytest.raises(ValueError, match="n_taught holds a value"):
        PassiveAggressive(kernel="precomputed")._restore(inconsistent, notes)


def test_slots_without_a_label_are_refused(rng):
    X, signs = two_classes(rng, 20)
    arrays, notes = LeastSquaresSVM().fit(X, signs)._state()
    inconsistent = arrays | {"example_slots": arrays["example_slots"] + 7}
    with pytest.raises(ValueError, match="slot of no label"):
        LeastSquaresSVM()._restore(inconsistent, notes)
