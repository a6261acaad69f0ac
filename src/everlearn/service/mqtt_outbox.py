"""Messages to a broker: a limited number waits, and each can be asked whether it has arrived.

paho's own record cannot be used: a message given to it while there is no connection is sent later,
but reports an error for ever.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paho.mqtt.client import Client

Arrived = Callable[[], bool]


class Outbox:
    """Publishes at least once (QoS 1), and counts what the broker has not acknowledged.

    Parameters
    ----------
    client : paho.mqtt.client.Client
    """

    def __init__(self, client: "Client") -> None:
        self._client = client
        # Ids that the broker has not acknowledged. paho calls ``on_publish`` while it holds a lock
        # that ``publish`` needs, so the callback only appends.
        self._waiting: set[int] = set()
        self._acknowledged: deque[int] = deque()
        self._lock = threading.Lock()
        client.max_queued_messages_set(0)
        client.on_publish = self._on_publish

    def publish(self, topic: str, text: str, *, retain: bool = False) -> Arrived:
        """Publish a message; the result tells whether it has arrived."""
        with self._lock:
            number = self._client.publish(topic, text, qos=1, retain=retain).mid
            self._waiting.add(number)
        return partial(self._has_arrived, number)

    def publish_within(
        self, most: int, topic: str, text: str, *, retain: bool = False
    ) -> Arrived | None:
        """As :meth:`publish`, unless this many messages wait already: then ``None``."""
        with self._lock:
            self._note()
            full = len(self._waiting) >= most
        return None if full else self.publish(topic, text, retain=retain)

    def _has_arrived(self, number: int) -> bool:
        with self._lock:
            self._note()
            return number not in self._waiting

    def _note(self) -> None:
        while self._acknowledged:
            self._waiting.discard(self._acknowledged.popleft())

    def _on_publish(self, _client: "Client", _data: Any, number: int, *_: Any) -> None:
        self._acknowledged.append(number)
