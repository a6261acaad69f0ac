"""The bridge with Label Studio itself; ``make bridges`` installs and names it."""

import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from everlearn import Memory, Pixels
from everlearn.service.bridges.label_studio import LabelStudio, make_server
from tests.service.conftest import picture
from tests.service.test_bridges import CONFIG, SECRET, chosen, drawn

PROGRAM = os.environ.get("EVERLEARN_LABEL_STUDIO", "")
KEY = "0123456789abcdef0123456789abcdef01234567"

pytestmark = pytest.mark.skipif(
    not PROGRAM, reason="EVERLEARN_LABEL_STUDIO names no Label Studio; see make bridges"
)


class Api:
    """Label Studio's HTTP API."""

    def __init__(self, address):
        self.address = address

    def __call__(self, method, path, said=None, *, images=None):
        headers = {"authorization": f"Token {KEY}"}
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
             "a long password", "--user-token", KEY, "--enable-legacy-api-token"],
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


def test_annotations_are_learned_as_they_are_saved(label_studio, tmp_path):
    with Memory(tmp_path / "memory", embedder=Pixels(size=8, colour=True)) as memory:
        bridge = LabelStudio(memory, address=label_studio.address, api_key=KEY)
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
