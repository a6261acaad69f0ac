"""Tasks, sources and single runs of the experiments of Tommasi et al. (2012).

A task is one class against a shared background: some classes that are neither target nor prior,
whose samples are split once, so that sources and targets never share a negative. Samples alternate
between the target class and the background. All methods use one precomputed Gaussian kernel: the
columns are the training samples of the target in training order, then the samples of the sources;
a prior is a vector of weights over columns. Sec. 2.2 defines a source as h_j(x) = ŵ_j·x, without
the intercept of its least squares SVM, and so do the priors here. With the intercept, which is also
measured, OTL, M-OTL and TROL+ (priors) change; Multi-KT, and methods initialised by it, absorb it
into their own intercept.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from everlearn.arrays import Array
from everlearn.evaluation.metrics import accuracy
from everlearn.evaluation.protocols import checkpointed, prequential
from everlearn.streams.examples import Examples
from everlearn.streams.orderings import alternating
from everlearn.transfer.kernel import mean_squared_distance, rbf
from everlearn.transfer.least_squares_svm import LeastSquaresSVM
from everlearn.transfer.multi_kt import MultiKT
from everlearn.transfer.online_transfer import OnlineTransfer
from everlearn.transfer.passive_aggressive import PassiveAggressive
from everlearn.transfer.prior_weights import Penalty
from everlearn.transfer.trol import TROL
from everlearn.transfer.trol_plus import TROLPlus
from everlearn_papers.grid import search
from everlearn_papers.transfer.bounds import augmented_bound, hinge_losses

N_FIRST = 6
N_TRAIN = 30
N_TEST = 50
N_SOURCE_BACKGROUND = 300
CHECKPOINTS = (6, 10, 15, 20, 30, 40, 50, 60)
GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
BATCH = ("NOTR", "Multi-KT")
# Variants where the paper is ambiguous: priors with intercepts (Sec. 2.2), features / √k (Eq. 13).
INTERCEPT, SCALED = ", with intercepts", ", scaled"
MULTIPLES = np.linspace(1.0, 10.0, 37)


@dataclass(frozen=True)
class Sources:
    """Least squares SVMs of known classes against the background, in one kernel."""

    X: Any
    weights: Any
    biases: Any
    gamma: float
    C: float


def learn_sources(positives: Sequence[Any], background: Any) -> Sources:
    """Train one source per class, all with the C of lowest leave-one-out hinge loss."""
    X = np.concatenate([background, *positives])
    gamma = 1.0 / mean_squared_distance(X)
    K = rbf(X, X, gamma)
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

    C = search(GRID, lambda C: -loss(C)).best
    weights = np.zeros((len(members), len(X)))
    biases = np.zeros(len(members))
    for j, rows in enumerate(members):
        learned = source(rows, C)
        weights[j, rows] = learned.dual_coef_
        biases[j] = learned.intercept_
    return Sources(X, weights, biases, gamma, C)


@dataclass(frozen=True)
class Task:
    """One sample order of one target: kernel rows, labels, and priors as weights over columns."""

    train: Examples
    test: Examples
    prior_models: list[tuple[Array, float]]  # weights over columns, and intercept
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
    """Draw and order the samples of a task; each positive is followed by a negative.

    The test set has equally many negatives and positives, fewer than ``n_test`` of each if the
    class is small.
    """
    n_test = min(n_test, len(positives) - n_train, len(negatives) - n_train)
    X = np.concatenate([positives, negatives])
    order = alternating(np.arange(len(X)) < len(positives), True, rng)
    taught, rest = order[: 2 * n_train], order[2 * n_train : 2 * (n_train + n_test)]
    asked = np.concatenate([rest[0::2], rest[1::2]])
    columns = np.concatenate([X[taught], sources.X])

    def seen(rows: Any) -> Examples:
        return Examples(rbf(X[rows], columns, sources.gamma), rows < len(positives))

    return Task(
        train=seen(taught),
        test=seen(asked),
        prior_models=[
            (np.concatenate([np.zeros(len(taught)), sources.weights[j]]), float(sources.biases[j]))
            for j in chosen
        ],
        C=sources.C,
    )


def contenders(task: Task, penalty: Penalty) -> dict[str, Callable[[], Any]]:
    """Factories of every method of the paper, with the same priors, and of its variants."""
    steps: dict[str, Any] = {"C": 1.0, "kernel": "precomputed", "fit_intercept": False}
    online: dict[str, Any] = {"online": PassiveAggressive(**steps), "positive": True}
    warm_up = online | {"n_first": N_FIRST, "batch_C": task.C, "penalty": penalty}
    batch: dict[str, Any] = {"C": task.C, "kernel": "precomputed", "positive": True}
    known: dict[str, Any] = {"prior_models": task.prior_models}
    without, with_intercepts = ({**known, "prior_intercepts": given} for given in (False, True))

    def otl(priors: dict[str, Any], sources: Literal["mean", "each", "multi_kt"] = "mean") -> Any:
        return OnlineTransfer(sources=sources, **priors, **online)

    def trol_plus_priors(priors: dict[str, Any], *, scaled: bool = True) -> Any:
        return TROLPlus(sources="each", scale_sources=scaled, **priors, **online)

    return {
        "NOTR": lambda: LeastSquaresSVM(**batch),
        "Multi-KT": lambda: MultiKT(penalty=penalty, **known, **batch),
        "PA": lambda: PassiveAggressive(positive=True, **steps),
        "OTL": lambda: otl(without),
        "M-OTL": lambda: otl(without, "each"),
        "TR-OTL": lambda: OnlineTransfer(sources="multi_kt", **known, **warm_up),
        "TROL": lambda: TROL(**known, **warm_up),
        "TROL+": lambda: TROLPlus(**known, **warm_up),
        "TROL+ (priors)": lambda: trol_plus_priors(without, scaled=False),
        f"TROL+ (priors){SCALED}": lambda: trol_plus_priors(without),
        f"OTL{INTERCEPT}": lambda: otl(with_intercepts),
        f"M-OTL{INTERCEPT}": lambda: otl(with_intercepts, "each"),
        f"TROL+ (priors){SCALED}{INTERCEPT}": lambda: trol_plus_priors(with_intercepts),
    }


@dataclass(frozen=True)
class Outcome:
    """Mistakes since sample 7 and recognition rate of one method on one task, by checkpoint."""

    mistakes: list[float]
    recognition: list[float]


def run(learner: Any, task: Task, *, batch: bool) -> Outcome:
    """Predict each sample, then learn it; evaluate on the test set at the checkpoints."""
    everything = np.arange(len(task.train))
    if batch:
        curve = checkpointed(
            learner, task.train, task.test, everything, every=CHECKPOINTS, batch=len(everything)
        )
        return Outcome([float("nan")] * len(CHECKPOINTS), curve.accuracies)
    recognition: list[float] = []

    def examine(_n_taught: int) -> None:
        recognition.append(accuracy(task.test.y, learner.predict(task.test.X)))

    shown = prequential(learner, task.train.X, task.train.y, stops=CHECKPOINTS, at_stop=examine)
    wrong = np.cumsum((shown.answers != shown.truth)[N_FIRST:])
    return Outcome([0.0, *(float(wrong[t - N_FIRST - 1]) for t in CHECKPOINTS[1:])], recognition)


def bound_of_trol_plus(task: Task, penalty: Penalty) -> float:
    """Upper bound on the mistakes of TROL+ on samples 7 to 60 (Theorem 1).

    It holds for every u; returned is the lowest among multiples of w'_1, the solution of Multi-KT.
    """
    start = contenders(task, penalty)["Multi-KT"]()
    start.partial_fit(task.train.X[:N_FIRST], task.train.y[:N_FIRST])
    said = np.clip(start.decision_function(task.train.X[N_FIRST:]), -1.0, 1.0)
    signs = np.where(task.train.y[N_FIRST:], 1.0, -1.0)
    return min(augmented_bound(c - 1.0, hinge_losses(c * said, signs)) for c in MULTIPLES)


@dataclass(frozen=True)
class Comparison:
    """Results of one method on many tasks; arrays of shape (tasks, checkpoints)."""

    mistakes: Array
    recognition: Array

    def recognised(self, t: int) -> tuple[float, float]:
        """Mean recognition in per cent after t samples, and its standard error."""
        rates = 100 * self.recognition[:, CHECKPOINTS.index(t)]
        return float(rates.mean()), _standard_error(rates)

    def mistaken(self) -> tuple[float, float]:
        """Mean mistakes among samples 7 to 60, and their standard error."""
        return float(self.mistakes[:, -1].mean()), _standard_error(self.mistakes[:, -1])


def compare(
    tasks: Iterable[Task], penalty: Penalty, names: Sequence[str] | None = None
) -> dict[str, Comparison]:
    """Run every method, or those in ``names``, on every task."""
    outcomes: dict[str, list[Outcome]] = {}
    for task in tasks:
        for name, make in contenders(task, penalty).items():
            if names is None or name in names:
                outcomes.setdefault(name, []).append(run(make(), task, batch=name in BATCH))
    return {
        name: Comparison(
            np.array([o.mistakes for o in found]), np.array([o.recognition for o in found])
        )
        for name, found in outcomes.items()
    }


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def split_background(X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Split background samples into negatives of the sources and of the targets."""
    shuffled = X[rng.permutation(len(X))]
    half = min(N_SOURCE_BACKGROUND, len(X) // 2)
    return shuffled[:half], shuffled[half:]
