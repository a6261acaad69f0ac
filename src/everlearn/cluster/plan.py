"""Plans how parts are merged: a tree determined by the shards alone.

Rounding depends on the order of additions. So the order is fixed beforehand: shards are ordered by
identity, neighbours are grouped until they are large enough for a task, and tasks are merged eight
at a time, left to right, level by level. The result is the same in every bit, whichever workers
run the tasks, and however often.

A node of the tree is named by a digest of everything below it. A part stored under that name is
that part, and nothing below it has to be computed again.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from everlearn.cluster.shards import Kind, Shard

FAN_IN = 8
# Small shards share a task until they have this many bytes together, to outweigh its overhead.
TASK_BYTES = 64 << 20
TASK_SHARDS = 256
# In a tree that need not be fixed: tasks per worker.
TASKS_PER_WORKER = 4


@dataclass(frozen=True)
class Task:
    """Makes one part: folds ``shards``, or merges the parts named by ``inputs``, in this order.

    ``stored`` are those of ``inputs`` that are read from the store. ``covers`` identifies the
    shards of the part, and ``inputs_cover`` those of each input; a stored part must match it.
    """

    name: str
    level: int
    shards: tuple[Shard, ...] = ()
    inputs: tuple[str, ...] = ()
    stored: frozenset[str] = frozenset()
    covers: str = ""
    inputs_cover: tuple[str, ...] = ()

    @property
    def awaited(self) -> list[str]:
        """The inputs that are made by other tasks."""
        return [name for name in self.inputs if name not in self.stored]


@dataclass(frozen=True)
class Plan:
    """Tasks in dependency order, merges as early as possible; the last one makes the result."""

    tasks: tuple[Task, ...]
    root: str
    covers: str = ""

    @property
    def n_shards(self) -> int:
        return sum(len(task.shards) for task in self.tasks)


def fixed_runs(shards: Sequence[Shard]) -> list[tuple[Shard, ...]]:
    """Adjacent shards that share a task; depends only on the shards."""
    runs: list[list[Shard]] = []
    bytes_left = 0
    for shard in shards:
        holds_rows = shard.kind is Kind.ROWS
        if not runs or bytes_left <= 0 or holds_rows or len(runs[-1]) == TASK_SHARDS:
            runs.append([])
            bytes_left = 0 if holds_rows else TASK_BYTES
        runs[-1].append(shard)
        bytes_left -= shard.size
    return [tuple(run) for run in runs]


def dealt_runs(shards: Sequence[Shard], workers: int) -> list[tuple[Shard, ...]]:
    """Adjacent shards in as many runs as keep ``workers`` busy."""
    n_runs = min(len(shards), TASKS_PER_WORKER * workers)
    borders = [len(shards) * run // n_runs for run in range(n_runs + 1)]
    return [tuple(shards[a:b]) for a, b in pairwise(borders)]


def planned(job: str, runs: Sequence[tuple[Shard, ...]], stored: Collection[str] = ()) -> Plan:
    """The tree over some runs of shards, without what is already stored."""
    level = [_Node(_name(job, *(shard.identity for shard in run)), run) for run in runs]
    while len(level) > 1:
        groups = [level[start : start + FAN_IN] for start in range(0, len(level), FAN_IN)]
        level = [_Node(_name(*(child.name for child in g)), (), tuple(g)) for g in groups]
    root = level[0]
    return Plan(tuple(_tasks(root, frozenset(stored))), root.name, root.covers)


@dataclass(frozen=True)
class _Node:
    name: str
    shards: tuple[Shard, ...]
    children: tuple["_Node", ...] = ()

    @property
    def level(self) -> int:
        return 1 + self.children[0].level if self.children else 0

    @cached_property
    def identities(self) -> tuple[str, ...]:
        below = (identity for child in self.children for identity in child.identities)
        return (*(shard.identity for shard in self.shards), *below)

    @cached_property
    def covers(self) -> str:
        return covering(self.identities)


def _tasks(node: _Node, stored: frozenset[str]) -> Iterator[Task]:
    """The tasks below a node, children before parents."""
    if node.name in stored:
        return
    for child in node.children:
        yield from _tasks(child, stored)
    inputs = tuple(child.name for child in node.children)
    yield Task(
        node.name,
        node.level,
        node.shards,
        inputs,
        stored.intersection(inputs),
        node.covers,
        tuple(child.covers for child in node.children),
    )


def covering(identities: Iterable[str]) -> str:
    """Identifies a set of shards."""
    return _name(*sorted(identities))


def _name(*parts: str) -> str:
    return hashlib.sha256("\n\n".join(parts).encode()).hexdigest()
