"""Metrics as functions of labels and accuracies.

Accuracies over time are arrays with one value per checkpoint; ``by_task[t, i]`` is the accuracy on
task (or class) i after learning task t.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.arrays import Array
from everlearn.errors import InvalidParameter, WrongShape


def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """The share of correct answers; NaN if there are none."""
    truth, answers = _pair(y_true, y_pred)
    return float(np.mean(truth == answers)) if len(truth) else float("nan")


def mistake_rate(y_true: ArrayLike, y_pred: ArrayLike) -> Array:
    """The share of mistakes among the first n answers, for every n (online learning)."""
    truth, answers = _pair(y_true, y_pred)
    return np.cumsum(truth != answers) / np.arange(1, len(truth) + 1)


def top_k_accuracy(y_true: ArrayLike, scores: ArrayLike, classes: ArrayLike, k: int) -> float:
    """How often the right class is among the k with the highest scores.

    With fewer than k classes known all of them count; a class without a score is never right.
    """
    truth, values, names = np.asarray(y_true), np.asarray(scores), np.asarray(classes)
    if values.ndim == 1 and len(names) == 2:  # scikit-learn's single column for two classes
        values = np.column_stack([-values, values])
    if values.shape != (len(truth), len(names)):
        raise WrongShape(
            f"scores have shape {values.shape}, expected ({len(truth)}, {len(names)}): "
            "one row per example, one column per class"
        )
    if k < 1:
        raise InvalidParameter(f"k must be 1 or more, not {k}")
    best = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return float(np.mean(np.any(names[best] == truth[:, None], axis=1)))


def per_class_accuracy(
    y_true: ArrayLike, y_pred: ArrayLike, classes: ArrayLike | None = None
) -> Array:
    """The accuracy on each class; NaN for a class without examples."""
    truth, answers = _pair(y_true, y_pred)
    names = np.unique(truth) if classes is None else np.asarray(classes)
    return np.array([accuracy(truth[truth == name], answers[truth == name]) for name in names])


def rare_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike, rare: Any) -> tuple[float, float]:
    """The accuracy on one class, and on all others."""
    truth, answers = _pair(y_true, y_pred)
    of_rare = truth == rare
    return accuracy(truth[of_rare], answers[of_rare]), accuracy(truth[~of_rare], answers[~of_rare])


def confusion(
    y_true: ArrayLike, y_pred: ArrayLike, classes: ArrayLike | None = None
) -> NDArray[np.int64]:
    """Counts: row = true class, column = answer, both in the order of ``classes``."""
    truth, answers = _pair(y_true, y_pred)
    both = np.concatenate([truth, answers])
    names = np.unique(both) if classes is None else np.asarray(classes)
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    for column, name in enumerate(names):
        given = truth[answers == name]
        counts[:, column] = [np.sum(given == other) for other in names]
    return counts


def omega_all(accuracies: ArrayLike, offline: ArrayLike) -> float:
    """Ω_all = mean over checkpoints of accuracy / offline accuracy (Hayes and Kanan 2020, Eq. 8).

    ``offline`` is the accuracy of any reference that learned all data up to the same checkpoint.
    """
    ours, reference = np.asarray(accuracies, float), np.asarray(offline, float)
    if ours.shape != reference.shape or ours.ndim != 1 or not len(ours):
        raise WrongShape(
            f"accuracies have shape {ours.shape} and the reference {reference.shape}; "
            "give one of each per checkpoint"
        )
    if np.any(reference <= 0):
        raise InvalidParameter("the offline reference has accuracy 0 at some checkpoint")
    return float(np.mean(ours / reference))


def forgetting(by_task: ArrayLike) -> float:
    """How far accuracy on a task falls from its best to the end, mean over all but the last task.

    (Chaudhry et al. 2018.) Zero or less means nothing was forgotten.
    """
    table = _tasks(by_task)
    last = len(table) - 1
    best = [np.nanmax(table[task:last, task]) for task in range(last)]
    return float(np.mean(np.array(best) - table[last, :last]))


def backward_transfer(by_task: ArrayLike) -> float:
    """How accuracy on a task changes from when it was learned to the end (Lopez-Paz 2017)."""
    table = _tasks(by_task)
    last = len(table) - 1
    return float(np.mean(table[last, :last] - np.diag(table)[:last]))


def relative_performance(accuracies: ArrayLike, retrained: ArrayLike) -> Array:
    """Accuracy divided by that of retraining on everything (Ristin et al. 2015, Sec. 5).

    NaN where the reference is zero.
    """
    ours, best = np.asarray(accuracies, float), np.asarray(retrained, float)
    return np.divide(ours, best, out=np.full_like(best, np.nan), where=best != 0)


def msre(images: ArrayLike, reconstructions: ArrayLike) -> float:
    """The mean squared reconstruction error per pixel (Skočaj and Leonardis 2002)."""
    true, rebuilt = np.asarray(images, float), np.asarray(reconstructions, float)
    if true.shape != rebuilt.shape:
        raise WrongShape(f"images have shape {true.shape}, reconstructions {rebuilt.shape}")
    return float(np.mean((true - rebuilt) ** 2))


def precision_recall(truth: ArrayLike, found: ArrayLike) -> tuple[float, float]:
    """Precision and recall of boolean masks.

    NaN if nothing was found, or nothing is true.
    """
    true, detected = _pair(truth, found)
    right = np.sum(true.astype(bool) & detected.astype(bool))
    n_found, n_true = np.sum(detected.astype(bool)), np.sum(true.astype(bool))
    precision = float(right / n_found) if n_found else float("nan")
    return precision, float(right / n_true) if n_true else float("nan")


def better_than_chance(
    before: NDArray[np.bool_], after: NDArray[np.bool_], *, deviations: float = 1.0
) -> bool:
    """Whether significantly more answers became right than wrong (McNemar 1947).

    With w answers that became right and l that became wrong, w − l is compared with √(w + l), its
    standard deviation if both changes are equally likely.

    Parameters
    ----------
    before, after : bool arrays of shape (n_examples,)
        Which examples are answered correctly, the same examples in both.
    deviations : float, default=1.0
        Required difference in standard deviations.
    """
    won = int(np.count_nonzero(after & ~before))
    lost = int(np.count_nonzero(before & ~after))
    return won - lost > deviations * math.sqrt(won + lost)


def _pair(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    truth, answers = np.asarray(y_true), np.asarray(y_pred)
    if truth.shape != answers.shape:
        raise WrongShape(
            f"y_true has shape {truth.shape} and y_pred {answers.shape}; give one answer per label"
        )
    return truth.ravel(), answers.ravel()


def _tasks(by_task: ArrayLike) -> Array:
    table = np.asarray(by_task, float)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
        raise WrongShape(
            f"accuracies by task have shape {table.shape}; give a square table of at least 2 tasks"
        )
    return table
