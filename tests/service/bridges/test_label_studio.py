"""The bridge to Label Studio, with messages of Label Studio 1.23.

The last test runs Label Studio itself; ``make bridges`` installs and names it.
"""

import contextlib
import http.client
import http.server
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from everlearn import Memory, Pixels
from everlearn.errors import CannotReach, InvalidInput, InvalidParameter
from everlearn.service.bridges.label_studio import (
    LabelStudio,
    box_of,
    make_server,
    read_controls,
)
from tests.service.bridges.conftest import BLUE, RED, counts
from tests.service.conftest import picture

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


def suggestions(bridge, image="/data/red.png", **more):
    request = {"tasks": [{"id": 1, "data": {"image": image}}], "label_config": CONFIG} | more
    return bridge.predict(request)["results"][0]


class TestLabelStudio:
    def test_annotations_are_suggested_for_the_next_task(self, bridge, memory, site):
        assert suggestions(bridge)["result"] == []
        before = bridge.setup({})["model_version"]
        assert bridge.webhook(saved(1, 10, "/data/red.png", chosen("cup")))["taught"] == 1
        bridge.webhook(saved(2, 11, "/data/blue.png", chosen("pen")))
        found = suggestions(bridge)
        assert chosen("cup") in found["result"]
        assert found["model_version"] != before
        assert site.heard[-1][1]["authorization"] == f"Token {KEY}"
        assert counts(memory) == {"cup": 1, "pen": 1}

    def test_a_deleted_annotation_leaves_no_trace_in_the_model(self, bridge, memory, tmp_path):
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
        with pytest.raises(InvalidInput, match="contains no part"):
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

    def test_configurations_without_images_are_ignored(self):
        assert read_controls("<View><Text name='t' value='$t'/></View>") == []
        with pytest.raises(InvalidInput, match="not XML"):
            read_controls("<View>")

    def test_the_server_requires_the_secret_and_survives_invalid_requests(self, bridge):
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


PROGRAM = os.environ.get("EVERLEARN_LABEL_STUDIO", "")


USER_TOKEN = "0123456789abcdef0123456789abcdef01234567"


label_studio_only = pytest.mark.skipif(
    not PROGRAM, reason="EVERLEARN_LABEL_STUDIO names no Label Studio; see make bridges"
)


class Api:
    """Label Studio's HTTP API."""

    def __init__(self, address):
        self.address = address

    def __call__(self, method, path, said=None, *, images=None):
        headers = {"authorization": f"Token {USER_TOKEN}"}
        data = None if said is None else json.dumps(said).encode()
        if said is not None:
            headers["content-type"] = "application/json"
        if images is not None:
            edge = "a-line-between-files"
            parts = [
                f'--{edge}\r\ncontent-disposition: form-data; name="{name}"; filename="{name}"\r\n'
                f"content-type: image/png\r\n\r\n".encode()
                + image
                + b"\r\n"
                for name, image in images.items()
            ]
            data = b"".join(parts) + f"--{edge}--\r\n".encode()
            headers["content-type"] = f"multipart/form-data; boundary={edge}"
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
        return json.loads(text) if text else None


@pytest.fixture(scope="module")
def label_studio(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("label-studio")
    # Its own protection refuses addresses of this machine, where the bridge is.
    settings = {"SSRF_PROTECTION_ENABLED": "false", "USE_DEFAULT_BANNED_SUBNETS": "false"}
    settings |= {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false"}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | settings
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "start", "--no-browser", "--data-dir", folder, "--internal-host",
             "127.0.0.1", "--port", str(port), "--username", "ann@example.org", "--password",
             "a long password", "--user-token", USER_TOKEN, "--enable-legacy-api-token"],
            stdout=log, stderr=log, env=environment,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    for _ in range(2400):  # its first start makes a database
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
            break
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)
    yield Api(address)
    process.terminate()
    process.wait(60)


@label_studio_only
def test_annotations_are_learned_as_they_are_saved(label_studio, tmp_path):
    with Memory(tmp_path / "memory", embedder=Pixels(size=8, colour=True)) as memory:
        bridge = LabelStudio(memory, address=label_studio.address, api_key=USER_TOKEN)
        server = make_server(bridge, SECRET, port=0)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            _walk(label_studio, memory, server.address)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _walk(api, memory, bridge):
    project = api("POST", "/api/projects", {"title": "things", "label_config": CONFIG})["id"]
    backend = api("POST", "/api/ml", {"url": bridge, "project": project, "title": "everlearn"})
    assert backend["state"] == "CO"
    images = {"a.png": picture(255, 0, 0), "b.png": picture(0, 0, 255), "c.png": picture(0, 220, 0)}
    api("POST", f"/api/projects/{project}/import", images=images)
    tasks = [task["id"] for task in api("GET", f"/api/tasks?project={project}")["tasks"]]

    def annotate(task, *results):
        return api("POST", f"/api/tasks/{task}/annotations/", {"result": list(results)})["id"]

    def suggested(task):
        action = f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}"
        api("POST", action, {"selectedItems": {"all": False, "included": [task]}})
        newest = max(api("GET", f"/api/predictions?task={task}"), key=lambda one: one["id"])
        return [one["value"]["choices"] for one in newest["result"] if one["type"] == "choices"]

    def counts():
        return {name: record.count for name, record in memory.names().items()}

    first = annotate(tasks[0], chosen("cup"))
    annotate(tasks[1], chosen("pen"))
    # Label Studio tells the bridge before it answers: what is saved is learned already.
    assert counts() == {"cup": 1, "pen": 1}
    before, suggestion = memory.ask(images["c.png"]), suggested(tasks[2])
    third = annotate(tasks[2], chosen("pen"))
    assert counts() == {"cup": 1, "pen": 2}
    assert suggested(tasks[2]) == [["pen"]]
    api("DELETE", f"/api/annotations/{third}/")
    assert counts() == {"cup": 1, "pen": 1}
    assert suggested(tasks[2]) == suggestion
    after = memory.ask(images["c.png"])
    assert [answer.name for answer in after] == [answer.name for answer in before]
    assert after[0].probability == pytest.approx(before[0].probability, abs=1e-12)
    api("PATCH", f"/api/annotations/{first}/", {"result": [drawn("pen", 10, 10)]})
    assert counts() == {"pen": 2}
    api("DELETE", f"/api/tasks/{tasks[1]}/")
    assert counts() == {"pen": 1}
    assert memory.verify().ok
