"""Limits connections: their number, how long they may be silent, and how much they may hold.

silent    if there are too many connections, the one without a request that has been silent
          longest is closed for a new one; so clients that connect and send nothing do not keep
          others out
headers   must arrive within a time limit
unread    a connection whose client does not read what is sent to it is aborted
messages  over WebSockets count against the same limit as request bodies, from their first
          byte on
"""

import asyncio
from collections import OrderedDict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from everlearn.service.held_bytes import HeldBytes
from everlearn.service.settings import Settings

# Memory of a part of a message beside its bytes; without it, parts of one byte would hardly count.
PART_OVERHEAD = 96
TRY_AGAIN = 1013
# A client that is behind must read this many bytes within the time limit.
LEAST_READ = 65_536


class UnreadLimit:
    """Aborts a connection whose client reads too little of what waits to be sent.

    A transport has no time limit for its buffer, neither while writing is paused because the buffer
    is full, nor after it was closed. It is looked at every ``seconds``: in either case the client
    must have read something since the last look.

    Parameters
    ----------
    transport : asyncio.Transport
    loop : asyncio.AbstractEventLoop
    seconds : float
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._transport = transport
        self._loop = loop
        self._seconds = seconds
        self._paused = False
        self._left: int | None = None
        self._look_later()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused, self._left = False, None

    def _look_later(self) -> None:
        self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        left, closed = self._transport.get_write_buffer_size(), self._transport.is_closing()
        if closed and not left:
            return
        if closed or self._paused:
            if self._left is not None and left > self._left - LEAST_READ:
                self._transport.abort()
                return
            self._left = left
        self._look_later()


def http_protocol(settings: Settings) -> type[H11Protocol]:
    """An HTTP protocol with a limited number of connections."""
    silent: OrderedDict[H11Protocol, None] = OrderedDict()

    class LimitedHttp(H11Protocol):
        """Closes a connection whose headers do not arrive, or that makes room for another."""

        _timeout: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start_timeout()
            self._unread = UnreadLimit(transport, self.loop, settings.send_seconds)
            if len(self.connections) > settings.connections:
                self._make_room()
            silent[self] = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            idle = self.conn.their_state is h11.IDLE
            if not idle:
                silent.pop(self, None)
            # Between requests the connection may idle as long as uvicorn allows; once a request has
            # begun it may not.
            begun = idle and bool(self.conn.trailing_data[0])
            if begun and self._timeout is None:
                self._start_timeout()
            elif not begun:
                self._cancel_timeout()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                silent[self] = None

        def connection_lost(self, exc: Exception | None) -> None:
            silent.pop(self, None)
            self._cancel_timeout()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread.pause_writing()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unread.resume_writing()

        def _make_room(self) -> None:
            if silent:
                longest_silent, _ = silent.popitem(last=False)
                self.connections.discard(longest_silent)
                longest_silent.transport.abort()
            else:
                # All others have a request in progress; uvicorn answers this one with 503.
                self.limit_concurrency = 1

        def _start_timeout(self) -> None:
            self._timeout = self.loop.call_later(settings.header_seconds, self.transport.close)

        def _cancel_timeout(self) -> None:
            if self._timeout is not None:
                self._timeout.cancel()
                self._timeout = None

    return LimitedHttp


def websocket_protocol(settings: Settings, held: HeldBytes) -> type[WebSocketsSansIOProtocol]:
    """A WebSocket protocol whose messages together hold a limited amount of memory."""

    class LimitedWebSocket(WebSocketsSansIOProtocol):
        """Closes a connection that sends more than may be held."""

        _counted = 0  # bytes counted in ``held``
        _parts = 0  # bytes of the message being received
        _queued = 0  # bytes of messages waiting for the application
        _taken = 0  # bytes of the message the application has

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._unread = UnreadLimit(transport, self.loop, settings.send_seconds)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread.pause_writing()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unread.resume_writing()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if not self._count():
                self.frames, self._parts = [], 0
                self.conn.fail(TRY_AGAIN, "too much data is being sent; wait a second")
                self.transport.write(b"".join(self.conn.data_to_send()))
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._forget()
            held.take(-self._counted)
            self._counted = 0

        def _forget(self) -> None:
            """Release what was received: cycles keep this object until they are collected."""
            self.conn.reader.buffer.clear()
            self.frames = []

        def handle_cont(self, event: Any) -> None:
            self._parts += len(event.data) + PART_OVERHEAD
            super().handle_cont(event)

        def handle_text(self, event: Any) -> None:
            self._parts = len(event.data) + PART_OVERHEAD
            super().handle_text(event)

        def handle_bytes(self, event: Any) -> None:
            self._parts = len(event.data) + PART_OVERHEAD
            super().handle_bytes(event)

        def send_receive_event_to_app(self) -> None:
            self._queued, self._parts = self._queued + self._parts, 0
            super().send_receive_event_to_app()

        async def receive(self) -> Any:
            self._taken = 0  # the application is done with the previous message
            self._count()
            message = await super().receive()
            if message["type"] == "websocket.receive":
                self._taken, self._queued = self._queued, 0
            return message

        def _count(self) -> bool:
            """Update the count; returns whether it is within the limit."""
            if self.disconnected:
                return True
            # A growing buffer takes up to an eighth more than it holds.
            buffer = self.conn.reader.buffer.__alloc__()
            now = buffer + self._parts + self._queued + self._taken
            if not held.take(now - self._counted):
                return False
            self._counted = now
            return True

    return LimitedWebSocket
