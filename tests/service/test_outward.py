"""Webhooks to a real receiver, MQTT at a real broker."""

import contextlib
import hashlib
import hmac
import http.server
import json
import queue
import shutil
import socket
import subprocess
import threading

import pytest

from everlearn.errors import CannotReach, InvalidParameter
from everlearn.service import Settings
from everlearn.service.mqtt import Mqtt, parse_broker
from everlearn.service.served import Service
from everlearn.service.webhooks import Webhooks
from tests.service.conftest import picture

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
    for number, (headers, body) in enumerate(heard, start=1):
        when, own = (part.partition("=")[2] for part in headers["everlearn-signature"].split(","))
        signed = hmac.new(SECRET.encode(), f"{when}.".encode() + body, hashlib.sha256)
        assert hmac.compare_digest(own, signed.hexdigest())
        assert headers["everlearn-id"] == str(number)
    told = [json.loads(body) for _, body in heard]
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
        assert hooks.hooks[0].lost >= 990
        hooks.close()


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


@broker_only
def test_home_assistant_finds_the_memories_and_hears_answers(broker, memories):
    memories["home"].teach(picture(200, 0, 0), "red")
    service = Service(memories, Settings())
    with listening(broker, "homeassistant/#", "everlearn/#") as (client, heard):
        mqtt = Mqtt(service, "127.0.0.1", broker)
        service.follow(mqtt)
        config = json.loads(wait_for(heard, "homeassistant/sensor/everlearn_home/answer/config"))
        assert config["state_topic"] == "everlearn/home/answer"
        assert config["availability_topic"] == "everlearn/status"
        assert wait_for(heard, "everlearn/status") == b"online"
        names = json.loads(wait_for(heard, "everlearn/home/names"))
        assert names == {"count": 1, "teachings": 1, "names": ["red"]}

        client.publish("everlearn/home/ask", picture(201, 0, 0))
        answer = json.loads(wait_for(heard, "everlearn/home/answer"))
        assert set(answer) == {"name", "probability", "time"}

        memories["home"].teach(picture(0, 0, 200), "blue")
        service.served["home"].tell("taught", name="blue", new=True)
        told = json.loads(wait_for(heard, "everlearn/home/event"))
        assert told == {"event": "taught", "name": "blue", "new": True}
        assert json.loads(wait_for(heard, "everlearn/home/names"))["names"] == ["blue", "red"]

        client.publish("everlearn/home/ask", b"no picture")
        assert b"NotAnImage" in wait_for(heard, "everlearn/home/event")

        client.publish("homeassistant/status", "online")  # Home Assistant was started anew
        wait_for(heard, "homeassistant/sensor/everlearn_garden/names/config")
        mqtt.close()
        wait_for(heard, "everlearn/status", lambda payload: payload == b"offline")
    service.close()


@broker_only
def test_a_service_that_dies_is_said_to_be_offline(broker, memories):
    service = Service(memories, Settings())
    with listening(broker, "everlearn/status") as (_, heard):
        mqtt = Mqtt(service, "127.0.0.1", broker)
        wait_for(heard, "everlearn/status", lambda payload: payload == b"online")
        mqtt._client._sock_close()  # as when the machine loses its power
        wait_for(heard, "everlearn/status", lambda payload: payload == b"offline")
        wait_for(heard, "everlearn/status", lambda payload: payload == b"online")
        mqtt.close()
    service.close()


def test_a_broker_that_is_not_there_is_named(memories):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    service = Service(memories, Settings())
    with pytest.raises(CannotReach, match="no MQTT broker"):
        Mqtt(service, "127.0.0.1", 9)
    service.close()
