"""The Ray engine: parts stay in its object store, and lost ones are recomputed from lineage."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from everlearn.cluster.driving import Receive, ShardOutcome, drive
from everlearn.cluster.plan import Plan, Task
from everlearn.cluster.shards import Kind, Shard
from everlearn.cluster.work import FitJob, PartReceipt, with_rows, work
from everlearn.errors import EverlearnError, InvalidParameter

# Tasks in progress per core: waiting ones hide the latency to the worker.
TASKS_PER_CORE = 3


@contextmanager
def opened_ray(engine: Any) -> Iterator["RayEngine"]:
    """The cluster this process is connected to; ``"ray"`` starts one if there is none."""
    if ray.is_initialized():
        yield RayEngine()
        return
    address = engine if isinstance(engine, str) and "://" in engine else None
    ray.init(address, log_to_driver=False)
    try:
        yield RayEngine()
    finally:
        ray.shutdown()


class RayEngine:
    """A Ray cluster."""

    @property
    def workers(self) -> int:
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def run(self, job: FitJob, plan: Plan, receive: Receive) -> bytes:
        futures = _RayFutures(job, TASKS_PER_CORE * self.workers)
        try:
            return drive(plan, futures, receive)
        finally:
            futures.cancel()

    def listed(self, collection: Any, name: str, job: FitJob) -> list[Shard]:
        """The blocks of a ``ray.data.Dataset``."""
        columns = job.columns
        if not isinstance(columns.features, str):
            raise InvalidParameter(
                "the features of a Ray dataset must be one column; give one name"
            )
        blocks = collection.materialize().to_numpy_refs(column=columns.names)
        return [
            Shard(f"ray:{name}#{index:08d}", 0, "", Kind.ROWS, rows=block)
            for index, block in enumerate(blocks)
        ]


class _RayFutures:
    def __init__(self, job: FitJob, window: int) -> None:
        self.window = window
        self._job = ray.put(job)
        self._in_progress: dict[Any, tuple[str, Any]] = {}
        # Unlimited retries: a killed worker is not an error of the task.
        self._work = ray.remote(_work).options(num_returns=2, num_cpus=1, max_retries=-1)

    def start(self, task: Task, inputs: list[Any]) -> None:
        rows = [_stored(shard.rows) for shard in task.shards if shard.kind is Kind.ROWS]
        without_rows = with_rows(task, [None] * len(task.shards))
        receipt, part = self._work.remote(self._job, without_rows, len(rows), *rows, *inputs)
        self._in_progress[receipt] = task.name, part

    def wait(self) -> list[ShardOutcome]:
        done, _ = ray.wait(list(self._in_progress), num_returns=1)
        return [self._outcome(receipt) for receipt in done]

    def fetch(self, part: Any) -> bytes:
        return bytes(ray.get(part))

    def release(self, part: Any) -> None:
        """Nothing to do: the store drops objects without references."""

    def cancel(self) -> None:
        for receipt in self._in_progress:
            ray.cancel(receipt, force=True)

    def _outcome(self, receipt: Any) -> ShardOutcome:
        name, part = self._in_progress.pop(receipt)
        try:
            return ShardOutcome(name, ray.get(receipt), part)
        except RayTaskError as error:
            if isinstance(error.cause, EverlearnError):
                raise error.cause from None
            raise
        except RayError as error:
            return ShardOutcome(name, lost=str(error).split("\n", 1)[0])


def _stored(rows: Any) -> Any:
    return rows if isinstance(rows, ray.ObjectRef) else ray.put(rows)


def _work(job: FitJob, task: Task, n_rows: int, *values: Any) -> tuple[PartReceipt, bytes]:
    if n_rows:
        task = with_rows(task, [_pair(job, rows) for rows in values[:n_rows]])
    return work(job, task, values[n_rows:])


def _pair(job: FitJob, rows: Any) -> tuple[Any, Any]:
    """Features and labels of a block: a pair of arrays, or a dictionary of columns."""
    if not isinstance(rows, dict):
        return rows[0], rows[1]
    vectors = rows[job.columns.features]
    return np.stack(vectors) if vectors.dtype == object else vectors, rows[job.columns.label]
