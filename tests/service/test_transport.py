"""A request is sent again if its connection broke; errors have the names the service gives them."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from everlearn.errors import CannotReach, NotAllowed, ServiceFailed, UnknownLabel
from everlearn.service.transport import ServiceConnection


@pytest.fixture
def service():
    """A connection to a server that gives these answers in turn, and what it received.

    An answer is a status and a body; ``None`` breaks the connection instead.
    """
    answers, received = [], []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((self.path, self.headers["idempotency-key"], body))
            answer = answers.pop(0)
            if answer is None:
                self.close_connection = True
                return
            status, content = answer
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            self.do_POST()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    connection = ServiceConnection(f"http://127.0.0.1:{server.server_port}", "t" * 16, "home", 30)
    with contextlib.closing(connection):
        yield connection, answers, received
    server.shutdown()
    server.server_close()
    thread.join()


def error(kind, message="no"):
    return json.dumps({"error": {"kind": kind, "message": message}}).encode()


def test_a_change_whose_answer_was_lost_is_sent_again_with_its_key(service):
    connection, answers, received = service
    answers += [None, (200, b'{"count": 1}'), (200, b'{"count": 2}')]
    assert connection.change("rename", {"old": "a", "new": "b"}) == {"count": 1}
    assert connection.change("rename", {"old": "a", "new": "b"}) == {"count": 2}
    first, again, other = received
    assert first == again
    assert first[0] == "/v1/rename?memory=home"
    assert first[1] != other[1]


def test_a_file_is_sent_with_a_key_and_a_question_without(service):
    connection, answers, received = service
    answers += [(200, b"{}")] * 2
    connection.change_by_file("merge", b"a journal", "application/vnd.sqlite3", group="g", no=None)
    connection.post("ask", {"vector": [1.0]})
    (path, key, body), (_, no_key, _) = received
    assert (path, body) == ("/v1/merge?group=g&memory=home", b"a journal")
    assert key
    assert no_key is None


def test_a_service_that_keeps_breaking_connections_cannot_be_reached(service):
    connection, answers, received = service
    answers += [None, None]
    with pytest.raises(CannotReach, match="everlearn serve"):
        connection.post("ask", {})
    assert len(received) == 2


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        ((404, error("UnknownLabel", "nobody")), UnknownLabel),
        ((403, error("SomethingNew")), NotAllowed),
        ((500, error("SomethingNew")), ServiceFailed),
        ((500, error("ValueError")), ServiceFailed),
        ((502, b"<html>bad gateway</html>"), ServiceFailed),
        ((500, b'{"error": 3}'), ServiceFailed),
        ((200, b"<html>log in first</html>"), ServiceFailed),
        ((200, b"\xff"), ServiceFailed),
        ((200, b"[" * 100_000), ServiceFailed),
    ],
)
def test_every_answer_that_is_none_is_a_named_error(service, answer, raised):
    connection, answers, _ = service
    answers += [answer] * 3
    for ask in (
        lambda: connection.post("ask", {}),
        lambda: connection.change("teach", {}),
        lambda: connection.change_by_file("merge", b"", "text/plain"),
    ):
        with pytest.raises(raised) as found:
            ask()
        assert type(found.value) is raised


def test_bytes_that_are_not_there_are_none(service):
    connection, answers, _ = service
    answers += [(404, error("NotThere")), (200, b"jpeg")]
    assert connection.content_if_any("thumbnails/3") is None
    assert connection.content_if_any("thumbnails/4") == b"jpeg"
