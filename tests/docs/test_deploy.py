"""What is deployed: nobody's rights, and figures that the service has."""

import runpy

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


def test_files_that_are_mounted_are_there():
    for service in read("compose.yml")["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (DEPLOY / source).is_file(), volume


ADDON = ROOT / "deploy" / "home-assistant"


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
