"""Several services with one Memory in a database: each change is delivered once."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from everlearn import Client, Memory, Pixels
from everlearn.memory.storage.interface import StoredEvent
from everlearn.service import Settings
from everlearn.service.events import Events
from everlearn.service.fleet import FleetEvents
from everlearn.service.mqtt import Mqtt
from everlearn.service.served import Service
from everlearn.service.webhooks import Webhooks
from tests.service.conftest import TOKEN, listening, picture, wait_until
from tests.service.test_mqtt import broker, broker_only, wait_for
from tests.service.test_mqtt import listening as at_broker
from tests.service.test_webhooks import SECRET, receiver

__all__ = ["broker"]

# Long enough for whatever would be told a second time.
AGAIN_SECONDS = 1.5


@contextlib.contextmanager
def replica(address, *followers):
    """A separate service, with its event consumers."""
    with Memory(address, embedder=Pixels(size=8)) as memory:
        service = Service({"shop": memory}, Settings())
        made = [make(service) for make in followers]
        for follower in made:
            service.follow(follower)
        try:
            yield service
        finally:
            service.close()
            for follower in made:
                follower.close()


def hooked(url):
    return lambda service: Webhooks([url], SECRET, first_pause=0.01)


def heard(posts, count):
    """Events as a receiver gets them, and nothing after them."""
    found = [json.loads(posts.get(timeout=60)[1]) for _ in range(count)]
    threading.Event().wait(AGAIN_SECONDS)
    assert posts.empty()
    return found


def test_each_change_is_delivered_once_by_all_replicas_together(address):
    with (
        receiver() as (url, posts),
        replica(address, hooked(url)) as one,
        replica(address, hooked(url)) as two,
    ):
        one.served["shop"].memory.teach([1.0, 0.0], "cup")
        two.served["shop"].memory.teach_many([([0.0, 1.0], "pen"), ([0.1, 1.0], "pen")])
        with Memory(address) as outside:
            outside.rename("pen", "pencil")
            outside.undo()
            # An erase removes what was not told before it.
            told = heard(posts, 4)
            outside.forget(name="cup", erase=True)
        told += heard(posts, 1)
    assert [one["event"] for one in told] == ["taught", "taught", "renamed", "undone", "erased"]
    assert told[0]["facts"] == {"name": "cup", "new": True, "count": 1}
    assert told[1]["facts"] == {"name": "pen", "new": True, "count": 2}
    assert told[2]["facts"] == {"old": "pen", "new": "pencil"}
    assert [one["id"] for one in told] == sorted({one["id"] for one in told})


def test_another_replica_continues_where_the_first_one_stopped(address):
    with receiver() as (url, posts), contextlib.ExitStack() as second:
        with replica(address, hooked(url)) as one:
            one.served["shop"].memory.teach([1.0, 0.0], "cup")
            (first,) = heard(posts, 1)
            second.enter_context(replica(address, hooked(url)))
        with Memory(address) as outside:
            outside.teach([0.0, 1.0], "pen")
            (then,) = heard(posts, 1)
            second.close()
            outside.teach([0.5, 1.0], "pan")
        # Nobody was there to tell it; the next one does.
        with replica(address, hooked(url)):
            (last,) = heard(posts, 1)
    assert [one["facts"]["name"] for one in (first, then, last)] == ["cup", "pen", "pan"]
    assert first["id"] < then["id"] < last["id"]


def test_what_was_not_delivered_keeps_its_number(address):
    """The receiver is unreachable; the replica that tried is gone, and the next one tells it."""
    with receiver([503] * 3) as (url, posts):
        with replica(address, hooked(url)) as one:
            one.served["shop"].memory.teach([1.0, 0.0], "cup")
            tried = [json.loads(posts.get(timeout=60)[1])["id"] for _ in range(4)]
        assert len(set(tried)) == 1
        with replica(address, hooked(url)) as two:
            two.served["shop"].memory.teach([0.0, 1.0], "pen")
            (told,) = heard(posts, 1)
    assert told["id"] > tried[0]


def test_a_killed_replica_is_replaced_and_no_change_is_missed(address):
    """Its last event may come twice, under the same number."""
    with receiver() as (url, posts), socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        process = subprocess.Popen(
            [sys.executable, "-c", "from everlearn.cli import main; main()", "-m", address,
             "serve", "--port", str(port), "--token", TOKEN, "--webhook", url],
            env=os.environ | {"EVERLEARN_WEBHOOK_SECRET": SECRET},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert "Open http" in process.stdout.readline()
            with Memory(address) as outside, replica(address, hooked(url)):
                for number in range(20):
                    outside.teach([float(number), 1.0], f"name {number}")
                    if number == 10:
                        process.kill()
                        process.wait(60)
                told = {}
                while len(told) < 20:
                    event = json.loads(posts.get(timeout=60)[1])
                    told.setdefault(event["id"], event["facts"]["name"])
        finally:
            process.kill()
            process.wait(60)
            process.stdout.close()
    assert [told[number] for number in sorted(told)] == [f"name {k}" for k in range(20)]


def test_listeners_of_each_replica_hear_all_changes(address):
    with Memory(address) as one, Memory(address) as two, contextlib.ExitStack() as services:
        urls = [services.enter_context(listening({"shop": memory})) for memory in (one, two)]
        found = [[], []]
        ready = threading.Barrier(3, timeout=60)

        def follow(url, told):
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
            headers = {"authorization": f"Bearer {TOKEN}"}
            with contextlib.closing(connection):
                connection.request("GET", "/v1/events", headers=headers)
                lines = connection.getresponse()
                while len(told) < 4:
                    line = lines.readline().decode().strip()
                    if line == ": listening":
                        ready.wait()
                    if line.startswith(("id:", "data:")):
                        told.append(line)

        threads = [
            threading.Thread(target=follow, args=pair) for pair in zip(urls, found, strict=True)
        ]
        for thread in threads:
            thread.start()
        ready.wait()
        for url, name in zip(urls, ("cup", "pen"), strict=True):
            with Client(url, token=TOKEN) as client:
                client.teach([float(len(url)), 1.0 if name == "cup" else 2.0], name)
        for thread in threads:
            thread.join(60)
    assert found[0] == found[1]
    assert ['"cup"' in found[0][1], '"pen"' in found[0][3]] == [True, True]


def test_an_erase_removes_words_from_events_and_kept_answers(address):
    with Memory(address) as memory:
        memory.teach([0.0, 1.0], "pen")
        memory.once("key", b"rename", lambda: [memory.rename("pen", "secret"), "secret"][1])
        memory.forget(name="secret", erase=True)
        log = memory.event_log()
        with contextlib.closing(log):
            assert [event.kind for event in log.after(0, 100)] == ["erased"]
        with pytest.raises(LookupError, match="removed by an erase"):
            memory.once("key", b"rename", lambda: memory.rename("pen", "secret"))
        with pytest.raises(ValueError, match="several transactions"):
            memory.once("more", b"erase", lambda: memory.forget(name="pen", erase=True))
        memory.teach([0.0, 2.0], "pen")
        assert memory.verify().problems == ()


def test_an_erase_over_http_with_a_key_is_complete(address):
    with Memory(address) as memory, listening({"shop": memory}) as url:
        memory.teach([0.0, 1.0], "pen")
        memory.teach([1.0, 1.0], "cup")
        with Client(url, token=TOKEN) as client:
            assert client.forget(name="pen", erase=True).count == 1
        assert list(memory.names()) == ["cup"]
        assert memory.verify().problems == ()


class BrokenLog:
    """A log of events whose first read fails in a way that is not expected."""

    def __init__(self):
        self.failures = [RuntimeError("a defect")]

    def last(self):
        return 0

    def after(self, number, limit):
        if self.failures:
            raise self.failures.pop()
        return [StoredEvent(1, 1.0, "taught", {"name": "cup"})][number:]

    def wait(self, seconds):
        time.sleep(min(seconds, 0.01))

    def close(self):
        pass


def test_an_unexpected_error_does_not_end_the_delivery(monkeypatch):
    monkeypatch.setattr("everlearn.service.fleet.RETRY_SECONDS", 0.01)
    events, told = Events(1), []
    events.publish_to_listeners = lambda *event: told.append(event)
    fleet = FleetEvents("shop", BrokenLog(), events)
    wait_until(lambda: told)
    fleet.close()
    assert told == [("shop", "taught", {"name": "cup"}, 1)]


@broker_only
def test_replicas_are_one_device_at_a_broker(address, broker):
    def made(service):
        return Mqtt(service, "127.0.0.1", broker)

    with (
        at_broker(broker, "everlearn/#") as (client, heard_there),
        replica(address, made),
        Memory(address, embedder=Pixels(size=8)) as outside,
    ):
        root = f"everlearn/postgres-{address.partition('#')[2]}"
        wait_for(heard_there, f"{root}/status", lambda payload: payload == b"online")
        with replica(address, made):
            wait_for(heard_there, f"{root}/status", lambda payload: payload == b"online")
            outside.teach(picture(200, 0, 0), "red")
            told = json.loads(wait_for(heard_there, f"{root}/shop/event"))
            assert (told["event"], told["name"]) == ("taught", "red")
            client.publish(f"{root}/shop/ask", picture(201, 0, 0))
            wait_for(heard_there, f"{root}/shop/answer")
        # One has gone and said so; the other is still there.
        wait_for(heard_there, f"{root}/status", lambda payload: payload == b"offline")
        wait_for(heard_there, f"{root}/status", lambda payload: payload == b"online")
        threading.Event().wait(AGAIN_SECONDS)
        rest = [heard_there.get_nowait()[0] for _ in range(heard_there.qsize())]
        assert not {f"{root}/shop/event", f"{root}/shop/answer"} & set(rest)
