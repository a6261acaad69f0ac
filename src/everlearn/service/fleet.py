"""Delivers the events of a Memory that many processes change, once per fleet of replicas.

Each replica follows the Memory's events (``EventLog``) and sends all of them to its own listeners.
An external consumer, a webhook or a broker, is notified by one replica at a time, which records its
progress; when it ends, another continues from there. Events that were sent but not yet recorded
when a replica is killed are sent again under the same number, so a consumer receives every change
at least once.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from everlearn.errors import EverlearnError
from everlearn.memory.storage.interface import EventLog, StoredEvent
from everlearn.service.events import Events

LOG = logging.getLogger("everlearn.service")

# How often a replica polls for events, and for a consumer without a replica.
LOOK_SECONDS = 0.5
# How often it checks whether sent events have arrived.
CHECK_SECONDS = 0.02
RETRY_SECONDS = 1.0
# Most events read at a time, and most events sent but not yet acknowledged.
AT_ONCE = 256
IN_FLIGHT = 16
# Time limit for pending deliveries at the end of the service.
FAREWELL_SECONDS = 5.0


class Consumer(Protocol):
    """An external receiver of changes.

    Attributes
    ----------
    key : str
        The same in every replica and after every restart; contains no secret.
    """

    key: str

    def deliver(self, memory: str, event: StoredEvent) -> Callable[[], bool]:
        """Send an event asynchronously; the result tells whether it arrived or was given up."""


class Delivery:
    """The progress of one consumer of one Memory.

    Parameters
    ----------
    memory : str
    log : EventLog
    consumer : Consumer
    start : int
        The event after which a new consumer begins.
    """

    def __init__(self, memory: str, log: EventLog, consumer: Consumer, start: int) -> None:
        self._memory = memory
        self._log = log
        self._consumer = consumer
        self._start = start
        self._offered: int | None = None
        self._in_flight: deque[tuple[int, Callable[[], bool]]] = deque()

    @property
    def waits(self) -> bool:
        """Whether events were sent whose arrival is not yet known."""
        return bool(self._in_flight)

    def go_on(self) -> bool:
        """Send the next events if this replica is responsible; returns whether there were any."""
        key = self._consumer.key
        if not self._log.lead(key):
            self._offered = None
            self._in_flight.clear()
            return False
        self._note_arrivals()
        if self._offered is None or not self._in_flight:
            # Another replica may have been responsible: do not repeat what it recorded.
            self._offered = max(self._offered or 0, self._log.cursor(key, self._start))
        room = IN_FLIGHT - len(self._in_flight)
        found = self._log.after(self._offered, room) if room else []
        for event in found:
            self._in_flight.append((event.number, self._consumer.deliver(self._memory, event)))
            self._offered = event.number
        return bool(found)

    def _note_arrivals(self) -> None:
        arrived = None
        while self._in_flight and self._in_flight[0][1]():
            arrived = self._in_flight.popleft()[0]
        if arrived is not None:
            self._log.advance(self._consumer.key, arrived)


class FleetEvents:
    """A thread that follows the events of one Memory.

    Parameters
    ----------
    memory : str
        The service's name of it.
    log : EventLog
        Closed by this object.
    events : Events
        Their listeners are notified.
    """

    def __init__(self, memory: str, log: EventLog, events: Events) -> None:
        self._memory = memory
        self._log = log
        self._events = events
        self._deliveries: list[Delivery] = []
        self._start = self._seen = log.last()
        self._closing: float | None = None
        self._thread = threading.Thread(target=self._run, name="everlearn events", daemon=True)
        self._thread.start()

    def add(self, consumers: Iterable[Consumer]) -> None:
        """Add consumers, beginning at the start of this service or where they were left."""
        made = [Delivery(self._memory, self._log, one, self._start) for one in consumers]
        self._deliveries += made

    def close(self) -> None:
        """Send what is pending, for a moment; another replica sends the rest."""
        self._closing = time.monotonic() + FAREWELL_SECONDS
        self._thread.join()
        self._log.close()

    def _run(self) -> None:
        unreachable = False
        while True:
            try:
                busy = self._look()
                if unreachable:
                    LOG.warning("events of %s are delivered again", self._memory)
                unreachable = False
                if self._closing is not None and (not busy or time.monotonic() > self._closing):
                    return
                self._log.wait(CHECK_SECONDS if busy else LOOK_SECONDS)
            except EverlearnError as error:
                if not unreachable:
                    LOG.warning("events of %s are not delivered: %s", self._memory, error)
                unreachable = True
                if self._closing is not None:
                    return
                time.sleep(RETRY_SECONDS)

    def _look(self) -> bool:
        """Deliver new events; returns whether any are pending."""
        while found := self._log.after(self._seen, AT_ONCE):
            for event in found:
                self._events.tell_listeners(self._memory, event.kind, event.facts, event.number)
                self._seen = event.number
        for delivery in list(self._deliveries):
            while delivery.go_on():
                pass
        return any(delivery.waits for delivery in self._deliveries)
