"""A private, temporary PostgreSQL server for tests and measurements."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from everlearn import Memory

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
USER = "everlearn"
SETTINGS = {
    "listen_addresses": "'127.0.0.1'",
    "max_connections": "120",
    "shared_buffers": "128MB",
    "wal_recycle": "off",
    "max_wal_senders": "4",
    "min_wal_size": "32MB",
    "log_min_messages": "warning",
}


class NoServer(Exception):
    """There is no PostgreSQL server here to start."""


def binaries() -> Path:
    """The folder with ``initdb`` and ``pg_ctl``; raises ``NoServer``."""
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).resolve().parent
    places = [path for place in PLACES for path in sorted(Path("/").glob(place[1:]), reverse=True)]
    for place in places:
        if (place / "pg_ctl").exists():
            return place
    raise NoServer("PostgreSQL is not installed: no pg_ctl (Debian: apt-get install postgresql)")


class PostgresServer:
    """A cluster in a temporary folder, on a unix socket and a loopback port.

    Parameters
    ----------
    settings : dict, optional
        Lines of ``postgresql.conf`` beside the usual ones.
    """

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self._bin = binaries()
        # The server refuses to run as root.
        self._as: dict[str, object] = {}
        if os.geteuid() == 0:
            import pwd

            name = "postgres" if _has_user("postgres") else "nobody"
            entry = pwd.getpwnam(name)
            self._as = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.folder = Path(tempfile.mkdtemp(prefix="everlearn-pg-"))
        self._give(self.folder)
        self.data = self.folder / "data"
        self.password = secrets.token_urlsafe(16)
        self.port = _free_port()
        self.settings = SETTINGS | (settings or {})

    def __enter__(self) -> Self:
        try:
            self.create()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def create(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        self._give(secret)
        self._run(
            "initdb", "-D", self.data, "-U", USER, "-A", "scram-sha-256", "--auth-local=trust",
            f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8",
        )  # fmt: skip
        secret.unlink()
        self.configure()

    def configure(self) -> None:
        lines = [f"port = {self.port}", f"unix_socket_directories = '{self.folder}'"]
        lines += [f"{key} = {value}" for key, value in self.settings.items()]
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("\n".join(["", *lines, ""]))

    def start(self) -> None:
        log = self.folder / "server.log"
        self._run("pg_ctl", "-D", self.data, "-l", log, "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "-t", "60", "stop")

    def kill(self) -> None:
        """End the server and all of its children at once, as a power cut would."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        for one in [pid, *map(int, children)]:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        while _alive(pid):
            time.sleep(0.02)
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        for socket_file in self.folder.glob(".s.PGSQL.*"):
            socket_file.unlink()

    def close(self) -> None:
        if (self.data / "postmaster.pid").exists():
            subprocess.run(
                [self._bin / "pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop"],
                capture_output=True,
                check=False,
                cwd=self.folder,
                **self._as,  # type: ignore[call-overload]
            )
        shutil.rmtree(self.folder, ignore_errors=True)

    def standby(self) -> "PostgresServer":
        """A second server that follows this one; created, not started."""
        other = PostgresServer()
        other.password = self.password
        self._run(
            "pg_basebackup", "-D", other.data, "-h", self.folder, "-p", self.port, "-U", USER,
            "-R", "-X", "stream", "-c", "fast",
        )  # fmt: skip
        other.configure()
        return other

    def promote(self) -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-t", "60", "promote")

    def url(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """How to connect, without a Memory's name."""
        if tcp:
            return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{USER}@/{database}?host={self.folder}&port={self.port}"

    def _give(self, path: Path) -> None:
        if self._as:
            os.chown(path, int(str(self._as["user"])), int(str(self._as["group"])))

    def _run(self, program: str, *words: object) -> None:
        done = subprocess.run(
            [self._bin / program, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            cwd=self.folder,
            **self._as,  # type: ignore[call-overload]
        )
        if done.returncode:
            log = self.folder / "server.log"
            said = log.read_text()[-2000:] if log.exists() else ""
            raise RuntimeError(f"{program} failed: {done.stdout[-2000:]}\n{said}")


def warm_up() -> None:
    """Import and compile what teaching and asking need, before processes are forked."""
    with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
        for k in range(20):
            memory.teach([float(k), 1.0, 2.0], f"name {k % 3}", again=True)
            memory.ask([1.0, 2.0, 3.0])


@contextmanager
def one_server(settings: dict[str, str] | None = None) -> Iterator[PostgresServer]:
    with PostgresServer(settings) as server:
        yield server


def _has_user(name: str) -> bool:
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
