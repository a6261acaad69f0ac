"""Broadcasts events to listeners, as server-sent events.

A listener that does not keep up is dropped: it reconnects and reads the current state.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from everlearn.errors import TooBusy

# Events that may wait for a listener before it is dropped.
WAITING_EVENTS = 256
# Seconds between comments; sending them reveals connections that are gone.
KEEP_ALIVE_SECONDS = 15.0

# Kinds of events that change a Memory; the others are observations of one process.
CHANGES = frozenset(
    {
        "taught", "corrected", "forgotten", "erased", "renamed", "undone", "redone", "named",
        "ignored", "dropped", "merged",
    }
)  # fmt: skip

Listener = asyncio.Queue[str | None]
Follower = Callable[[str, str, dict[str, Any]], None]


class Events:
    """Publishes events to listeners and followers; thread-safe.

    Listeners are HTTP clients that read the events of one Memory. Followers are functions of this
    process that are called with the events of all Memories.

    Parameters
    ----------
    most : int
        Maximum number of listeners.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._last_id = 0
        self._listeners: dict[Listener, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._followers: list[Follower] = []

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def publish(self, memory: str, kind: str, /, **facts: Any) -> None:
        """Publish an event of a Memory."""
        self.publish_to_followers(memory, kind, **facts)
        self.publish_to_listeners(memory, kind, facts)

    def publish_to_listeners(
        self, memory: str, kind: str, facts: dict[str, Any], number: int | None = None
    ) -> None:
        """As :meth:`publish`, to listeners only; ``number`` is the id of a stored event."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._broadcast, memory, kind, facts, number)

    def publish_to_followers(self, memory: str, kind: str, /, **facts: Any) -> None:
        """As :meth:`publish`, to followers only, for events too frequent for listeners."""
        for follower in self._followers:
            follower(memory, kind, facts)

    def follow(self, follower: Follower) -> None:
        """Call a function for every event, from any thread; it must not block."""
        self._followers.append(follower)

    def listen(self, memory: str) -> AsyncIterator[str]:
        """A new listener: the events of a Memory as text, beginning with the first read."""
        self._loop = asyncio.get_running_loop()
        if len(self._listeners) >= self._most:
            raise TooBusy(f"{self._most} clients already listen to events; close one of them")
        return self._stream(memory)

    def close(self) -> None:
        """Disconnect all listeners; thread-safe."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drop_all)

    def _drop_all(self) -> None:
        for listener in list(self._listeners):
            self._drop(listener)

    def _broadcast(self, memory: str, kind: str, facts: dict[str, Any], number: int | None) -> None:
        self._last_id += 1
        text = json.dumps(facts | {"memory": memory}, ensure_ascii=False)
        message = f"id: {number or self._last_id}\nevent: {kind}\ndata: {text}\n\n"
        for listener, wanted in list(self._listeners.items()):
            if wanted != memory:
                continue
            try:
                listener.put_nowait(message)
            except asyncio.QueueFull:
                self._drop(listener)

    def _drop(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)
        if listener.full():
            listener.get_nowait()
        listener.put_nowait(None)

    async def _stream(self, memory: str) -> AsyncIterator[str]:
        listener: Listener = asyncio.Queue(WAITING_EVENTS)
        self._listeners[listener] = memory
        try:
            yield ": listening\n\n"
            while not self._closed:
                try:
                    message = await asyncio.wait_for(listener.get(), KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                if message is None:
                    return
                yield message
        finally:
            self._listeners.pop(listener, None)
