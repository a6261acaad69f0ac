"""A web server that simulates the systems behind the bridges."""

import http.client
import http.server
import json
import queue
import threading

import pytest

from everlearn import Memory, Pixels
from tests.service.conftest import picture

RED, BLUE = picture(255, 0, 0), picture(0, 0, 255)


class Site:
    """A web server on this machine: answers by path, or as ``play`` does, and what it was sent."""

    def __init__(self):
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        # Called with method, path, headers and body where no answer is set; a status and a body.
        self.play = lambda method, path, headers, body: (404, b"{}")
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        self.posts: queue.Queue = queue.Queue()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                headers = {name.lower(): value for name, value in self.headers.items()}
                site.heard.append((self.path, headers, body))
                if self.command == "POST":
                    site.posts.put((self.path, json.loads(body)))
                plain = self.path.partition("?")[0]
                if plain in site.answers:
                    status, extra, answer = site.answers[plain]
                else:
                    extra = {}
                    status, answer = site.play(self.command, self.path, headers, body)
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def site():
    server = Site()
    yield server
    server.close()


@pytest.fixture
def other_site():
    server = Site()
    yield server
    server.close()


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "memory", embedder=Pixels(size=8, colour=True)) as opened:
        yield opened


def counts(memory):
    return {name: record.count for name, record in memory.names().items()}
