"""Slow and obvious references for the transfer learners."""

import numpy as np


def passive_aggressive(X, signs, C=1.0, variant="pa1", w=None):
    """Crammer et al. (2006), line by line; returns the weights and the mistakes."""
    w = np.zeros(X.shape[1]) if w is None else np.array(w, dtype=float)
    mistakes = 0
    for x, y in zip(X, signs, strict=True):
        mistakes += y * (w @ x) <= 0
        loss = max(0.0, 1.0 - y * (w @ x))
        norm = x @ x
        if loss == 0.0 or norm == 0.0:
            continue
        tau = {
            "pa": loss / norm,
            "pa1": min(C, loss / norm),
            "pa2": loss / (norm + 1.0 / (2.0 * C)),
        }[variant]
        w = w + tau * y * x
    return w, mistakes


def kernel_passive_aggressive(K, signs, C=1.0):
    """The dual form over a full kernel matrix: coefficients of all examples."""
    coefficients = np.zeros(len(signs))
    for t, y in enumerate(signs):
        loss = max(0.0, 1.0 - y * (coefficients[:t] @ K[:t, t]))
        coefficients[t] = y * min(C, loss / K[t, t])
    return coefficients


def rbf(A, B, gamma):
    return np.array([[np.exp(-gamma * ((a - b) ** 2).sum()) for b in B] for a in A])


def mean_pairwise_squared_distance(X):
    n = len(X)
    return np.mean([((X[i] - X[j]) ** 2).sum() for i in range(n) for j in range(n) if i != j])


def least_squares_svm(K, targets, C, weights=None):
    """α and b from the whole saddle-point system."""
    n = len(K)
    weights = np.ones(n) if weights is None else weights
    G = np.zeros((n + 1, n + 1))
    G[:n, :n] = K + np.diag(1.0 / (C * weights))
    G[:n, n] = G[n, :n] = 1.0
    solution = np.linalg.solve(G, np.append(targets, 0.0))
    return solution[:n], solution[n]


def multi_kt_leave_one_out(K, signs, H, beta, C):
    """Train without each example in turn, with these β, and predict it."""
    predictions = []
    for i in range(len(signs)):
        rest = np.delete(np.arange(len(signs)), i)
        alpha, b = least_squares_svm(K[np.ix_(rest, rest)], (signs - H @ beta)[rest], C)
        predictions.append(K[i, rest] @ alpha + b + H[i] @ beta)
    return np.array(predictions)


def normalised(value):
    return max(0.0, min(1.0, (value + 1.0) / 2.0))


def online_transfer(X, signs, sources, C=1.0):
    """Eq. 6-8 with a linear Passive-Aggressive learner; margins, weights over time."""
    w = np.zeros(X.shape[1])
    k = len(sources)
    weights = [1.0 / (2 * k)] * k + [0.5]
    margins, history = [], [list(weights)]
    for x, y in zip(X, signs, strict=True):
        answers = [normalised(h(x)) for h in sources] + [normalised(w @ x)]
        mixed = sum(a * b for a, b in zip(weights, answers, strict=True))
        margins.append(2.0 * (mixed - 0.5))
        kept = [
            a * np.exp(-0.5 * (b - normalised(y)) ** 2)
            for a, b in zip(weights, answers, strict=True)
        ]
        weights = [a / sum(kept) for a in kept]
        history.append(list(weights))
        loss = max(0.0, 1.0 - y * (w @ x))
        w = w + min(C, loss / (x @ x)) * y * x
    return np.array(margins), np.array(history)


def two_classes(rng, n, d=6, gap=1.0):
    """Alternating examples of two overlapping classes, and their signs."""
    signs = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += gap * signs
    return X, signs


def hinge_loss(beta, c, D, s):
    """Σ s_i max(0, c_i − D_i·β)."""
    return float(s @ np.maximum(0.0, c - D @ beta))
