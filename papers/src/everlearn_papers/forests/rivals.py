"""Baselines of Ristin et al. (2015), on the same features and class orders as the forests.

    classifiers      Table 1a             all classes at once
    metrics          Table 1, Fig. 14     nearest class means in a learned metric (MET+NCM)
    least_squares    Fig. 13              LS-SVM and MULTIpLE

Settings are chosen on held-out training examples (:mod:`everlearn_papers.forests.choosing`).
Features are whitened as for the forests, except for MET+NCM, where the metric replaces whitening.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from everlearn.forest.ncm_forest import NCMForest
from everlearn.forest.svm_forest import SVMForest
from everlearn.learners.learned_metric import STEPS, learned_metric
from everlearn.learners.ncm import NearestClassMean
from everlearn_papers.forests.choosing import (
    CHOOSING_CLASSES,
    CHOOSING_TREES,
    EVERY_STEP,
    HOLD_OUT_EVERY,
    REGULARIZATIONS,
    Choice,
    choice,
    fit,
)
from everlearn_papers.forests.conventional import ConventionalForest
from everlearn_papers.forests.lssvm import IncrementalLSSVM
from everlearn_papers.forests.mondrian import MondrianForest
from everlearn_papers.forests.multiclass_svm import PASSES, MulticlassSVM
from everlearn_papers.forests.protocol import ClassStream, data_set
from everlearn_papers.grid import FURTHER
from everlearn_papers.repeat import Result

LEAST_SQUARES = (1e-5, 1e-4, 1e-3, 1e-2)
# Limit of scikit-learn's solver of MC SVM, which ``max_iter`` does not change: with it, the warning
# that it did not converge is true.
SVM_PASSES = 100_000
TOLERANCE = 1e-4  # of the optimality conditions of MC SVM; scikit-learn's default
MONDRIAN_TREES = 10  # at most: one takes a second
LINEAR_CANDIDATES = 20  # as many random directions at a node as an SVM forest has hyperplanes
NOT_WHITENED = "NCM, not whitened"
SVM, GRADIENT = "MC SVM", "MC SVM, by gradient"

Make = Callable[..., Any]
# Factory taking a setting, a seed and a number of trees; and the candidate settings.
CLASSIFIERS: dict[str, tuple[Make, Sequence[Any]]] = {
    "NCM": (lambda _, seed, trees: NearestClassMean(), (None,)),
    NOT_WHITENED: (lambda _, seed, trees: NearestClassMean(), (None,)),
    SVM: (
        lambda C, seed, trees: LinearSVC(
            multi_class="crammer_singer",
            C=C,
            tol=TOLERANCE,
            max_iter=SVM_PASSES,
            random_state=seed,
        ),
        (1e-4, 1e-3, 1e-2),
    ),
    GRADIENT: (
        lambda lam, seed, trees: MulticlassSVM(lam, seed=seed),
        (1e-3, 1e-2, 1e-1),
    ),
    "KNN": (lambda k, seed, trees: KNeighborsClassifier(k), (1, 5, 10, 20)),
    "RF": (
        lambda smallest, seed, trees: RandomForestClassifier(
            trees, min_samples_leaf=smallest, random_state=seed
        ),
        (1, 5),
    ),
    "RF, axis splits in our trees": (
        lambda tried, seed, trees: ConventionalForest(
            n_estimators=trees, n_candidates=tried, whiten=False, random_state=seed
        ),
        (100, 300),
    ),
    "RF, linear splits in our trees": (
        lambda _, seed, trees: ConventionalForest(
            splits="linear",
            n_estimators=trees,
            n_candidates=LINEAR_CANDIDATES,
            whiten=False,
            random_state=seed,
        ),
        (None,),
    ),
    "MF": (lambda _, seed, trees: MondrianForest(min(trees, MONDRIAN_TREES), seed), (None,)),
    "NCMF": (
        lambda _, seed, trees: NCMForest(n_estimators=trees, whiten=False, random_state=seed),
        (None,),
    ),
    "SVMF": (
        lambda lam, seed, trees: SVMForest(
            n_estimators=trees,
            regularization=lam,
            max_steps=EVERY_STEP,
            whiten=False,
            random_state=seed,
        ),
        REGULARIZATIONS,
    ),
}
SETTINGS = {
    "grids": {name: list(grid) for name, (_, grid) in CLASSIFIERS.items() if len(grid) > 1}
    | {"LSSVM and MULTIpLE": list(LEAST_SQUARES)},
    "further values of a grid": FURTHER,
    "classes to choose with": CHOOSING_CLASSES,
    "held out, one of": HOLD_OUT_EVERY,
    "trees to choose λ of SVMF with": CHOOSING_TREES,
    "most passes of MC SVM": SVM_PASSES,
    "passes by gradient": PASSES,
    "most steps of a metric": STEPS,
    "most trees of MF": MONDRIAN_TREES,
    "random directions at a node": LINEAR_CANDIDATES,
}


def classifiers(
    seed: int,
    *,
    data: str,
    sizes: list[int],
    n_trees: int,
    names: list[str],
    per_class: int | None = None,
) -> Result:
    """Average accuracy and CPU seconds at several numbers of classes, and the grid searches.

    ``ending`` has :func:`ending` of each fit, of the rivals that are optimised iteratively.
    """
    stream = ClassStream.of(data_set(data), sizes[-1], seed).with_examples(per_class)
    whitened = {size: stream.whitened(size) for size in sizes}
    result: Result = {"accuracy": {}, "search": {}, "seconds": {}, "ending": {}}
    for name in names:
        make, settings = CLASSIFIERS[name]
        parts = [(size, stream if name == NOT_WHITENED else whitened[size]) for size in sizes]
        last, widest = parts[-1]
        few = CHOOSING_TREES if name == "SVMF" else n_trees
        found = choice(partial(make, seed=seed, trees=few), settings, widest, last)
        if found.accuracies:
            result["search"][name] = found.as_result()
        result["accuracy"][name], result["seconds"][name], endings = [], [], []
        for size, part in parts:
            made = make(found.setting, seed=seed, trees=n_trees)
            start = time.process_time()
            converged = fit(made, part.between(0, size))
            endings.append(ending(made, converged))
            result["accuracy"][name].append(part.accuracy(made, size))
            result["seconds"][name].append(time.process_time() - start)
        if any(endings):
            result["ending"][name] = endings
    return result


def ending(made: Any, converged: bool) -> Result:
    """How the optimisation of a rival ended; empty if it has none.

    ``steps`` are passes of MC SVM and L-BFGS steps of a metric; ``gap`` is the duality gap as a
    share of the objective; ``loss`` is the loss of a metric, and ``change`` its last decrease.
    """
    if isinstance(made, LinearSVC):
        return {"steps": int(made.n_iter_), "converged": converged}
    if isinstance(made, MulticlassSVM):
        return {"steps": made.passes, "gap": made.gap_}
    if isinstance(made, MetricOfFirst):
        learned = made.learned_
        return {
            "steps": learned.steps,
            "converged": converged,
            "loss": learned.loss,
            "change": learned.change,
        }
    return {}


class MetricOfFirst:
    """Nearest class means in a metric learned on some of the classes.

    Parameters
    ----------
    rank : rank of the metric
    classes : the classes it is learned on; all others only add their means
    most_steps : limit of the steps of its optimisation
    """

    def __init__(self, rank: int, classes: NDArray[Any], most_steps: int = STEPS) -> None:
        self.rank = rank
        self.classes = classes
        self.most_steps = most_steps

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        is_first = np.isin(y, self.classes)
        known, member_of = np.unique(y[is_first], return_inverse=True)
        first = X[is_first]
        means = np.stack([first[member_of == slot].mean(axis=0) for slot in range(len(known))])
        self.learned_ = learned_metric(
            first, member_of, None, means, self.rank, most_steps=self.most_steps
        )
        if not self.learned_.converged:
            late = f"not converged in {self.most_steps} steps"
            warnings.warn(late, ConvergenceWarning, stacklevel=2)
        self._means = NearestClassMean().fit(X @ self.learned_.W.T, y)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self._means.predict(X @ self.learned_.W.T))


def metrics(
    seed: int,
    *,
    data: str,
    initial: list[int],
    checkpoints: list[int],
    ranks: list[int],
    n_features: int | None = None,
    per_class: int | None = None,
) -> Result:
    """MET_k+NCM: a metric learned on the first k classes; later classes only add their means.

    ``"all"`` learns a new metric at every checkpoint. No checkpoint is below the largest k. The
    rank is chosen on the first 50 classes, as all settings of rivals are: held-out examples of k
    classes alone would choose a rank too low for the classes that follow. ``ending`` has
    :func:`ending` of each fit.
    """
    stream = ClassStream.of(data_set(data), checkpoints[-1], seed)
    stream = stream.with_examples(per_class).with_features(n_features)

    def best(n_first: int) -> Choice:
        make = partial(MetricOfFirst, classes=stream.order[:n_first])
        return choice(make, ranks, stream, checkpoints[-1], most=stream.train.X.shape[1])

    result: Result = {"search": {}, "ending": {}}
    firsts = {str(k): [k] * len(checkpoints) for k in initial} | {"all": checkpoints}
    for name, learned_on in firsts.items():
        found = best(learned_on[-1])
        result["search"][name] = found.as_result()
        result[name], result["ending"][name] = [], []
        for n_first, size in zip(learned_on, checkpoints, strict=True):
            made = MetricOfFirst(found.setting, stream.order[:n_first])
            converged = fit(made, stream.between(0, size))
            result[name].append(stream.accuracy(made, size))
            result["ending"][name].append(ending(made, converged))
    return result


def metrics_by_steps(
    seed: int,
    *,
    data: str,
    size: int,
    rank: int,
    limits: list[int],
    n_features: int | None = None,
    per_class: int | None = None,
) -> Result:
    """MET+NCM of all classes with several limits of its steps: whether 30 are too few."""
    stream = ClassStream.of(data_set(data), size, seed)
    stream = stream.with_examples(per_class).with_features(n_features)
    learned = stream.between(0, size)
    result: Result = {"accuracy": [], "ending": []}
    for limit in limits:
        made = MetricOfFirst(rank, stream.order, most_steps=limit)
        converged = fit(made, learned)
        result["accuracy"].append(stream.accuracy(made, size))
        result["ending"].append(ending(made, converged))
    return result


def least_squares(
    seed: int, *, data: str, initial: int, checkpoints: list[int], per_class: int
) -> Result:
    """LS-SVMs updated one class at a time by MULTIpLE, and trained on all classes at once."""
    stream = ClassStream.of(data_set(data), checkpoints[-1], seed)
    stream = stream.with_examples(per_class).whitened(initial)
    found = choice(lambda C: IncrementalLSSVM(C=C), LEAST_SQUARES, stream, checkpoints[-1])
    result: Result = {"C": found.as_result(), "MULTIpLE": [], "LSSVM": []}
    first, *updates = stream.batches(initial, 1)
    made = IncrementalLSSVM(C=found.setting).fit(first.X, first.y)
    for size, batch in enumerate(updates, start=initial + 1):
        made.partial_fit(batch.X, batch.y)
        if size in checkpoints:
            everything = stream.between(0, size)
            fresh = IncrementalLSSVM(C=found.setting).fit(everything.X, everything.y)
            result["LSSVM"].append(stream.accuracy(fresh, size))
            result["MULTIpLE"].append(stream.accuracy(made, size))
    return result
