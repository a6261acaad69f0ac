"""Every transfer learner keeps the contract of scikit-learn and ours."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from everlearn import (
    TROL,
    LeastSquaresSVM,
    MultiKT,
    OnlineTransfer,
    PassiveAggressive,
    TransferClassifier,
    TROLPlus,
    check_learner,
)

WITHOUT_PRIORS = [
    PassiveAggressive(),
    PassiveAggressive(kernel="rbf", budget=20, drop="smallest"),
    LeastSquaresSVM(),
    LeastSquaresSVM(kernel="rbf"),
    MultiKT(),
    OnlineTransfer(),
    OnlineTransfer(sources="multi_kt", online=PassiveAggressive(kernel="rbf", budget=20)),
    TROL(),
    TROL(online=PassiveAggressive(kernel="rbf", budget=20)),
    TROLPlus(),
    TROLPlus(sources="each"),
    TransferClassifier(),
    TransferClassifier(
        base=PassiveAggressive(variant="pa"), n_exemplars=2, replay=3, average_over=1
    ),
]

VECTORS = [np.array([0.1, 0.0, -0.2, 0.0, 0.0, 0.1]), (np.full(6, 0.05), -0.1)]
WITH_PRIORS = [
    PassiveAggressive(variant="pa2", start=VECTORS[0]),
    MultiKT(prior_models=[lambda X: X[:, 0], lambda X: X[:, 1] ** 2]),
    OnlineTransfer(prior_models=VECTORS),
    OnlineTransfer(
        prior_models=VECTORS, sources="each", online=PassiveAggressive(kernel="rbf", budget=20)
    ),
    OnlineTransfer(prior_models=VECTORS, sources="multi_kt"),
    TROL(prior_models=VECTORS, penalty="ball"),
    TROL(prior_models=VECTORS, online=PassiveAggressive(kernel="rbf", budget=20)),
    TROLPlus(prior_models=VECTORS),
    TROLPlus(
        prior_models=VECTORS, sources="each", online=PassiveAggressive(kernel="rbf", budget=20)
    ),
]


@pytest.mark.parametrize("learner", WITHOUT_PRIORS, ids=lambda learner: type(learner).__name__)
def test_scikit_learn_contract(learner):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(learner, on_fail=None)
    failed = [(r["check_name"], repr(r["exception"])) for r in results if r["status"] == "failed"]
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40


@pytest.mark.parametrize(
    "learner", WITHOUT_PRIORS + WITH_PRIORS, ids=lambda learner: type(learner).__name__
)
def test_contract_of_streaming_learners(learner):
    check_learner(learner)
