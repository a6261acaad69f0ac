"""MQTT at a real broker."""

import contextlib
import hashlib
import json
import queue
import shutil
import socket
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from everlearn.errors import InvalidParameter
from everlearn.memory.storage.interface import StoredEvent
from everlearn.service import Settings
from everlearn.service.mqtt import Mqtt, parse_broker
from everlearn.service.served import Service
from tests.service.conftest import accepts_connections, picture, wait_until

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


broker_only = pytest.mark.skipif(
    MOSQUITTO is None, reason="no mosquitto here, so MQTT was not tried with a broker"
)


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
    try:
        wait_until(lambda: accepts_connections(port))
        yield port
    finally:
        process.terminate()
        process.wait(60)


def test_a_broker_is_a_host_and_a_port():
    assert parse_broker("home.local") == ("home.local", 1883)
    assert parse_broker("127.0.0.1:9") == ("127.0.0.1", 9)
    assert parse_broker("[::1]:1884") == ("::1", 1884)
    for wrong in (
        "host:port",
        "host:0",
        "host:65536",
        "",
        ":1883",
        "[]:1883",
        "a..b",
        "a b",
        "h\0",
    ):
        with pytest.raises(InvalidParameter, match="a broker must be HOST or HOST:PORT"):
            parse_broker(wrong)


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
    try:
        assert ready.wait(60)
        yield client, heard
    finally:
        client.disconnect()
        client.loop_stop()


def wait_for(heard, topic, wanted=lambda payload: True):
    """The first wanted message under this topic."""
    return wait_for_all(heard, [topic], wanted)[topic]


def wait_for_all(heard, topics, wanted=lambda payload: True):
    """The latest wanted message under each of these topics, in whatever order they come."""
    found = {}
    end = time.monotonic() + 60
    while set(found) != set(topics):
        topic, payload = heard.get(timeout=max(0.0, end - time.monotonic()))
        if topic in topics and wanted(payload):
            found[topic] = payload
    return found


@broker_only
def test_home_assistant_discovers_memories_and_receives_answers(broker, memories):
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
        service.served["home"].publish("taught", name="blue", new=True)
        told = json.loads(wait_for(heard, "everlearn/robot/home/event"))
        assert told == {"event": "taught", "name": "blue", "new": True}
        assert json.loads(wait_for(heard, "everlearn/robot/home/names"))["names"] == ["blue", "red"]

        memories["garden"].teach(picture(0, 200, 0), "green")
        memories["home"].merge(memories["garden"])
        service.served["home"].publish("merged", taught=1, forgotten=0)
        assert json.loads(wait_for(heard, "everlearn/robot/home/names"))["count"] == 3

        client.publish("everlearn/robot/home/ask", b"no picture")
        assert b"NotAnImage" in wait_for(heard, "everlearn/robot/home/event")

        client.publish("homeassistant/status", "online")  # Home Assistant was started anew
        wait_for(heard, "homeassistant/sensor/everlearn_robot_garden/names/config")
        mqtt.close()
        wait_for(heard, "everlearn/robot/status", lambda payload: payload == b"offline")
    service.close()


@broker_only
def test_a_killed_service_is_reported_offline(broker, memories):
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


def test_two_cameras_of_one_memory_do_not_alternate(memories):
    told = []
    service = Service(memories, Settings())
    service.follow(lambda memory, kind, facts: told.append((kind, facts)))
    home = service.find("home")
    home.memory.teach(picture(200, 0, 0), "red")
    home.memory.teach(picture(0, 0, 200), "blue")
    for _ in range(20):
        for session, image in (("left", picture(201, 0, 0)), ("right", picture(0, 0, 201))):
            answers = home.memory.ask(image)
            home.combine_frames(session, answers)
            home.publish_answer(answers, session=session, example=image)
    answers = [facts for kind, facts in told if kind == "answered"]
    assert len(answers) == 2
    assert [facts["session"] for facts in answers] == ["left", "right"]
    for facts, image in zip(answers, (picture(201, 0, 0), picture(0, 0, 201)), strict=True):
        assert facts["unknown"] is (facts["name"] is None)
        assert facts["frame"] == hashlib.sha256(image).hexdigest()[:16]
    service.close()


@broker_only
def test_mqtt_pictures_share_the_queue_of_other_questions(broker, memories):
    memories["home"].teach(picture(200, 0, 0), "red")
    service = Service(memories, Settings(waiting=1))
    go_on = threading.Event()
    asked = service.find("home").ask(lambda memory: go_on.wait(60))
    with listening(broker, "everlearn/#") as (client, heard):
        mqtt = Mqtt(service, "127.0.0.1", broker, device="robot")
        wait_for(heard, "everlearn/robot/status", lambda payload: payload == b"online")
        client.publish("everlearn/robot/home/ask", picture(201, 0, 0))
        refused = json.loads(wait_for(heard, "everlearn/robot/home/event"))
        assert (refused["event"], refused["error"]) == ("refused", "TooBusy")
        go_on.set()
        asked.result(60)
        names = json.loads(wait_for(heard, "everlearn/robot/home/names"))
        assert names["count"] == 1
        mqtt.close()
    service.close()


@pytest.mark.parametrize("topic", ["", "ask", "everlearn/robot", "everlearn/robot/nobody/ask"])
def test_other_topics_are_ignored(memories, topic):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    service = Service(memories, Settings())
    mqtt = Mqtt(service, "127.0.0.1", 9, device="robot")
    mqtt._on_message(mqtt._client, None, SimpleNamespace(topic=topic, payload=b"picture"))
    assert mqtt._pictures.empty()
    assert mqtt.failed == 0
    mqtt.close()
    service.close()


def test_the_default_device_name_contains_that_of_the_memory(memories):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    service = Service(memories, Settings())
    mqtt = Mqtt(service, "127.0.0.1", 9)
    assert mqtt.device.endswith("-one")
    with pytest.raises(InvalidParameter, match="a device name needs"):
        Mqtt(service, "127.0.0.1", 9, device="///")
    mqtt.close()
    service.close()


@contextlib.contextmanager
def broker_at(port, folder):
    """A broker that keeps nothing when it ends."""
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
    process = subprocess.Popen(
        [MOSQUITTO, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@broker_only
def test_a_broker_that_starts_later_or_restarts_gets_the_state(memories, tmp_path, caplog):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    caplog.set_level("WARNING", "everlearn.service")
    service = Service(memories, Settings())
    mqtt = Mqtt(service, "127.0.0.1", port, device="robot")
    topics = [f"everlearn/robot/home/answer{end}" for end in ("", "/left")]
    try:
        wait_until(lambda: "no MQTT broker answers" in caplog.text)
        with broker_at(port, tmp_path):
            wait_until(mqtt._client.is_connected)
            mqtt("home", "answered", {"name": "red"})
            mqtt._answer(service.find("home"), "left", picture(201, 0, 0))
            with listening(port, "everlearn/#") as (_, heard):
                wait_for_all(heard, topics)
        wait_until(lambda: "is lost; retrying" in caplog.text)
        assert caplog.text.count("connected to the MQTT broker at") == 1
        with broker_at(port, tmp_path):
            wait_until(lambda: caplog.text.count("connected to the MQTT broker at") == 2)
            with listening(port, "everlearn/#") as (_, heard):
                answers = wait_for_all(heard, topics)
            assert b"red" in answers[topics[0]]
            assert json.loads(answers[topics[1]])["unknown"] is True
    finally:
        mqtt.close()
        service.close()


@broker_only
def test_failures_are_counted_and_do_not_end_the_client(broker, memories, monkeypatch):
    from everlearn.service import mqtt as module

    service = Service(memories, Settings())
    with listening(broker, "everlearn/#") as (_, heard):
        mqtt = Mqtt(service, "127.0.0.1", broker, device="robot")
        service.follow(mqtt)
        wait_for_all(heard, [f"everlearn/robot/{name}/names" for name in memories])
        known, failures = module._names_payload, [OSError("the disk is gone")]

        def names(memory):
            if failures:
                raise failures.pop()
            return known(memory)

        monkeypatch.setattr(module, "_names_payload", names)
        service.served["home"].publish("taught", name="blue", new=True)
        while failures:
            wait_for(heard, "everlearn/robot/home/event")
            service.served["home"].publish("taught", name="blue", new=True)
        wait_for(heard, "everlearn/robot/home/names")
        assert mqtt.gauges() == [("everlearn_mqtt_failed", "", 1)]
        mqtt.close()
    service.close()


@broker_only
def test_the_state_is_published_after_an_outage_with_many_events(memories, tmp_path):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = Service(memories, Settings())
    mqtt = Mqtt(service, "127.0.0.1", port, device="robot")
    try:
        first = mqtt.deliver("home", StoredEvent(1, 1.0, "taught", {"name": "cup"}))
        for number in range(2_000):
            mqtt("home", "taught", {"name": str(number)})
        mqtt("home", "answered", {"name": "red"})
        arrived = mqtt.deliver("home", StoredEvent(2_001, 1.0, "taught", {"name": "cup"}))
        with broker_at(port, tmp_path):
            wait_until(mqtt._client.is_connected)
            wait_until(lambda: first() and arrived())
            topics = [f"everlearn/robot/{end}" for end in ("home/answer", "home/names", "status")]
            with listening(port, "everlearn/#") as (_, heard):
                answers = wait_for_all(heard, topics)
            assert b"red" in answers[topics[0]]
            assert answers[topics[2]] == b"online"
    finally:
        mqtt.close()
        service.close()


def test_a_broker_that_acknowledges_nothing_is_not_sent_the_state_for_ever(memories, monkeypatch):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    from everlearn.service import mqtt as module

    monkeypatch.setattr(module, "WAITING_FULL_STATES", 20)
    service = Service(memories, Settings())
    mqtt = Mqtt(service, "127.0.0.1", 9, device="robot")
    try:
        for _ in range(30):  # as at every connection
            mqtt._publish_state()
        assert 0 < len(mqtt._outbox._waiting) <= 20
    finally:
        mqtt.close()
        service.close()
