import numpy as np
import pytest

from everlearn.errors import LostDefiniteness
from everlearn.statistics import factor as factor_module
from everlearn.statistics.factor import Factor


class Followed:
    """A matrix and the factor that follows it."""

    def __init__(self, rng, d=20, rows=60):
        X = rng.normal(size=(rows, d)) @ rng.normal(size=(d, d))
        self.A = X.T @ X + np.eye(d)
        self.factor = Factor(d)
        self.factor.bring_up_to_date(self.upper)

    def upper(self):
        return np.triu(self.A)

    def add(self, rows):
        self.A = self.A + rows.T @ rows
        self.factor.add(rows)

    def remove(self, rows):
        self.A = self.A - rows.T @ rows
        self.factor.remove(rows)

    def check(self, rtol=1e-11):
        self.factor.bring_up_to_date(self.upper)
        R = self.factor.R
        np.testing.assert_allclose(np.tril(R, -1), 0.0, atol=0)
        assert np.all(R.diagonal() > 0)
        np.testing.assert_allclose(R.T @ R, self.A, rtol=rtol, atol=rtol * np.abs(self.A).max())


@pytest.mark.parametrize("n_rows", [1, 2, 8, 9, 40, 64, 65, 500])
@pytest.mark.parametrize("one_by_one", [0.0, 1e8])
def test_every_way_of_updating_gives_the_factor_of_the_sum(rng, monkeypatch, n_rows, one_by_one):
    monkeypatch.setattr(factor_module, "SINGLE_PRODUCTS", one_by_one)
    followed = Followed(rng)
    followed.add(rng.normal(size=(n_rows, 20)))
    followed.check()
    assert followed.factor.rebuilds == (1 if n_rows <= 64 else 2)


def test_more_rows_wait_if_the_caller_allows_them(rng):
    followed = Followed(rng)
    for _ in range(20):
        rows = rng.normal(size=(10, 20))
        followed.A += rows.T @ rows
        followed.factor.add(rows, 200)
    followed.check()
    assert followed.factor.rebuilds == 1
    rows = rng.normal(size=(201, 20))
    followed.A += rows.T @ rows
    followed.factor.add(rows, 200)
    followed.check()
    assert followed.factor.rebuilds == 2
    followed.A -= rows.T @ rows
    followed.factor.remove(rows, 200 * factor_module.ONE_REMOVED)  # one too many
    followed.check()
    assert followed.factor.rebuilds == 3


def test_rows_may_be_grouped_in_any_way_between_two_solves(rng):
    followed = Followed(rng)
    for portion in (1, 3, 1, 7, 30):
        followed.add(rng.normal(size=(portion, 20)))
    assert followed.factor.rebuilds == 1
    followed.check()
    assert followed.factor.rebuilds == 1


def test_removing_rows_undoes_adding_them_without_a_rebuild(rng):
    followed = Followed(rng)
    rows = rng.normal(size=(12, 20))
    followed.add(rows)
    followed.check()
    followed.remove(rows[:5])
    followed.add(rng.normal(size=(3, 20)))
    followed.check()
    assert followed.factor.rebuilds == 1


def test_a_downdate_that_loses_definiteness_is_rebuilt_from_the_matrix(rng):
    d = 6
    followed = Followed(rng, d=d)
    big = 1e6 * rng.normal(size=(1, d))
    followed.add(big)
    followed.check()
    # Rounding makes the true matrix a little indefinite along `big`; give it back its ridge.
    followed.factor.remove(big)
    followed.A = followed.A - big.T @ big + 1e-2 * np.eye(d)
    followed.factor.bring_up_to_date(followed.upper)
    assert followed.factor.rebuilds == 2


def test_a_matrix_that_is_not_definite_is_an_error_that_says_what_to_do():
    factor = Factor(2)
    with pytest.raises(LostDefiniteness, match="regularise more"):
        factor.bring_up_to_date(lambda: np.array([[1.0, 2.0], [0.0, 1.0]]))


def test_a_factor_that_drifted_is_detected_and_rebuilt(rng, monkeypatch):
    monkeypatch.setattr(factor_module, "CHECK_EVERY", 5)
    followed = Followed(rng)
    for _ in range(4):
        followed.add(rng.normal(size=(1, 20)))
        followed.factor.bring_up_to_date(followed.upper)
    assert followed.factor.rebuilds == 1
    followed.factor.R[3, 7] += 1e-6
    assert followed.factor.drift(followed.upper()) > 1e-9
    followed.add(rng.normal(size=(1, 20)))
    followed.factor.bring_up_to_date(followed.upper)
    assert followed.factor.rebuilds == 2
    followed.check()


@pytest.mark.parametrize("n_pending", [0, 1, 5])
def test_updating_while_solving_equals_solving_the_updated_matrix(rng, n_pending):
    followed = Followed(rng)
    followed.add(rng.normal(size=(n_pending, 20)) if n_pending else np.zeros((0, 20)))
    B = rng.normal(size=(3, 20))
    halves = followed.factor.forward(B.copy(), followed.upper)
    np.testing.assert_allclose(
        np.sum(halves**2, axis=1), np.sum(B * np.linalg.solve(followed.A, B.T).T, axis=1), rtol=1e-9
    )
    solved = followed.factor.backward(halves)
    np.testing.assert_allclose(solved, np.linalg.solve(followed.A, B.T).T, rtol=1e-8, atol=1e-12)
    followed.check()


def test_solve_and_solve_one_agree_with_a_general_solver(rng):
    followed = Followed(rng)
    B = rng.normal(size=(4, 20))
    expected = np.linalg.solve(followed.A, B.T).T
    np.testing.assert_allclose(followed.factor.solve(B), expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(followed.factor.solve_one(B[0]), expected[0], rtol=1e-8, atol=1e-12)


def test_ten_thousand_updates_drift_less_than_a_rebuild_would_notice(rng, monkeypatch):
    monkeypatch.setattr(factor_module, "CHECK_EVERY", 10**9)
    followed = Followed(rng, d=12)
    for row in rng.normal(size=(10_000, 1, 12)):
        followed.add(row)
        followed.factor.bring_up_to_date(followed.upper)
    assert followed.factor.drift(followed.upper()) < 1e-12
    followed.check()


def test_an_update_also_solves_for_its_own_row(rng):
    """R'⁻ᵀ r comes out of the rotations that brought r in."""
    rows = rng.normal(size=(20, 6))
    rows[:, 2] *= rng.integers(0, 2, 20)  # zeros need no rotation
    matrix = rows.T @ rows + np.eye(6)
    factor = Factor(6)
    factor.bring_up_to_date(lambda: np.triu(matrix))
    row, other = rng.normal(size=6), rng.normal(size=(2, 6))
    row[3] = 0.0
    factor.add(row)
    grown = matrix + np.outer(row, row)
    half, halves = factor.forward_with_row(other.copy(), lambda: np.triu(grown))
    lower = np.linalg.cholesky(grown)
    np.testing.assert_allclose(half, np.linalg.solve(lower, row), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(halves, np.linalg.solve(lower, other.T).T, rtol=1e-10)
