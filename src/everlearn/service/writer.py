"""One writer with a queue: changes happen one after the other, in the order they came.

A change that carries a key happens once: whoever sends the same request with the same key again is
given the first answer. Keys live as long as the process, the latest so many of them. What outlives
the process is the Memory's own rule that the same image under the same name is one teaching.
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
    """What a client calls a change, and the digest of what it sent."""

    word: str
    digest: bytes


@dataclass(frozen=True)
class WriteJob:
    """One change that waits for its turn."""

    work: Callable[[], Any]
    key: Key | None
    done: "Future[Any]"
    queued: float


class WriteQueue:
    """A thread that makes changes.

    Parameters
    ----------
    waiting : int
        How many changes may wait.
    kept_keys : int
        How many keys are remembered.
    waited : callable, optional
        Told for each change how many seconds it waited.
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
        """How many changes wait."""
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
                    f"{self._jobs.maxsize} changes are waiting already; nothing was changed, "
                    "send this one again in a second"
                ) from None
        return done

    def close(self) -> None:
        """Finish what was queued, then stop."""
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
                    "nothing was changed, make a new key for every change"
                )
            return answer
        answer = job.work()
        self._answers[job.key.word] = job.key.digest, answer
        if len(self._answers) > self._kept_keys:
            self._answers.popitem(last=False)
        return answer
