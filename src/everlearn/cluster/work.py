"""The work of a worker: folds shards into a part, or merges parts into one.

Both are pure functions of their arguments, so an engine may run them anywhere and any number of
times. Parts are sent as bytes of everlearn's own file format.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from sklearn.base import clone
from threadpoolctl import threadpool_limits

from everlearn.cluster.listing import require_unchanged
from everlearn.cluster.pictures import (
    EmbeddedExample,
    Embedding,
    embedded,
    embedder_of,
    in_blocks,
)
from everlearn.cluster.plan import Task, covering
from everlearn.cluster.reader import Block, Columns, blocks_of
from everlearn.cluster.sharded_model import Entry, ShardedModel
from everlearn.cluster.shards import Kind, Shard
from everlearn.cluster.store import PARTS, SHARDS, CheckpointStore, name_of_shard
from everlearn.cluster.vectors import name_of_vectors, read_vectors, write_vectors
from everlearn.errors import BadShard, InvalidParameter, MissingPackage
from everlearn.persistence import dumps, loads

# Number of unreadable images of a shard that are listed; the others are counted.
MOST_PROBLEMS = 20


@dataclass(frozen=True)
class FitJob:
    """The settings shared by all tasks of a fit.

    Attributes
    ----------
    template : bytes
        The untrained learner; empty if images are embedded without learning.
    columns : Columns
    embedding : str or callable, optional
    digest : str
        Of all the above: everything that determines the contribution of a shard.
    store : str, optional
        Where finished parts are stored.
    keep_shards : bool
        Whether the contribution of each shard is stored as well.
    keep_vectors : bool
        Whether the vectors of images are stored as well.
    skip_bad : bool
    """

    template: bytes
    columns: Columns
    embedding: Embedding | None = None
    digest: str = ""
    store: str | None = None
    keep_shards: bool = False
    keep_vectors: bool = False
    skip_bad: bool = False

    def identified(self) -> "FitJob":
        """This job with its digest."""
        name = "" if self.embedding is None else embedder_of(self.embedding).name
        text = f"{self.columns!r}\n{name}\n".encode()
        return replace(self, digest=hashlib.sha256(text + self.template).hexdigest())


@dataclass(frozen=True)
class PartReceipt:
    """The driver's summary of a finished task; small, whatever the size of the part."""

    name: str
    shards: int = 0
    rows: int = 0
    size: int = 0
    problems: tuple[tuple[str, str], ...] = ()


def work(job: FitJob, task: Task, parts: Sequence[bytes] = ()) -> tuple[PartReceipt, bytes]:
    """Make the part of a task; ``parts`` are the inputs it waited for, in order.

    Uses one thread: an engine runs as many tasks as it has cores, and the way BLAS divides a sum
    among threads affects the last bits.

    A task may run again, or at the same time as the same task of an earlier, cancelled run. If its
    part is in the store, that is used. If it is not, but an input is missing from the store, then
    the part was made before and merged into a larger one: the result is empty.
    """
    store = CheckpointStore(job.store) if job.store else None
    before = stored_part(store, task.name, job, task.covers) if store else None
    if before is not None:
        return _receipt(task, before), dumps(before)
    with threadpool_limits(1, user_api="blas"):
        return _folded(job, task, store) if task.shards else _merged(job, task, parts, store)


def stored_part(
    store: CheckpointStore, name: str, job: FitJob, covers: str, folder: str = PARTS
) -> ShardedModel | None:
    """A stored part, if it is complete, of this job, and of the shards that ``covers`` identifies.

    Any other part is removed, and computed again. That the statistics are those of the data cannot
    be checked without reading the data, so the store must be trusted as much as the model.
    """
    part = store.read(name, folder)
    if part is None:
        return None
    moments = getattr(part.learner, "moments_", None)
    counted = part.rows if moments is None else round(float(moments.total))
    if (
        part.job != job.digest
        or not _same_settings(part.learner, _unfitted(job))
        or covering(part.ledger) != covers
        or counted != part.rows
    ):
        store.remove(name, folder)
        return None
    return part


def _folded(job: FitJob, task: Task, store: CheckpointStore | None) -> tuple[PartReceipt, bytes]:
    total = ShardedModel(_unfitted(job), job=job.digest)
    for shard in task.shards:
        part = _stored_contribution(job, shard, store) or fold(job, shard)
        problems = next(iter(part.ledger.values())).problems
        if problems and not job.skip_bad:
            return PartReceipt(task.name, problems=((shard.address, problems[0]),)), b""
        if store and job.keep_shards and not problems:
            store.write(name_of_shard(job.digest, shard.identity), dumps(part), SHARDS)
        total.merge(part)
    return _receipt(task, total), _serialized(total, task, store)


def _merged(
    job: FitJob, task: Task, parts: Sequence[bytes], store: CheckpointStore | None
) -> tuple[PartReceipt, bytes]:
    computed = iter(parts)
    inputs = [
        stored_part(store, name, job, covers)
        if store and name in task.stored
        else _received(next(computed))
        for name, covers in zip(task.inputs, task.inputs_cover, strict=True)
    ]
    found = [part for part in inputs if part is not None]
    if len(found) < len(inputs):
        return PartReceipt(task.name), b""
    total = reduce(ShardedModel.merge, found)
    data = _serialized(total, task, store)
    if store and not total.bad:
        for name in task.inputs:
            store.remove(name)
    return PartReceipt(task.name), data


def fold(job: FitJob, shard: Shard) -> ShardedModel:
    """The contribution of one shard; if the shard cannot be read, only the reason."""
    learner = _unfitted(job)
    problems: list[str] = []
    rows = 0
    try:
        require_unchanged(shard)
        for X, y in _blocks(job, shard, problems):
            if learner is not None:
                learner.partial_fit(X, y)
            rows += len(X)
        require_unchanged(shard)
        if problems and not job.skip_bad:
            raise BadShard(problems[0])
    except (MissingPackage, MemoryError):
        raise
    except Exception as error:  # parsers of untrusted files may raise anything
        reason = str(error) or type(error).__name__
        learner, rows, problems = _unfitted(job), 0, [f"not learned: {reason}"]
    more = len(problems) - MOST_PROBLEMS
    if more > 0:
        problems[MOST_PROBLEMS:] = [f"and {more} more"]
    return ShardedModel(learner, {shard.identity: Entry(rows, tuple(problems))}, job.digest)


def _unfitted(job: FitJob) -> Any:
    return loads(job.template) if job.template else None


def _same_settings(learner: Any, unfitted: Any) -> bool:
    """Whether two learners are of one class with equal parameters, or both are missing."""
    if learner is None or unfitted is None:
        return learner is unfitted
    return dumps(clone(learner)) == dumps(unfitted)


def _blocks(job: FitJob, shard: Shard, problems: list[str]) -> Iterator[Block]:
    if shard.kind not in (Kind.TAR, Kind.PICTURES):
        return blocks_of(shard, job.columns)
    if job.embedding is None:
        raise InvalidParameter("it holds images; give the embedder that turns them into vectors")
    return in_blocks(_examples(job, job.embedding, shard, problems))


def _examples(
    job: FitJob, embedding: Embedding, shard: Shard, problems: list[str]
) -> Iterator[EmbeddedExample]:
    """The images of a shard as vectors, from an earlier fit if they were stored."""
    embedder = embedder_of(embedding)
    if not (job.store and job.keep_vectors):
        yield from embedded(shard, embedder, problems.append)
        return
    store, name = CheckpointStore(job.store), name_of_vectors(embedder.name, shard)
    known = read_vectors(store, name)
    if known is not None:
        problems.extend(known.problems)
        yield from known.examples
        return
    examples = list(embedded(shard, embedder, problems.append))
    if examples:
        write_vectors(store, name, examples, problems, shard.identity)
    yield from examples


def _stored_contribution(
    job: FitJob, shard: Shard, store: CheckpointStore | None
) -> ShardedModel | None:
    if store is None or not job.keep_shards:
        return None
    name = name_of_shard(job.digest, shard.identity)
    return stored_part(store, name, job, covering([shard.identity]), SHARDS)


def _received(data: bytes) -> ShardedModel | None:
    return loads(data) if data else None


def _receipt(task: Task, part: ShardedModel) -> PartReceipt:
    """The driver's summary of a part; a merge reports no shards."""
    if not task.shards:
        return PartReceipt(task.name)
    problems = tuple((where, what[0]) for where, what in part.bad.items())
    size = sum(shard.size for shard in task.shards)
    return PartReceipt(task.name, len(task.shards), part.rows, size, problems)


def _serialized(part: ShardedModel, task: Task, store: CheckpointStore | None) -> bytes:
    """The bytes of a part, which are also stored, unless a shard of it could not be read."""
    data = dumps(part)
    if store and not part.bad:
        store.write(task.name, data)
    return data


def with_rows(task: Task, rows: Sequence[Any]) -> Task:
    """A task whose shards hold these rows instead of an engine's handles."""
    shards = (replace(s, rows=r) for s, r in zip(task.shards, rows, strict=True))
    return replace(task, shards=tuple(shards))
