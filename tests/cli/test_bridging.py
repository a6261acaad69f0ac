"""Commands that connect a Memory to other systems."""

import json
import socket
import sys
from datetime import datetime

import pytest
from click.testing import CliRunner

from everlearn.cli.app import app
from tests.service.bridges.conftest import BLUE, RED, Site
from tests.service.bridges.test_immich import KEY, Played


@pytest.fixture
def run(tmp_path):
    def command(*words, expect=0):
        arguments = ["-m", str(tmp_path / "memory"), "--network", "pixels-4", *words]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == expect, result.output + repr(result.exception)
        return result

    return command


@pytest.fixture
def site():
    server = Site()
    yield server
    server.close()


@pytest.fixture
def played(site, monkeypatch):
    monkeypatch.setenv("EVERLEARN_IMMICH_KEY", KEY)
    made = Played(site)
    made.upload("red", RED)
    made.upload("blue", BLUE)
    made.tag("red", "everlearn/cup")
    return made


def test_immich_is_reviewed_as_often_as_asked(run, played, site):
    words = ("immich", "--address", site.address, "--pause", "0.01", "--looks", "2", "--json")
    lines = run(*words, "--since", "2026-01-01").stdout
    first, second = json.loads(f"[{lines.replace('}', '},', 1)}]")
    assert (first["taught"], first["unknown"] + first["recognised"]) == (1, 1)
    assert not any(second.values())
    played.untag("red", "everlearn/cup")
    assert "forgot 1" in run(*words[:-3], "--looks", "1").stdout


def test_a_review_that_fails_later_is_reported_and_the_next_one_made(
    run,
    played,
    site,
    monkeypatch,
):
    looks = []

    def sleep(_):
        looks.append(played.routed)
        # Away for the second look of three.
        away = len(looks) == 1
        played.routed = (lambda *_: (503, {})) if away else looks[0]

    monkeypatch.setattr("everlearn.cli.bridging.time.sleep", sleep)
    result = run("immich", "--address", site.address, "--looks", "3")
    assert "does not answer" in result.stderr
    assert len(looks) == 2
    played.routed = lambda *_: (503, {})
    assert "does not answer" in run("immich", "--address", site.address, expect=1).stderr


def test_a_port_in_use_is_reported_in_one_line(run, site, monkeypatch):
    monkeypatch.setenv("EVERLEARN_LABEL_STUDIO_KEY", "key")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("label-studio", "--address", site.address, "--port", str(port), expect=1)
    assert result.stderr.startswith(f"everlearn: port {port} of 127.0.0.1 is in use; ")
    assert len(result.stderr.splitlines()) == 1


def test_missing_settings_are_reported(run, played, monkeypatch):
    assert "looks like 2026-01-31" in run("immich", "--since", "soon", expect=1).stderr
    monkeypatch.delenv("EVERLEARN_IMMICH_KEY")
    assert "EVERLEARN_IMMICH_KEY" in run("immich", expect=1).stderr
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    assert "pip install fiftyone" in run("fiftyone", "things", expect=1).stderr


def test_a_date_without_a_zone_is_of_this_machine():
    from everlearn.cli.bridging import _date

    assert _date("2026-01-31") == datetime(2026, 1, 31).astimezone()
    assert _date("2026-01-31T00:00:00Z").utcoffset() is not None
    assert abs((_date(None) - datetime.now().astimezone()).total_seconds()) < 3600
