"""``everlearn serve`` prints the address only after the port is open."""

import socket

import numpy as np
from click.testing import CliRunner

from everlearn import Memory, Pixels
from everlearn.cli.app import app
from everlearn.errors import InvalidParameter


def test_a_port_in_use_is_reported_before_the_address_is_printed(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["-m", str(tmp_path / "m"), "serve", "--port", str(port)])
    assert result.exit_code == 1
    assert f"port {port} of 127.0.0.1 is in use" in result.output
    assert "Open http" not in result.output


def test_another_memory_is_added_under_the_new_and_the_old_option(tmp_path):
    def serve(option):
        words = ["-m", str(tmp_path / "memory"), "serve", option, "nonsense"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code != 0
        assert "--add-memory takes NAME=FOLDER, not 'nonsense'" in result.stderr
        return "--also is now called --add-memory" in result.stderr

    assert not serve("--add-memory")
    assert serve("--also")


def test_another_folder_keeps_the_network_it_was_taught_with(tmp_path, monkeypatch):
    from everlearn.service import server

    with Memory(tmp_path / "own", embedder=Pixels(size=4)) as memory:
        memory.teach(np.zeros((8, 8, 3), dtype=np.uint8), "dark")
    used = {}

    def stop(memories, *_, **__):
        used.update({name: memory.embedder.name for name, memory in memories.items()})
        raise InvalidParameter("far enough")

    monkeypatch.setattr(server, "make_server", stop)
    also = [f"own={tmp_path / 'own'}", f"new={tmp_path / 'new'}"]
    command = ["-m", str(tmp_path / "m"), "--network", "efficientnet-lite0", "serve"]
    result = CliRunner().invoke(app, [*command, "--add-memory", also[0], "--add-memory", also[1]])
    assert "far enough" in result.output
    assert used["own"] == Pixels(size=4).name
    assert used["new"] == used["memory"] != used["own"]


def test_image_limits_and_kept_images_are_options(tmp_path, monkeypatch):
    from everlearn.service import server

    seen = {}

    def stop_here(memories, *_, **__):
        (memory,) = memories.values()
        seen.update(limits=memory._intake.limits, keeps=memory._intake.keep_images)
        raise InvalidParameter("far enough")

    monkeypatch.setattr(server, "make_server", stop_here)
    words = ["-m", str(tmp_path / "m"), "serve", "--most-megapixels", "60", "--keep-images"]
    CliRunner().invoke(app, [*words, "image"])
    assert seen["limits"].pixels == 60_000_000
    assert seen["keeps"] == "image"
