"""The local engine: processes on this machine, parts as files in a temporary folder.

The pool is joblib's, a dependency of scikit-learn: unlike the standard library's it works in a
script without a ``__main__`` guard. When a process is killed, the whole pool ends; finished parts
are in the folder, and a new pool does the rest. Idle processes are kept for a while, because
starting them takes longer than a small fit.
"""

import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor

from everlearn.cluster.driving import Receive, ShardOutcome, drive
from everlearn.cluster.plan import Plan, Task
from everlearn.cluster.shards import Shard
from everlearn.cluster.work import FitJob, PartReceipt, work
from everlearn.errors import InvalidParameter

# Tasks in progress per worker: one that runs, and one ready to follow.
TASKS_PER_WORKER = 2
IDLE_SECONDS = 60

_idle: dict[int, ProcessPoolExecutor] = {}


@contextmanager
def opened_local(workers: int | None) -> Iterator["LocalEngine"]:
    if workers is not None and workers < 1:
        raise InvalidParameter(f"workers must be at least 1, not {workers}")
    yield LocalEngine(workers or os.cpu_count() or 1)


class LocalEngine:
    """A pool of processes."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, job: FitJob, plan: Plan, receive: Receive) -> bytes:
        with TemporaryDirectory(prefix="everlearn-") as folder:
            pool = _Pool(job, self.workers, Path(folder))
            try:
                return drive(plan, pool, receive)
            finally:
                pool.end()

    def listed(self, collection: Any, name: str, job: FitJob) -> list[Shard]:
        raise InvalidParameter(f"a {type(collection).__name__} needs the engine it belongs to")


class _Pool:
    def __init__(self, job: FitJob, workers: int, folder: Path) -> None:
        self.window = TASKS_PER_WORKER * workers
        self._job, self._workers, self._folder = job, workers, folder
        self._in_progress: dict[Future[PartReceipt], str] = {}
        self._executor = _idle.pop(workers, None) or _new_executor(workers)

    def start(self, task: Task, inputs: list[Path]) -> None:
        future = self._executor.submit(_work, self._job, task, inputs, self._folder / task.name)
        self._in_progress[future] = task.name

    def wait(self) -> list[ShardOutcome]:
        done, _ = wait(self._in_progress, return_when=FIRST_COMPLETED)
        if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            done, _ = wait(self._in_progress)
            self._executor.shutdown(kill_workers=True)
            self._executor = _new_executor(self._workers)
        return [self._outcome(future) for future in done]

    def _outcome(self, future: Future[PartReceipt]) -> ShardOutcome:
        name = self._in_progress.pop(future)
        try:
            return ShardOutcome(name, future.result(), self._folder / name)
        except BrokenProcessPool as error:
            return ShardOutcome(name, lost=str(error).split("\n", 1)[0])

    def fetch(self, part: Path) -> bytes:
        return part.read_bytes()

    def release(self, part: Path) -> None:
        part.unlink()

    def end(self) -> None:
        """Keep the processes for the next fit, unless they are still busy with this one."""
        if self._in_progress or self._workers in _idle:
            self._executor.shutdown(kill_workers=True)
        else:
            _idle[self._workers] = self._executor


def _new_executor(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, timeout=IDLE_SECONDS)


def _work(job: FitJob, task: Task, inputs: list[Path], target: Path) -> PartReceipt:
    receipt, data = work(job, task, [path.read_bytes() for path in inputs])
    target.write_bytes(data)
    return receipt
