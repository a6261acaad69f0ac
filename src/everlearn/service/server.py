"""The server process: one address, timeouts for slow clients, graceful shutdown."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import SIGTERM
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from everlearn.memory.memory import Memory
from everlearn.service.app import create_app
from everlearn.service.served import Service
from everlearn.service.settings import Settings
from everlearn.service.tracing import traced

# What is being answered when the service is told to stop has this long.
FAREWELL_SECONDS = 20


def impatient(seconds: float) -> type[H11Protocol]:
    """HTTP for clients that have to send their headers within so many seconds."""

    class Impatient(H11Protocol):
        """Cuts off a client whose headers do not arrive."""

        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._begin()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            # Between requests the connection may idle as long as uvicorn allows; a request that
            # has begun may not.
            begun = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
            if begun and self._patience is None:
                self._begin()
            elif not begun:
                self._end()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _begin(self) -> None:
            self._patience = self.loop.call_later(seconds, self.transport.close)

        def _end(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return Impatient


class Server(uvicorn.Server):
    """Lets listeners go when it is told to stop; they would never go by themselves."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but for SIGTERM, which it would raise once more and end the process inside.

        Memories are still to be closed then, and what waits to be sent, to be sent.
        """
        with super().capture_signals():
            yield
            rest = [signal for signal in self._captured_signals if signal != SIGTERM]
            self._captured_signals[:] = rest

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.service.events.close()
        super().handle_exit(sig, frame)


class AsJson(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_log(*, as_json: bool, verbose: bool) -> None:
    """What the service says goes to standard error."""
    stream = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    stream.setFormatter(AsJson() if as_json else text)
    for name in ("everlearn.service", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers[:] = [stream]
        log.propagate = False
        log.setLevel(logging.INFO if verbose else logging.WARNING)


def make_server(
    memories: Mapping[str, Memory],
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8737,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Server:
    """A server ready to run; ``run()`` returns when it was told to stop and all is finished."""
    app, service = create_app(memories, settings)
    config = uvicorn.Config(
        traced(app),
        host=host,
        port=port,
        http=impatient(settings.header_seconds),
        ws="websockets-sansio",
        ws_max_size=settings.body_bytes,
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=FAREWELL_SECONDS,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
    )
    return Server(config, service)
