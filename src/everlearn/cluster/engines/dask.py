"""The Dask engine: parts stay on their workers, and the scheduler recomputes lost ones.

A task returns a receipt and a part; a second, tiny task extracts the receipt, so that the driver
can fetch it and leave the part on its worker.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from secrets import token_hex
from typing import Any

from dask import config
from distributed import Client, Future, KilledWorker, as_completed, default_client

from everlearn.cluster.driving import Receive, ShardOutcome, drive
from everlearn.cluster.plan import Plan, Task
from everlearn.cluster.shards import Kind, Shard
from everlearn.cluster.work import FitJob, PartReceipt, with_rows, work
from everlearn.errors import InvalidInput

# Tasks in progress per worker thread: waiting ones hide the latency of the scheduler.
TASKS_PER_THREAD = 3
RETRIES = 3
# By default Dask's workers return freed memory to the system at once, so each block of rows
# allocates new pages, which doubles the time of a fold. Workers started here keep their pages.
NANNY = "distributed.nanny.pre-spawn-environ"
KEEP_PAGES = {
    f"{NANNY}.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    f"{NANNY}.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}


@contextmanager
def opened_dask(engine: Any) -> Iterator["DaskEngine"]:
    """A client's engine; ``"dask"`` uses the current client, or a local cluster."""
    if isinstance(engine, Client):
        yield DaskEngine(engine)
        return
    if engine == "dask":
        try:
            yield DaskEngine(default_client())
            return
        except ValueError:
            address = None
    else:
        address = engine.replace("dask://", "tcp://", 1)
    # The variables take effect when workers start; a running cluster has its own.
    with config.set(KEEP_PAGES), Client(address, set_as_default=False) as client:
        yield DaskEngine(client)


class DaskEngine:
    """A Dask cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def workers(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def run(self, job: FitJob, plan: Plan, receive: Receive) -> bytes:
        futures = _DaskFutures(self._client, job, TASKS_PER_THREAD * self.workers)
        try:
            return drive(plan, futures, receive)
        finally:
            futures.cancel()

    def listed(self, collection: Any, name: str, job: FitJob) -> list[Shard]:
        """The row blocks of two dask arrays, X and y, with the same chunks."""
        X, y = collection
        if X.ndim != 2 or y.ndim != 1 or X.chunks[0] != y.chunks[0]:
            raise InvalidInput(
                f"X has blocks of {X.chunks[0]} rows, y of {y.chunks[0]}; rechunk them to the same"
            )
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        blocks = zip(X.to_delayed()[:, 0], y.to_delayed(), strict=True)
        return [
            Shard(f"dask:{X.name}+{y.name}#{index:08d}", 0, "", Kind.ROWS, rows=block)
            for index, block in enumerate(blocks)
        ]


class _DaskFutures:
    def __init__(self, client: Client, job: FitJob, window: int) -> None:
        self.window = window
        self._client, self._job = client, job
        self._in_progress: dict[str, tuple[str, Future]] = {}
        self._completed = as_completed(loop=client.loop)

    def start(self, task: Task, inputs: list[Future]) -> None:
        rows = [self._rows(shard) for shard in task.shards if shard.kind is Kind.ROWS]
        without_rows = with_rows(task, [None] * len(task.shards))
        key = f"{'fold' if task.shards else 'merge'}-{task.name[:16]}{token_hex(4)}"
        both = self._client.submit(
            _work, self._job, without_rows, inputs, rows, key=key, pure=False, retries=RETRIES
        )
        receipt = self._client.submit(itemgetter(0), both, key=f"receipt-{key}", pure=False)
        self._in_progress[receipt.key] = task.name, both
        self._completed.add(receipt)

    def wait(self) -> list[ShardOutcome]:
        future = next(self._completed)
        name, both = self._in_progress.pop(future.key)
        if future.status in ("cancelled", "lost"):
            return [ShardOutcome(name, lost=f"the task was {future.status}")]
        try:
            return [ShardOutcome(name, future.result(), both)]
        except KilledWorker as error:
            return [ShardOutcome(name, lost=str(error).split("\n", 1)[0])]

    def fetch(self, part: Future) -> bytes:
        _, data = part.result()
        return bytes(data)

    def release(self, part: Future) -> None:
        part.release()

    def cancel(self) -> None:
        self._client.cancel([both for _, both in self._in_progress.values()])

    def _rows(self, shard: Shard) -> list[Any]:
        """Futures of the features and labels of a block."""
        if all(hasattr(rows, "__dask_graph__") for rows in shard.rows):
            return list(self._client.compute(list(shard.rows)))
        return list(self._client.scatter(list(shard.rows), hash=False))


def _work(
    job: FitJob, task: Task, inputs: list[tuple[PartReceipt, bytes]], rows: list[list[Any]]
) -> tuple[PartReceipt, bytes]:
    if rows:
        task = with_rows(task, [tuple(pair) for pair in rows])
    return work(job, task, [data for _, data in inputs])
