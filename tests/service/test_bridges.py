"""Bridges to Label Studio and Frigate, with what these systems send and answer.

The messages are those of Label Studio 1.23 and Frigate 0.16. ``test_label_studio.py`` runs the real
Label Studio.
"""

import contextlib
import http.client
import http.server
import json
import queue
import runpy
import threading
import time

import numpy as np
import pytest

from everlearn import Memory, Pixels, __version__
from everlearn.errors import CannotReach, InvalidInput, InvalidParameter
from everlearn.service.bridges.frigate import Frigate
from everlearn.service.bridges.label_studio import (
    LabelStudio,
    box_of,
    make_server,
    read_controls,
)
from everlearn.service.bridges.remote import Remote
from tests.docs.blocks import ROOT
from tests.docs.reading import read_command
from tests.service.conftest import picture
from tests.service.test_outward import broker, broker_only  # noqa: F401

ADDON = ROOT / "deploy" / "home-assistant"
KEY = "0123456789abcdef"
SECRET = "onlyLabelStudioKnows1"
CONFIG = """
<View>
  <Image name="img" value="$image"/>
  <Choices name="what" toName="img"><Choice value="cup"/><Choice value="pen"/></Choices>
  <RectangleLabels name="box" toName="img">
    <Label value="cup"/><Label value="pen"/>
  </RectangleLabels>
  <TextArea name="words" toName="img"/>
</View>
"""
RED, BLUE = picture(255, 0, 0), picture(0, 0, 255)


class Site:
    """A web server on this machine: answers by path, and what it was sent."""

    def __init__(self):
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
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
                status, extra, answer = site.answers.get(
                    self.path.partition("?")[0], (404, {}, b"{}")
                )
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def do_POST(self):
                self.do_GET()

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


@pytest.fixture
def bridge(memory, site):
    site.answers["/data/red.png"] = 200, {}, RED
    site.answers["/data/blue.png"] = 200, {}, BLUE
    return LabelStudio(memory, address=site.address, api_key=KEY)


def chosen(*names):
    return {
        "from_name": "what",
        "to_name": "img",
        "type": "choices",
        "value": {"choices": [*names]},
    }


def drawn(name, x=0.0, y=0.0, width=50.0, height=50.0, rotation=0):
    value = {"x": x, "y": y, "width": width, "height": height, "rotation": rotation}
    return {
        "from_name": "box",
        "to_name": "img",
        "type": "rectanglelabels",
        "value": value | {"rectanglelabels": [name]},
    }


def saved(number, task, image, *results, action="ANNOTATION_CREATED", cancelled=False):
    return {
        "action": action,
        "annotation": {"id": number, "result": list(results), "was_cancelled": cancelled},
        "task": {"id": task, "data": {"image": image}},
        "project": {"id": 7, "label_config": CONFIG},
    }


def deleted(*numbers):
    return {
        "action": "ANNOTATIONS_DELETED",
        "annotations": [{"id": number} for number in numbers],
        "project": {"id": 7, "label_config": CONFIG},
    }


def counts(memory):
    return {name: record.count for name, record in memory.names().items()}


def suggestions(bridge, image="/data/red.png", **more):
    request = {"tasks": [{"id": 1, "data": {"image": image}}], "label_config": CONFIG} | more
    return bridge.predict(request)["results"][0]


class TestLabelStudio:
    def test_what_is_annotated_is_suggested_next(self, bridge, memory, site):
        assert suggestions(bridge)["result"] == []
        before = bridge.setup({})["model_version"]
        assert bridge.webhook(saved(1, 10, "/data/red.png", chosen("cup")))["taught"] == 1
        bridge.webhook(saved(2, 11, "/data/blue.png", chosen("pen")))
        found = suggestions(bridge)
        assert chosen("cup") in found["result"]
        assert found["model_version"] != before
        assert site.heard[-1][1]["authorization"] == f"Token {KEY}"
        assert counts(memory) == {"cup": 1, "pen": 1}

    def test_deleting_an_annotation_is_as_if_it_had_never_been_saved(
        self, bridge, memory, tmp_path
    ):
        bridge.webhook(saved(1, 10, "/data/red.png", chosen("cup")))
        bridge.webhook(saved(2, 11, "/data/blue.png", chosen("pen")))
        # The same picture, annotated by two people: one deletes theirs, the other's stands.
        bridge.webhook(saved(3, 11, "/data/blue.png", chosen("pen")))
        assert counts(memory) == {"cup": 1, "pen": 2}
        assert bridge.webhook(deleted(3, 99))["forgotten"] == 1
        with Memory(tmp_path / "never", embedder=Pixels(size=8, colour=True)) as never:
            never.teach(RED, "cup")
            never.teach(BLUE, "pen")
            for image in (RED, BLUE, picture(90, 0, 120)):
                ours, theirs = memory.ask(image), never.ask(image)
                assert [a.name for a in ours] == [a.name for a in theirs]
                np.testing.assert_allclose(
                    [a.probability for a in ours], [a.probability for a in theirs], atol=1e-12
                )

    def test_a_changed_annotation_counts_once(self, bridge, memory):
        bridge.webhook(saved(1, 10, "/data/red.png", chosen("cup")))
        again = saved(1, 10, "/data/red.png", chosen("pen"), action="ANNOTATION_UPDATED")
        for _ in range(2):  # a webhook may arrive twice
            bridge.webhook(again)
        assert counts(memory) == {"pen": 1}
        bridge.webhook(saved(1, 10, "/data/red.png", chosen("pen"), cancelled=True))
        assert counts(memory) == {}

    def test_deleting_a_task_forgets_all_its_annotations(self, bridge, memory):
        bridge.webhook(saved(1, 10, "/data/red.png", chosen("cup")))
        bridge.webhook(saved(2, 10, "/data/red.png", drawn("cup")))
        bridge.webhook(saved(10, 11, "/data/blue.png", chosen("pen")))
        gone = {"action": "TASKS_DELETED", "tasks": [{"id": 10}], "project": {"id": 7}}
        assert bridge.webhook(gone)["forgotten"] == 2
        assert counts(memory) == {"pen": 1}
        other_project = {"action": "TASKS_DELETED", "tasks": [{"id": 11}], "project": {"id": 8}}
        assert bridge.webhook(other_project)["forgotten"] == 0

    def test_a_picture_that_cannot_be_fetched_changes_nothing(self, bridge, memory):
        bridge.webhook(saved(1, 10, "/data/red.png", chosen("cup")))
        missing = saved(1, 10, "/data/gone.png", chosen("pen"), action="ANNOTATION_UPDATED")
        with pytest.raises(CannotReach):
            bridge.webhook(missing)
        assert counts(memory) == {"cup": 1}

    def test_rectangles_are_cut_out_and_named(self, bridge, memory):
        assert box_of(drawn("cup", 25, 50, 50, 25)["value"]) == (0.25, 0.5, 0.75, 0.75)
        assert box_of(drawn("cup", -5, 50, 50, 80)["value"]) == (0.0, 0.5, 0.45, 1.0)
        with pytest.raises(InvalidInput, match="holds nothing"):
            box_of(drawn("cup", 100, 0)["value"])
        bridge.webhook(saved(1, 10, "/data/red.png", drawn("cup", 25, 25)))
        bridge.webhook(saved(2, 11, "/data/blue.png", drawn("pen", 25, 25)))
        bridge.webhook(saved(3, 11, "/data/blue.png", drawn("pen", rotation=30)))
        assert counts(memory) == {"cup": 1, "pen": 1}
        context = {"context": {"result": [drawn("pen", 30, 30, 40, 40)]}}
        named = suggestions(bridge, params=context)["result"]
        assert drawn("cup", 30, 30, 40, 40) in named

    def test_only_names_of_the_project_are_suggested(self, bridge, memory):
        memory.teach(RED, "tomato")
        memory.teach(BLUE, "pen")
        assert all(
            one["value"].get("choices") != ["tomato"] for one in suggestions(bridge)["result"]
        )

    def test_configurations_without_images_want_nothing(self):
        assert read_controls("<View><Text name='t' value='$t'/></View>") == []
        with pytest.raises(InvalidInput, match="not XML"):
            read_controls("<View>")

    def test_the_server_wants_the_secret_and_survives_nonsense(self, bridge):
        with pytest.raises(InvalidParameter, match="secret"):
            make_server(bridge, "short")
        server = make_server(bridge, SECRET, port=0)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def request(method, path, body=None):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
            with contextlib.closing(connection):
                connection.request(method, path, body)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())

        try:
            assert request("GET", f"/{SECRET}/health") == (200, {"status": "UP"})
            assert request("GET", "/wrong/health")[0] == 404
            assert request("POST", "/wrong/webhook", "{}")[0] == 404
            assert request("POST", f"/{SECRET}/nothing", "{}")[0] == 404
            for nonsense in ("", "[", "[]", '{"action": "ANNOTATION_CREATED"}', '{"tasks": 3}'):
                assert request("POST", f"/{SECRET}/webhook", nonsense)[0] in (200, 400)
                assert request("POST", f"/{SECRET}/predict", nonsense)[0] in (200, 400)
            body = json.dumps(saved(1, 10, "/data/red.png", chosen("cup")))
            taught = request("POST", f"/{SECRET}/webhook", body)
            assert taught == (200, {"taught": 1, "forgotten": 0})
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def test_a_personal_token_is_exchanged(self, memory, site):
        site.answers["/api/token/refresh/"] = 200, {}, b'{"access": "fresh"}'
        site.answers["/data/red.png"] = 200, {}, RED
        bridge = LabelStudio(memory, address=site.address, api_key="a.b.c")
        bridge.webhook(saved(1, 10, "/data/red.png", chosen("cup")))
        bridge.webhook(saved(2, 10, "/data/red.png", chosen("cup")))
        exchanged = [path for path, _, _ in site.heard if path.startswith("/api/token")]
        assert len(exchanged) == 1
        assert site.heard[-1][1]["authorization"] == "Bearer fresh"


class TestRemote:
    def test_credentials_stay_with_their_host(self, site, other_site):
        other_site.answers["/red.png"] = 200, {}, RED
        site.answers["/moved.png"] = 302, {"location": f"{other_site.address}/red.png"}, b""
        remote = Remote(site.address, lambda: "Token secret", [other_site.address])
        assert remote.image("/moved.png") == RED
        assert remote.image(f"{other_site.address}/red.png") == RED
        assert all("authorization" not in headers for _, headers, _ in other_site.heard)

    def test_other_hosts_are_refused(self, site, other_site):
        site.answers["/moved.png"] = 302, {"location": f"{other_site.address}/red.png"}, b""
        remote = Remote(site.address)
        for address in ("/moved.png", f"{other_site.address}/red.png", "file:///etc/passwd"):
            with pytest.raises(InvalidInput):
                remote.image(address)
        assert other_site.heard == []

    def test_a_picture_may_be_inside_its_address(self, site):
        remote = Remote(site.address)
        assert remote.image("data:image/png;base64,aGk=") == b"hi"
        for wrong in ("data:image/png,hi", "data:image/png;base64,?", "", None):
            with pytest.raises(InvalidInput):
                remote.image(wrong)


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
        deadline = time.monotonic() + 30
        while "Felix" not in memory.names() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert counts(memory) == {"Felix": 1, "Kitty": 1}
        # And another over MQTT.
        heard.publish(
            "everlearn/frigate/correct", json.dumps({"id": "1.3-b", "name": "Ann"}), qos=1
        )
        assert site.posts.get(timeout=30)[1] == {"subLabel": "Ann", "subLabelScore": 1.0}
        assert counts(memory) == {"Felix": 1, "Ann": 1}

    def test_what_is_not_to_be_named_is_not(self, frigate, heard, site, memory):
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


class TestHomeAssistant:
    """The add-on's folder: settings that fit their schema, and a command that can be read."""

    def test_every_setting_has_a_schema(self):
        yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
        config = yaml.safe_load((ADDON / "config.yaml").read_text("utf-8"))
        assert set(config["options"]) <= set(config["schema"])
        assert config["version"] == __version__

    def test_its_command_exists(self, monkeypatch, tmp_path):
        program = runpy.run_path(str(ADDON / "run.py"))
        monkeypatch.setitem(program["command"].__globals__, "TOKEN", tmp_path / "token")
        given = {"mqtt": "broker", "mqtt_user": "ann", "host_name": "home.local"}
        words, variables = program["command"](given)
        read_command(" ".join(words))
        assert variables["EVERLEARN_MQTT_USER"] == "ann"
        again = program["command"](given)[1]["EVERLEARN_TOKEN"]
        assert variables["EVERLEARN_TOKEN"] == again
        assert (tmp_path / "token").stat().st_mode & 0o077 == 0
