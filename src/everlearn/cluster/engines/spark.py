"""The Spark engine: one job with a stage per level of the tree; parts move by its shuffle.

Spark has no futures, so the tree is not driven task by task: each level is a map over the parts of
the level below, grouped by their parent. Receipts come back through an accumulator while the job
runs in another thread.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from secrets import token_hex
from typing import Any

from pyspark import AccumulatorParam, InheritableThread, SparkContext, TaskContext
from pyspark.sql import SparkSession

from everlearn.cluster.driving import Receive
from everlearn.cluster.plan import Plan, Task, planned
from everlearn.cluster.reader import arrow_block
from everlearn.cluster.shards import Kind, Shard
from everlearn.cluster.work import FitJob, PartReceipt, work
from everlearn.errors import InvalidParameter

POLL_SECONDS = 0.1


@contextmanager
def opened_spark(engine: Any) -> Iterator["SparkEngine"]:
    """A session's engine; ``"spark"`` uses the current session, or a local one."""
    if isinstance(engine, SparkContext):
        engine = SparkSession(engine)
    if isinstance(engine, SparkSession):
        yield SparkEngine(engine)
        return
    active = SparkSession.getActiveSession()
    if active is not None:
        yield SparkEngine(active)
        return
    builder = SparkSession.builder.appName("everlearn")
    if "://" in engine:
        builder = builder.master(engine)
    else:
        builder = builder.master("local[*]")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = builder.getOrCreate()
    try:
        yield SparkEngine(session)
    finally:
        session.stop()


class SparkEngine:
    """A Spark cluster."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._receipts = self._context.accumulator([], _Receipts())

    @property
    def workers(self) -> int:
        return max(1, self._context.defaultParallelism)

    def run(self, job: FitJob, plan: Plan, receive: Receive) -> bytes:
        parts = self._tree(job, plan)
        group = f"everlearn {token_hex(8)}"
        ended: list[bytes | BaseException] = []

        def collect() -> None:
            self._context.setJobGroup(group, "everlearn fit", interruptOnCancel=True)
            try:
                ((_, data),) = parts.collect()
                ended.append(data)
            except BaseException as error:
                ended.append(error)

        thread = InheritableThread(target=collect, daemon=True)
        thread.start()
        passed: set[str] = set()
        try:
            while thread.is_alive():
                thread.join(POLL_SECONDS)
                self._pass_receipts(receive, passed)
        except BaseException:
            self._context.cancelJobGroup(group)
            thread.join()
            raise
        self._pass_receipts(receive, passed)
        (outcome,) = ended
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def listed(self, collection: Any, name: str, job: FitJob) -> list[Shard]:
        """The partitions of a DataFrame; its features are a vector column, or several columns."""
        parts = _folded_partitions(collection, name, job, self._receipts)
        return [
            _partition(name, index, (parts, index)) for index in range(parts.getNumPartitions())
        ]

    def _tree(self, job: FitJob, plan: Plan) -> Any:
        """An RDD that holds only the last part."""
        receipts = self._receipts
        parts: Any = None
        positions: dict[str, int] = {}
        for _, level in groupby(sorted(plan.tasks, key=attrgetter("level")), attrgetter("level")):
            tasks = list(level)
            sources = [self._input_parts(job, tasks), *_partitions_among(tasks)]
            if parts is not None:
                sources.append(_merged(job, tasks, parts, positions, receipts))
            parts = self._context.union(sources)
            positions = {task.name: index for index, task in enumerate(tasks)}
        return parts

    def _input_parts(self, job: FitJob, tasks: list[Task]) -> Any:
        """Parts of the tasks without inputs."""
        receipts = self._receipts
        parts = [
            (index, task)
            for index, task in enumerate(tasks)
            if not task.awaited and not _is_partition(task)
        ]
        return self._context.parallelize(parts, max(1, len(parts))).map(
            lambda item: (item[0], _work(job, item[1], (), receipts))
        )

    def _pass_receipts(self, receive: Receive, passed: set[str]) -> None:
        for receipt in list(self._receipts.value):
            if receipt.name not in passed:
                passed.add(receipt.name)
                receive(receipt)


class _Receipts(AccumulatorParam):  # type: ignore[misc]
    def zero(self, value: list[PartReceipt]) -> list[PartReceipt]:
        return []

    def addInPlace(self, one: list[PartReceipt], other: list[PartReceipt]) -> list[PartReceipt]:
        one.extend(other)
        return one


def _work(job: FitJob, task: Task, parts: Iterable[bytes], receipts: Any) -> bytes:
    receipt, data = work(job, task, list(parts))
    receipts.add([receipt])
    return data


def _merged(
    job: FitJob, tasks: list[Task], below: Any, positions_below: dict[str, int], receipts: Any
) -> Any:
    """Parts merged from the level below, in the order given by the tasks."""
    # For each part below: the index of its task, and its position among the task's inputs.
    destinations = {
        positions_below[child]: (index, position)
        for index, task in enumerate(tasks)
        for position, child in enumerate(task.awaited)
    }

    def address(part: tuple[int, bytes]) -> tuple[int, tuple[int, bytes]]:
        index, position = destinations[part[0]]
        return index, (position, part[1])

    def merge(group: tuple[int, Iterable[tuple[int, bytes]]]) -> tuple[int, bytes]:
        index, children = group
        return index, _work(job, tasks[index], [data for _, data in sorted(children)], receipts)

    return below.map(address).groupByKey(len(tasks), partitionFunc=int).map(merge)


def _folded_partitions(frame: Any, name: str, job: FitJob, receipts: Any) -> Any:
    """An RDD of the part of each partition of a DataFrame, with its number.

    The number is that of the Spark task, which equals that of the partition only in a separate
    stage: hence the shuffle, without which a union with other parts would shift the numbers.
    """
    columns = job.columns

    def fold(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        context = TaskContext.get()
        assert context is not None
        index = context.partitionId()
        rows = (arrow_block(batch, columns) for batch in batches)
        (task,) = planned(job.digest, [(_partition(name, index, rows),)]).tasks
        data = _work(job, task, (), receipts)
        yield pyarrow.RecordBatch.from_pydict({"number": [index], "part": [data]})

    selected = frame.select(*(_column(frame, column) for column in columns.names))
    parts = selected.mapInArrow(fold, "number long, part binary")
    numbered = parts.rdd.map(lambda row: (row["number"], bytes(row["part"])))
    return numbered.partitionBy(numbered.getNumPartitions(), partitionFunc=int)


def _column(frame: Any, name: str) -> Any:
    """A column; Spark's own vectors are converted to plain arrays."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import VectorUDT

    if name not in frame.columns:
        raise InvalidParameter(f"there is no column {name!r}; the columns are {frame.columns}")
    is_vector = isinstance(frame.schema[name].dataType, VectorUDT)
    return vector_to_array(frame[name]).alias(name) if is_vector else frame[name]


def _partition(name: str, index: int, rows: Any) -> Shard:
    return Shard(f"spark:{name}#{index:08d}", 0, "", Kind.ROWS, rows=rows)


def _is_partition(task: Task) -> bool:
    """Whether the rows of a task are a partition of a DataFrame, folded on its worker."""
    rows = task.shards[0].rows if task.shards else None
    return isinstance(rows, tuple) and hasattr(rows[0], "getNumPartitions")


def _partitions_among(tasks: list[Task]) -> Iterator[Any]:
    """For each DataFrame among the tasks, an RDD of its parts keyed by task index."""
    frames: dict[int, tuple[Any, dict[int, int]]] = {}
    for number, task in enumerate(tasks):
        if _is_partition(task):
            parts, index = task.shards[0].rows
            frames.setdefault(id(parts), (parts, {}))[1][index] = number
    for parts, task_of in frames.values():
        yield _keyed_by_task(parts, task_of)


def _keyed_by_task(parts: Any, task_of: dict[int, int]) -> Any:
    return parts.filter(lambda part: part[0] in task_of).map(
        lambda part: (task_of[part[0]], part[1])
    )
