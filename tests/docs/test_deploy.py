"""Deployment files: minimal rights, and metrics that exist."""

import configparser
import json
import re
import runpy
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from everlearn import __version__
from tests.docs.blocks import ROOT
from tests.docs.reading import read_command

DEPLOY = ROOT / "deploy"


yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


def read(name):
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def test_a_fleet_is_a_database_three_replicas_and_a_proxy():
    services = read("fleet.yml")["services"]
    assert set(services) == {"database", "replica", "proxy"}
    assert services["replica"]["deploy"]["replicas"] == 3
    # No password in an address, where it would be shown.
    assert "@database/" in services["replica"]["environment"]["EVERLEARN_MEMORY"]
    assert ":" not in services["replica"]["environment"]["EVERLEARN_MEMORY"].split("//")[1]


def test_the_service_has_no_unnecessary_rights():
    service = read("compose.yml")["services"]["everlearn"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    stages = (DEPLOY / "Dockerfile").read_text("utf-8").split("FROM ")[1:]
    assert len(stages) == 2
    assert "USER 10001" in stages[-1]
    assert "HEALTHCHECK" in stages[-1]


def test_the_unit_waits_before_it_starts_again_and_limits_memory():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "everlearn.service")
    service = unit["Service"]
    assert service["Restart"] == "on-failure"
    assert int(service["RestartSec"]) >= 1
    assert service["MemoryHigh"] < service["MemoryMax"]


IMAGES = [DEPLOY / "Dockerfile", DEPLOY / "home-assistant" / "Dockerfile"]


def test_images_have_one_base_that_cannot_change():
    (base,) = {re.search(r"^ARG BASE=(.*)$", file.read_text(), re.M)[1] for file in IMAGES}
    assert re.fullmatch(r"python:3\.12-slim@sha256:[0-9a-f]{64}", base)
    for file in IMAGES:
        assert set(re.findall(r"^FROM (\S+)", file.read_text(), re.M)) == {"${BASE}"}


def test_images_contain_an_sbom(tmp_path):
    (command,) = {
        re.search(r"(/opt/sbom/bin/cyclonedx-py .*)", file.read_text())[1] for file in IMAGES
    }
    venv.create(tmp_path / "everlearn")
    (packages,) = (tmp_path / "everlearn").rglob("site-packages")
    (packages / "cup-1.0.dist-info").mkdir()
    (packages / "cup-1.0.dist-info" / "METADATA").write_text("Name: cup\nVersion: 1.0\n")
    command = command.replace("/opt/sbom/bin", str(Path(sys.executable).parent))
    subprocess.run(shlex.split(command.replace("/opt", str(tmp_path))), check=True)
    listed = json.loads((tmp_path / "everlearn" / "sbom.cdx.json").read_text("utf-8"))
    assert [(part["name"], part["version"]) for part in listed["components"]] == [("cup", "1.0")]


def test_mounted_files_exist():
    for service in read("compose.yml")["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (DEPLOY / source).is_file(), volume


ADDON = ROOT / "deploy" / "home-assistant"


class TestHomeAssistant:
    """The add-on's folder: settings that match their schema, and a valid command."""

    def test_every_setting_has_a_schema(self):
        yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
        config = yaml.safe_load((ADDON / "config.yaml").read_text("utf-8"))
        assert set(config["options"]) <= set(config["schema"])
        assert config["ingress"]
        assert f"{config['ingress_port']}/tcp" in config["ports"]
        assert config["version"] == __version__

    def test_its_command_exists(self, monkeypatch, tmp_path):
        program = runpy.run_path(str(ADDON / "run.py"))
        monkeypatch.setitem(program["command"].__globals__, "TOKEN", tmp_path / "token")
        given = {"mqtt": "broker", "mqtt_user": "ann", "host_name": "home.local"}
        words, variables = program["command"](given)
        read_command(" ".join(words))
        assert words[words.index("--trust-ingress") + 1] == "172.30.32.2"
        assert variables["EVERLEARN_MQTT_USER"] == "ann"
        again = program["command"](given)[1]["EVERLEARN_TOKEN"]
        assert variables["EVERLEARN_TOKEN"] == again
        assert (tmp_path / "token").stat().st_mode & 0o077 == 0


def expressions():
    """The Prometheus queries of the dashboard and of the alerts."""
    board = json.loads((DEPLOY / "grafana" / "everlearn.json").read_text("utf-8"))
    rules = read("alerts.yml")["groups"][0]["rules"]
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [*found, *(rule["expr"] for rule in rules)]


def test_dashboards_and_alerts_use_existing_metrics(tmp_path):
    pytest.importorskip("fastapi", reason="fastapi is not installed: everlearn[serve]")
    from starlette.testclient import TestClient

    from everlearn import Memory
    from everlearn.service import Settings, create_app
    from everlearn.service.webhooks import Webhooks

    token = "a-token-only-tests-know"
    with Memory(tmp_path / "memory") as memory:
        app, service = create_app({"memory": memory}, Settings(token=token))
        service.follow(Webhooks([], "secret"))
        headers = {"authorization": f"Bearer {token}"}
        with TestClient(app, base_url="http://127.0.0.1:8737", headers=headers) as client:
            client.post("/v1/teach", json={"vector": [1, 0], "name": "cup"})
            client.post("/v1/ask", json={"vector": [1, 0]})
            given = set(re.findall(r"^(everlearn_\w+)", client.get("/metrics").text, re.MULTILINE))
    asked = {name for text in expressions() for name in re.findall(r"everlearn_\w+", text)}
    assert "everlearn_lag_seconds" in asked
    assert asked <= given
    for text in expressions():
        assert text.count("(") == text.count(")")
        assert text.count("{") == text.count("}")


def test_panels_of_the_board_do_not_overlap():
    board = json.loads((DEPLOY / "grafana" / "everlearn.json").read_text("utf-8"))
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


@pytest.mark.parametrize("name", ["compose.yml", "fleet.yml"])
def test_compose_files_fit_their_schema(name):
    check = Path(sys.executable).with_name("check-jsonschema")
    if not check.exists():
        pytest.skip("check-jsonschema is not installed")
    done = subprocess.run(
        [check, "--builtin-schema", "vendor.compose-spec", DEPLOY / name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_kubernetes_deployment_is_ready_when_the_service_is():
    parts = list(yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text("utf-8")))
    deployment, service = parts
    assert [part["kind"] for part in parts] == ["Deployment", "Service"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["securityContext"]["readOnlyRootFilesystem"]
    ports = {port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
