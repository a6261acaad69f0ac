"""The bridge to Frigate, with messages of Frigate 0.16."""

import json
import queue

import pytest

from everlearn.service.bridges.frigate import Frigate
from tests.service.bridges.conftest import BLUE, RED, counts
from tests.service.conftest import wait_until
from tests.service.test_mqtt import broker, broker_only  # noqa: F401


def event(number, kind="new", **after):
    facts = {"id": number, "camera": "door", "label": "cat", "has_snapshot": True}
    return json.dumps({"type": kind, "before": {}, "after": facts | after})


@broker_only
class TestFrigate:
    @pytest.fixture
    def heard(self, broker):  # noqa: F811
        """Publish to the broker, and what the bridge says on it."""
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        messages = queue.Queue()
        client = Client(CallbackAPIVersion.VERSION2)
        client.on_message = lambda _c, _d, m: messages.put((m.topic, json.loads(m.payload)))
        client.connect("127.0.0.1", broker)
        client.subscribe("everlearn/frigate/#")
        client.loop_start()
        client.messages = messages
        yield client
        client.disconnect()
        client.loop_stop()

    @pytest.fixture
    def frigate(self, memory, site, broker, heard):  # noqa: F811
        memory.teach(RED, "Tom")
        memory.teach(BLUE, "Kitty")
        for number, image in (("1.2-a", RED), ("1.3-b", BLUE)):
            site.answers[f"/api/events/{number}/snapshot.jpg"] = 200, {}, image
            site.answers[f"/api/events/{number}/sub_label"] = 200, {}, b'{"success": true}'
        bridge = Frigate(
            memory, address=site.address, host="127.0.0.1", port=broker, review_seconds=0.2
        )
        assert bridge.ready.wait(60)
        yield bridge
        bridge.close()

    def test_events_get_sub_labels_and_corrections_are_learned(self, frigate, heard, site, memory):
        heard.publish("frigate/events", event("1.2-a"), qos=1)
        path, said = site.posts.get(timeout=30)
        assert path == "/api/events/1.2-a/sub_label"
        assert said["subLabel"] == "Tom"
        assert 0 < said["subLabelScore"] <= 1
        topic, answer = heard.messages.get(timeout=30)
        assert (topic, answer["name"]) == ("everlearn/frigate/answer", "Tom")
        # Somebody corrects it in Frigate's own page.
        site.answers["/api/events/1.2-a"] = 200, {}, b'{"id": "1.2-a", "sub_label": "Felix"}'
        wait_until(lambda: "Felix" in memory.names(), seconds=30)
        assert counts(memory) == {"Felix": 1, "Kitty": 1}
        # And another over MQTT.
        heard.publish(
            "everlearn/frigate/correct", json.dumps({"id": "1.3-b", "name": "Ann"}), qos=1
        )
        assert site.posts.get(timeout=30)[1] == {"subLabel": "Ann", "subLabelScore": 1.0}
        assert counts(memory) == {"Felix": 1, "Ann": 1}

    def test_corrections_are_learned_while_messages_keep_coming(self, frigate, heard, site, memory):
        heard.publish("frigate/events", event("1.2-a"), qos=1)
        site.posts.get(timeout=30)
        site.answers["/api/events/1.2-a"] = 200, {}, b'{"id": "1.2-a", "sub_label": "Felix"}'

        def learned():
            heard.publish("frigate/door/cat/snapshot", BLUE)  # more often than there are reviews
            return "Felix" in memory.names()

        wait_until(learned, seconds=30)

    def test_objects_outside_of_the_selection_are_not_named(self, frigate, heard, site, memory):
        for payload in (
            "nonsense",
            "[]",
            "{}",
            event("1.2-a", has_snapshot=False),
            event("1.2-a", false_positive=True),
            event("1.2-a", sub_label=["A person", 0.9]),
            event("no such event"),
        ):
            heard.publish("frigate/events", payload, qos=1)
        heard.publish("frigate/events", event("1.3-b", "end"), qos=1)
        assert site.posts.get(timeout=30)[0] == "/api/events/1.3-b/sub_label"
        assert site.posts.empty()
        assert counts(memory) == {"Tom": 1, "Kitty": 1}

    def test_snapshots_are_answered(self, frigate, heard):
        heard.publish("frigate/door/cat/snapshot", BLUE)
        topic, answer = heard.messages.get(timeout=30)
        assert topic == "everlearn/frigate/door/cat"
        assert answer["name"] == "Kitty"
        assert (answer["camera"], answer["label"]) == ("door", "cat")
