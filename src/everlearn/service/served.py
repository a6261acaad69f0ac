"""A served Memory: changes go through its single writer, questions run beside it.

A question sees the Memory before or after a change, never within one (the Memory ensures that), so
questions do not wait in the writer's queue.
"""

import asyncio
import hashlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from everlearn.errors import EverlearnError, InvalidParameter, TooBusy, UnknownMemory
from everlearn.memory.answers import Answers, Steady
from everlearn.memory.memory import Memory
from everlearn.memory.session import Session
from everlearn.service.events import CHANGES, Events, Follower
from everlearn.service.fleet import Consumer, FleetEvents
from everlearn.service.held_bytes import HeldBytes
from everlearn.service.metrics import Metrics
from everlearn.service.settings import Settings
from everlearn.service.writer import Key, WriteQueue

Result = TypeVar("Result")

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
# Longest time a Memory may take to answer and still be ready.
READY_SECONDS = 5.0
# A replica whose database has been silent for longer is not ready.
MOST_LAG_SECONDS = 5.0
# Number of sessions kept, and the time after which an idle one ends.
SESSIONS = 256
SESSION_SECONDS = 10.0
# More threads than this do not decode and embed faster.
ASKERS = max(2, min(4, os.cpu_count() or 2))


class Served:
    """One Memory of a service.

    Parameters
    ----------
    name : str
        The service's name of it.
    memory : Memory
    settings : Settings
    events : Events
    metrics : Metrics
    """

    def __init__(
        self, name: str, memory: Memory, settings: Settings, events: Events, metrics: Metrics
    ) -> None:
        self.name = name
        self.memory = memory
        self._events = events
        self._most = settings.waiting
        self._asking = 0
        self._count = threading.Lock()
        self._one_at_a_time = asyncio.Lock()
        # The answer told last, by session; None is the questions outside of sessions.
        self._answered: OrderedDict[str | None, str | None] = OrderedDict()
        self._sessions: OrderedDict[str, tuple[Session, float]] = OrderedDict()
        self._sessions_lock = threading.Lock()
        self.writer = WriteQueue(
            settings.waiting,
            settings.kept_keys,
            lambda seconds: metrics.queue_seconds.observe(name, seconds),
        )
        self._askers = ThreadPoolExecutor(ASKERS, thread_name_prefix="everlearn asker")
        log = memory.event_log()
        self.fleet = None if log is None else FleetEvents(name, log, events)

    async def change(
        self, work: Callable[[Memory], Result], key: Key | None = None, *, whole: bool = True
    ) -> Result:
        """Queue a change; it is on disk when this returns.

        ``whole`` is a change of one transaction, whose key can be stored with it in a database; the
        keys of other changes are remembered by this process only.
        """
        if key is not None and whole and self.memory.keeps_keys:
            return await asyncio.wrap_future(self.writer.submit(lambda: self._once(work, key)))
        return await asyncio.wrap_future(self.writer.submit(lambda: work(self.memory), key))

    def _once(self, work: Callable[[Memory], Result], key: Key) -> Result:
        """Run a change whose key is stored with the journal, visible to every replica."""
        from everlearn.service.api.kept_answers import restored, written

        answer = self.memory.once(key.word, key.digest, lambda: written(work(self.memory)))
        result: Result = restored(answer)
        return result

    def ask(self, work: Callable[[Memory], Result]) -> Future[Result]:
        """Run a read-only question; thread-safe."""
        with self._count:
            if self._asking >= self._most:
                raise TooBusy(f"{self._most} questions are already waiting; ask again in a second")
            self._asking += 1
        try:
            asked = self._askers.submit(work, self.memory)
        except BaseException:
            self._one_less()
            raise
        asked.add_done_callback(self._one_less)
        return asked

    def _one_less(self, _: object = None) -> None:
        with self._count:
            self._asking -= 1

    async def question(self, work: Callable[[Memory], Result]) -> Result:
        """As :meth:`ask`, awaited."""
        return await asyncio.wrap_future(self.ask(work))

    async def ready(self) -> bool:
        """Whether questions are answered and changes accepted."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self.question(lambda memory: memory.names())
        except (EverlearnError, OSError):
            return False
        try:
            lag = await asyncio.to_thread(lambda: self.memory.lag_seconds)
        except EverlearnError:
            return False
        return lag <= MOST_LAG_SECONDS and self.writer.waiting < self._most

    async def aside(self, work: Callable[[Memory], Result]) -> Result:
        """Run a long question on a separate read-only Memory, so that others need not wait."""

        def look() -> Result:
            with Memory(self.memory.path, accept=self.memory.accept, read_only=True) as beside:
                return work(beside)

        async with self._one_at_a_time:
            return await asyncio.to_thread(look)

    def steadied(self, session: str, answers: Answers) -> Steady:
        """The combined answer of the latest frames of a session, including this one.

        A session is a word: of a camera, of a page. One that was silent for long, or that is not
        among the latest used, starts over.
        """
        now = time.monotonic()
        with self._sessions_lock:
            kept, last = self._sessions.pop(session, (Session(), now))
            if now - last > SESSION_SECONDS:
                kept = Session()
            self._sessions[session] = kept, now
            while len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)
            answers.steady = kept.add(answers)
        return answers.steady

    def note_answer(
        self, answers: Answers, *, session: str | None = None, example: Any = None
    ) -> None:
        """Record an answer for followers; publishes an event when the name changes.

        In a session, that is the combined answer: *unknown* is then published once, not per frame.
        Sessions are compared with themselves: two still cameras do not take turns.
        """
        best, steady = answers[0] if answers else None, answers.steady
        name = best.name if best and not answers.unknown else None
        probability = best.probability if best else None
        if steady is not None:
            name, probability = steady.name, steady.probability
        new = steady is None or (steady.changed and name is None)
        if answers.unknown and not answers.ignored and new:
            self.tell("unknown", nearest=best.name if best else None)
        if session in self._answered and self._answered[session] == name:
            self._answered.move_to_end(session)
            return
        self._answered[session] = name
        self._answered.move_to_end(session)
        while len(self._answered) > SESSIONS:
            self._answered.popitem(last=False)
        facts = answer_facts(name, probability, example)
        whose = {} if session is None else {"session": session}
        self._events.tell_quietly(self.name, "answered", **facts, **whose)

    def tell(self, kind: str, /, **facts: object) -> None:
        """Notify listeners; thread-safe.

        A change in a database is published from its journal, by every replica.
        """
        if self.fleet is None or kind not in CHANGES:
            self._events.tell(self.name, kind, **facts)

    def close(self) -> None:
        """Finish queued work; the Memory stays open, its owner closes it."""
        self.writer.close()
        if self.fleet is not None:
            self.fleet.close()
        self._askers.shutdown(wait=True)


def answer_facts(name: str | None, probability: float | None, example: Any) -> dict[str, Any]:
    """What followers are told of an answer; ``frame`` is a digest of the picture asked about."""
    picture = isinstance(example, bytes)
    return {
        "name": name,
        "unknown": name is None,
        "probability": probability,
        "frame": hashlib.sha256(example).hexdigest()[:16] if picture else None,
    }


class Service:
    """Everything one process serves.

    Parameters
    ----------
    memories : mapping of str to Memory
        The first one is the default.
    settings : Settings
    """

    def __init__(self, memories: Mapping[str, Memory], settings: Settings) -> None:
        if not memories:
            raise InvalidParameter("a service needs at least one Memory")
        for name in memories:
            if not NAME.fullmatch(name):
                raise InvalidParameter(
                    "the name of a served Memory has at most 100 letters, digits, dots, dashes and "
                    f"underscores; {name!r} does not"
                )
        self.settings = settings
        self.streams = 0
        self.held = HeldBytes(settings.held_bytes)
        self.outward: list[Any] = []
        self.events = Events(settings.listeners)
        self.metrics = Metrics()
        self.served = {
            name: Served(name, memory, settings, self.events, self.metrics)
            for name, memory in memories.items()
        }

    def find(self, name: str | None) -> Served:
        """The Memory of that name; defaults to the first one."""
        if name is None:
            return next(iter(self.served.values()))
        if name not in self.served:
            raise UnknownMemory(
                f"there is no Memory called {name!r} here; known: "
                f"{', '.join(map(repr, self.served))}"
            )
        return self.served[name]

    def follow(self, follower: Follower) -> None:
        """Register an external follower of all events."""
        self.events.follow(follower)
        if hasattr(follower, "gauges"):
            self.outward.append(follower)
        consumers: list[Consumer] = getattr(follower, "consumers", [])
        for served in self.served.values():
            if served.fleet is not None:
                served.fleet.add(consumers)

    def close(self) -> None:
        """Finish acknowledged and queued work."""
        self.events.close()
        for served in self.served.values():
            served.close()
