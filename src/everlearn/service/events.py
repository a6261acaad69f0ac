"""Broadcasts events to listeners, as server-sent events.

A listener that does not keep up is dropped: it reconnects and reads the current state.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from everlearn.errors import TooBusy

# Events that may wait for a listener before it is dropped.
PATIENCE = 256
# Seconds between comments, which reveal abandoned connections.
ALIVE_SECONDS = 15.0

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
    """Broadcasts every event to all listeners; thread-safe.

    Parameters
    ----------
    most : int
        Maximum number of listeners.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._told = 0
        self._listeners: dict[Listener, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._followers: list[Follower] = []

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def tell(self, memory: str, kind: str, /, **facts: Any) -> None:
        """Publish an event of a Memory."""
        self.tell_quietly(memory, kind, **facts)
        self.tell_listeners(memory, kind, facts)

    def tell_listeners(
        self, memory: str, kind: str, facts: dict[str, Any], number: int | None = None
    ) -> None:
        """As :meth:`tell`, to listeners only; with the number of the event if it has one."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._spread, memory, kind, facts, number)

    def tell_quietly(self, memory: str, kind: str, /, **facts: Any) -> None:
        """As :meth:`tell`, to followers only: too frequent for listeners."""
        for follower in self._followers:
            follower(memory, kind, facts)

    def follow(self, follower: Follower) -> None:
        """Call a function for every event, from any thread; it must not block."""
        self._followers.append(follower)

    def listen(self, memory: str) -> AsyncIterator[str]:
        """Events of a Memory from the first read on, as text to be sent."""
        self._loop = asyncio.get_running_loop()
        if len(self._listeners) >= self._most:
            raise TooBusy(f"{self._most} clients already listen to events; close one of them")
        return self._heard(memory)

    def close(self) -> None:
        """Disconnect all listeners; thread-safe."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._dismiss)

    def _dismiss(self) -> None:
        for listener in list(self._listeners):
            self._drop(listener)

    def _spread(self, memory: str, kind: str, facts: dict[str, Any], number: int | None) -> None:
        self._told += 1
        text = json.dumps(facts | {"memory": memory}, ensure_ascii=False)
        message = f"id: {number or self._told}\nevent: {kind}\ndata: {text}\n\n"
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

    async def _heard(self, memory: str) -> AsyncIterator[str]:
        listener: Listener = asyncio.Queue(PATIENCE)
        self._listeners[listener] = memory
        try:
            yield ": listening\n\n"
            while not self._closed:
                try:
                    message = await asyncio.wait_for(listener.get(), ALIVE_SECONDS)
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                if message is None:
                    return
                yield message
        finally:
            self._listeners.pop(listener, None)
