"""Events of a Memory that many processes change, told once per fleet.

Each replica follows the Memory's events (``EventLog``) and tells its own listeners all of them.
A consumer outside, a webhook or a broker, is told by one replica at a time. That one notes how far
it came; when it ends, another goes on from there. What was told and not yet noted when a replica is
killed is told again under the same number, so a consumer hears every change at least once.
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

# How often a replica looks for events, and for a consumer that nobody tells, without being told to.
LOOK_SECONDS = 0.5
# How often it looks whether what was sent has arrived.
CHECK_SECONDS = 0.02
AWAY_SECONDS = 1.0
# So many events are read at a time, and so many sent and not yet acknowledged.
AT_ONCE = 256
IN_FLIGHT = 16
# What is on its way when the service ends has this long.
FAREWELL_SECONDS = 5.0


class Consumer(Protocol):
    """Somebody outside who is told of changes.

    Attributes
    ----------
    key : str
        The same in every replica and after every restart; holds no secret.
    """

    key: str

    def deliver(self, memory: str, event: StoredEvent) -> Callable[[], bool]:
        """Send an event, later; what is returned tells whether it arrived or was given up."""


class Delivery:
    """How far one consumer of one Memory is.

    Parameters
    ----------
    memory : str
    log : EventLog
    consumer : Consumer
    start : int
        The event after which a consumer begins that was never told anything.
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
        """Whether something was sent of which it is not known that it arrived."""
        return bool(self._in_flight)

    def go_on(self) -> bool:
        """Send what comes next, if this replica is the one to do it; whether there was any."""
        key = self._consumer.key
        if not self._log.lead(key):
            self._offered = None
            self._in_flight.clear()
            return False
        self._note_arrivals()
        if self._offered is None or not self._in_flight:
            # Another may have led meanwhile: what it noted is not told again.
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
        What the service calls it.
    log : EventLog
        Closed by this.
    events : Events
        Whose listeners are told.
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
        """Tell these as well, from the start of this service on or from where they were left."""
        made = [Delivery(self._memory, self._log, one, self._start) for one in consumers]
        self._deliveries += made

    def close(self) -> None:
        """Send what is there to be sent, for a moment; the rest is for another replica."""
        self._closing = time.monotonic() + FAREWELL_SECONDS
        self._thread.join()
        self._log.close()

    def _run(self) -> None:
        away = False
        while True:
            try:
                busy = self._look()
                if away:
                    LOG.warning("events of %s are told again", self._memory)
                away = False
                if self._closing is not None and (not busy or time.monotonic() > self._closing):
                    return
                self._log.wait(CHECK_SECONDS if busy else LOOK_SECONDS)
            except EverlearnError as error:
                if not away:
                    LOG.warning("events of %s are not told: %s", self._memory, error)
                away = True
                if self._closing is not None:
                    return
                time.sleep(AWAY_SECONDS)

    def _look(self) -> bool:
        """Tell what is new; whether something is on its way."""
        while found := self._log.after(self._seen, AT_ONCE):
            for event in found:
                self._events.tell_listeners(self._memory, event.kind, event.facts, event.number)
                self._seen = event.number
        for delivery in list(self._deliveries):
            while delivery.go_on():
                pass
        return any(delivery.waits for delivery in self._deliveries)
