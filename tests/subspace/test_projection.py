"""Hypotheses and refinement against plain least squares."""

import numpy as np
import pytest

from everlearn.subspace.kernels import explanation_costs, trimmed_fits
from everlearn.subspace.projection import RobustProjector, random_subsets


@pytest.fixture
def model(rng):
    components = np.linalg.qr(rng.normal(size=(50, 4)))[0].T
    return rng.uniform(0, 255, 50), components, np.array([90.0, 40.0, 20.0, 10.0])


def ridge_oracle(components, difference, pixels, ridge):
    """Ridge regression as an ordinary least-squares problem with extra rows."""
    rows = np.vstack([components[:, pixels].T, np.diag(np.sqrt(ridge))])
    target = np.concatenate([difference[pixels], np.zeros(len(ridge))])
    return np.linalg.lstsq(rows, target, rcond=None)[0]


def test_a_fit_without_outliers_is_ridge_regression(rng, model):
    _, components, _ = model
    difference = rng.normal(size=50)
    ridge = np.array([0.1, 0.2, 0.3, 0.4])
    subsets = np.array([rng.choice(50, 20, replace=False) for _ in range(5)])
    visible = rng.random(50) < 0.8
    fits = trimmed_fits(
        np.ascontiguousarray(components.T), difference, visible, subsets, ridge, 1e9, 4
    )
    for subset, fit in zip(subsets, fits, strict=True):
        pixels = subset[visible[subset]]
        np.testing.assert_allclose(fit, ridge_oracle(components, difference, pixels, ridge))


def test_trimming_leaves_out_the_outliers(rng, model):
    _, components, _ = model
    truth = np.array([5.0, -3.0, 2.0, 1.0])
    difference = truth @ components
    difference[[3, 17, 30]] += 100.0
    subsets = np.arange(50)[None]
    fits = trimmed_fits(
        np.ascontiguousarray(components.T),
        difference,
        np.ones(50, dtype=bool),
        subsets,
        np.full(4, 1e-9),
        1e-3,
        8,
    )
    np.testing.assert_allclose(fits[0], truth, atol=1e-6)


def test_costs_count_unexplained_pixels_errors_and_prior(rng, model):
    _, components, variances = model
    difference = rng.normal(scale=3.0, size=50)
    visible = rng.random(50) < 0.9
    fits = rng.normal(size=(6, 4))
    costs = explanation_costs(
        np.ascontiguousarray(components.T), difference, visible, fits, 1 / variances, 2.0, 4.0
    )
    for fit, cost in zip(fits, costs, strict=True):
        errors = (difference - fit @ components)[visible]
        expected = np.minimum(errors**2, 16.0).sum() / 4.0 + (fit**2 / variances).sum()
        np.testing.assert_allclose(cost, expected)


def test_a_large_uniform_occluder_is_found(rng):
    """A block of one grey level over 30 % of the image, which random pixels would not reveal."""
    rows, columns = np.mgrid[0:20, 0:20] / 20
    waves = [np.sin(2 * np.pi * (a * rows + b * columns)) for a in (0, 1, 2) for b in (0, 1, 2)]
    components = np.linalg.qr(np.array([w.ravel() for w in waves[1:]]).T)[0].T
    mean = np.full(400, 120.0)
    projector = RobustProjector(
        mean,
        components,
        np.full(8, 300.0**2),
        scale=1.0,
        threshold=8.0,
        subsets=random_subsets(400, 8, 24, (20, 20), 0.4, 0),
        image_shape=(20, 20),
    )
    hits = []
    for _ in range(60):
        coefficients = rng.normal(scale=300.0, size=8)
        truth = mean + coefficients @ components + rng.normal(size=400)
        top, left = rng.integers(0, 10, 2)
        block = np.zeros((20, 20), dtype=bool)
        block[top : top + 11, left : left + 11] = True
        image = np.where(block.ravel(), 30.0, truth)
        found = projector.explain(image, np.zeros(400, dtype=bool))
        changed = np.abs(image - truth) > 8.0
        hits.append(np.mean(found.outliers == changed) > 0.97)
        if hits[-1]:
            np.testing.assert_allclose(found.coefficients, coefficients, atol=10.0)
    assert np.mean(hits) >= 0.8  # 93 % of a thousand


def test_smoothing_averages_squares_over_a_window(model, rng):
    mean, components, variances = model
    projector = RobustProjector(
        mean,
        components[:0],
        variances[:0],
        scale=1.0,
        threshold=2.0,
        subsets=np.empty((0, 0), dtype=np.int64),
        image_shape=(5, 10),
        smoothing=3,
    )
    residual = rng.normal(size=(5, 10))
    scores = projector.explain(mean + residual.ravel(), np.zeros(50, dtype=bool)).scores
    inner = np.sqrt((residual[1:4, 3:6] ** 2).mean()) / 2.0
    np.testing.assert_allclose(scores.reshape(5, 10)[2, 4], inner)


def test_windows_stay_inside_the_image():
    subsets = random_subsets(600, 3, 40, (20, 30), 0.4, 0)
    rows, columns = np.divmod(subsets, 30)
    assert (np.ptp(rows, axis=1) < 8).all()
    assert (np.ptp(columns, axis=1) < 12).all()
    assert len({tuple(sorted(subset)) for subset in subsets.tolist()}) == 40
