"""Scores that follow the moments, with the next factor made in slices."""

import copy
import pickle

import numpy as np
import pytest

from everlearn import StreamingLDA
from everlearn.learners.closed_form import running_discriminant
from everlearn.learners.closed_form.discriminant import RIDGE_GRID
from everlearn.learners.closed_form.running_discriminant import NextSolution, solution_for
from everlearn.statistics.next_factor_kernels import factor_rows

WIDTH = 24


@pytest.fixture
def thin_slices(monkeypatch):
    """Slices so thin that a factor takes many calls."""
    monkeypatch.setattr(running_discriminant, "LEAST_SLICE", 0.0)
    monkeypatch.setattr(running_discriminant, "TRANSPOSED", 5)
    monkeypatch.setattr(running_discriminant, "QUESTIONS", 0.8)


def expected_scores(learner, x, ridge):
    moments = learner.moments_.copy()
    A = moments.scatter() + ridge * np.eye(WIDTH)
    gaps = x - moments.means
    scores = -0.5 * np.einsum("ki,ki->k", gaps, np.linalg.solve(A, gaps.T).T)
    return scores - scores.mean()


@pytest.mark.parametrize("d", [1, 7, 8, 9, 40])
@pytest.mark.parametrize("step", [1, 3, 8, 40])
def test_the_factor_computed_row_by_row_is_the_cholesky_factor(rng, d, step):
    X = rng.normal(size=(2 * d, d))
    A = X.T @ X + np.eye(d)
    R = np.triu(A)
    for start in range(0, d, step):
        assert factor_rows(R, start, min(d, start + step))
    np.testing.assert_allclose(R, np.linalg.cholesky(A).T, rtol=1e-10, atol=1e-10)


def test_an_indefinite_matrix_is_detected():
    assert not factor_rows(np.array([[1.0, 2.0], [0.0, 1.0]]), 0, 2)


def test_every_answer_is_exact_for_the_ridge_in_use(rng, thin_slices):
    """While the next factor is being made, examples and classes keep coming."""
    learner, used = StreamingLDA(shrinkage=0.2), []
    centres = 3 * rng.normal(size=(12, WIDTH))
    for step in range(600):
        label = int(rng.integers(1 + min(11, step // 20)))
        learner.learn_one(centres[label] + rng.normal(size=WIDTH), label)
        if step % 5 == 4:  # now and then two examples between two questions
            continue
        x = rng.normal(size=WIDTH)
        scores = learner._scores_one(x)
        used.append(learner._running.ridge)
        np.testing.assert_allclose(
            scores - scores.mean(), expected_scores(learner, x, used[-1]), rtol=1e-6, atol=1e-9
        )
    wanted = 0.2 * learner.moments_.scatter_trace / WIDTH / 0.8
    assert len(set(used)) > 20
    # Late by no more than the slices of one factor.
    assert wanted / RIDGE_GRID**2 <= used[-1] <= wanted * 1.05


def test_a_solution_in_slices_equals_one_at_once(rng, thin_slices):
    learner = StreamingLDA()
    X, y = rng.normal(size=(300, WIDTH)), rng.integers(0, 9, 300)
    learner.partial_fit(X[:250], y[:250])
    moments = learner.moments_
    coming = NextSolution(moments, 3)
    n_steps = 0
    for x, slot in zip(X[250:], y[250:], strict=True):
        row = moments.add_one(x, learner.registry_.find(int(slot)))
        coming.follow(row[None], (learner.registry_.find(int(slot)),))
    while not coming.step():
        n_steps += 1
    assert n_steps > 10
    at_once = solution_for(moments, 3)
    x = rng.normal(size=WIDTH)
    ours, theirs = coming.solution.scores_one(x, moments), at_once.scores_one(x, moments)
    np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), rtol=1e-9, atol=1e-9)


def test_a_changed_parameter_takes_effect_immediately(rng, thin_slices):
    learner = StreamingLDA(shrinkage=0.01)
    learner.partial_fit(rng.normal(size=(200, WIDTH)), rng.integers(0, 5, 200))
    learner.predict_one(np.zeros(WIDTH))
    learner.set_params(shrinkage=0.5)
    learner.predict_one(np.zeros(WIDTH))
    wanted = learner.moments_.scatter_trace / WIDTH
    assert wanted / 1.05 <= learner._running.ridge <= wanted * 1.05


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_made_during_the_work_continues_identically(rng, thin_slices, copied):
    learner = StreamingLDA()
    X, y = rng.normal(size=(400, WIDTH)), rng.integers(0, 5, 400)
    twin = None
    for index, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        for one in (learner, twin):
            if one is not None:
                one.learn_one(x, label)
                one.predict_one(x)
        if index == 200:
            twin = copied(learner)
    new = rng.normal(size=(50, WIDTH))
    assert [learner.predict_one(x) for x in new] == [twin.predict_one(x) for x in new]
