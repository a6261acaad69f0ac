"""Failures of the linear algebra raise one named error."""

import numpy as np
import pytest
from scipy.linalg import cho_solve

from everlearn.errors import LostDefiniteness
from everlearn.statistics.definite import definite_factor, spectrum


def test_the_factor_solves():
    A = np.random.default_rng(0).normal(size=(6, 6))
    A = A @ A.T + np.eye(6)
    solved = cho_solve(definite_factor(A, "unused"), np.arange(6.0))
    np.testing.assert_allclose(solved, np.linalg.solve(A, np.arange(6.0)), rtol=1e-9)


@pytest.mark.parametrize("matrix", [-np.eye(3), np.full((3, 3), np.nan), np.diag([1.0, np.inf])])
def test_an_indefinite_matrix_raises_the_given_message(matrix):
    with pytest.raises(LostDefiniteness, match="scale the features"):
        definite_factor(matrix, "scale the features")


def test_the_spectrum_uses_only_the_upper_triangle():
    A = np.array([[2.0, 1.0], [9.0, 2.0]])
    values, vectors = spectrum(A)
    np.testing.assert_allclose(values, [1.0, 3.0], rtol=1e-12)
    np.testing.assert_allclose(abs(vectors), np.sqrt(0.5), rtol=1e-12)


def test_a_spectrum_that_does_not_converge_raises_a_named_error():
    with pytest.raises(LostDefiniteness, match="too large"):
        spectrum(np.full((5, 5), np.inf))
