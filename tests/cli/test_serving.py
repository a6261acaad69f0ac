"""``everlearn serve``: the address is announced when it can be opened, and not before."""

import socket

from click.testing import CliRunner

from everlearn.cli.app import app


def test_a_port_in_use_is_said_before_any_address(tmp_path):
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
        return "--also is called --add-memory now" in result.stderr

    assert not serve("--add-memory")
    assert serve("--also")
