"""Slow and obvious references for the eigenspace learners."""

import numpy as np


def batch_pca(X, n_components=None, weights=None):
    """Mean, components and scatter of a (weighted) set of images, by one SVD."""
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    mean = weights @ X / weights.sum()
    _, singular, components = np.linalg.svd(np.sqrt(weights)[:, None] * (X - mean))
    keep = np.flatnonzero(singular > 1e-9 * singular[0])
    keep = keep[:n_components]
    return mean, components[keep], singular[keep] ** 2


def published_incremental_pca(X, n_components):
    """Sec. 3, steps 1-11, with the images as columns and all coefficients moved at every step."""
    mean = X[0].copy()
    U = np.zeros((X.shape[1], 0))
    A = np.zeros((0, 1))
    for x in X[1:]:
        a = U.T @ (x - mean)
        y = U @ a + mean
        r = x - y
        r -= U @ (U.T @ r)
        length = np.linalg.norm(r)
        U_ = np.column_stack([U, r / length])
        A_ = np.block([[A, a[:, None]], [np.zeros((1, A.shape[1])), np.full((1, 1), length)]])
        mean_ = A_.mean(axis=1, keepdims=True)
        _values, E = np.linalg.eigh((A_ - mean_) @ (A_ - mean_).T)
        E = E[:, ::-1][:, :n_components]
        A = E.T @ (A_ - mean_)
        mean = mean + (U_ @ mean_)[:, 0]
        U = U_ @ E
    return mean, U.T, A.T


def subspace_distance(first, second):
    """The sine of the largest angle between the spans of two sets of orthonormal rows."""
    assert first.shape == second.shape
    return np.linalg.norm(second - second @ first.T @ first, 2)
