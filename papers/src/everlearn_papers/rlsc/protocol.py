"""The protocol of Camoriano et al. (2017, Sec. VI-A): all classes but one, then that one.

All classes but one are learned from the same number of examples; then examples of the rare class
arrive one by one. For each α, λ is chosen on validation examples of the balanced classes (caption
of Fig. 2) from 20 values between 1 and 1e-3 times the number of examples. The statistics are
accumulated once, since λ and α enter only the solution.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.evaluation.metrics import accuracy, rare_class_accuracy
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.streams.examples import DataSet, Examples
from everlearn.streams.orderings import balanced_then_rare
from everlearn_papers.data import packs
from everlearn_papers.repeat import Result
from everlearn_papers.rlsc.categories import held_out_objects

REGULARIZATIONS = np.logspace(0, -3, 20)
RECODINGS = tuple(round(0.1 * step, 1) for step in range(11))
MNIST_RARE = 8
# Settings of Table I, MNIST.
MNIST: dict[str, Any] = {
    "data": "mnist",
    "n_balanced": 1000,
    "n_test": 200,
    "sizes": [1, 5, 10, 50, 100, 500],
}
MNIST_SEEDS = 10
# Name of the data set of which a random part is held out in every trial.
BY_CATEGORY = "categories"
SETTINGS = {
    "λ / n": f"{len(REGULARIZATIONS)} from {REGULARIZATIONS[-1]:g} to {REGULARIZATIONS[0]:g}",
    "α": f"{len(RECODINGS)} from {RECODINGS[0]:g} to {RECODINGS[-1]:g}",
}


def imbalance(
    seed: int,
    *,
    data: str,
    rare: int | str,
    n_balanced: int,
    n_test: int,
    sizes: list[int],
    rebalance: bool,
) -> Result:
    """Run one trial of Sec. VI-A; return accuracies in per cent for each number of rare examples.

    ``sweep`` holds them by α (α = 0 is naive), ``RB`` those of rebalancing. Each has the lists
    ``total``, ``rare``, ``balanced``, ``validation`` (by which λ is chosen, and α can be) and
    ``λ / n``, the λ chosen.
    """
    trial = Trial.drawn(seed, data, rare, n_balanced=n_balanced, n_rare=max(sizes), n_test=n_test)
    result: Result = {"sweep": {str(a): _lists() for a in RECODINGS}, "RB": _lists()}
    learner = RecursiveRLSC(recoding=0.0).fit(trial.balanced.X, trial.balanced.y)
    taught = 0
    for size in sizes:
        more = trial.new.take(slice(taught, size))
        learner.partial_fit(more.X, more.y)
        taught = size
        for alpha, chosen in best_answers(learner, trial, RECODINGS).items():
            trial.note(result["sweep"][str(alpha)], *chosen)
        if rebalance:
            other = rebalanced(trial.balanced, trial.new.take(slice(size)))
            trial.note(result["RB"], *best_answers(other, trial, (0.0,))[0.0])
    return result


def by_the_rule(trial: Result, place: int) -> float:
    """Sec. VI-C: return the largest α whose validation accuracy is at least that of α = 0."""
    none = trial["sweep"][str(0.0)]["validation"][place]
    return max(a for a in RECODINGS if trial["sweep"][str(a)]["validation"][place] >= none)


def with_one_regularization(
    seed: int, *, n_balanced: int, sizes: list[int], relative: list[float], recoding: float
) -> Result:
    """Run MNIST with the same fixed λ, relative to the number of examples, for all methods.

    Returns, by method (N, RB, RC), one set of accuracy lists for each λ.
    """
    n_rare = max(sizes)
    trial = Trial.drawn(seed, "mnist", MNIST_RARE, n_balanced=n_balanced, n_rare=n_rare, n_test=200)
    result: Result = {method: [_lists() for _ in relative] for method in ("N", "RB", "RC")}
    for size in sizes:
        new = trial.new.take(slice(size))
        X, y = np.concatenate([trial.balanced.X, new.X]), np.concatenate([trial.balanced.y, new.y])
        plain = RecursiveRLSC().fit(X, y)
        weighted = rebalanced(trial.balanced, new)
        for place, share in enumerate(relative):
            for method, learner, alpha in (
                ("N", plain, 0.0),
                ("RC", plain, recoding),
                ("RB", weighted, 0.0),
            ):
                learner.set_params(regularization=share * len(trial.balanced), recoding=alpha)
                right = learner.score(trial.validation.X, trial.validation.y)
                trial.note(result[method][place], learner.predict(trial.test.X), right, share)
    return result


@dataclass(frozen=True)
class Trial:
    """Training, validation and test examples of one trial."""

    rare: int | str
    balanced: Examples
    new: Examples
    validation: Examples
    test: Examples

    @classmethod
    def drawn(
        cls, seed: int, data: str, rare: int | str, *, n_balanced: int, n_rare: int, n_test: int
    ) -> "Trial":
        """Draw a trial; the validation set is a fifth of the balanced training set's size."""
        rng = np.random.default_rng(seed)
        source = held_out_objects(rng) if data == BY_CATEGORY else _data(data)
        split = balanced_then_rare(
            source.train.y,
            rare,
            n_balanced=n_balanced,
            n_rare=n_rare,
            n_validation=n_balanced // 5,
            seed=rng,
        )
        balanced, new, validation = (
            source.train.take(rows) for rows in (split.balanced, split.rare, split.validation)
        )
        return cls(rare, balanced, new, validation, _drawn(source.test, n_test, rng))

    def note(
        self, lists: dict[str, list[float]], answers: NDArray[Any], validation: float, share: float
    ) -> None:
        """Append accuracies on the test set, in per cent, and λ / n to the lists of a method."""
        of_rare, of_others = rare_class_accuracy(self.test.y, answers, self.rare)
        lists["total"].append(100 * accuracy(self.test.y, answers))
        lists["rare"].append(100 * of_rare)
        lists["balanced"].append(100 * of_others)
        lists["validation"].append(100 * validation)
        lists["λ / n"].append(share)


def best_answers(
    learner: RecursiveRLSC, trial: Trial, recodings: tuple[float, ...]
) -> dict[float, tuple[NDArray[Any], float, float]]:
    """Return test predictions, validation accuracy and λ / n of the best λ, for every α.

    Ties between λ go to the largest.
    Recoding is a scale per class, (N / n_k)^α, so one solution per λ serves every α.
    """
    rows = np.concatenate([trial.validation.X, trial.test.X]).astype(np.float64)
    counts = learner.moments_.counts[learner.registry_.order]
    classes = learner.classes_
    best: dict[float, tuple[NDArray[Any], float, float]] = {}
    for share in REGULARIZATIONS.tolist():
        learner.set_params(regularization=share * len(trial.balanced))
        scores = rows @ learner.coef_.T + learner.intercept_
        for alpha in recodings:
            given = classes[(scores * (counts.sum() / counts) ** alpha).argmax(axis=1)]
            right = accuracy(trial.validation.y, given[: len(trial.validation)])
            if alpha not in best or right > best[alpha][1]:
                best[alpha] = given[len(trial.validation) :], right, share
    return best


def rebalanced(balanced: Examples, new: Examples) -> RecursiveRLSC:
    """Fit Eq. 22: equal total weight for every class, scaled so that the mean weight is 1."""
    X, y = np.concatenate([balanced.X, new.X]), np.concatenate([balanced.y, new.y])
    _, slots, counts = np.unique(y, return_inverse=True, return_counts=True)
    weights = len(y) / (len(counts) * counts)
    return RecursiveRLSC(recoding=0.0).fit(X, y, sample_weight=weights[slots])


def _lists() -> dict[str, list[float]]:
    return {kind: [] for kind in ("total", "rare", "balanced", "validation", "λ / n")}


def _drawn(examples: Examples, n: int, rng: np.random.Generator) -> Examples:
    """Draw up to ``n`` examples of every class."""
    chosen = [
        rng.permutation(np.flatnonzero(examples.y == label))[:n] for label in examples.classes
    ]
    return examples.take(np.concatenate(chosen))


@cache
def _data(name: str) -> DataSet:
    if name == "mnist":
        return packs.mnist()
    return packs.turntable(name)
