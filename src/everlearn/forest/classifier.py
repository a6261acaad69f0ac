"""Base class of the forests.

A forest guarantees less than the closed-form learners: the result depends on the order in which
classes arrive, a merged forest has the trees of both and is not the forest trained on all examples,
and forgetting removes an example from the leaf statistics but not from the splitting functions it
helped to choose. ``docs/forests.md`` lists what holds. Memory is that of the stored examples (all,
or at most ``n_exemplars`` per class) and of the trees' vectors.

While one thread teaches, others may ask: teaching builds new trees and then replaces labels and
trees in one step, so an answer comes from the forest before or after a batch, never from an
intermediate state.
"""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from threading import RLock
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from everlearn.acceleration import require_compiler
from everlearn.base import BOUNDED, Array, Promise, Slots, State, StreamingClassifier
from everlearn.deprecation import parameter, warn_of_old_parameters
from everlearn.errors import DamagedModel
from everlearn.estimator import StreamingEstimator
from everlearn.forest.grove import Batch, Grove
from everlearn.forest.settings import (
    ROOT,
    ForestSettings,
    NodeSampling,
    NodeSamplingWord,
    Update,
    UpdateWord,
    entropy_table,
    smallest_leaf,
)
from everlearn.preprocessing.whitening import Whitening
from everlearn.statistics.labels import Label, Labels
from everlearn.statistics.validated import validated_integer
from everlearn.validation import (
    require_class_weight,
    require_flag,
    require_number,
    require_one_of,
    require_whole,
)

# Upper bounds of parameters: larger values would take hours per tree.
MOST_TREES = 100_000
MOST_CANDIDATES = 1_000_000
MOST_EPOCHS = 100_000
MOST_STEPS = 10_000_000
# Parameters that may differ between two forests that are merged.
NOT_COMPARED_IN_MERGES = ("random_state", "n_jobs", "n_estimators")


class ForestClassifier(StreamingClassifier):
    """A forest whose leaves refer to stored examples; subclasses define how nodes split."""

    n_estimators: int
    update: UpdateWord
    update_fraction: float
    node_sampling: NodeSamplingWord
    min_samples: float
    n_candidates: int
    n_exemplars: int | None
    memory: int | str | None

    _renamed_parameters: ClassVar[dict[str, str | None]] = {"memory": "n_exemplars"}
    whiten: bool
    random_state: Any
    n_jobs: int | None

    groves_: tuple[Grove, ...]
    seed_: int
    n_batches_: int

    _updates: Sequence[Update] = tuple(Update)

    @property
    def promises(self) -> frozenset[Promise]:
        return frozenset() if parameter(self, "n_exemplars") is None else BOUNDED

    @property
    def n_trees_(self) -> int:
        """Number of trees; more than ``n_estimators`` after a merge."""
        return sum(len(grove.trees) for grove in self.groves_)

    @property
    def n_nodes_(self) -> NDArray[np.int64]:
        """The number of nodes of each tree."""
        from everlearn.forest.tree import subtree

        return np.array([len(subtree(tree, ROOT)) for tree in self._trees()])

    @property
    def n_stored_(self) -> int:
        """Number of stored examples."""
        return sum(len(grove.examples.stored) for grove in self.groves_)

    # Parameters.

    def _check_parameters(self) -> None:
        require_compiler("a forest")
        require_whole("n_estimators", self.n_estimators, most=MOST_TREES)
        require_whole("n_candidates", self.n_candidates, most=MOST_CANDIDATES)
        require_number("min_samples", self.min_samples, least=0.0)
        require_number("update_fraction", self.update_fraction, least=0.0, most=1.0)
        warn_of_old_parameters(self)
        require_whole("n_exemplars", parameter(self, "n_exemplars"), or_none=True)
        require_class_weight(self.class_weight, balances=False)
        require_flag("whiten", self.whiten)
        if self.n_jobs != -1:
            require_whole("n_jobs", self.n_jobs, or_none=True)
        require_one_of("update", self.update, [way.name.lower() for way in self._updates])
        require_one_of(
            "node_sampling", self.node_sampling, [way.name.lower() for way in NodeSampling]
        )

    def _require_same_parameters(self, other: StreamingEstimator) -> None:
        theirs = other.get_params(deep=False)
        their_part = type(self)(
            **{n: v for n, v in theirs.items() if n not in NOT_COMPARED_IN_MERGES}
        )
        ours = self.get_params(deep=False)
        our_part = type(self)(**{n: v for n, v in ours.items() if n not in NOT_COMPARED_IN_MERGES})
        super(ForestClassifier, our_part)._require_same_parameters(their_part)

    def _split(self, n_classes: int) -> Any:
        """The parameters of the splitting functions, for a number of known classes."""
        raise NotImplementedError

    def _settings(self, n_classes: int, seen: Array) -> ForestSettings:
        """The settings for growing and updating; ``seen`` is the weight learned of each class."""
        split = self._split(n_classes)
        members_per_node, vectors_per_node = split.room(len(seen))
        return ForestSettings(
            split,
            len(seen),
            members_per_node,
            vectors_per_node,
            smallest_leaf(self.min_samples, seen),
            int(Update[self.update.upper()]),
            int(NodeSampling[self.node_sampling.upper()]),
            float(self.update_fraction),
            entropy_table(),
        )

    # Teaching.

    def _changeable_registry(self) -> Labels:
        # Copy-on-write: concurrent predictions keep using the old forest.
        return self.registry_.copy()

    def _encode(self, registry: Labels, labels: NDArray[Any]) -> tuple[Slots, list[Label]]:
        # Sorted, so that slots do not depend on the order within a batch.
        try:
            order = np.argsort(labels, kind="stable")
        except TypeError:  # labels of two types, which the registry will reject
            order = np.arange(len(labels))
        slots = np.empty(len(labels), dtype=np.intp)
        slots[order], new = registry.encode(labels[order])
        return slots, new

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        order = _canonical_order(X, slots)
        batch = self._batch(X, order, slots[order], None if weights is None else weights[order])
        self.groves_ = self._groves_taught(batch)
        self.n_batches_ += 1

    def _batch(self, X: Array, order: Slots, slots: Slots, weights: Array | None) -> Batch:
        random = np.random.default_rng([self.seed_, self.n_batches_])
        # The logarithm of the reservoir's key u^(1/w), which has the same order.
        keys = np.log(random.random(len(X)))
        return Batch(X, order, slots, weights, keys if weights is None else keys / weights)

    def _groves_taught(self, batch: Batch) -> tuple[Grove, ...]:
        groves = self.groves_
        known = {slot for grove in groves for slot in np.flatnonzero(grove.examples.seen).tolist()}
        arriving = set(batch.slots.tolist())
        has_new = not arriving <= known
        if not any(len(grove.examples.stored) for grove in groves):
            groves = (self._first_grove(batch),)
        settings_for = partial(self._settings, len(known | arriving))
        return tuple(
            grove.taught(
                batch,
                parameter(self, "n_exemplars"),
                settings_for,
                1.0 if has_new else _intensity(grove, batch),
                self._workers(),
            )
            for grove in groves
        )

    def _first_grove(self, batch: Batch) -> Grove:
        """Empty trees, and a whitening fitted to their first batch."""
        n_features = batch.X.shape[1]
        whitening = Whitening.none(n_features)
        if self.whiten:
            weights = batch.weights
            if weights is not None:
                weights = np.empty_like(weights)
                weights[batch.order] = batch.weights
            whitening = Whitening.of(batch.X, weights)
        return Grove.empty(self._split(2), whitening, self._tree_seeds())

    def _begin(self, n_features: int) -> None:
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_batches_ = 0
        self.groves_ = ()

    def _tree_seeds(self) -> NDArray[np.uint64]:
        children = np.random.SeedSequence([self.seed_, self.n_batches_]).spawn(self.n_estimators)
        return np.array([child.generate_state(1, np.uint64)[0] for child in children])

    # Forgetting removes examples from the leaves exactly; splitting functions are kept.

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        self.groves_ = tuple(grove.forgotten(X, slots, weights) for grove in self.groves_)
        touched = np.unique(slots).tolist()
        return [slot for slot in touched if not any(_has(grove, slot) for grove in self.groves_)]

    def _forget_class(self, slot: int) -> None:
        self.groves_ = tuple(grove.without_class(slot) for grove in self.groves_)

    def _merge(self, other: Any, slots: Slots) -> None:
        self.groves_ += tuple(grove.relabelled(slots) for grove in other.groves_)

    # Asking.

    def _as_it_is(self) -> Self:
        """A snapshot of this forest; teaching continues beside it."""
        now = self._shallow_copy()
        now._lock = RLock()
        return now

    def _scores(self, X: Array) -> Array:
        n_slots = max(self.registry_.n_slots, *(grove.examples.n_slots for grove in self.groves_))
        answers = np.zeros((len(X), n_slots))
        for grove in self.groves_:
            if len(grove.examples.stored):
                grove.add_answers(X, self._workers(), answers)
        # Rounded, so that ties do not depend on the order of summation.
        shares: Array = np.round(answers / self.n_trees_, 12)
        return shares

    def _probabilities(self, scores: Array) -> Array:
        """The class distributions at the leaves, averaged over the trees (Eq. 2).

        For a subset of the classes, the shares among those; equal shares if all are zero.
        """
        scored = np.isfinite(scores)
        shares: Array = np.where(scored, scores, 0.0)
        totals = shares.sum(axis=1, keepdims=True)
        shares = np.where(totals > 0, shares, scored)
        return shares / shares.sum(axis=1, keepdims=True)

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
        self.seed_ = validated_integer(notes, "seed", most=2**31)
        self.n_batches_ = validated_integer(notes, "n_batches", most=2**62)
        groves = []
        for index in range(validated_integer(notes, "n_groves")):
            prefix = f"{index}."
            own = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
            groves.append(Grove.from_state(own, self._split(2), self.n_features_in_))
        taught = {slot for grove in groves for slot in np.flatnonzero(grove.examples.seen).tolist()}
        named = {slot for slot, label in enumerate(self.registry_.by_slot) if label is not None}
        if taught != named:
            raise DamagedModel("labels do not match the classes in examples.seen")
        self.groves_ = tuple(groves)


def _canonical_order(rows: Array, slots: Slots) -> Slots:
    """An order of the examples that depends on their content, not on their order."""
    content = np.ascontiguousarray(rows).view(f"V{rows.shape[1] * rows.itemsize}").ravel()
    by_content = np.argsort(content, kind="stable")
    order: Slots = by_content[np.argsort(slots[by_content], kind="stable")]
    return order


def _intensity(grove: Grove, batch: Batch) -> float:
    """The weight of a batch as a share of the average weight of a class, at most one."""
    seen = grove.examples.seen
    arriving = len(batch.slots) if batch.weights is None else float(batch.weights.sum())
    return min(1.0, arriving * np.count_nonzero(seen) / max(float(seen.sum()), 1.0))


def _has(grove: Grove, slot: int) -> bool:
    return slot < grove.examples.n_slots and bool(grove.examples.seen[slot] > 0)
