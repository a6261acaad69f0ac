"""What happens, posted to addresses that asked for it.

    POST URL
    content-type: application/json
    everlearn-id: 17                       the same when it is sent again
    everlearn-signature: t=1750000000,v1=… HMAC-SHA256 of "t.body" under the secret, in hex

    {"id": 17, "time": 1750000000.1, "memory": "memory", "event": "taught", "facts": {…}}

Each address has a thread and a queue of its own, so that one that does not answer delays no other
and never the service. Events arrive in order. One that is refused or not answered is sent again
after 1, 2, 4, … seconds, so often, and then given up. Unknown frames that follow each other are one
event with their ``count``, and where more wait than the queue holds, the oldest of them are lost
before any change is. What is lost is counted in the metrics, also at the end. Ids grow across
restarts: they begin at the time of the start, in microseconds.

Changes of a Memory in a database are told by one replica of all (fleet.py), under ids that the
database gave them. What was not sent before the end is sent by another, or at the next start.
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

LOG = logging.getLogger("everlearn.service")

WAITING = 1_000
# Changes wait until there are this many times as many.
MOST_CHANGES = 10
# Told of every frame, and worth as much when they are counted together.
FRAMES = frozenset({"unknown"})
TRIES = 6
ANSWER_SECONDS = 10.0
LONGEST_PAUSE = 60.0
# Told often, and of use to nobody outside.
UNSENT = frozenset({"progress", "answered"})


def signature(secret: str, when: int, body: bytes) -> str:
    """What proves that a body came from who knows the secret, and when."""
    digest = hmac.new(secret.encode(), f"{when}.".encode() + body, hashlib.sha256)
    return f"t={when},v1={digest.hexdigest()}"


class WaitingEvents:
    """Events that wait to be sent, so many of them; frames make room for changes.

    Parameters
    ----------
    most : int
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._events: deque[dict[str, Any]] = deque()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: dict[str, Any]) -> int:
        """Queue an event; how many are lost for it."""
        with self._changed:
            last = self._events[-1] if self._events else None
            if last is not None and _are_one(last, event):
                self._events[-1] = event | {"count": last.get("count", 1) + 1}
                return 0
            lost = 0
            if len(self._events) >= self._most:
                lost = 1
                frames = [one for one in self._events if one["event"] in FRAMES]
                if frames:
                    self._events.remove(frames[0])
                elif event["event"] in FRAMES or len(self._events) >= MOST_CHANGES * self._most:
                    return 1
                else:
                    lost = 0
            self._events.append(event)
            self._changed.notify()
            return lost

    def get(self, seconds: float) -> dict[str, Any] | None:
        """The next event; ``None`` if none came for so long."""
        with self._changed:
            if not self._events:
                self._changed.wait(seconds)
            return self._events.popleft() if self._events else None

    def numbers(self) -> list[int]:
        """The ids of the events that wait."""
        with self._changed:
            return [event["id"] for event in self._events]


def _are_one(last: dict[str, Any], event: dict[str, Any]) -> bool:
    return event["event"] in FRAMES and all(last[k] == event[k] for k in ("event", "memory"))


class Webhook:
    """One address, its queue and its thread.

    Parameters
    ----------
    url : str
    secret : str
    waiting : int
        How many events may wait; ten times as many changes.
    first_pause : float
        Seconds before a failed event is sent again; doubled each time.
    """

    def __init__(
        self, url: str, secret: str, *, waiting: int = WAITING, first_pause: float = 1.0
    ) -> None:
        parts = urlsplit(url)
        try:
            usable = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port, (parts.hostname or "").encode("idna")
        except ValueError:
            usable = False
        if not usable:
            raise InvalidParameter(f"a webhook looks like https://example.org/hook, not {url!r}")
        # The address itself may hold a secret, and the key is kept in a database.
        self.key = f"webhook {hashlib.blake2b(url.encode(), digest_size=16).hexdigest()}"
        self.sent = self.lost = 0
        self._tickets: dict[int, threading.Event] = {}
        self._parts = parts
        self._secret = secret
        self._first_pause = first_pause
        self._events = WaitingEvents(waiting)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="everlearn webhook", daemon=True)
        self._thread.start()

    def put(self, event: dict[str, Any]) -> None:
        """Queue one event."""
        self.lost += self._events.put(event)

    def deliver(self, memory: str, event: StoredEvent) -> Callable[[], bool]:
        """Queue an event of a database; what is returned tells whether it is dealt with."""
        done = self._tickets[event.number] = threading.Event()
        said = {"id": event.number, "time": event.time, "memory": memory, "event": event.kind}
        self.put(said | {"facts": event.facts})
        return done.is_set

    def close(self, seconds: float = 5.0) -> None:
        """Send what waits, for so long; then give up, and say how many."""
        self._stopping.set()
        self._thread.join(seconds)
        left = sum(number not in self._tickets for number in self._events.numbers())
        if left:
            self.lost += left
            LOG.warning("%d events were not sent to %s before the end", left, self._parts.hostname)

    def _run(self) -> None:
        while True:
            event = self._events.get(0.2)
            if event is None:
                if self._stopping.is_set():
                    return
                continue
            body = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")
            try:
                arrived = self._delivered(event["id"], body)
            except Exception:
                LOG.exception("a webhook failed")
                arrived = False
            ticket = self._tickets.pop(event["id"], None)
            if arrived:
                self.sent += 1
            elif ticket is not None and self._stopping.is_set():
                # Not given up: whoever is next sends it.
                continue
            else:
                self.lost += 1
            if ticket is not None:
                ticket.set()

    def _delivered(self, number: int, body: bytes) -> bool:
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
            # What the receiver calls wrong does not get right by sending it again.
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


class Webhooks:
    """Every event to every address; given to ``Events.follow``.

    Parameters
    ----------
    urls : sequence of str
    secret : str
    """

    def __init__(self, urls: Sequence[str], secret: str, **options: Any) -> None:
        if urls and not secret:
            raise InvalidParameter(
                "webhooks are signed: set EVERLEARN_WEBHOOK_SECRET to a word the receiver knows"
            )
        self.hooks = self.consumers = [Webhook(url, secret, **options) for url in urls]
        self._number = time.time_ns() // 1000
        self._gate = threading.Lock()

    def __call__(self, memory: str, kind: str, facts: dict[str, Any]) -> None:
        if kind in UNSENT:
            return
        with self._gate:
            self._number += 1
            said = {"id": self._number, "time": time.time(), "memory": memory, "event": kind}
            for hook in self.hooks:
                hook.put(said | {"facts": facts})

    def gauges(self) -> list[tuple[str, str, float]]:
        """For the metrics."""
        sent, lost = sum(h.sent for h in self.hooks), sum(h.lost for h in self.hooks)
        return [("everlearn_webhooks_lost", "", lost), ("everlearn_webhooks_sent", "", sent)]

    def close(self) -> None:
        for hook in self.hooks:
            hook.close()
