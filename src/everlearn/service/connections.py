"""Connections under limits: how many there are, how long they may be silent, what they may hold.

silent    a connection on which no request is being answered makes room for a new one as soon as
there are too many, the one that was silent for longest first; so clients that connect
and say nothing keep nobody out
headers   have to arrive within so many seconds
messages  over WebSockets are counted against the same limit as request bodies from their first
byte on, finished or not
"""

import asyncio
from collections import OrderedDict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from everlearn.service.held_bytes import HeldBytes
from everlearn.service.settings import Settings

# What a part of a message costs beside its bytes: messages may come in parts of one byte.
PART_BYTES = 96
TRY_AGAIN = 1013


def http_protocol(settings: Settings) -> type[H11Protocol]:
    """HTTP for so many connections at a time."""
    silent: OrderedDict[H11Protocol, None] = OrderedDict()

    class LimitedHttp(H11Protocol):
        """Cuts off a client whose headers do not arrive, or whose place another one needs."""

        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._begin()
            if len(self.connections) > settings.connections:
                self._make_room()
            silent[self] = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            idle = self.conn.their_state is h11.IDLE
            if not idle:
                silent.pop(self, None)
            # Between requests the connection may idle as long as uvicorn allows; a request that
            # has begun may not.
            begun = idle and bool(self.conn.trailing_data[0])
            if begun and self._patience is None:
                self._begin()
            elif not begun:
                self._end()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                silent[self] = None

        def connection_lost(self, exc: Exception | None) -> None:
            silent.pop(self, None)
            self._end()
            super().connection_lost(exc)

        def _make_room(self) -> None:
            if silent:
                longest, _ = silent.popitem(last=False)
                self.connections.discard(longest)
                longest.transport.abort()
            else:
                # All others are being answered: this one is told that there are too many.
                self.limit_concurrency = 1

        def _begin(self) -> None:
            self._patience = self.loop.call_later(settings.header_seconds, self.transport.close)

        def _end(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return LimitedHttp


def websocket_protocol(held: HeldBytes) -> type[WebSocketsSansIOProtocol]:
    """WebSockets whose messages hold so much and no more, all of them together."""

    class LimitedWebSocket(WebSocketsSansIOProtocol):
        """Closes a connection that sends more than may be held."""

        _counted = 0  # in ``held``
        _parts = 0  # of the message that is being received
        _queued = 0  # of messages that wait for the application
        _taken = 0  # of the message that the application has

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if not self._count():
                self.frames, self._parts = [], 0
                self.conn.fail(TRY_AGAIN, "too much is being sent; wait a second")
                self.transport.write(b"".join(self.conn.data_to_send()))
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            held.take(-self._counted)
            self._counted = 0

        def handle_cont(self, event: Any) -> None:
            self._parts += len(event.data) + PART_BYTES
            super().handle_cont(event)

        def handle_text(self, event: Any) -> None:
            self._parts = len(event.data) + PART_BYTES
            super().handle_text(event)

        def handle_bytes(self, event: Any) -> None:
            self._parts = len(event.data) + PART_BYTES
            super().handle_bytes(event)

        def send_receive_event_to_app(self) -> None:
            self._queued, self._parts = self._queued + self._parts, 0
            super().send_receive_event_to_app()

        async def receive(self) -> Any:
            self._taken = 0  # whoever asks for the next message is done with the last one
            self._count()
            message = await super().receive()
            if message["type"] == "websocket.receive":
                self._taken, self._queued = self._queued, 0
            return message

        def _count(self) -> bool:
            """Bring what is counted up to date; false if it is too much."""
            if self.disconnected:
                return True
            now = len(self.conn.reader.buffer) + self._parts + self._queued + self._taken
            if not held.take(now - self._counted):
                return False
            self._counted = now
            return True

    return LimitedWebSocket
