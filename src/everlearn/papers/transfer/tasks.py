"""The experiments of Tommasi et al. (2012) on other features: tasks, sources, and one run.

A task is one class against a shared background: some classes that are neither target nor prior,
whose samples are split once, so that sources and targets never share a negative. Samples alternate
between the target class and the background. Everything lives in one Gaussian kernel, precomputed:
the columns are the training samples of the target in the order they are taught, then the samples
of the sources; a prior is then a pair (weights over columns, bias).
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.transfer.kernel import gaussian, mean_squared_distance
from everlearn.transfer.least_squares_svm import LeastSquaresSVM
from everlearn.transfer.multi_kt import MultiKT
from everlearn.transfer.online_transfer import OnlineTransfer
from everlearn.transfer.passive_aggressive import PassiveAggressive
from everlearn.transfer.trol import TROL
from everlearn.transfer.trol_plus import TROLPlus

N_FIRST = 6
N_TRAIN = 30
N_TEST = 50
N_SOURCE = 50
N_SOURCE_BACKGROUND = 300
CHECKPOINTS = (6, 10, 20, 40, 60)
GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)


def unit_rows(X: Any) -> Any:
    X = np.asarray(X, dtype=np.float64)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@dataclass(frozen=True)
class Sources:
    """Least squares SVMs of known classes against the background, in one kernel."""

    X: Any
    weights: Any
    biases: Any
    bandwidth: float
    C: float


def learn_sources(positives: Sequence[Any], background: Any) -> Sources:
    """One source per class, all with the C of least leave-one-out hinge loss."""
    X = np.concatenate([background, *positives])
    bandwidth = mean_squared_distance(X)
    K = gaussian(X, X, bandwidth)
    starts = np.cumsum([len(background), *(len(p) for p in positives)])
    members = [
        np.concatenate([np.arange(len(background)), np.arange(a, b)])
        for a, b in itertools.pairwise(starts)
    ]

    def source(rows: Any, C: float) -> LeastSquaresSVM:
        labels = rows >= len(background)
        kernel = K[np.ix_(rows, rows)]
        return LeastSquaresSVM(C=C, kernel="precomputed", positive=True).fit(kernel, labels)

    def loss(C: float) -> float:
        losses = [
            np.maximum(0.0, 1.0 - np.where(rows >= len(background), 1.0, -1.0) * s.leave_one_out_)
            for rows in members
            for s in [source(rows, C)]
        ]
        return float(np.mean(np.concatenate(losses)))

    C = min(GRID, key=loss)
    weights = np.zeros((len(members), len(X)))
    biases = np.zeros(len(members))
    for j, rows in enumerate(members):
        learned = source(rows, C)
        weights[j, rows] = learned.dual_coef_
        biases[j] = learned.intercept_
    return Sources(X, weights, biases, bandwidth, C)


@dataclass(frozen=True)
class Task:
    """One ordering of one target: kernel rows, labels, and the priors as columns see them."""

    train: Any
    train_y: Any
    test: Any
    test_y: Any
    priors: list[Any]
    C: float


def make_task(
    positives: Any,
    negatives: Any,
    sources: Sources,
    chosen: Iterable[int],
    rng: np.random.Generator,
    n_train: int = N_TRAIN,
    n_test: int = N_TEST,
) -> Task:
    """Draw and order samples; a positive is always followed by a negative.

    The test set has as many negatives as positives; fewer than ``n_test`` of each where the class
    is small.
    """
    n_test = min(n_test, len(positives) - n_train, len(negatives) - n_train)
    ours = positives[rng.permutation(len(positives))]
    theirs = negatives[rng.permutation(len(negatives))]
    train = np.empty((2 * n_train, ours.shape[1]))
    train[0::2], train[1::2] = ours[:n_train], theirs[:n_train]
    test = np.concatenate([ours[n_train : n_train + n_test], theirs[n_train : n_train + n_test]])
    columns = np.concatenate([train, sources.X])
    kernel = gaussian(np.concatenate([train, test]), columns, sources.bandwidth)
    return Task(
        train=kernel[: len(train)],
        train_y=np.arange(len(train)) % 2 == 0,
        test=kernel[len(train) :],
        test_y=np.arange(len(test)) < n_test,
        priors=[
            (np.concatenate([np.zeros(len(train)), sources.weights[j]]), float(sources.biases[j]))
            for j in chosen
        ],
        C=sources.C,
    )


def contenders(task: Task, penalty: str) -> dict[str, Callable[[], Any]]:
    """Every method of the paper, on the same priors."""
    online: dict[str, Any] = {
        "C": 1.0,
        "kernel": "precomputed",
        "intercept": False,
        "positive": True,
    }
    transferring = online | {"n_first": N_FIRST, "batch_C": task.C, "penalty": penalty}
    batch: dict[str, Any] = {"C": task.C, "kernel": "precomputed", "positive": True}
    priors = task.priors
    return {
        "NOTR": lambda: LeastSquaresSVM(**batch),
        "Multi-KT": lambda: MultiKT(priors=priors, penalty=penalty, **batch),
        "PA": lambda: PassiveAggressive(**online),
        "OTL": lambda: OnlineTransfer(priors=priors, **online),
        "M-OTL": lambda: OnlineTransfer(priors=priors, per_source=True, **online),
        "TR-OTL": lambda: OnlineTransfer(priors=priors, transfer=True, **transferring),
        "TROL": lambda: TROL(priors=priors, **transferring),
        "TROL+": lambda: TROLPlus(priors=priors, **transferring),
        "TROL+ (priors)": lambda: TROLPlus(priors=priors, per_source=True, **online),
    }


BATCH = ("NOTR", "Multi-KT")


@dataclass(frozen=True)
class Outcome:
    """Of one method on one task: mistakes on samples 7 to 60, recognition at each checkpoint."""

    mistakes: float
    recognition: tuple[float, ...]


def run(learner: Any, task: Task, *, batch: bool) -> Outcome:
    """Ask about each sample, then teach it; test at the checkpoints."""
    recognition = []
    mistakes = 0
    last = 0
    for t in CHECKPOINTS:
        if batch:
            learner.partial_fit(task.train[last:t], task.train_y[last:t])
        else:
            for x, label in zip(task.train[last:t], task.train_y[last:t], strict=True):
                if last >= N_FIRST:
                    mistakes += bool(learner.predict_one(x)) != bool(label)
                learner.learn_one(x, bool(label))
        recognition.append(float(np.mean(learner.predict(task.test) == task.test_y)))
        last = t
    return Outcome(mistakes, tuple(recognition))


def compare(
    tasks: Iterable[Task], penalty: str, names: Sequence[str] | None = None
) -> dict[str, tuple[Any, Any]]:
    """For each method: mistakes of every task, and recognition of every task at the checkpoints."""
    outcomes: dict[str, list[Outcome]] = {}
    for task in tasks:
        for name, make in contenders(task, penalty).items():
            if names is None or name in names:
                outcomes.setdefault(name, []).append(run(make(), task, batch=name in BATCH))
    return {
        name: (np.array([o.mistakes for o in found]), np.array([o.recognition for o in found]))
        for name, found in outcomes.items()
    }


def table(results: dict[str, tuple[Any, Any]]) -> str:
    """Mistakes and recognition, one row per method."""
    rows = [f"{'':16}mistakes 7-60   " + "".join(f"{t:>8}" for t in CHECKPOINTS)]
    for name, (mistakes, recognition) in results.items():
        error = mistakes.std(ddof=1) / np.sqrt(len(mistakes))
        shown = "" if name in BATCH else f"{mistakes.mean():5.2f} ± {error:.2f}"
        rates = "".join(f"{100 * r:8.1f}" for r in recognition.mean(axis=0))
        rows.append(f"{name:16}{shown:16}{rates}")
    return "\n".join(rows)


def at(results: dict[str, tuple[Any, Any]], name: str, t: int) -> tuple[float, float]:
    """Mean recognition in percent after t samples, and its standard error."""
    rates = 100 * results[name][1][:, CHECKPOINTS.index(t)]
    return float(rates.mean()), float(rates.std(ddof=1) / np.sqrt(len(rates)))


def mistakes(results: dict[str, tuple[Any, Any]], *names: str) -> str:
    """Mean mistakes of some methods as one phrase."""
    return " / ".join(f"{results[name][0].mean():.2f}" for name in names)


def split_background(X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Negatives of the sources, and negatives of the targets."""
    shuffled = X[rng.permutation(len(X))]
    half = min(N_SOURCE_BACKGROUND, len(X) // 2)
    return shuffled[:half], shuffled[half:]
