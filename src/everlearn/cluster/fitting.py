"""``fit``: one call for a laptop and for a cluster."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sklearn.base import clone

from everlearn.base import Promise, StreamingClassifier
from everlearn.cluster.driving import Engine, Receive
from everlearn.cluster.engines.lookup import engine_of, kind_of, opened
from everlearn.cluster.listing import listed
from everlearn.cluster.pictures import Embedding
from everlearn.cluster.plan import Plan, dealt_runs, fixed_runs, planned
from everlearn.cluster.reader import Columns
from everlearn.cluster.sharded_model import ShardedModel
from everlearn.cluster.shards import Shard
from everlearn.cluster.store import CheckpointStore
from everlearn.cluster.work import FitJob, PartReceipt, stored_part
from everlearn.errors import BadShard, DamagedModel, InvalidParameter, NotMergeable
from everlearn.persistence import dumps, loads

# A damaged part in the checkpoint is removed when it is read, and recomputed by the next attempt.
ATTEMPTS = 3


@dataclass(frozen=True)
class Progress:
    """Progress of a fit, passed to ``progress``.

    ``shards``, ``rows`` and ``size`` (in bytes) were learned so far, of ``of_shards`` and
    ``of_size``. ``known`` shards were found in the checkpoint; they are not read again, and not
    among the others.
    """

    shards: int
    of_shards: int
    rows: int
    size: int
    of_size: int
    known: int


def fit(
    learner: StreamingClassifier,
    shards: Any,
    *,
    engine: Any = "local",
    workers: int | None = None,
    features: str | Sequence[str] = "X",
    label: str = "y",
    embedder: Embedding | None = None,
    checkpoint: str | None = None,
    keep_shards: bool = False,
    keep_vectors: bool = False,
    deterministic: bool = True,
    on_bad: Literal["raise", "skip"] = "raise",
    name: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> ShardedModel:
    """Train a learner on shards, on one machine or many.

    Each shard is read on a worker and reduced to statistics there; statistics are merged in a tree.
    The result equals that of one stream over all shards, up to rounding.

    Parameters
    ----------
    learner : learner that promises ``merge``
        Provides class and parameters; it is not changed, and its state is not used.
    shards : address, (X, y), collection, or a list of these
        Addresses, read through fsspec: ``.npz`` files with arrays ``X`` and ``y``, ``.parquet``,
        ``.tar`` of images as WebDataset writes them, folders of any of these, folders of folders
        of images, patterns with ``*``. Pairs of numpy arrays. With the engine they belong to: pairs
        of dask arrays, a ``ray.data.Dataset``, a Spark DataFrame.
    engine : str or client, default="local"
        ``"local"``, ``"dask"``, ``"ray"``, ``"spark"``, an address such as ``"dask://host:8786"``,
        or a client.
    workers : int, optional
        Number of processes of ``"local"``; defaults to one per core.
    features, label : str
        Names of arrays or columns. ``features`` may be a list of columns of numbers.
    embedder : str or callable, optional
        Turns images into vectors: ``"efficientnet-lite0"``, ``"pixels-16"``, an ONNX file, or a
        function that returns an :class:`~everlearn.images.embedders.Embedder`.
    checkpoint : address, optional
        A folder or bucket for finished parts. An interrupted fit that is called again with the
        same shards and checkpoint resumes.
    keep_shards : bool, default=False
        Store the statistics of each shard in the checkpoint, so that it can be unlearned.
    keep_vectors : bool, default=False
        Store the vectors of images in the checkpoint, so that another fit need not embed them.
    deterministic : bool, default=True
        Merge in an order determined by the shards: two fits agree in every bit (on processors of
        one kind). Otherwise shards are distributed by the number of workers, which saves a merge
        per shard if shards are many and small, and fits agree up to rounding.
    on_bad : "raise" or "skip", default="raise"
        For a shard, or an image, that cannot be read: raise ``BadShard``, or learn the rest and
        list it in ``ShardedModel.bad``.
    name : str, optional
        Name of an engine's collection in the ledger; needed to find it again in a checkpoint.
    progress : callable, optional
        Called with a :class:`Progress` after each finished task.

    Returns
    -------
    ShardedModel
        ``.learner``, and ``.ledger`` of its shards.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import NearestClassMean
    >>> from everlearn.cluster import fit
    >>> X, y = np.array([[0.0, 1.0], [4.0, 5.0]]), np.array(["cup", "chair"])
    >>> fit(NearestClassMean(), (X, y), workers=1).learner.predict([[4.0, 4.0]]).tolist()
    ['chair']
    """
    _check(on_bad, keep_shards or keep_vectors, checkpoint, deterministic)
    _require_mergeable(learner)
    job = FitJob(
        template=dumps(clone(learner)),
        columns=Columns(features if isinstance(features, str) else tuple(features), label),
        embedding=embedder,
        store=checkpoint,
        keep_shards=keep_shards,
        keep_vectors=keep_vectors,
        skip_bad=on_bad == "skip",
    ).identified()
    return _run(
        job,
        shards,
        engine=engine,
        workers=workers,
        deterministic=deterministic,
        name=name,
        progress=progress,
    )


def embed(
    shards: Any,
    *,
    embedder: Embedding,
    checkpoint: str,
    engine: Any = "local",
    workers: int | None = None,
    on_bad: Literal["raise", "skip"] = "raise",
    progress: Callable[[Progress], None] | None = None,
) -> ShardedModel:
    """Embed shards of images and store their vectors in the checkpoint, without learning.

    Parameters are those of :func:`fit`. The ledger of the result gives the number of images
    embedded per shard; its learner is None.
    """
    _check(on_bad, True, checkpoint, True)
    job = FitJob(
        template=b"",
        columns=Columns(),
        embedding=embedder,
        store=checkpoint,
        keep_vectors=True,
        skip_bad=on_bad == "skip",
    ).identified()
    return _run(
        job,
        shards,
        engine=engine,
        workers=workers,
        deterministic=True,
        name=None,
        progress=progress,
    )


def _run(
    job: FitJob,
    shards: Any,
    *,
    engine: Any,
    workers: int | None,
    deterministic: bool,
    name: str | None,
    progress: Callable[[Progress], None] | None,
) -> ShardedModel:
    checkpoint = job.store
    store = CheckpointStore(checkpoint) if checkpoint else None
    with opened(engine, workers) as adapter:
        listing = _shards(shards, adapter, kind_of(engine), name, job, store)
        runs = fixed_runs(listing) if deterministic else dealt_runs(listing, adapter.workers)
        for _ in range(ATTEMPTS):
            plan = planned(job.digest, runs, store.names() if store else ())
            data = b""
            if plan.tasks:
                data = adapter.run(job, plan, _receiver(listing, plan, job, progress))
            result = loads(data) if data else _found(store, plan, job)
            if isinstance(result, ShardedModel):
                return result
    raise DamagedModel(f"parts in {checkpoint} are damaged repeatedly; use another folder")


def _found(store: CheckpointStore | None, plan: Plan, job: FitJob) -> ShardedModel | None:
    return stored_part(store, plan.root, job, plan.covers) if store else None


def _check(on_bad: str, keep: bool, checkpoint: str | None, deterministic: bool) -> None:
    if on_bad not in ("raise", "skip"):
        raise InvalidParameter(f"on_bad must be 'raise' or 'skip', not {on_bad!r}")
    if keep and checkpoint is None:
        raise InvalidParameter("keep_shards and keep_vectors need a checkpoint to store them in")
    if checkpoint is not None and not deterministic:
        raise InvalidParameter(
            "a checkpoint needs deterministic=True: parts are identified by their position in a "
            "tree that does not depend on the workers"
        )


def _require_mergeable(learner: Any) -> None:
    if Promise.MERGE not in getattr(learner, "promises", ()):
        raise NotMergeable(
            f"two {type(learner).__name__} learners with these parameters have no exact sum, so "
            "they cannot be trained separately; use NearestClassMean, StreamingLDA or "
            "RecursiveRLSC with regularization and recoding given as numbers"
        )


def _shards(
    sources: Any,
    adapter: Engine,
    kind: str,
    name: str | None,
    job: FitJob,
    store: CheckpointStore | None,
) -> list[Shard]:
    """All shards of all sources; collections are listed by their own engine."""
    several = isinstance(sources, list)
    plain: list[Any] = []
    for source in sources if several else [sources]:
        owner = engine_of(source)
        if owner is None:
            plain.append(source)
        elif owner != kind:
            raise InvalidParameter(
                f"a {type(source).__name__} of {owner} needs engine={owner!r}, not {kind!r}"
            )
        elif store is not None and name is None and owner != "dask":
            raise InvalidParameter(
                "a collection has no address; give it a name by which it can be found again"
            )
        else:
            plain += adapter.listed(source, name or secrets.token_hex(8), job)
    return listed(plain if several or (plain and isinstance(plain[0], Shard)) else plain[0])


def _receiver(
    shards: Sequence[Shard], plan: Plan, job: FitJob, progress: Callable[[Progress], None] | None
) -> Receive:
    """Handles each receipt: raises if a shard is bad, and reports progress."""
    known = len(shards) - plan.n_shards
    by_task = {task.name: task for task in plan.tasks}
    size = sum(shard.size for task in plan.tasks for shard in task.shards)
    done = [0, 0, 0]

    def receive(receipt: PartReceipt) -> None:
        if receipt.problems and not job.skip_bad:
            address, reason = receipt.problems[0]
            raise BadShard(
                f"{address}: {reason}; repair it, remove it, or leave it out (everlearn ingest "
                "--skip-bad, in Python on_bad='skip')"
            )
        for index, amount in enumerate((receipt.shards, receipt.rows, receipt.size)):
            done[index] += amount
        if progress and by_task[receipt.name].shards:
            progress(Progress(done[0], plan.n_shards, done[1], done[2], size, known))

    return receive
