"""Webhooks to a real receiver."""

import contextlib
import hashlib
import hmac
import http.server
import json
import os
import queue
import socket
import subprocess
import sys
import threading

import pytest

from everlearn import Client
from everlearn.errors import InvalidParameter
from everlearn.memory.storage.interface import StoredEvent
from everlearn.service.webhooks import WaitingEvents, Webhook, Webhooks
from tests.service.conftest import TOKEN, accepts_connections, wait_until

SECRET = "a word both know"


@contextlib.contextmanager
def receiver(statuses=()):
    """An address that takes posts; the first are answered with these statuses."""
    posts, answers = queue.Queue(), list(statuses)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            posts.put((dict(self.headers), body))
            self.send_response(answers.pop(0) if answers else 204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook?a=1", posts
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()


def test_webhooks_are_signed_and_delivered_in_order(api):
    with receiver() as (url, posts):
        hooks = Webhooks([url], SECRET)
        api.service.follow(hooks)
        api.post("/v1/teach", json={"vector": [0, 1], "name": "cüp"})
        api.post("/v1/ask", json={"vector": [0, 1]})
        api.post("/v1/undo")
        heard = [posts.get(timeout=60) for _ in range(2)]
        assert api.get("/metrics").text.count("everlearn_webhooks_lost 0")
        hooks.close()
    for headers, body in heard:
        when, own = (part.partition("=")[2] for part in headers["everlearn-signature"].split(","))
        signed = hmac.new(SECRET.encode(), f"{when}.".encode() + body, hashlib.sha256)
        assert hmac.compare_digest(own, signed.hexdigest())
    told = [json.loads(body) for _, body in heard]
    ids = [int(headers["everlearn-id"]) for headers, _ in heard]
    assert ids == [one["id"] for one in told] == [ids[0], ids[0] + 1]
    # A service that is started anew goes on with higher ones.
    assert Webhooks([], SECRET)._number >= ids[-1]
    assert [one["event"] for one in told] == ["taught", "undone"]
    assert told[0]["facts"]["name"] == "cüp"
    assert told[0]["memory"] == "home"


def test_a_failing_webhook_is_retried_and_finally_given_up():
    with receiver([500, 503, 204, 410, 204]) as (url, posts):
        hooks = Webhooks([url], SECRET, first_pause=0.01)
        for name in ("one", "two", "three"):
            hooks("home", "taught", {"name": name})
        got = [json.loads(posts.get(timeout=60)[1])["facts"]["name"] for _ in range(5)]
        hooks.close()
    assert got == ["one", "one", "one", "two", "three"]
    assert (hooks.hooks[0].sent, hooks.hooks[0].lost) == (2, 1)


def test_an_unanswered_webhook_blocks_nothing_and_bounds_its_memory():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hooks = Webhooks([f"http://127.0.0.1:{closed.getsockname()[1]}/"], SECRET, waiting=5)
        for _ in range(1_000):
            hooks("home", "taught", {})
        assert hooks.hooks[0].lost >= 940
        hooks.hooks[0].close(0.1)
        assert hooks.hooks[0].lost + hooks.hooks[0].sent >= 999


@contextlib.contextmanager
def slow_receiver():
    """An address that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", listener


def test_events_that_a_slow_receiver_has_not_acknowledged_are_counted(caplog):
    caplog.set_level("WARNING", "everlearn.service")
    with slow_receiver() as (url, listener), receiver() as (quick, posts):
        hooks = Webhooks([url, quick], SECRET)
        for _ in range(3):
            hooks("home", "taught", {})
        connection, _ = listener.accept()  # the first event is in the receiver's hands
        with connection:
            for _ in range(3):
                posts.get(timeout=60)
            wait_until(lambda: ("everlearn_webhooks_sent", "", 3) in hooks.gauges())
            assert ("everlearn_webhooks_waiting", "", 3) in hooks.gauges()
            hooks.close(0.0)
            assert ("everlearn_webhooks_lost", "", 3) in hooks.gauges()
            assert ("everlearn_webhooks_waiting", "", 0) in hooks.gauges()
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")  # too late to be counted
            hooks.hooks[0]._thread.join(60)
    assert ("everlearn_webhooks_lost", "", 3) in hooks.gauges()
    assert "3 events were not delivered to 127.0.0.1 before the end" in caplog.text


def test_events_that_fail_at_the_end_are_logged_with_their_number(caplog):
    caplog.set_level("WARNING", "everlearn.service")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hooks = Webhooks([f"http://127.0.0.1:{closed.getsockname()[1]}/"], SECRET)
        for _ in range(4):
            hooks("home", "taught", {})
        hooks.close(60.0)
    assert hooks.hooks[0].lost == 4
    assert "4 events were not delivered to 127.0.0.1 before the end" in caplog.text


def test_sigterm_waits_until_everything_is_sent_and_closed(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with receiver() as (url, posts):
        process = subprocess.Popen(
            [sys.executable, "-c", "from everlearn.cli import main; main()",
             "-m", str(tmp_path / "m"), "serve",
             "--port", str(port), "--token", TOKEN, "--webhook", url],
            env=os.environ | {"EVERLEARN_WEBHOOK_SECRET": SECRET},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        # Every wait below ends when the process is killed.
        watchdog = threading.Timer(180, process.kill)
        watchdog.start()
        try:
            assert "Open http" in process.stdout.readline()
            wait_until(lambda: accepts_connections(port))
            with Client(f"http://127.0.0.1:{port}", token=TOKEN) as client:
                for number in range(15):
                    client.teach([float(number), 1.0], "cup")
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            watchdog.cancel()
            process.kill()
            process.communicate()
        assert process.returncode == 0, said
        assert "Stopped. Everything that was taught is saved." in said
        assert posts.qsize() == 15
    assert not list((tmp_path / "m").glob("journal.sqlite-wal"))


def test_frames_are_combined_and_dropped_before_changes():
    events = WaitingEvents(3)
    for number in range(1_000):
        assert events.put({"event": "unknown", "memory": "home", "id": number}) is None
    dropped = [events.put({"event": "taught", "memory": "home", "id": 1_000 + n}) for n in range(5)]
    frames = {"event": "unknown", "memory": "home", "id": 999, "count": 1_000}
    assert dropped == [None, None, frames, None, None]
    frame = {"event": "unknown", "memory": "home", "id": 2_000}
    assert events.put(frame) is frame
    kept = [events.get(0.0) for _ in range(5)]
    assert [one["event"] for one in kept] == ["taught"] * 5
    for number in range(3):
        events.put({"event": "unknown", "memory": "home", "id": number})
    assert events.get(0.0)["count"] == 3


def stored(number):
    return StoredEvent(number, 1.0, "taught", {"name": "cup"})


def test_events_of_two_databases_with_the_same_number_both_arrive():
    with receiver() as (url, posts):
        hook = Webhook(url, SECRET)
        arrived = [hook.deliver(memory, stored(7)) for memory in ("home", "garden")]
        told = [json.loads(posts.get(timeout=60)[1])["memory"] for _ in arrived]
        wait_until(lambda: all(done() for done in arrived))
        hook.close()
    assert told == ["home", "garden"]


def test_an_event_dropped_from_a_full_queue_is_not_awaited():
    """Otherwise the replica that sends it would wait for ever, and send no later one."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hook = Webhook(f"http://127.0.0.1:{closed.getsockname()[1]}/", SECRET, waiting=1)
        arrived = [hook.deliver("home", stored(number)) for number in range(1, 30)]
        assert arrived[-1]()
        assert hook.lost >= 10
        hook.close(0.1)


def test_events_left_to_another_replica_are_logged_and_not_lost(caplog):
    caplog.set_level("WARNING", "everlearn.service")
    with slow_receiver() as (url, listener):
        hook = Webhook(url, SECRET)
        arrived = [hook.deliver("home", stored(number)) for number in range(3)]
        connection, _ = listener.accept()
        with connection:
            hook.close(0.0)
    assert not any(done() for done in arrived)
    assert hook.lost == 0
    assert "3 events were not delivered to 127.0.0.1 before the end; another" in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "http://" + "x" * 70 + ".example/",
        "http://h:99999/",
        "http://h/\r\nx: y",
        "http://h/a b",
        "https://h/ü",
    ],
)
def test_an_invalid_webhook_address_is_refused(url):
    with pytest.raises(InvalidParameter, match="a webhook looks like"):
        Webhooks([url], SECRET)


def test_webhooks_need_a_secret_and_an_address():
    with pytest.raises(InvalidParameter, match="EVERLEARN_WEBHOOK_SECRET"):
        Webhooks(["http://127.0.0.1/"], "")
    with pytest.raises(InvalidParameter, match="webhook looks like"):
        Webhooks(["file:///etc/passwd"], SECRET)
