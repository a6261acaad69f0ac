"""A single writer with a queue: changes are made one after the other, in the order received.

A change with a key is made once: the same request with the same key gets the first answer again.
Keys live as long as the process, up to a limit. Beyond that, a Memory itself treats the same image
under the same name as one teaching.
"""

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from everlearn.errors import KeyReused, TooBusy

Result = TypeVar("Result")


@dataclass(frozen=True)
class Key:
    """A client's key of a change, and the digest of its request."""

    word: str
    digest: bytes


@dataclass(frozen=True)
class WriteJob:
    """One queued change."""

    work: Callable[[], Any]
    key: Key | None
    done: "Future[Any]"
    queued: float


class WriteQueue:
    """A thread that makes changes.

    Parameters
    ----------
    waiting : int
        Number of changes that may wait.
    kept_keys : int
        Number of keys remembered.
    waited : callable, optional
        Called with the waiting time of each change, in seconds.
    """

    def __init__(
        self, waiting: int, kept_keys: int, waited: Callable[[float], None] | None = None
    ) -> None:
        self._waited = waited or (lambda seconds: None)
        self._jobs: queue.Queue[WriteJob | None] = queue.Queue(waiting)
        self._kept_keys = kept_keys
        self._answers: OrderedDict[str, tuple[bytes, Any]] = OrderedDict()
        self._gate = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="everlearn writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of waiting changes."""
        return self._jobs.qsize()

    def submit(self, work: Callable[[], Result], key: Key | None = None) -> "Future[Result]":
        """Queue a change; the future is done when the change is on disk."""
        done: Future[Result] = Future()
        with self._gate:
            if self._closed:
                raise TooBusy("the service is stopping; nothing was changed")
            try:
                self._jobs.put_nowait(WriteJob(work, key, done, time.monotonic()))
            except queue.Full:
                raise TooBusy(
                    f"{self._jobs.maxsize} changes are already waiting; nothing was changed, "
                    "send this one again in a second"
                ) from None
        return done

    def close(self) -> None:
        """Finish queued changes, then stop."""
        with self._gate:
            already, self._closed = self._closed, True
        if not already:
            self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._waited(time.monotonic() - job.queued)
            if not job.done.set_running_or_notify_cancel():
                continue
            try:
                job.done.set_result(self._once(job))
            except BaseException as error:
                job.done.set_exception(error)

    def _once(self, job: WriteJob) -> Any:
        if job.key is None:
            return job.work()
        if job.key.word in self._answers:
            digest, answer = self._answers[job.key.word]
            if digest != job.key.digest:
                raise KeyReused(
                    f"the key {job.key.word!r} was used for another request; "
                    "nothing was changed. Use a new key for every change"
                )
            return answer
        answer = job.work()
        self._answers[job.key.word] = job.key.digest, answer
        if len(self._answers) > self._kept_keys:
            self._answers.popitem(last=False)
        return answer
