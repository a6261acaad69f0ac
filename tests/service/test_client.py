"""Client gives the same results as Memory, bit for bit."""

import http.client
import socket
import threading
from urllib.parse import urlsplit

import numpy as np
import pytest

from everlearn import Client, Memory, Pixels, errors
from tests.service.conftest import TOKEN, picture


@pytest.fixture
def client(live):
    with Client(live, token=TOKEN) as client:
        yield client


def use_every_method(memory, folder):
    """Uses the whole common interface; yields the results without times."""
    file = folder / "red.png"
    file.write_bytes(picture(200, 0, 0))
    yield memory.teach(file, "red")
    yield memory.teach(picture(200, 0, 0), "red", source="twice")
    yield memory.teach(picture(0, 0, 200), "blue", source="camera")
    pixels = np.full((16, 16, 3), (0, 200, 0), dtype=np.uint8)
    yield memory.teach(picture(0, 190, 0), "green")
    yield [(a.name, a.probability) for a in memory.ask(pixels, top=None)]
    yield memory.correct(picture(0, 0, 200), "navy", source="elsewhere")
    yield memory.correct(picture(90, 0, 200), "violet", source="balcony")
    yield memory.rename("Navy", " deep  blue")
    yield memory.similar_name("deep bleu"), memory.similar_name("grey")
    yield memory.would_forget(source="camera")
    yield memory.forget(name="deep blue")
    yield [(change.kind, change.count, change.names) for change in (memory.undo(), memory.redo())]
    yield [(change.kind, change.undone) for change in memory.history()]
    yield memory.history(0)
    yield {name: record.count for name, record in memory.names().items()}
    yield [(row.id, row.name, row.source, row.has_thumbnail) for row in memory.teachings()]
    yield memory.thumbnail(1)
    yield memory.verify().problems
    memory.export(folder / "head.onnx")
    yield (folder / "head.onnx").read_bytes()
    yield len(memory.forget(name="red", erase=True).receipt.erased)
    for action, cause in [
        (lambda: memory.teach([1.0], "red"), errors.InvalidInput),
        (lambda: memory.teach(b"no image", "red"), errors.NotAnImage),
        (lambda: memory.forget(name="never"), errors.UnknownLabel),
        (lambda: memory.undo(), errors.NothingToUndo),
        (lambda: memory.ask([float("nan")]), errors.NotFinite),
    ]:
        with pytest.raises(cause) as found:
            action()
        yield type(found.value), str(found.value)


def test_a_client_behaves_like_a_memory(client, tmp_path):
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    with Memory(tmp_path / "own", embedder=Pixels(size=8, colour=True)) as memory:
        own = list(use_every_method(memory, folders[0]))
    for mine, theirs in zip(own, use_every_method(client, folders[1]), strict=True):
        assert str(mine).replace(str(folders[0]), "") == str(theirs).replace(str(folders[1]), "")


def test_a_client_raises_named_errors(live):
    with Client(live, token="some-other-token-1") as client, pytest.raises(errors.NotAllowed):
        client.names()
    with Client(live, token=TOKEN, memory="cellar") as client, pytest.raises(errors.UnknownMemory):
        client.names()
    with (
        Client("http://127.0.0.1:9", token=TOKEN) as client,
        pytest.raises(errors.CannotReach, match="everlearn serve"),
    ):
        client.names()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "
        + TOKEN.encode()
        + b"\r\nContent-Length: 1000\r\n\r\nabc",
    ],
    ids=["silent", "half of the headers", "half of the body"],
)
def test_slow_clients_are_cut_off(live, sent):
    parts = urlsplit(live)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 408")
    # Kept alive, the connection would take the rest of a body for another request.
    assert answer == b"" or b"\r\nconnection: close\r\n" in answer


def test_events_are_received_over_http(live, client):
    parts = urlsplit(live)
    listening = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    listening.request("GET", "/v1/events", headers={"authorization": f"Bearer {TOKEN}"})
    answer = listening.getresponse()
    assert answer.readline() == b": listening\n"
    client.teach([0.0, 1.0], "cup")
    lines = [answer.readline() for _ in range(4)]
    assert lines[2] == b"event: taught\n"
    assert b'"name": "cup"' in lines[3]
    # It still listens when the service is told to stop, which must not keep it from stopping.
    answer.close()
    listening.close()


def test_a_stream_is_a_session_and_is_counted(client, memories, live):
    pytest.importorskip("websockets", reason="websockets is not installed")
    for shift in range(0, 24, 4):
        memories["home"].teach(picture(200, 0, 0, shift=shift), "red")
        memories["home"].teach(picture(0, 0, 200, shift=shift), "blue")
    red, blue = picture(200, 0, 0, shift=2), picture(0, 0, 200, shift=2)
    answers = list(client.ask_stream([red, red, red, blue, red]))
    assert [one[0].name for one in answers] == ["red", "red", "red", "blue", "red"]
    assert {one.steady.name for one in answers} == {"red"}
    with pytest.raises(errors.NotAnImage):
        list(client.ask_stream([red, b"no image"]))
    connection = http.client.HTTPConnection(urlsplit(live).netloc)
    connection.request("GET", "/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    text = connection.getresponse().read().decode()
    connection.close()
    assert 'everlearn_requests_total{route="/v1/ask/stream",status="200"} 6' in text
    assert 'everlearn_requests_total{route="/v1/ask/stream",status="422"} 1' in text


def test_a_stream_that_breaks_raises_a_named_error():
    pytest.importorskip("websockets", reason="websockets is not installed")
    from websockets.sync.server import serve

    def gone(connection):
        connection.recv()  # and is closed without an answer

    with serve(gone, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        port = server.socket.getsockname()[1]
        client = Client(f"http://127.0.0.1:{port}", token=TOKEN)
        with pytest.raises(errors.CannotReach, match="ended the stream"):
            list(client.ask_stream([picture(1, 2, 3)]))
        server.shutdown()
        thread.join()
    with pytest.raises(errors.CannotReach, match="accepts no frames"):
        list(client.ask_stream([picture(1, 2, 3)]))


def test_frames_are_sent_as_png_or_jpeg(live, memories):
    pixels = np.random.default_rng(0).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    with Client(live, token=TOKEN) as exact, Client(live, token=TOKEN, frames="jpeg") as quick:
        assert exact.teach(pixels, "noise")
        assert not exact.teach(pixels, "noise")
        assert quick.teach(pixels, "noise")  # another picture, to the digest
        assert quick.forget(pixels).count == 1
    with pytest.raises(errors.InvalidParameter):
        Client(live, token=TOKEN, frames="gif")


@pytest.mark.parametrize(
    "said", ['{"answers": 3}', '{"answers": [{"name": 3}]}', "[" * 50_000, "{}", "words"]
)
def test_an_answer_to_a_frame_that_is_none_of_ours_raises_a_named_error(said):
    sync = pytest.importorskip("websockets.sync.server")

    def answer(connection):
        connection.recv()
        connection.send(said)

    with sync.serve(answer, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        with pytest.raises(errors.ServiceFailed, match="did not answer a frame"):
            list(Client(address, token=TOKEN).ask_stream([picture(1, 2, 3)]))
        server.shutdown()
        thread.join(60)


def test_a_stream_that_is_not_answered_ends_after_the_timeout():
    sync = pytest.importorskip("websockets.sync.server")
    with sync.serve(lambda connection: list(connection), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        with pytest.raises(errors.CannotReach, match="ended the stream of frames"):
            list(Client(address, token=TOKEN, timeout=0.2).ask_stream([picture(1, 2, 3)]))
        server.shutdown()
        thread.join(60)
