import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn.transfer.kernel import mean_squared_distance, rbf
from tests.transfer import oracles


def test_rbf_kernel_by_its_definition(rng):
    A, B = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(rbf(A, B, 1 / 3.0), oracles.rbf(A, B, 1 / 3.0), rtol=1e-12)


def test_an_offset_of_all_features_does_not_eat_the_digits(rng):
    A, B = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(
        rbf(A + 1e6, B + 1e6, 1 / 3.0), oracles.rbf(A, B, 1 / 3.0), rtol=1e-7
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(1, 5), st.integers(0, 1000))
def test_mean_distance_over_all_pairs(n, d, seed):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, d)), rng.integers(1, 4, size=n)
    expected = oracles.mean_pairwise_squared_distance(X)
    assert mean_squared_distance(X) == pytest.approx(expected, rel=1e-9)
    copied = oracles.mean_pairwise_squared_distance(X.repeat(weights, axis=0))
    assert mean_squared_distance(X, weights.astype(float)) == pytest.approx(copied, rel=1e-9)


def test_where_examples_say_nothing_the_distance_is_one():
    assert mean_squared_distance(np.ones((1, 3))) == 1.0
    assert mean_squared_distance(np.ones((4, 3))) == 1.0
