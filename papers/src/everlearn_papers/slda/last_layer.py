"""The last layer of a network, trained as Hayes and Kanan (2020) train it.

    Offline        everything seen so far, to convergence (their upper bound for an output layer)
    Fine-Tuning    trained offline on the base batch, then one step per example, each seen once

Fine-tuning has two learning rates, one for the epochs over the base batch and one for the single
steps of the stream: a rate that trains the base well is far too large for single steps.

Both are baselines for streaming learners.
"""

import math
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from everlearn.evaluation.metrics import accuracy, top_k_accuracy
from everlearn.evaluation.protocols import checkpointed
from everlearn.learners.softmax import Descent, SoftmaxLayer
from everlearn.streams.examples import Examples, Indices
from everlearn_papers.grid import Found, search

# Appendix of the paper, CORe50.
EPOCHS, DECAY_AT, DECAY, BATCH = 40, (15, 30), 0.1, 256
MOMENTUM, WEIGHT_DECAY = 0.9, 1e-4
# Learning rates to choose from: ExStream's, fine-tuning's on the base batch and on the stream. A
# rate of 0 leaves the layer as trained on the base batch and is the lower bound. All these grids,
# and that of the offline layer's 1 / weight decay, are extended while the best is at an end.
RATES, BASE_RATES = (0.001, 0.01, 0.1), (0.01, 0.1, 1.0)
# Above this rate training on the base batch does not converge, and the rate that is best on
# held-out examples is not the best on others.
LARGEST_BASE_RATE = 10.0
STREAM_RATES = (0.0, 0.000001, 0.00001, 0.0001, 0.001, 0.01)
INVERSE_DECAYS, MAX_ITERATIONS = (0.01, 0.1, 1.0), 1000
# Learning rates are chosen with every HOLD_OUT_EVERY-th training example held out; ExStream is
# slow, so its rate is chosen on the first CHOOSING_CLASSES classes.
HOLD_OUT_EVERY, CHOOSING_CLASSES = 6, 20


class LastLayer:
    """A softmax layer: the first call trains it for many epochs, each later call makes one step.

    All classes are declared at the first call, as the outputs of a network are.

    Parameters
    ----------
    base_rate, stream_rate : float
        Learning rates of the epochs over the first batch and of the single steps after it.
    seed : int
    bases : dict
        Cache, shared between instances, of layers trained on the same first batch, keyed by
        base rate.
    """

    layer_: SoftmaxLayer
    classes_: NDArray[Any]

    def __init__(
        self,
        base_rate: float,
        stream_rate: float,
        seed: int = 0,
        bases: dict[float, SoftmaxLayer] | None = None,
    ) -> None:
        self.base_rate = base_rate
        self.stream_rate = stream_rate
        self.seed = seed
        self.bases = {} if bases is None else bases

    def partial_fit(self, X: NDArray[Any], y: NDArray[Any], classes: NDArray[Any]) -> Self:
        rows = np.asarray(X, np.float32)
        slots = np.searchsorted(classes, y)
        if hasattr(self, "layer_"):
            step = Descent(self.stream_rate, MOMENTUM, WEIGHT_DECAY, 1)
            self.layer_.sweep(rows, slots, step)
            return self
        self.classes_ = classes
        if self.base_rate not in self.bases:
            self.bases[self.base_rate] = self._trained(rows, slots)
        self.layer_ = deepcopy(self.bases[self.base_rate])
        return self

    def _trained(self, rows: NDArray[Any], slots: NDArray[Any]) -> SoftmaxLayer:
        layer = SoftmaxLayer(rows.shape[1])
        layer.grow(len(self.classes_))
        rng = np.random.default_rng(self.seed)
        for epoch in range(EPOCHS):
            rate = self.base_rate * DECAY ** sum(epoch >= moment for moment in DECAY_AT)
            layer.sweep(rows, slots, Descent(rate, MOMENTUM, WEIGHT_DECAY, BATCH), rng)
        return layer

    def decision_function(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.layer_.scores(X)

    def predict(self, X: NDArray[Any], among: Iterable[Any] | None = None) -> NDArray[Any]:
        return answers(self.decision_function(X), self.classes_, among)


class OfflineLayer:
    """The last layer trained to convergence on everything at once, by L-BFGS.

    The weight decay is chosen with every sixth example held out; then the layer is trained on all
    examples. With few examples, 40 epochs of gradient descent reach less, which would be no upper
    bound for an output layer. ``top`` is the k of top-k accuracy, also when choosing the decay.
    """

    classes_: NDArray[Any]

    def __init__(self, top: int = 1) -> None:
        self.top = top

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        rows = np.asarray(X, np.float32)
        order = np.argsort(y, kind="stable")  # holds out some examples of every class
        held = np.zeros(len(y), dtype=bool)
        held[order[HOLD_OUT_EVERY - 1 :: HOLD_OUT_EVERY]] = True
        learned, labels = rows[~held], y[~held]
        asked = Examples(rows[held], y[held])
        # The loss is convex, so a warm start saves time and does not change the solution.
        self.layer_ = LogisticRegression(tol=1e-4, max_iter=MAX_ITERATIONS, warm_start=True)

        def hits(inverse_decay: float) -> float:
            layer = self.layer_.set_params(C=inverse_decay).fit(learned, labels)
            return hit_rate(layer, asked, self.top)

        self.found_ = search(INVERSE_DECAYS, hits)
        self.layer_.set_params(C=self.found_.best).fit(rows, y)
        self.classes_ = self.layer_.classes_
        self.converged_ = bool(np.all(self.layer_.n_iter_ < MAX_ITERATIONS))
        return self

    def decision_function(self, X: NDArray[Any]) -> NDArray[Any]:
        scores: NDArray[Any] = self.layer_.decision_function(np.asarray(X, np.float32))
        return scores if scores.ndim == 2 else np.column_stack([-scores, scores])

    def predict(self, X: NDArray[Any], among: Iterable[Any] | None = None) -> NDArray[Any]:
        return answers(self.decision_function(X), self.classes_, among)


def hit_rate(estimator: Any, asked: Examples, top: int = 1) -> float:
    """Return the top-k accuracy for k = ``top``."""
    if top == 1:
        return accuracy(asked.y, estimator.predict(asked.X))
    scores = estimator.decision_function(asked.X)
    return top_k_accuracy(asked.y, scores, estimator.classes_, top)


def answers(
    scores: NDArray[Any], classes: NDArray[Any], among: Iterable[Any] | None = None
) -> NDArray[Any]:
    """Return the class with the highest score for each row, restricted to ``among`` if given."""
    if among is not None:
        scores = np.where(np.isin(classes, list(among)), scores, -np.inf)
    chosen: NDArray[Any] = classes[scores.argmax(axis=1)]
    return chosen


def held_out(
    learner: Any,
    train: Examples,
    order: Indices,
    *,
    base: int,
    every: int,
    n_classes: int | None = None,
    top: int = 1,
) -> float:
    """Return a learner's score on held-out training examples, under the same ordering.

    The score is the mean over the checkpoints of the hit rate on held-out examples of the classes
    seen so far: Ω_all without its normalisation. The test set is not used. ``n_classes`` cuts the
    stream to its first classes, and scales base batch and checkpoints accordingly.

    Parameters
    ----------
    learner : an unfitted estimator
    train, order : the examples, and the order of the stream
    base : number of examples in the base batch
    every : number of examples between checkpoints
    n_classes : number of classes used; all by default
    top : the k of top-k accuracy
    """
    labels, first = np.unique(train.y[order], return_index=True)
    earliest = labels[np.argsort(first)][:n_classes]
    part = order[np.isin(train.y[order], earliest)]
    validation = train.take(part[::HOLD_OUT_EVERY])
    learned = np.delete(part, np.s_[::HOLD_OUT_EVERY])
    share = len(learned) / len(order)
    curve = checkpointed(
        learner,
        train,
        validation,
        learned,
        every=math.ceil(every * share),
        base=math.ceil(base * share),
        batch=math.ceil(every * share),
        only_seen=True,
        score=lambda estimator, asked: hit_rate(estimator, asked, top),
    )
    return float(np.mean(curve.accuracies))


def fine_tuning_rates(
    train: Examples, order: Indices, *, every: int, seed: int, top: int = 1
) -> tuple[Found, Found]:
    """Search the base rate, and for each the stream rate; return both searches at the best."""
    bases: dict[float, SoftmaxLayer] = {}
    streams: dict[float, Found] = {}

    def score(base_rate: float) -> float:
        def at(rate: float) -> float:
            layer = LastLayer(base_rate, rate, seed, bases)
            return held_out(layer, train, order, base=every, every=every, top=top)

        streams[base_rate] = search(STREAM_RATES, at)
        return max(streams[base_rate].tried.values())

    found = search(BASE_RATES, score, most=LARGEST_BASE_RATE)
    return found, streams[found.best]
