"""Metrics of the service, and dashboards and alerts that use them."""

import json
import re

import pytest

from everlearn.service.metrics import Metrics
from everlearn.service.webhooks import Webhooks
from tests.docs.blocks import ROOT

DEPLOY = ROOT / "deploy"


def test_metrics_of_dashboards_and_alerts_exist(api):
    """Every metric of the dashboard and of the alerts exists."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    metrics = Metrics()
    metrics.count("/v1/ask", 200, 0.1)
    metrics.queue_seconds.observe("home", 0.1)
    known = set(re.findall(r"^([a-z_]+)[ {]", metrics.text([]) + api.get("/metrics").text, re.M))
    known |= {name for name, _, _ in Webhooks([], "").gauges()}
    board = json.loads((DEPLOY / "grafana" / "everlearn.json").read_text("utf-8"))
    drawn = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    alerts = [
        rule["expr"]
        for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"]
        for rule in group["rules"]
    ]
    used = set(re.findall(r"everlearn_\w+", " ".join([*drawn, *alerts])))
    assert used
    assert used <= known
