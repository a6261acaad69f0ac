"""What is deployed: nobody's rights, and figures that the service has."""

import json
import re

import pytest

from everlearn.service.metrics import Metrics
from tests.docs.blocks import ROOT

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


def test_the_service_has_no_rights_it_does_not_need():
    service = read("compose.yml")["services"]["everlearn"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    stages = (DEPLOY / "Dockerfile").read_text("utf-8").split("FROM ")[1:]
    assert len(stages) == 2
    assert "USER 10001" in stages[-1]
    assert "HEALTHCHECK" in stages[-1]


def test_what_is_drawn_and_alerted_on_exists(api):
    """Every figure of the board and of the alerts is one of the service's or of its followers'."""
    metrics = Metrics()
    metrics.count("/v1/ask", 200, 0.1)
    metrics.queue_seconds.observe("home", 0.1)
    known = set(re.findall(r"^([a-z_]+)[ {]", metrics.text([]) + api.get("/metrics").text, re.M))
    known |= {"everlearn_webhooks_lost"}
    board = json.loads((DEPLOY / "grafana" / "everlearn.json").read_text("utf-8"))
    drawn = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    alerts = [rule["expr"] for group in read("alerts.yml")["groups"] for rule in group["rules"]]
    used = set(re.findall(r"everlearn_\w+", " ".join([*drawn, *alerts])))
    assert used
    assert used <= known


def test_files_that_are_mounted_are_there():
    for service in read("compose.yml")["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (DEPLOY / source).is_file(), volume
