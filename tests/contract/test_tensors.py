"""Tensors are accepted like arrays, one by one and in batches."""

import numpy as np
import pytest

from everlearn import NearestClassMean, RecursiveRLSC

torch = pytest.importorskip("torch")

LEARNERS = [NearestClassMean(), RecursiveRLSC()]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "float16", "int64"])
@pytest.mark.parametrize("grad", [False, True])
def test_tensors_teach_the_same_as_arrays_one_by_one_and_in_batches(rng, learner, kind, grad):
    dtype = getattr(torch, kind)
    X = torch.tensor(10 * rng.normal(size=(20, 3))).to(dtype)
    if grad and not dtype.is_floating_point:
        pytest.skip("whole numbers have no gradient")
    X.requires_grad_(grad)
    y = torch.arange(20) % 3
    plain = X.detach().double().numpy(), y.numpy()
    expected = type(learner)().fit(*plain).decision_function(plain[0])
    batch, loop = type(learner)().partial_fit(X, y), type(learner)()
    for x, label in zip(X, y, strict=True):
        loop.learn_one(x, label)
    listed = type(learner)().partial_fit(X, list(y))
    for taught in (batch, loop, listed):
        assert taught.classes_.tolist() == [0, 1, 2]
        np.testing.assert_allclose(taught.decision_function(X), expected, atol=1e-9)
    assert loop.predict_one(X[0]) == batch.predict(X[:1])[0]
    assert batch.predict(X, among=[torch.tensor(1)]).tolist() == [1] * 20
