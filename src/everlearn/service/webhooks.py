"""Posts events to webhook URLs, signed.

    POST URL
    content-type: application/json
    everlearn-id: 17                       unchanged when it is sent again
    everlearn-signature: t=1750000000,v1=… HMAC-SHA256 of "t.body" under the secret, in hex

    {"id": 17, "time": 1750000000.1, "memory": "memory", "event": "taught", "facts": {…}}

Each URL has its own thread and queue, so that one that does not answer delays no other and never
the service. Events arrive in order. An event that is not answered with 2xx is sent again after
1, 2, 4, … seconds, a limited number of times; one answered with 4xx, except 408 and 429, is dropped
at once. Consecutive unknown frames are combined into one event with their ``count``; if the queue
is full, the oldest of them are dropped before any change. Dropped events are counted in the
metrics. Ids increase across restarts: they begin at the start time in microseconds.

Changes of a Memory in a database are sent by one of the replicas (fleet.py), under ids assigned by
the database. Events not sent before the end are sent by another replica, or at the next start.
"""

import hashlib
import hmac
import http.client
import json
import logging
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from everlearn.errors import InvalidParameter
from everlearn.memory.storage.interface import StoredEvent
from everlearn.service.http_address import is_http

LOG = logging.getLogger("everlearn.service")

WAITING = 1_000
# Changes may wait up to this many times the limit.
MOST_CHANGES = 10
# Events of single frames, which can be combined.
FRAMES = frozenset({"unknown"})
TRIES = 6
ANSWER_SECONDS = 10.0
LONGEST_PAUSE = 60.0
# Time limit for waiting events at the end of the service.
CLOSING_SECONDS = 5.0
# Frequent events that are not sent.
UNSENT = frozenset({"progress", "answered"})


def signature(secret: str, when: int, body: bytes) -> str:
    """Proves that a body was sent by a holder of the secret, and when."""
    digest = hmac.new(secret.encode(), f"{when}.".encode() + body, hashlib.sha256)
    return f"t={when},v1={digest.hexdigest()}"


class WaitingEvents:
    """A bounded queue of events to be sent; frames are dropped before changes.

    Parameters
    ----------
    most : int
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._events: deque[dict[str, Any]] = deque()
        self._taken: dict[str, Any] | None = None
        self._changed = threading.Condition()

    def put(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Queue an event; returns the event that was dropped, which may be this one."""
        with self._changed:
            last = self._events[-1] if self._events else None
            if last is not None and _are_combined(last, event):
                self._events[-1] = event | {"count": last.get("count", 1) + 1}
                return None
            dropped = None
            if len(self._events) >= self._most:
                dropped = self._dropped_for(event)
                if dropped is event:
                    return event
                if dropped is not None:
                    self._events.remove(dropped)
            self._events.append(event)
            self._changed.notify()
            return dropped

    def _dropped_for(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """What to drop from a full queue: the oldest frame; the event itself if it is a frame.

        Changes are dropped only beyond a higher limit.
        """
        oldest_frame = next((one for one in self._events if one["event"] in FRAMES), None)
        if oldest_frame is not None:
            return oldest_frame
        full = len(self._events) >= MOST_CHANGES * self._most
        return event if full or event["event"] in FRAMES else None

    def get(self, seconds: float) -> dict[str, Any] | None:
        """The next event, unfinished until the next call; ``None`` on timeout."""
        with self._changed:
            self._taken = None
            if not self._events:
                self._changed.wait(seconds)
            self._taken = self._events.popleft() if self._events else None
            return self._taken

    def unfinished(self) -> list[dict[str, Any]]:
        """The event that is being sent and the waiting ones, in order."""
        with self._changed:
            return ([] if self._taken is None else [self._taken]) + list(self._events)


def _are_combined(last: dict[str, Any], event: dict[str, Any]) -> bool:
    return event["event"] in FRAMES and all(last[k] == event[k] for k in ("event", "memory"))


# The Memory and the number of an event of a database, whose delivery is awaited (fleet.py).
Awaited = tuple[str, int]


def _awaited(event: dict[str, Any]) -> Awaited:
    return event["memory"], event["id"]


class Webhook:
    """One URL with its queue and thread.

    Parameters
    ----------
    url : str
    secret : str
    waiting : int
        Number of events that may wait; ten times as many changes.
    first_pause : float
        Seconds before a failed event is sent again; doubled each time.
    """

    def __init__(
        self, url: str, secret: str, *, waiting: int = WAITING, first_pause: float = 1.0
    ) -> None:
        if not is_http(url):
            raise InvalidParameter(f"a webhook looks like https://example.org/hook, not {url!r}")
        parts = urlsplit(url)
        # The URL may contain a secret, and the key is stored in a database.
        self.key = f"webhook {hashlib.blake2b(url.encode(), digest_size=16).hexdigest()}"
        self.sent = self.lost = 0
        self._deliveries: dict[Awaited, threading.Event] = {}
        self._parts = parts
        self._secret = secret
        self._first_pause = first_pause
        self._events = WaitingEvents(waiting)
        self._stopping = threading.Event()
        # After the end nothing is counted any more, under this lock.
        self._gate = threading.Lock()
        self._closed = False
        self._failed_at_end = 0
        self._thread = threading.Thread(target=self._run, name="everlearn webhook", daemon=True)
        self._thread.start()

    def put(self, event: dict[str, Any]) -> None:
        """Queue one event."""
        dropped = self._events.put(event)
        if dropped is not None:
            self.lost += 1
            self._finish(dropped)

    def _finish(self, event: dict[str, Any]) -> None:
        """Report that an event has arrived or was given up."""
        done = self._deliveries.pop(_awaited(event), None)
        if done is not None:
            done.set()

    def deliver(self, memory: str, event: StoredEvent) -> Callable[[], bool]:
        """Queue an event of a database; the result tells whether it arrived or was given up."""
        done = self._deliveries[memory, event.number] = threading.Event()
        self.put(_message(event.number, event.time, memory, event.kind, event.facts))
        return done.is_set

    @property
    def unfinished(self) -> int:
        """Number of events that wait or are being sent."""
        return 0 if self._closed else len(self._events.unfinished())

    def stop(self) -> None:
        """Try each waiting event once more, without pauses."""
        self._stopping.set()

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Send waiting events until the timeout; then log and count those that did not arrive."""
        self.stop()
        self._thread.join(seconds)
        with self._gate:
            left = self._events.unfinished()
            self._closed = True
        lost = [event for event in left if _awaited(event) not in self._deliveries]
        self.lost += len(lost)
        host = self._parts.hostname
        if gone := self._failed_at_end + len(lost):
            LOG.warning("%d events were not delivered to %s before the end", gone, host)
        if later := len(self._deliveries):
            LOG.warning(
                "%d events were not delivered to %s before the end; another replica sends them, or "
                "the next start",
                later,
                host,
            )

    def _run(self) -> None:
        while True:
            event = self._events.get(0.2)
            if event is None:
                if self._stopping.is_set():
                    return
                continue
            body = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")
            try:
                arrived = self._send(event["id"], body)
            except Exception:
                LOG.exception("a webhook failed")
                arrived = False
            with self._gate:
                if self._closed:
                    return
                self._note(event, arrived=arrived)

    def _note(self, event: dict[str, Any], *, arrived: bool) -> None:
        """Count an event that has arrived or was given up."""
        if arrived:
            self.sent += 1
        elif not self._stopping.is_set():
            self.lost += 1
        elif _awaited(event) in self._deliveries:
            return  # not dropped: the next replica sends it
        else:
            self.lost += 1
            self._failed_at_end += 1
        self._finish(event)

    def _send(self, number: int, body: bytes) -> bool:
        """Post an event until it is accepted or given up; returns whether it was accepted."""
        pause = self._first_pause
        for attempt in range(TRIES):
            if attempt and self._stopping.wait(pause):
                return False
            pause = min(2 * pause, LONGEST_PAUSE) if attempt else pause
            try:
                status = self._post(number, body)
            except (OSError, ValueError, http.client.HTTPException) as error:
                LOG.warning("a webhook did not answer: %s", error)
                continue
            if 200 <= status < 300:
                return True
            LOG.warning("a webhook answered %d", status)
            # An event that the receiver rejects is not sent again.
            if 400 <= status < 500 and status not in (408, 429):
                return False
        return False

    def _post(self, number: int, body: bytes) -> int:
        host, port = str(self._parts.hostname), self._parts.port
        connection: http.client.HTTPConnection
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                host, port, timeout=ANSWER_SECONDS, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
        target = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        headers = {
            "content-type": "application/json",
            "user-agent": "everlearn",
            "everlearn-id": str(number),
            "everlearn-signature": signature(self._secret, int(time.time()), body),
        }
        try:
            connection.request("POST", target, body, headers)
            return connection.getresponse().status
        finally:
            connection.close()


def _message(
    number: int, when: float, memory: str, kind: str, facts: dict[str, Any]
) -> dict[str, Any]:
    return {"id": number, "time": when, "memory": memory, "event": kind, "facts": facts}


class Webhooks:
    """Sends every event to every URL; passed to ``Events.follow``.

    Parameters
    ----------
    urls : sequence of str
    secret : str
    """

    def __init__(self, urls: Sequence[str], secret: str, **options: Any) -> None:
        if urls and not secret:
            raise InvalidParameter(
                "webhooks are signed; set EVERLEARN_WEBHOOK_SECRET to a secret the receiver knows"
            )
        self.hooks = self.consumers = [Webhook(url, secret, **options) for url in urls]
        self._number = time.time_ns() // 1000
        self._gate = threading.Lock()

    def __call__(self, memory: str, kind: str, facts: dict[str, Any]) -> None:
        if kind in UNSENT:
            return
        with self._gate:
            self._number += 1
            for hook in self.hooks:
                hook.put(_message(self._number, time.time(), memory, kind, facts))

    def gauges(self) -> list[tuple[str, str, float]]:
        """Gauges for the metrics."""
        return [
            ("everlearn_webhooks_lost", "", sum(hook.lost for hook in self.hooks)),
            ("everlearn_webhooks_sent", "", sum(hook.sent for hook in self.hooks)),
            ("everlearn_webhooks_waiting", "", sum(hook.unfinished for hook in self.hooks)),
        ]

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Send waiting events to all receivers side by side, until the timeout."""
        for hook in self.hooks:
            hook.stop()
        end = time.monotonic() + seconds
        for hook in self.hooks:
            hook.close(max(0.0, end - time.monotonic()))
