"""A grove: trees that share their examples; teach, forget, ask.

A grove consists of a whitening, the stored examples in whitened coordinates, and trees whose leaves
refer to them. A forest has one; merging two forests keeps both groves, because each has its own
whitening. Like its parts, a grove is immutable: each change returns a new one.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from everlearn.base import Array, Slots
from everlearn.errors import DamagedModel
from everlearn.forest.examples import ExampleStore, Ints
from everlearn.forest.settings import NONE, ForestSettings, Update
from everlearn.forest.tree_state import plain_arrays, tree_from
from everlearn.preprocessing.whitening import Whitening, blocks
from everlearn.statistics.validated import validated_array

if TYPE_CHECKING:
    from everlearn.forest.tree import Tree
    from everlearn.forest.update.batch import TreeBatch

T = TypeVar("T")
R = TypeVar("R")

# Rows per block when asked: many, so that rows that pass the same node share its vectors.
ASK_ROWS = 8192


@dataclass(frozen=True)
class Batch:
    """Examples to be learned: ``X[order]``, and their slots, weights and reservoir keys."""

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
    """Trees of one kind of split, their examples and their whitening."""

    split: Any
    whitening: Whitening
    examples: ExampleStore
    trees: tuple["Tree", ...]

    @classmethod
    def empty(cls, split: Any, whitening: Whitening, seeds: NDArray[np.uint64]) -> "Grove":
        """A grove whose trees have an empty root each."""
        from everlearn.forest.tree import empty_tree

        n_features = len(whitening.mean)
        trees = tuple(empty_tree(n_features, seed) for seed in seeds)
        return cls(split, whitening, ExampleStore.none(n_features), trees)

    def taught(
        self,
        batch: "Batch",
        budget: int | None,
        settings_for: Callable[[Array], ForestSettings],
        intensity: float,
        workers: int,
    ) -> "Grove":
        """A grove that has learned these examples, by the update in the settings."""
        from everlearn.forest.grow import grow_first_tree
        from everlearn.forest.tree import own_copy, remove_rows
        from everlearn.forest.update.batch import TreeBatch

        evicted, stays = self.examples.evicted(batch.slots, batch.keys, budget)
        kept = batch if stays.all() else batch.part(stays)
        examples, index = self.examples.with_batch(
            self.whitening(kept.X, kept.order), kept.slots, kept.weights, kept.keys, kept.order
        )
        examples = examples.with_seen(batch.slots, batch.weights).without(evicted)
        settings = settings_for(examples.seen)
        tree_batch = TreeBatch(examples.rows(), index, intensity)
        update, first = _update(settings), self.examples.n_taught == 0

        def teach(tree: "Tree") -> "Tree":
            tree = own_copy(tree, len(examples.slot))
            if first:
                return grow_first_tree(tree, tree_batch.rows, index, settings)
            if len(evicted):
                remove_rows(tree, evicted)
            return update(tree, tree_batch, settings)

        trees = tuple(in_parallel(teach, self.trees, workers))
        return replace(self, split=settings.split, examples=examples, trees=trees)

    def forgotten(self, X: Array, slots: Slots, weights: Array | None) -> "Grove":
        """A grove without these examples; raises ``NeverLearned``."""
        rows, taken, missing = self.examples.find(self.whitening(X), slots, weights)
        return self._without_weight(rows, taken, missing)

    def without_class(self, slot: int) -> "Grove":
        """A grove without any example of a class."""
        rows = self.examples.of_class(slot)
        missing = np.zeros(self.examples.n_slots)
        return self._without_weight(rows, self.examples.weight[rows], missing)

    def relabelled(self, slots: Slots) -> "Grove":
        """An independent copy in which slot i is ``slots[i]``."""
        from everlearn.forest.tree import independent_copy

        trees = []
        for tree in self.trees:
            copy = independent_copy(tree)
            members = copy.members["slot"][: copy.used["members"][0]]
            members[members != NONE] = slots[members[members != NONE]]
            trees.append(copy)
        return replace(self, examples=self.examples.relabelled(slots), trees=tuple(trees))

    def add_answers(self, X: Array, workers: int, answers: Array) -> None:
        """Add every tree's class distribution for each row to ``answers``."""
        from everlearn.forest.answer import add_answers

        rows = self.examples.rows()

        def add_block(part: slice) -> None:
            whitened = self.whitening(X[part])
            for tree in self.trees:
                add_answers(tree, self.split, rows, whitened, answers[part])

        size = min(ASK_ROWS, -(-len(X) // workers))
        in_parallel(add_block, list(blocks(len(X), size)), workers)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything as named arrays; trees are concatenated."""
        arrays = {"mean": self.whitening.mean, "deviation": self.whitening.scale}
        arrays |= {f"examples.{name}": value for name, value in self.examples.arrays().items()}
        trees = [plain_arrays(tree) for tree in self.trees]
        for name in trees[0]:
            arrays[f"trees.{name}"] = np.concatenate([tree[name] for tree in trees])
            arrays[f"lengths.{name}"] = np.array([len(tree[name]) for tree in trees])
        return arrays

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], split: Any, n_features: int) -> "Grove":
        """Inverse of :meth:`state`; ``DamagedModel`` names the array that is wrong."""
        whitening = Whitening(
            validated_array(arrays, "mean", n_features),
            validated_array(arrays, "deviation", n_features, least=math.ulp(0.0)),
        )
        examples = ExampleStore.from_arrays(_under("examples.", arrays), n_features)
        columns = {
            name: _split_by_tree(
                concatenated,
                validated_array(
                    arrays, f"lengths.{name}", None, dtype=np.int64, least=0, most=2**40
                ),
                name,
            )
            for name, concatenated in _under("trees.", arrays).items()
        }
        n_trees = {len(parts) for parts in columns.values()}
        if len(n_trees) != 1:
            raise DamagedModel("lengths.* do not agree on the number of trees")
        trees = (
            tree_from(dict(zip(columns, parts, strict=True)), split, examples)
            for parts in zip(*columns.values(), strict=True)
        )
        return cls(split, whitening, examples, tuple(trees))

    def __reduce__(self) -> tuple[Any, ...]:
        """For ``pickle`` and ``copy``: without spare capacity."""
        return type(self).from_state, (self.state(), self.split, self.examples.X.shape[1])

    def _without_weight(self, rows: Ints, taken: Array, missing: Array) -> "Grove":
        from everlearn.forest.tree import own_copy, remove_rows

        examples = self.examples.with_less_weight(rows, taken, missing)
        gone = rows[examples.slot[rows] == NONE]
        emptied = np.flatnonzero((self.examples.seen > 0) & (examples.seen == 0))
        trees = []
        for tree in self.trees:
            copy = own_copy(tree, len(examples.slot))
            remove_rows(copy, gone)
            # A slot without examples may be reused for another class.
            members = tree.members.copy()
            members["slot"][np.isin(members["slot"], emptied)] = NONE
            trees.append(copy._replace(members=members))
        examples.X[gone] = 0.0
        return replace(self, examples=examples, trees=tuple(trees))


def _update(settings: ForestSettings) -> "Callable[[Tree, TreeBatch, ForestSettings], Tree]":
    from everlearn.forest.update import auto, igt, rtst, rust, uls

    ways = {
        Update.ULS: uls.taught,
        Update.IGT: igt.taught,
        Update.RTST: rtst.taught,
        Update.RUST: rust.taught,
        Update.AUTO: auto.taught,
    }
    return ways[Update(settings.update)]


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays whose names have this prefix, by the rest of their names."""
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def _split_by_tree(
    concatenated: NDArray[Any], lengths: NDArray[np.int64], name: str
) -> list[NDArray[Any]]:
    """One array per tree."""
    if not len(lengths) or lengths.sum() != len(concatenated):
        raise DamagedModel(f"lengths.{name} does not add up to the length of trees.{name}")
    return np.split(concatenated, np.cumsum(lengths)[:-1])


def in_parallel(work: Callable[[T], R], items: Sequence[T], workers: int) -> list[R]:
    """Apply a function to each item; results are in order for any number of workers."""
    if workers == 1 or len(items) == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))
