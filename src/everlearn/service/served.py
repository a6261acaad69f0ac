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
# A Memory that takes longer to answer is not ready.
READY_SECONDS = 5.0
# A replica whose database has been silent for longer is not ready.
MOST_LAG_SECONDS = 5.0
# Number of sessions kept, and the time without a frame after which one starts over.
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
        self._most_waiting = settings.waiting
        self._unanswered = 0
        self._unanswered_lock = threading.Lock()
        self._long_questions = asyncio.Lock()
        # The name published last, by session; the key None is for questions outside of sessions.
        self._last_names: OrderedDict[str | None, str | None] = OrderedDict()
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

        ``whole`` says that the change is a single transaction. A database then stores the key
        along with it; other keys are remembered by this process only.
        """
        if key is not None and whole and self.memory.keeps_keys:
            return await asyncio.wrap_future(self.writer.submit(lambda: self._once(work, key)))
        return await asyncio.wrap_future(self.writer.submit(lambda: work(self.memory), key))

    def _once(self, work: Callable[[Memory], Result], key: Key) -> Result:
        """Run a change whose key is stored with the journal, visible to every replica."""
        # Imported lazily: it needs pydantic, which the bridges that import this module do not.
        from everlearn.service.api.kept_answers import from_json_value, to_json_value

        answer = self.memory.once(key.word, key.digest, lambda: to_json_value(work(self.memory)))
        result: Result = from_json_value(answer)
        return result

    def ask(self, work: Callable[[Memory], Result]) -> Future[Result]:
        """Run a read-only question; thread-safe."""
        with self._unanswered_lock:
            if self._unanswered >= self._most_waiting:
                raise TooBusy(
                    f"{self._most_waiting} questions are already waiting; ask again in a second"
                )
            self._unanswered += 1
        try:
            asked = self._askers.submit(work, self.memory)
        except BaseException:
            self._finish_question()
            raise
        asked.add_done_callback(self._finish_question)
        return asked

    def _finish_question(self, _: object = None) -> None:
        with self._unanswered_lock:
            self._unanswered -= 1

    async def question(self, work: Callable[[Memory], Result]) -> Result:
        """As :meth:`ask`, awaited."""
        return await asyncio.wrap_future(self.ask(work))

    async def ready(self) -> bool:
        """Whether questions are answered and changes accepted."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self.question(lambda memory: memory.position)
        except (EverlearnError, OSError):
            return False
        try:
            lag = await asyncio.to_thread(lambda: self.memory.lag_seconds)
        except EverlearnError:
            return False
        return lag <= MOST_LAG_SECONDS and self.writer.waiting < self._most_waiting

    async def long_question(self, work: Callable[[Memory], Result]) -> Result:
        """As :meth:`question`, on a Memory opened for it, so that other questions need not wait.

        One is answered at a time.
        """

        def look() -> Result:
            with Memory(self.memory.path, accept=self.memory.accept, read_only=True) as separate:
                return work(separate)

        async with self._long_questions:
            return await asyncio.to_thread(look)

    def combine_frames(self, session: str, answers: Answers) -> Steady:
        """Combine an answer with those to the latest frames of its session; sets ``steady``.

        A session is a word chosen by the client, for instance one for each camera. It starts over
        after a few seconds without a frame, or when too many others were used since.
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

    def publish_answer(
        self, answers: Answers, *, session: str | None = None, example: Any = None
    ) -> None:
        """Publish an answer to followers if its name differs from the last one.

        In a session this is the combined answer, so *unknown* is published once and not for every
        frame. Each session has its own last name: two still cameras do not alternate.
        """
        best, steady = answers[0] if answers else None, answers.steady
        name = best.name if best and not answers.unknown else None
        probability = best.probability if best else None
        if steady is not None:
            name, probability = steady.name, steady.probability
        new = steady is None or (steady.changed and name is None)
        if answers.unknown and not answers.ignored and new:
            self.publish("unknown", nearest=best.name if best else None)
        if session in self._last_names and self._last_names[session] == name:
            self._last_names.move_to_end(session)
            return
        self._last_names[session] = name
        self._last_names.move_to_end(session)
        while len(self._last_names) > SESSIONS:
            self._last_names.popitem(last=False)
        facts = answer_facts(name, probability, example)
        whose = {} if session is None else {"session": session}
        self._events.publish_to_followers(self.name, "answered", **facts, **whose)

    def publish(self, kind: str, /, **facts: object) -> None:
        """Publish an event; thread-safe.

        Does nothing for a change of a Memory in a database: every replica reads it from the journal
        and publishes it (fleet.py).
        """
        if self.fleet is None or kind not in CHANGES:
            self._events.publish(self.name, kind, **facts)

    def close(self) -> None:
        """Finish queued work; the Memory stays open and is closed by its owner."""
        self.writer.close()
        if self.fleet is not None:
            self.fleet.close()
        self._askers.shutdown(wait=True)


def answer_facts(name: str | None, probability: float | None, example: Any) -> dict[str, Any]:
    """An answer as an event; ``frame`` is a digest of the picture that was asked about."""
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
        self.gauge_sources: list[Any] = []
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
        """Send all events to a follower; its gauges appear in the metrics, if it has any."""
        self.events.follow(follower)
        if hasattr(follower, "gauges"):
            self.gauge_sources.append(follower)
        consumers: list[Consumer] = getattr(follower, "consumers", [])
        for served in self.served.values():
            if served.fleet is not None:
                served.fleet.add(consumers)

    def close(self) -> None:
        """Finish acknowledged and queued work."""
        self.events.close()
        for served in self.served.values():
            served.close()
