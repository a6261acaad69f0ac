"""Trees over the same examples: teach, forget, ask.

A grove is a whitening, the stored examples in whitened coordinates, and trees whose leaves refer
to them. A forest has one; merging two forests puts their groves side by side, because each has a
whitening of its own. Like its parts, a grove is never changed under a reader: each change is
another grove.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from everlearn.base import Array, Slots
from everlearn.learners.forest.examples import NONE, Examples, Ints
from everlearn.learners.forest.tree_state import plain_arrays, tree_from
from everlearn.learners.whitening import Whitening, blocks
from everlearn.statistics.stored import stored

if TYPE_CHECKING:
    from everlearn.kernels.forest.tree import Settings, Tree

T = TypeVar("T")
R = TypeVar("R")

# Rows asked at a time: many, so that those that pass the same node share its vectors.
ASK_ROWS = 8192
# A leaf need not hold more than this share of an average class: with few examples of each class,
# leaves of a fixed size would mix classes for no reason.
SMALLEST_SHARE = 0.1
# With update="auto" a node is grown again when it is PATIENCE^(1 ± PATIENCE_SPREAD) times as heavy
# as when it was grown, a random power for each node; a leaf that could not be split is tried again
# when it is LEAF_PATIENCE times as heavy. Chosen on held-out training examples of CIFAR-100.
PATIENCE = 8.0
PATIENCE_SPREAD = 0.75
LEAF_PATIENCE = 3.0
UPDATES = ("uls", "igt", "rtst", "rust", "auto")
NODE_SAMPLINGS = ("quality", "size", "uniform")


@dataclass(frozen=True)
class Growth:
    """How trees are grown and updated: a forest's parameters as the kernels want them."""

    kind: int
    subset: int
    n_candidates: int
    smallest: float
    regularisation: float
    epochs: int
    update: str
    node_sampling: str
    update_fraction: float
    workers: int

    def settings(self, seen: Array) -> "Settings":
        """For the kernels, when so much of each class was seen."""
        from everlearn.kernels.forest.tree import Settings

        average = float(seen.sum()) / max(1, int(np.count_nonzero(seen)))
        return Settings(
            self.kind,
            len(seen),
            self.subset,
            self.n_candidates,
            min(self.smallest, average * SMALLEST_SHARE),
            self.regularisation,
            self.epochs,
            PATIENCE,
            PATIENCE_SPREAD,
            LEAF_PATIENCE,
            _entropy_table(),
        )


@dataclass(frozen=True)
class Batch:
    """Examples to be learned: those of ``X[order]``, and all else in that order already."""

    X: Array
    order: Slots
    slots: Slots
    weights: Array | None
    keys: Array

    def part(self, mask: NDArray[np.bool_]) -> "Batch":
        weights = None if self.weights is None else self.weights[mask]
        return Batch(self.X, self.order[mask], self.slots[mask], weights, self.keys[mask])


@dataclass(frozen=True)
class Grove:
    """Trees of one kind, what they were taught, and the whitening it went through."""

    kind: int
    whitening: Whitening
    examples: Examples
    trees: tuple["Tree", ...]

    @classmethod
    def planted(
        cls, kind: int, whitening: Whitening, n_features: int, seeds: NDArray[np.uint64]
    ) -> "Grove":
        """Trees that have learned nothing yet."""
        from everlearn.kernels.forest.tree import empty_tree

        trees = []
        for seed in seeds:
            tree = empty_tree(16, 64, 0)
            tree.random[0] = seed
            trees.append(tree)
        return cls(kind, whitening, Examples.none(n_features), tuple(trees))

    def taught(
        self,
        batch: "Batch",
        budget: int | None,
        growth: Growth,
        intensity: float,
    ) -> "Grove":
        """With these examples learned."""
        from everlearn.kernels.forest.tree import parts_of
        from everlearn.kernels.forest.update import next_tree

        evicted, stays = self.examples.evicted(batch.slots, batch.keys, budget)
        kept = batch if stays.all() else batch.part(stays)
        examples, index = self.examples.with_batch(
            self.whitening(kept.X, kept.order), kept.slots, kept.weights, kept.keys, kept.order
        )
        examples = examples.with_seen(batch.slots, batch.weights).without(evicted)
        rows, settings = examples.rows(), replace(growth, kind=self.kind).settings(examples.seen)
        nodes_do = {"rtst": 1, "rust": 2, "auto": 3}.get(growth.update, 0)
        sample_by = NODE_SAMPLINGS.index(growth.node_sampling)

        def teach(tree: "Tree") -> "Tree":
            return next_tree(
                *parts_of(tree),
                rows,
                index,
                evicted,
                growth.update != "uls",
                nodes_do,
                sample_by,
                growth.update_fraction,
                intensity,
                settings,
            )

        trees = in_parallel(teach, self.trees, growth.workers)
        return replace(self, examples=examples, trees=tuple(trees))

    def forgotten(self, X: Array, slots: Slots, weights: Array | None) -> "Grove":
        """Without these examples; raises ``NeverLearned``."""
        rows, taken, missing = self.examples.find(self.whitening(X), slots, weights)
        return self._lightened(rows, taken, missing)

    def without_class(self, slot: int) -> "Grove":
        """Without any example of a class."""
        rows = self.examples.of_class(slot)
        missing = np.zeros(self.examples.n_slots)
        return self._lightened(rows, self.examples.weight[rows], missing)

    def relabelled(self, slots: Slots) -> "Grove":
        """A copy in which slot i is ``slots[i]``."""
        from everlearn.kernels.forest.tree import own_copy

        trees = []
        for tree in self.trees:
            copy = own_copy(tree, len(tree.links))
            members = copy.member_slot[: copy.used[1]]
            members[members != NONE] = slots[members[members != NONE]]
            trees.append(copy)
        return replace(self, examples=self.examples.relabelled(slots), trees=tuple(trees))

    def add_answers(self, X: Array, workers: int, answers: Array) -> None:
        """Add every tree's class distribution for each row to ``answers``."""
        from everlearn.kernels.forest.predict import ask
        from everlearn.kernels.forest.tree import parts_of

        rows = self.examples.rows()

        def ask_all(part: slice) -> None:
            whitened = self.whitening(X[part])
            for tree in self.trees:
                ask(*parts_of(tree), self.kind, rows, whitened, answers[part])

        size = min(ASK_ROWS, -(-len(X) // workers))
        in_parallel(ask_all, list(blocks(len(X), size)), workers)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything, as named arrays; trees one after another."""
        arrays = {"mean": self.whitening.mean, "deviation": self.whitening.scale}
        arrays |= {f"examples.{name}": value for name, value in self.examples.arrays().items()}
        trees = [plain_arrays(tree, self.examples.X.shape[1]) for tree in self.trees]
        for name in trees[0]:
            arrays[f"trees.{name}"] = np.concatenate([tree[name] for tree in trees])
            arrays[f"lengths.{name}"] = np.array([len(tree[name]) for tree in trees])
        return arrays

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], kind: int, n_features: int) -> "Grove":
        """What :meth:`state` gave; ``ValueError`` where it contradicts itself."""
        whitening = Whitening(
            stored(arrays, "mean", n_features), stored(arrays, "deviation", n_features)
        )
        examples = Examples.from_arrays(_under("examples.", arrays), n_features)
        columns = {
            name: np.split(together, np.cumsum(arrays[f"lengths.{name}"])[:-1])
            for name, together in _under("trees.", arrays).items()
        }
        trees = (
            tree_from(dict(zip(columns, parts, strict=True)), kind, examples)
            for parts in zip(*columns.values(), strict=True)
        )
        return cls(kind, whitening, examples, tuple(trees))

    def __reduce__(self) -> tuple[Any, ...]:
        """For ``pickle`` and ``copy``, which do not know the lists of compiled code."""
        return type(self).from_state, (self.state(), self.kind, self.examples.X.shape[1])

    def _lightened(self, rows: Ints, taken: Array, missing: Array) -> "Grove":
        from everlearn.kernels.forest.tree import own_copy

        examples = self.examples.lightened(rows, taken, missing)
        gone = rows[examples.slot[rows] == NONE]
        emptied = np.flatnonzero((self.examples.seen > 0) & (examples.seen == 0))
        trees = []
        for tree in self.trees:
            copy = _without(own_copy(tree, len(examples.slot)), gone)
            # The slot may be given to another class one day.
            copy.member_slot[np.isin(copy.member_slot, emptied)] = NONE
            trees.append(copy)
        examples.X[gone] = 0.0
        return replace(self, examples=examples, trees=tuple(trees))


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays whose names start so, by the rest of their names."""
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def in_parallel(work: Callable[[T], R], items: Sequence[T], workers: int) -> list[R]:
    """Do the same to each; the results are in order whatever the number of workers."""
    if workers == 1 or len(items) == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))


def _without(tree: "Tree", rows: Ints) -> "Tree":
    from everlearn.kernels.forest.update import take_out

    if len(rows):
        take_out(tree, rows)
    return tree


@lru_cache(maxsize=1)
def _entropy_table() -> Array:
    """f(v) = v ln v for small whole numbers."""
    values = np.arange(4096.0)
    table: Array = values * np.log(np.maximum(values, 1.0))
    return table
