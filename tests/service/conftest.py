"""A service of two Memories, and its clients."""

import contextlib
import io
import signal
import socket
import threading
import time

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from everlearn import Memory, Pixels
from everlearn.service import Settings, create_app
from everlearn.service.server import make_server

TOKEN = "a-token-only-tests-know"
ADDRESS = "http://127.0.0.1:8737"


def wait_until(condition, seconds=60):
    """Wait until a condition holds; fail if it does not within this time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {seconds} s"
        time.sleep(0.02)


def accepts_connections(port):
    """Whether something listens at a port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def picture(red: int, green: int, blue: int, shift: int = 0) -> bytes:
    """A PNG of one colour with a stripe somewhere."""
    pixels = np.full((32, 32, 3), (red, green, blue), dtype=np.uint8)
    pixels[:, shift : shift + 4] = 255
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def memories(tmp_path):
    embedder = Pixels(size=8, colour=True)
    with (
        Memory(tmp_path / "one", embedder=embedder) as one,
        Memory(tmp_path / "two", embedder=embedder) as two,
    ):
        yield {"home": one, "garden": two}


@pytest.fixture
def serve(memories):
    """Start a service with these settings; gives a client that holds the token."""
    open_clients = []

    def start(**settings):
        app, service = create_app(memories, Settings(token=TOKEN, **settings))
        client = TestClient(
            app,
            base_url=ADDRESS,
            headers={"authorization": f"Bearer {TOKEN}"},
            client=("127.0.0.1", 50_000),
        )
        client.__enter__()
        open_clients.append(client)
        client.service = service
        return client

    yield start
    for client in open_clients:
        client.__exit__(None, None, None)


@pytest.fixture
def api(serve):
    return serve()


@contextlib.contextmanager
def listening(memories, port=None, **limits):
    """A service that listens on a port; gives its address."""
    if port is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    server = make_server(memories, Settings(token=TOKEN, **limits), port=port)
    # A daemon: a server that does not stop fails its test and does not keep pytest from ending.
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert thread.is_alive()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.handle_exit(signal.SIGTERM, None)
        thread.join(60)
    assert not thread.is_alive(), "the service did not stop within a minute"


@pytest.fixture
def live(memories):
    """The address of a service with short timeouts."""
    with listening(memories, header_seconds=1.0, body_seconds=1.0) as address:
        yield address
