"""Silent clients and unfinished requests do not block others."""

import asyncio
import contextlib
import http.client
import io
import logging
import select
import socket
import sys
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.server import ServerState

from everlearn.service import Settings
from everlearn.service.connections import LEAST_READ, UnreadLimit, websocket_protocol
from everlearn.service.held_bytes import HeldBytes
from everlearn.service.server import RepeatFilter, configure_log, make_server
from tests.service.conftest import TOKEN, listening, wait_until

BEARER = {"authorization": f"Bearer {TOKEN}"}
HANDSHAKE = "\r\n".join(
    [
        "GET /v1/ask/stream HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {TOKEN}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "",
        "",
    ]
).encode()
MASK = b"\0\0\0\0"


def opened(address, stack):
    connection = stack.enter_context(socket.create_connection(place(address), timeout=30))
    connection.settimeout(30)
    return connection


def place(address):
    parts = urlsplit(address)
    return parts.hostname, parts.port


def names(address):
    connection = http.client.HTTPConnection(*place(address), timeout=30)
    connection.request("GET", "/v1/names", headers=BEARER)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_silent_connections_do_not_block_others(memories):
    with (
        listening(memories, connections=6, header_seconds=60.0) as address,
        contextlib.ExitStack() as stack,
    ):
        silent = [opened(address, stack) for _ in range(40)]
        silent[-1].sendall(b"GET /v1/na")  # a request that has begun is not one to be answered
        assert [names(address) for _ in range(10)] == [200] * 10
        assert silent[0].recv(1) == b""  # the first made room


def test_a_connection_that_is_answered_does_not_make_room(memories):
    with listening(memories, connections=2) as address, contextlib.ExitStack() as stack:
        listeners = [http.client.HTTPConnection(*place(address), timeout=30) for _ in range(2)]
        for one in listeners:
            stack.callback(one.close)
            one.request("GET", "/v1/events", headers=BEARER)
            assert one.getresponse().status == 200
        assert names(address) == 503
        listeners[0].close()
        wait_until(lambda: names(address) == 200)


def begun(address, stack, first, *parts):
    """A WebSocket on which a message was begun."""
    connection = opened(address, stack)
    connection.sendall(HANDSHAKE)
    assert connection.recv(4096).startswith(b"HTTP/1.1 101")
    with contextlib.suppress(ConnectionError):  # cut off on the way
        for part in (first, *parts):
            connection.sendall(part)
    return connection


WHOLE = b"\x82\xff" + (900_000).to_bytes(8, "big") + MASK, bytes(800_000)
IN_PARTS = b"\x02\x81" + MASK + b"x", (b"\x00\x81" + MASK + b"x") * 20_000


@pytest.mark.parametrize("parts", [WHOLE, IN_PARTS], ids=["one frame", "frames of one byte"])
def test_unfinished_messages_share_a_memory_limit(memories, parts, monkeypatch):
    held = []
    monkeypatch.setattr(
        "everlearn.service.served.HeldBytes", lambda most: held.append(HeldBytes(most)) or held[-1]
    )
    with (
        listening(memories, body_bytes=1 << 20, held_bytes=2_000_000) as address,
        contextlib.ExitStack() as stack,
    ):
        sockets = [begun(address, stack, *parts) for _ in range(6)]
        seen = held[0].total
        assert 1_000_000 < seen <= 2_000_000
        closed = 0
        for one in sockets:
            one.settimeout(1)
            with contextlib.suppress(TimeoutError, ConnectionError):
                said = one.recv(100)
                closed += said[:1] == b"\x88" and said[2:4] == (1013).to_bytes(2, "big")
        assert closed
        for one in sockets:
            one.close()
        wait_until(lambda: held[0].total == 0)
        assert names(address) == 200


def test_the_memory_of_a_message_is_counted_and_released():
    """A growing buffer takes more than it holds, and a closed connection may stay in a cycle."""
    held = HeldBytes(1 << 20)
    config = uvicorn.Config(lambda: None)
    config.load()
    loop = asyncio.new_event_loop()
    made = websocket_protocol(Settings(), held)(config, ServerState(), {}, loop)
    made.connection_made(SimpleNamespace(get_extra_info=lambda _: None, close=lambda: None))
    buffer, empty = made.conn.reader.buffer, sys.getsizeof(bytearray())
    for _ in range(100):
        buffer.extend(bytes(1000))
        assert made._count()
        assert held.total >= sys.getsizeof(buffer) - empty
    assert held.total > len(buffer)
    made.connection_lost(None)
    loop.close()
    assert (held.total, len(buffer)) == (0, 0)


def test_a_message_is_counted_until_it_is_answered(memories):
    memories["home"].teach([1.0, 0.0], "a")
    with listening(memories, held_bytes=10_000) as address, contextlib.ExitStack() as stack:
        question = b'{"vector": [1.0, 0.0]' + b" " * 90 + b"}"
        frame = b"\x81" + bytes([0x80 | len(question)]) + MASK + question
        connection = begun(address, stack, frame)
        for _ in range(200):  # together more than may be held at a time
            assert b'"answers"' in connection.recv(4096)
            connection.sendall(frame)


QUESTION = b'{"vector": [1.0, 1.0], "top": 10000}'
QUESTION_FRAME = b"\x81" + bytes([0x80 | len(QUESTION)]) + MASK + QUESTION


@pytest.fixture
def long_answers(memories):
    names = [f"{number:04} {'x' * 180}" for number in range(300)]
    memories["home"].teach_many(([float(i), 1.0], name) for i, name in enumerate(names))


def unread(address, stack, *sent):
    """A connection whose client sends this and reads nothing."""
    connection = stack.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(1)
    connection.connect(place(address))
    with contextlib.suppress(TimeoutError, ConnectionError):
        for part in sent:
            connection.sendall(part)
    return connection


@pytest.mark.usefixtures("long_answers")
def test_a_stream_whose_answers_are_not_read_makes_room(memories):
    with (
        listening(memories, listeners=1, stream_seconds=0.5, header_seconds=60.0) as address,
        contextlib.ExitStack() as stack,
    ):
        unread(address, stack, HANDSHAKE, *[QUESTION_FRAME] * 5_000)

        def answered():
            with contextlib.closing(begun(address, stack, QUESTION_FRAME)) as stream:
                return b'"answers"' in stream.recv(4096)

        wait_until(answered, seconds=30)


REQUEST = (
    f"GET /v1/names HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
)


@pytest.mark.usefixtures("long_answers")
@pytest.mark.parametrize(
    "sent", [[HANDSHAKE, *[QUESTION_FRAME] * 5_000], [REQUEST] * 5_000], ids=["stream", "requests"]
)
def test_a_client_that_reads_no_answers_is_disconnected(memories, sent):
    with (
        listening(memories, stream_seconds=0.5, send_seconds=0.5) as address,
        contextlib.ExitStack() as stack,
    ):
        connection = unread(address, stack, *sent)
        ended = select.poll()
        ended.register(connection, 0)  # reports nothing but the end of the connection
        wait_until(lambda: ended.poll(0))
        assert names(address) == 200


class Transport:
    def __init__(self, left):
        self.left, self.closed, self.aborted = left, False, False

    def is_closing(self):
        return self.closed

    def get_write_buffer_size(self):
        return self.left

    def abort(self):
        self.aborted = True


@pytest.mark.parametrize(("left", "aborted"), [((5, 4, 3, 2, 1, 0), False), ((5, 4, 4), True)])
def test_a_client_may_read_a_long_answer_slowly(left, aborted):
    transport, looks = Transport(left=6 * LEAST_READ), []
    limit = UnreadLimit(
        transport, SimpleNamespace(call_later=lambda _, look: looks.append(look)), 1
    )
    limit.pause_writing()
    for blocks in left:
        looks.pop()()
        transport.closed = True  # as uvicorn does once an answer is complete
        transport.left = blocks * LEAST_READ
    looks.pop()()
    assert (looks, transport.aborted) == ([], aborted)


def test_repeated_messages_of_the_event_loop_are_suppressed():
    once = RepeatFilter(seconds=60.0)
    records = [
        logging.LogRecord("asyncio", logging.ERROR, "", 0, text, (), None)
        for text in ("out of resource", "out of resource", "other")
    ]
    assert [once.filter(record) for record in records] == [True, False, True]


def test_the_server_accepts_as_many_files_as_connections(memories):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = make_server(memories, Settings(token=TOKEN))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        server.should_exit = True
        server.run(sockets=[])
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def log(monkeypatch):
    """Begins to log as asked, to a stream that is returned."""
    names = "everlearn.service", "uvicorn.error", "asyncio"
    loggers = [logging.getLogger(name) for name in names]
    before = [(one.handlers[:], one.filters[:], one.propagate, one.level) for one in loggers]

    def begin(*, as_json, verbose):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        configure_log(as_json=as_json, verbose=verbose)
        return stream

    yield begin
    for one, (handlers, filters, propagate, level) in zip(loggers, before, strict=True):
        one.handlers[:], one.filters[:], one.propagate = handlers, filters, propagate
        one.setLevel(level)


def test_the_secret_in_the_address_of_a_socket_is_not_logged(memories, log):
    logged = log(as_json=False, verbose=True)
    asked = HANDSHAKE.replace(b"/v1/ask/stream", b"/v1/ask/stream?page=a-secret")
    with listening(memories) as address:
        for handshake in (asked, asked.replace(TOKEN.encode(), b"wrong")):
            with contextlib.ExitStack() as stack:
                connection = opened(address, stack)
                connection.sendall(handshake)
                assert connection.recv(4096)
        wait_until(lambda: logged.getvalue().count("WEBSOCKET") == 2)
    assert "WEBSOCKET refused" in logged.getvalue()
    assert "WEBSOCKET /v1/ask/stream" in logged.getvalue()
    assert "a-secret" not in logged.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_logged_line_is_one_line_of_printable_text(log, as_json):
    logged = log(as_json=as_json, verbose=False)
    hostile = "a\x1b]0;title\x07\u202eb\x9bc\n2026-01-01 ERROR forged"
    logger = logging.getLogger("everlearn.service")
    logger.warning("no broker at %s", hostile)
    try:
        raise ValueError(hostile.partition("\n")[0])
    except ValueError:
        logger.exception("a request failed")
    first, *rest = logged.getvalue().splitlines()
    assert "forged" in first
    assert "forged" not in "".join(rest)
    assert all(line.isprintable() for line in (first, *rest))
    assert "ValueError" in "".join(rest)
