"""Webhooks to a real receiver, MQTT at a real broker."""

import contextlib
import hashlib
import hmac
import http.server
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading

import pytest

from everlearn import Client
from everlearn.errors import InvalidParameter
from everlearn.service import Settings
from everlearn.service.mqtt import Mqtt, parse_broker
from everlearn.service.served import Service
from everlearn.service.webhooks import WaitingEvents, Webhooks
from tests.service.conftest import TOKEN, picture

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
SECRET = "a word both know"

broker_only = pytest.mark.skipif(
    MOSQUITTO is None, reason="no mosquitto here, so MQTT was not tried with a broker"
)


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
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook?a=1", posts
    server.shutdown()
    thread.join()
    server.server_close()


def test_webhooks_are_signed_and_arrive_in_order(api):
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


def test_a_webhook_that_fails_is_sent_again_and_given_up_in_the_end():
    with receiver([500, 503, 204, 410, 204]) as (url, posts):
        hooks = Webhooks([url], SECRET, first_pause=0.01)
        for name in ("one", "two", "three"):
            hooks("home", "taught", {"name": name})
        got = [json.loads(posts.get(timeout=60)[1])["facts"]["name"] for _ in range(5)]
        hooks.close()
    assert got == ["one", "one", "one", "two", "three"]
    assert (hooks.hooks[0].sent, hooks.hooks[0].lost) == (2, 1)


def test_a_webhook_nobody_answers_holds_nothing_up_and_little_memory():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hooks = Webhooks([f"http://127.0.0.1:{closed.getsockname()[1]}/"], SECRET, waiting=5)
        for _ in range(1_000):
            hooks("home", "taught", {})
        assert hooks.hooks[0].lost >= 940
        hooks.hooks[0].close(0.1)
        assert hooks.hooks[0].lost + hooks.hooks[0].sent >= 999


def test_sigterm_ends_only_when_everything_is_sent_and_closed(tmp_path):
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
        try:
            assert "Open http" in process.stdout.readline()
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                threading.Event().wait(0.1)
            with Client(f"http://127.0.0.1:{port}", token=TOKEN) as client:
                for number in range(15):
                    client.teach([float(number), 1.0], "cup")
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 0, said
        assert "stopped; everything acknowledged is kept" in said
        assert posts.qsize() == 15
    assert not list((tmp_path / "m").glob("journal.sqlite-wal"))


def test_frames_are_counted_together_and_make_room_for_changes():
    events = WaitingEvents(3)
    for number in range(1_000):
        assert events.put({"event": "unknown", "memory": "home", "id": number}) == 0
    lost = [events.put({"event": "taught", "memory": "home", "id": 1_000 + n}) for n in range(5)]
    assert lost == [0, 0, 1, 0, 0]
    assert events.put({"event": "unknown", "memory": "home", "id": 2_000}) == 1
    kept = [events.get(0.0) for _ in range(5)]
    assert [one["event"] for one in kept] == ["taught"] * 5
    for number in range(3):
        events.put({"event": "unknown", "memory": "home", "id": number})
    assert events.get(0.0)["count"] == 3


@pytest.mark.parametrize("url", ["http://" + "x" * 70 + ".example/", "http://h:99999/"])
def test_an_address_that_cannot_be_one_is_refused_at_the_start(url):
    with pytest.raises(InvalidParameter, match="a webhook looks like"):
        Webhooks([url], SECRET)


def test_webhooks_need_a_secret_and_an_address():
    with pytest.raises(InvalidParameter, match="EVERLEARN_WEBHOOK_SECRET"):
        Webhooks(["http://127.0.0.1/"], "")
    with pytest.raises(InvalidParameter, match="webhook looks like"):
        Webhooks(["file:///etc/passwd"], SECRET)


def test_a_broker_is_a_host_and_a_port():
    assert parse_broker("home.local") == ("home.local", 1883)
    assert parse_broker("127.0.0.1:9") == ("127.0.0.1", 9)
    assert parse_broker("[::1]:1884") == ("::1", 1884)
    with pytest.raises(InvalidParameter):
        parse_broker("host:port")


@pytest.fixture
def broker(tmp_path):
    """A port at which mosquitto listens."""
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
    process = subprocess.Popen(
        [MOSQUITTO, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    waiting = threading.Event()
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        waiting.wait(0.1)
    yield port
    process.terminate()
    process.wait(60)


@contextlib.contextmanager
def listening(port, *topics):
    """Messages at the broker, as they come."""
    from paho.mqtt.client import CallbackAPIVersion, Client

    heard, ready = queue.Queue(), threading.Event()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda c, *_: [c.subscribe(topic) for topic in topics]
    client.on_subscribe = lambda *_: ready.set()
    client.on_message = lambda c, d, message: heard.put((message.topic, message.payload))
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert ready.wait(60)
    yield client, heard
    client.disconnect()
    client.loop_stop()


def wait_for(heard, topic, right=lambda payload: True):
    while True:
        found, payload = heard.get(timeout=60)
        if found == topic and right(payload):
            return payload


def wait_for_all(heard, topics, wanted=lambda payload: True):
    """What was published under each of these topics, in whatever order it came."""
    found = {}
    while set(found) != set(topics):
        topic, payload = heard.get(timeout=60)
        if topic in topics and wanted(payload):
            found[topic] = payload
    return found


@broker_only
def test_home_assistant_finds_the_memories_and_hears_answers(broker, memories):
    memories["home"].teach(picture(200, 0, 0), "red")
    service = Service(memories, Settings())
    with listening(broker, "homeassistant/#", "everlearn/#") as (client, heard):
        mqtt = Mqtt(service, "127.0.0.1", broker, device="robot")
        service.follow(mqtt)
        config = json.loads(
            wait_for(heard, "homeassistant/sensor/everlearn_robot_home/answer/config")
        )
        assert config["state_topic"] == "everlearn/robot/home/answer"
        assert config["availability_topic"] == "everlearn/robot/status"
        assert wait_for(heard, "everlearn/robot/status") == b"online"
        names = json.loads(wait_for(heard, "everlearn/robot/home/names"))
        assert names == {"count": 1, "teachings": 1, "names": ["red"]}

        client.publish("everlearn/robot/home/ask", picture(201, 0, 0))
        answer = json.loads(wait_for(heard, "everlearn/robot/home/answer"))
        assert set(answer) == {"name", "unknown", "probability", "frame", "time"}

        memories["home"].teach(picture(0, 0, 200), "blue")
        service.served["home"].tell("taught", name="blue", new=True)
        told = json.loads(wait_for(heard, "everlearn/robot/home/event"))
        assert told == {"event": "taught", "name": "blue", "new": True}
        assert json.loads(wait_for(heard, "everlearn/robot/home/names"))["names"] == ["blue", "red"]

        client.publish("everlearn/robot/home/ask", b"no picture")
        assert b"NotAnImage" in wait_for(heard, "everlearn/robot/home/event")

        client.publish("homeassistant/status", "online")  # Home Assistant was started anew
        wait_for(heard, "homeassistant/sensor/everlearn_robot_garden/names/config")
        mqtt.close()
        wait_for(heard, "everlearn/robot/status", lambda payload: payload == b"offline")
    service.close()


@broker_only
def test_a_service_that_dies_is_said_to_be_offline(broker, memories):
    service = Service(memories, Settings())
    with listening(broker, "everlearn/robot/status") as (_, heard):
        mqtt = Mqtt(service, "127.0.0.1", broker, device="robot")
        wait_for(heard, "everlearn/robot/status", lambda payload: payload == b"online")
        mqtt._client._sock_close()  # as when the machine loses its power
        wait_for(heard, "everlearn/robot/status", lambda payload: payload == b"offline")
        wait_for(heard, "everlearn/robot/status", lambda payload: payload == b"online")
        mqtt.close()
    service.close()


@broker_only
def test_two_services_at_one_broker_do_not_collide(broker, memories):
    one, two = Service(memories, Settings()), Service(memories, Settings())
    with listening(broker, "everlearn/#", "homeassistant/#") as (client, heard):
        first = Mqtt(one, "127.0.0.1", broker, device="robot one")
        second = Mqtt(two, "127.0.0.1", broker, device="robot-two")
        statuses = [f"everlearn/{device}/status" for device in ("robot-one", "robot-two")]
        wait_for_all(heard, statuses, lambda payload: payload == b"online")
        second.close()
        wait_for(heard, "everlearn/robot-two/status", lambda payload: payload == b"offline")
        client.publish("everlearn/robot-one/home/ask/left", picture(201, 0, 0))
        client.publish("everlearn/robot-one/home/ask/right", picture(0, 0, 201))
        topics = [f"everlearn/robot-one/home/answer/{camera}" for camera in ("left", "right")]
        for answer in wait_for_all(heard, topics).values():
            assert json.loads(answer)["unknown"] is True
        first.close()
    one.close()
    two.close()


def test_a_device_has_a_name_of_its_own_by_default(memories):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    service = Service(memories, Settings())
    mqtt = Mqtt(service, "127.0.0.1", 9)
    assert mqtt.device.endswith("-one")
    with pytest.raises(InvalidParameter, match="a device is called"):
        Mqtt(service, "127.0.0.1", 9, device="///")
    mqtt.close()
    service.close()


@broker_only
def test_a_broker_that_comes_later_is_found(memories, tmp_path, caplog):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = Service(memories, Settings())
    mqtt = Mqtt(service, "127.0.0.1", port, device="robot")
    mqtt("home", "answered", {"name": "red"})
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
    process = subprocess.Popen(
        [MOSQUITTO, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            if mqtt._client.is_connected():
                break
            threading.Event().wait(0.1)
        with listening(port, "everlearn/#") as (_, heard):
            assert b"red" in wait_for(heard, "everlearn/robot/home/answer")
    finally:
        mqtt.close()
        process.terminate()
        process.wait(60)
        service.close()
