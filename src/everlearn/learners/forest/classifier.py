"""What all forests share as learners.

A forest promises less than the closed-form learners: what it becomes depends on the order in which
classes arrive, two forests have no sum, and forgetting takes an example out of the statistics but
not out of the splitting functions it helped to choose. What holds is said in ``docs/forests.md``.

While one thread teaches, others may ask: teaching builds new trees beside the old ones and puts
labels and trees in place in one step, so an answer comes from the forest before or after a batch,
never from one in between.
"""

import math
import os
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from everlearn.base import Array, Slots, State, StreamingClassifier
from everlearn.errors import InvalidParameter
from everlearn.learners.forest.grove import NODE_SAMPLINGS, UPDATES, Batch, Grove, Growth
from everlearn.learners.whitening import Whitening
from everlearn.statistics.labels import Label, Labels

# Parameters that two forests need not share to be merged.
PRIVATE_PARAMETERS = ("random_state", "n_jobs", "n_estimators")


class ForestClassifier(StreamingClassifier):
    """A forest whose leaves refer to stored examples. Its subclasses say how nodes split."""

    n_estimators: int
    update: str
    update_fraction: float
    node_sampling: str
    min_samples: float
    n_candidates: int
    memory: int | None
    whiten: bool
    random_state: Any
    n_jobs: int | None

    groves_: tuple[Grove, ...]
    seed_: int
    n_batches_: int

    _updates: Sequence[str] = UPDATES

    @property
    def bounded_memory(self) -> bool:
        """Whether memory stays within limits however long the stream: with a budget it does."""
        return self.memory is not None

    def learn_one(self, x: ArrayLike, y: Label) -> Self:
        """Learn one example."""
        vector = self._vector(x, "learn_one")
        known = self.labels_ if hasattr(self, "labels_") else Labels()
        return self.partial_fit(vector[None], [known.read(y)])

    def predict(self, X: ArrayLike, *, among: Iterable[Label] | None = None) -> NDArray[Any]:
        return super(ForestClassifier, self._as_it_is()).predict(X, among=among)

    def predict_proba(self, X: ArrayLike, *, among: Iterable[Label] | None = None) -> Array:
        """The class distributions at the leaves, averaged over the trees (Eq. 2).

        With ``among``, the shares of those classes alone; even shares where none of them has any.
        """
        now = self._as_it_is()
        masked = now._masked(now._sorted_scores(now._rows(X)), among)
        allowed = np.isfinite(masked)
        shares: Array = np.where(allowed, masked, 0.0)
        totals = shares.sum(axis=1, keepdims=True)
        shares = np.where(totals > 0, shares, allowed)
        return shares / shares.sum(axis=1, keepdims=True)

    def decision_function(self, X: ArrayLike) -> Array:
        return super(ForestClassifier, self._as_it_is()).decision_function(X)

    def predict_one(self, x: ArrayLike, *, among: Iterable[Label] | None = None) -> Label:
        return super(ForestClassifier, self._as_it_is()).predict_one(x, among=among)

    @property
    def n_trees_(self) -> int:
        """How many trees there are; more than ``n_estimators`` after a merge."""
        return sum(len(grove.trees) for grove in self.groves_)

    @property
    def n_nodes_(self) -> NDArray[np.int64]:
        """The number of nodes of each tree."""
        from everlearn.kernels.forest.tree import subtree

        return np.array([len(subtree(tree, 0)) for tree in self._trees()])

    @property
    def n_stored_(self) -> int:
        """How many examples are stored."""
        return sum(len(grove.examples.stored) for grove in self.groves_)

    # Parameters.

    def _check_parameters(self) -> None:
        self._require_whole("n_estimators", 1)
        self._require_whole("n_candidates", 1)
        self._require_range("min_samples", 0.0, math.inf)
        self._require_range("update_fraction", 0.0, 1.0)
        if self.memory is not None:
            self._require_whole("memory", 1)
        if self.n_jobs is not None and self.n_jobs != -1:
            self._require_whole("n_jobs", 1)
        if self.update not in self._updates:
            raise InvalidParameter(
                f"update is one of {', '.join(self._updates)}, not {self.update!r}"
            )
        if self.node_sampling not in NODE_SAMPLINGS:
            raise InvalidParameter(
                f"node_sampling is one of {', '.join(NODE_SAMPLINGS)}, not {self.node_sampling!r}"
            )

    def _require_whole(self, name: str, least: int) -> None:
        value: Any = getattr(self, name)
        if type(value) is bool or not isinstance(value, Integral) or int(value) < least:
            raise InvalidParameter(f"{name} is a whole number from {least} on, not {value!r}")

    def _require_range(self, name: str, least: float, most: float) -> None:
        value: Any = getattr(self, name)
        number = type(value) is not bool and isinstance(value, Real)
        if not (number and least <= value <= most):
            limit = "" if most == math.inf else f" to {most:g}"
            raise InvalidParameter(f"{name} is a number from {least:g}{limit}, not {value!r}")

    def _require_same_parameters(self, other: StreamingClassifier) -> None:
        theirs = other.get_params(deep=False)
        twin = type(self)(**{n: v for n, v in theirs.items() if n not in PRIVATE_PARAMETERS})
        ours = self.get_params(deep=False)
        mine = type(self)(**{n: v for n, v in ours.items() if n not in PRIVATE_PARAMETERS})
        super(ForestClassifier, mine)._require_same_parameters(twin)

    def _growth(self, n_classes: int) -> Growth:
        raise NotImplementedError

    # Teaching.

    def _learn_batch(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, fresh: bool
    ) -> None:
        self._check_parameters()
        rows, labels, weights = self._examples(X, y, sample_weight, reset=fresh)
        # A fresh registry, so that whoever is asking at this moment keeps the one it has.
        registry = Labels() if fresh else Labels(self.labels_.by_slot)
        # Sorted, so that neither slots nor random draws depend on the order within a batch.
        order = _canonical_order(rows, labels)
        slots, new = registry.encode(labels[order])
        if fresh:
            self._begin(rows.shape[1])
        registry.extend(new)
        batch = self._batch(rows, order, slots, None if weights is None else weights[order])
        groves = self._groves_taught(batch, len(registry), bool(new))
        self.n_batches_ += 1
        self._publish(registry, groves)

    def _batch(self, X: Array, order: Slots, slots: Slots, weights: Array | None) -> Batch:
        random = np.random.default_rng([self.seed_, self.n_batches_])
        # ln(u) / w orders examples as u^(1/w) does.
        keys = np.log(random.random(len(X)))
        return Batch(X, order, slots, weights, keys if weights is None else keys / weights)

    def _groves_taught(self, batch: Batch, n_classes: int, has_new: bool) -> tuple[Grove, ...]:
        groves = self.groves_
        if not any(len(grove.examples.stored) for grove in groves):
            groves = (self._planted(batch),)
        growth = self._growth(n_classes)
        return tuple(
            grove.taught(batch, self.memory, growth, 1.0 if has_new else _intensity(grove, batch))
            for grove in groves
        )

    def _planted(self, batch: Batch) -> Grove:
        """Trees that know nothing, and a whitening that suits their first batch."""
        n_features = batch.X.shape[1]
        whitening = Whitening.none(n_features)
        if self.whiten:
            weights = batch.weights
            if weights is not None:
                weights = np.empty_like(weights)
                weights[batch.order] = batch.weights
            whitening = Whitening.of(batch.X, weights)
        return Grove.planted(whitening, n_features, self._tree_seeds())

    def _begin(self, n_features: int) -> None:
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_batches_ = 0
        self.groves_ = ()

    def _tree_seeds(self) -> NDArray[np.uint64]:
        children = np.random.SeedSequence([self.seed_, self.n_batches_]).spawn(self.n_estimators)
        return np.array([child.generate_state(1, np.uint64)[0] for child in children])

    def _publish(self, labels: Labels, groves: tuple[Grove, ...]) -> None:
        self.__dict__.update(labels_=labels, groves_=groves)

    # Forgetting and merging.

    def forget(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take examples out of the leaves, exactly; the splitting functions stay as they are.

        Raises ``NeverLearned``, and changes nothing, if an example was not learned.
        """
        self._require_fitted()
        rows, labels, weights = self._examples(X, y, sample_weight, reset=False)
        slots = self.labels_.slots(labels)
        groves = tuple(grove.forgotten(rows, slots, weights) for grove in self.groves_)
        self._publish_without(groves, np.unique(slots).tolist())
        return self

    def forget_class(self, label: Label) -> Self:
        """Take all examples of a class out of the leaves; the splitting functions stay."""
        self._require_fitted()
        slot = self.labels_.slot(label)
        self._publish_without(tuple(grove.without_class(slot) for grove in self.groves_), [slot])
        return self

    def _publish_without(self, groves: tuple[Grove, ...], touched: list[int]) -> None:
        labels = Labels(self.labels_.by_slot)
        labels.release(slot for slot in touched if not any(_has(grove, slot) for grove in groves))
        self._publish(labels, groves)

    def _merge_in(self, other: StreamingClassifier) -> None:
        assert isinstance(other, ForestClassifier)
        taught = hasattr(self, "labels_")
        registry = Labels(self.labels_.by_slot) if taught else Labels()
        known = [label for label in other.labels_.by_slot if label is not None]
        found, new = registry.encode(known)
        slots = np.full(other.labels_.n_slots, -1, dtype=np.intp)
        slots[[label is not None for label in other.labels_.by_slot]] = found
        if not taught:
            self._begin(other.n_features_in_)
            self.n_features_in_ = other.n_features_in_
        registry.extend(new)
        theirs = tuple(grove.relabelled(slots) for grove in other.groves_)
        self._publish(registry, self.groves_ + theirs)

    # Asking.

    def _as_it_is(self) -> Self:
        """This forest at this moment; teaching goes on beside it."""
        now = object.__new__(type(self))
        now.__dict__.update(self.__dict__)
        return now

    def _scores(self, X: Array) -> Array:
        growth = self._growth(len(self.labels_))
        n_slots = max(self.labels_.n_slots, *(grove.examples.n_slots for grove in self.groves_))
        answers = np.zeros((len(X), n_slots))
        for grove in self.groves_:
            if len(grove.examples.stored):
                grove.add_answers(X, growth.kind, growth.workers, answers)
        # Rounded, so that a tie is a tie in whatever order its halves were added up.
        shares: Array = np.round(answers / self.n_trees_, 12)
        return shares

    def _trees(self) -> list[Any]:
        return [tree for grove in self.groves_ for tree in grove.trees]

    def _workers(self) -> int:
        if self.n_jobs is None:
            return 1
        return (os.cpu_count() or 1) if self.n_jobs == -1 else int(self.n_jobs)

    # State.

    def _own_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {}
        for index, grove in enumerate(self.groves_):
            arrays |= {f"{index}.{name}": value for name, value in grove.state().items()}
        notes = {
            "seed": self.seed_,
            "n_batches": self.n_batches_,
            "n_groves": len(self.groves_),
        }
        return arrays, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.seed_, self.n_batches_ = int(notes["seed"]), int(notes["n_batches"])
        kind = self._growth(len(self.labels_)).kind
        groves = []
        for index in range(int(notes["n_groves"])):
            prefix = f"{index}."
            own = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
            groves.append(Grove.from_state(own, kind, self.n_features_in_))
        self.groves_ = tuple(groves)


def subset_size(subset: str | float, n_classes: int) -> int:
    """|K^n|, how many centroids a node has, for so many known classes; at least two."""
    if subset == "sqrt":
        size = math.sqrt(n_classes)
    elif subset == "log2":
        size = math.log2(n_classes)
    else:
        size = float(subset) * n_classes
    return max(2, round(size))


def _canonical_order(rows: Array, labels: NDArray[Any]) -> Slots:
    """An order of the examples that depends on what they are, not on how they are listed."""
    content = np.ascontiguousarray(rows).view(f"V{rows.shape[1] * rows.itemsize}").ravel()
    by_content = np.argsort(content, kind="stable")
    try:
        by_label = np.argsort(labels[by_content], kind="stable")
    except TypeError:  # labels of two kinds, which the registry is about to reject
        return by_content
    order: Slots = by_content[by_label]
    return order


def _intensity(grove: Grove, batch: Batch) -> float:
    """What a batch without new classes brings, as a share of an average class, at most one."""
    seen = grove.examples.seen
    brought = len(batch.slots) if batch.weights is None else float(batch.weights.sum())
    return min(1.0, brought * np.count_nonzero(seen) / max(float(seen.sum()), 1.0))


def _has(grove: Grove, slot: int) -> bool:
    return slot < grove.examples.n_slots and bool(grove.examples.seen[slot] > 0)
