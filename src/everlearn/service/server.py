"""The server process: one address, timeouts for slow clients, graceful shutdown."""

import contextlib
import json
import logging
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import SIGTERM
from types import FrameType
from typing import Any

import uvicorn

from everlearn.memory.memory import Memory
from everlearn.memory.words import escaped
from everlearn.service.app import create_app
from everlearn.service.connections import http_protocol, websocket_protocol
from everlearn.service.served import Service
from everlearn.service.settings import Settings
from everlearn.service.tracing import traced

# Time limit for requests in progress when the service is stopped.
SHUTDOWN_SECONDS = 20
# Connections waiting to be accepted.
BACKLOG = 256
# Spare file descriptors: connections without a complete TLS handshake are not counted.
OPEN_FILES = 65_536


class Server(uvicorn.Server):
    """Disconnects event listeners when it is stopped, and leaves the process to its caller."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, except that SIGTERM is not raised again after the shutdown.

        It would end the process before Memories are closed and pending events are sent.
        """
        with super().capture_signals():
            yield
            others = [signal for signal in self._captured_signals if signal != SIGTERM]
            self._captured_signals[:] = others

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        allow_open_files(OPEN_FILES)
        super().run(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.service.events.close()
        super().handle_exit(sig, frame)


def allow_open_files(wanted: int) -> None:
    """Raise the process's limit on open files as far as the system allows."""
    try:
        import resource
    except ModuleNotFoundError:  # not available on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class RepeatFilter(logging.Filter):
    """Suppresses a message that was already logged within the last seconds.

    Needed because the event loop logs a traceback for each connection that cannot be accepted.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        super().__init__()
        self._seconds = seconds
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, text = time.monotonic(), str(record.msg)[:80]
        if now - self._last.get(text, -self._seconds) < self._seconds:
            return False
        if len(self._last) > 100:
            self._last.clear()
        self._last[text] = now
        return True


class TextFormatter(logging.Formatter):
    """One line per message; unprintable characters, which a terminal could obey, are escaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return "\n".join(map(escaped, super().formatException(ei).split("\n")))


class JsonFormatter(logging.Formatter):
    """One JSON object per line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_log(*, as_json: bool, verbose: bool) -> None:
    """Log the service to standard error; ``verbose`` includes every request."""
    stream = logging.StreamHandler()
    text = TextFormatter("%(asctime)s %(levelname)s %(message)s")
    stream.setFormatter(JsonFormatter() if as_json else text)
    # uvicorn logs the request line of WebSockets, which may contain a secret, as information.
    for name, detailed in (("everlearn.service", verbose), ("uvicorn.error", False)):
        log = logging.getLogger(name)
        log.handlers[:] = [stream]
        log.propagate = False
        log.setLevel(logging.INFO if detailed else logging.WARNING)
    loop = logging.getLogger("asyncio")
    loop.handlers[:], loop.filters[:], loop.propagate = [stream], [RepeatFilter()], False


def make_server(
    memories: Mapping[str, Memory],
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8737,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Server:
    """A server ready to run; ``run()`` returns after it was stopped and all work is finished."""
    app, service = create_app(memories, settings)
    config = uvicorn.Config(
        traced(app),
        host=host,
        port=port,
        http=http_protocol(settings),
        ws=websocket_protocol(settings, service.held),
        ws_max_size=settings.body_bytes,
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
    )
    return Server(config, service)
