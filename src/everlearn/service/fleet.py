"""Delivers the events of a Memory in a database, which several replicas of a service change.

Each replica reads the events of the Memory (``EventLog``) and sends all of them to its own
listeners. A webhook or a broker, called a consumer, is notified by one replica at a time. It
records its progress; when it ends, another one continues from there. Events that were sent but not
recorded when a replica is killed are sent again under the same number, so a consumer receives every
change at least once.
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

# How often a replica looks for events, and for consumers that no replica notifies.
POLL_SECONDS = 0.5
# How often it checks whether sent events have arrived.
ARRIVAL_SECONDS = 0.02
RETRY_SECONDS = 1.0
# Most events read at a time, and most events sent but not yet acknowledged.
MOST_READ = 256
IN_FLIGHT = 16
# Time limit for pending deliveries at the end of the service.
CLOSING_SECONDS = 5.0


class Consumer(Protocol):
    """An external receiver of changes.

    Attributes
    ----------
    key : str
        The same in every replica and after every restart; contains no secret.
    """

    key: str

    def deliver(self, memory: str, event: StoredEvent) -> Callable[[], bool]:
        """Start sending an event; the result tells whether it has arrived or was given up."""


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
        self._last_sent: int | None = None
        self._in_flight: deque[tuple[int, Callable[[], bool]]] = deque()

    @property
    def is_pending(self) -> bool:
        """Whether events were sent whose arrival is not yet known."""
        return bool(self._in_flight)

    def send_next(self) -> bool:
        """Send the next events if this replica notifies the consumer; whether there were any."""
        key = self._consumer.key
        if not self._log.lead(key):
            self._last_sent = None
            self._in_flight.clear()
            return False
        self._note_arrivals()
        if self._last_sent is None or not self._in_flight:
            # Another replica may have sent events in the meantime: they are not repeated.
            self._last_sent = max(self._last_sent or 0, self._log.cursor(key, self._start))
        room = IN_FLIGHT - len(self._in_flight)
        found = self._log.after(self._last_sent, room) if room else []
        for event in found:
            self._in_flight.append((event.number, self._consumer.deliver(self._memory, event)))
            self._last_sent = event.number
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
        self._start = self._last_published = log.last()
        self._closing: float | None = None
        self._thread = threading.Thread(target=self._run, name="everlearn events", daemon=True)
        self._thread.start()

    def add(self, consumers: Iterable[Consumer]) -> None:
        """Notify these consumers, of events after their recorded progress or after the start."""
        self._deliveries += [
            Delivery(self._memory, self._log, one, self._start) for one in consumers
        ]

    def close(self) -> None:
        """Wait a few seconds for pending events to arrive; another replica sends the rest."""
        self._closing = time.monotonic() + CLOSING_SECONDS
        self._thread.join()
        self._log.close()

    def _run(self) -> None:
        unreachable = False
        while True:
            try:
                busy = self._deliver_new()
                if unreachable:
                    LOG.warning("events of %s are delivered again", self._memory)
                unreachable = False
                if self._closing is not None and (not busy or time.monotonic() > self._closing):
                    return
                self._log.wait(ARRIVAL_SECONDS if busy else POLL_SECONDS)
            except EverlearnError as error:
                if not unreachable:
                    LOG.warning("events of %s are not delivered: %s", self._memory, error)
                unreachable = True
            except Exception:
                LOG.exception("events of %s could not be delivered", self._memory)
            else:
                continue
            if self._closing is not None:
                return
            time.sleep(RETRY_SECONDS)

    def _deliver_new(self) -> bool:
        """Deliver new events; returns whether any have not arrived yet."""
        while found := self._log.after(self._last_published, MOST_READ):
            for event in found:
                self._events.publish_to_listeners(
                    self._memory, event.kind, event.facts, event.number
                )
                self._last_published = event.number
        for delivery in list(self._deliveries):
            while delivery.send_next():
                pass
        return any(delivery.is_pending for delivery in self._deliveries)
