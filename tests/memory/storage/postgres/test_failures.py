"""Failures of a database raise named errors, lose nothing, and show no password."""

import contextlib
import logging
import os
import re
import resource
import shutil
import socket
import subprocess
import threading
import time

import numpy as np
import psycopg
import pytest

from benchmarks.postgres_server import NoServer, PostgresServer
from everlearn import Memory
from everlearn.errors import CannotReach, CannotWrite, MemoryBusy
from everlearn.memory.storage.postgres import database as database_module
from everlearn.memory.storage.postgres import inbox as inbox_module
from everlearn.memory.storage.postgres.address import parse_address
from everlearn.memory.storage.postgres.connecting import connected

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificates(folder, name, host):
    """A certificate authority and a certificate of one address, signed by it."""
    openssl(
        folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout",
        f"{name}-ca.key", "-out", f"{name}-ca.pem", "-subj", f"/CN={name} authority",
    )  # fmt: skip
    openssl(
        folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out",
        f"{name}.csr", "-subj", f"/CN={name}",
    )  # fmt: skip
    (folder / "san").write_text(f"subjectAltName=IP:{host}\n")
    openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{name}-ca.pem", "-CAkey",
        f"{name}-ca.key", "-CAcreateserial", "-days", "2", "-extfile", "san", "-out", f"{name}.pem",
    )  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A server with TLS that tests may stop and limit."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    certificates(folder, "server", "127.0.0.1")
    certificates(folder, "other", "127.0.0.1")
    try:
        server = PostgresServer({"fsync": "off"})
    except NoServer as missing:
        pytest.skip(str(missing))
    with server:
        owner = server.data.stat()
        for name in ("server.pem", "server.key"):
            shutil.copy(folder / name, server.data / name)
            os.chown(server.data / name, owner.st_uid, owner.st_gid)
            (server.data / name).chmod(0o600)
        with (server.data / "postgresql.conf").open("a") as file:
            file.write("ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n")
        server.stop()
        server.start()
        server.certificates = folder
        yield server


@pytest.fixture
def place(own, request):
    """The address of a new Memory on that server."""
    return f"{own.url(tcp=True)}#{re.sub('[^a-z]+', '-', request.node.name)[:40]}"


def over_tls(own, place, authority, host="127.0.0.1"):
    address, _, name = place.replace("@127.0.0.1", f"@{host}").partition("#")
    return f"{address}?sslmode=verify-full&sslrootcert={own.certificates / authority}#{name}"


def test_tls_is_verified_and_a_wrong_authority_is_named(own, place, caplog):
    with caplog.at_level(logging.DEBUG):
        with Memory(over_tls(own, place, "server-ca.pem")) as memory:
            memory.teach([1.0, 0.0], "cup")
            with connected(memory.path) as db:
                query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
                assert db.execute(query).fetchone() == (True,)
        wrong = (
            over_tls(own, place, "other-ca.pem"),
            over_tls(own, place, "server-ca.pem", "localhost"),
        )
        for address in wrong:
            with pytest.raises(CannotReach, match="certificate") as caught:
                Memory(address)
            assert own.password not in str(caught.value)
    assert own.password not in caplog.text


def restart(server, most):
    """Restart a server whose files cannot grow beyond a number of bytes, like a full disk."""
    server.stop()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_server_raises_a_named_error_and_changes_nothing(own, place):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(2600, 2048)).astype(np.float32)
    with Memory(place) as memory:
        memory.teach(wide[0], "first")
        # Files of the write-ahead log have sixteen megabytes and need no more.
        restart(own, 17 * MEGABYTE)
        try:
            with pytest.raises(CannotWrite, match="cannot be written") as caught:
                memory.teach_many((x, "many") for x in wide[1:])
            kept = memory.position
            assert memory.names()["first"].count == 1
        finally:
            restart(own, resource.RLIM_INFINITY)
        assert own.password not in str(caught.value)
        # Whole batches are kept, in order, and teaching continues.
        assert (kept - 1) % database_module.PostgresDatabase.rows_at_once == 0
        memory.teach_many((x, "many") for x in wide[1:])
        assert memory.names()["many"].count == len(wide) - 1
        assert memory.verify().problems == ()


def test_positions_and_events_do_not_depend_on_clocks(own, place, monkeypatch):
    """Writers whose clocks are days apart, and a server whose clock was ahead."""
    days = iter([0.0, 3.0, -3.0, 1.0, -2.0, 5.0])
    now = time.time
    with Memory(place) as one, Memory(place) as two, contextlib.closing(one.event_log()) as log:
        for number, memory in enumerate([one, two, one, two, one, two]):
            offset = next(days) * 86_400
            monkeypatch.setattr(time, "time", lambda offset=offset: now() + offset)
            memory.teach([float(number), 1.0], f"name {number}")
        monkeypatch.undo()
        assert [t.name for t in two.teachings()] == [f"name {k}" for k in range(6)]
        assert two.position == 6
        with connected(parse_address(place)) as db:
            db.execute("UPDATE state SET last_event = last_event + 1000000000000000")
        one.teach([9.0, 9.0], "later")
        two.teach([8.0, 9.0], "last")
        numbers = [event.number for event in log.after(0, 100)]
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 8
        assert numbers[-1] == numbers[-2] + 1
        two.undo()
        assert "last" not in one.names()
        assert one.verify().problems == two.verify().problems == ()


def test_a_locked_table_raises_a_named_error_and_changes_nothing(place, monkeypatch):
    monkeypatch.setattr(database_module, "LOCK_SECONDS", 1)
    with Memory(place) as memory, connected(parse_address(place)) as other:
        memory.teach([1.0, 0.0], "cup")
        other.execute("BEGIN")
        other.execute("LOCK TABLE vectors IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(MemoryBusy, match="another process"):
            memory.teach([0.0, 1.0], "pen")
        other.execute("ROLLBACK")
        assert list(memory.names()) == ["cup"]
        assert memory.teach([0.0, 1.0], "pen")
        assert memory.verify().problems == ()


class Proxy:
    """Forwards connections to a server; can be cut and restored."""

    def __init__(self, port):
        self._target = port
        self._pairs = []
        self.cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._target))
                self._pairs.append((near, far))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lose(self):
        """Break all connections and accept no new ones."""
        self.cut = True
        for pair in self._pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.lose()
        self._listener.close()


def test_a_lost_connection_is_reopened_and_nothing_is_taught_twice(own, place, caplog):
    with contextlib.closing(Proxy(own.port)) as proxy:
        address = place.replace(f":{own.port}/", f":{proxy.port}/")
        with Memory(address) as memory, Memory(address, read_only=True) as replica:
            memory.teach([1.0, 0.0], "cup")
            for _ in range(2):
                assert replica.ask([1.0, 0.1])[0].name == "cup"
            proxy.lose()
            assert replica.ask([1.0, 0.1])[0].name == "cup"
            threading.Timer(1.0, lambda: setattr(proxy, "cut", False)).start()
            assert memory.teach([0.0, 1.0], "pen")
            replica.ask([0.0, 1.0], after=memory.position)
            assert {name: r.count for name, r in replica.names().items()} == {"cup": 1, "pen": 1}
            assert memory.verify().problems == ()
    assert own.password not in caplog.text


def test_a_server_that_restarts_keeps_writers_and_replicas(own, place, caplog):
    with Memory(place) as memory, Memory(place, read_only=True) as replica:
        memory.teach([1.0, 0.0], "cup")
        replica.ask([1.0, 0.0])
        own.stop()
        thread = threading.Thread(target=own.start)
        thread.start()
        assert memory.teach([0.0, 1.0], "pen")
        thread.join()
        replica.ask([0.0, 1.0], after=memory.position)
        assert list(replica.names()) == ["cup", "pen"]
    assert own.password not in caplog.text


def test_an_unreachable_server_raises_a_named_error(own, place, monkeypatch):
    monkeypatch.setattr(inbox_module, "RETRY_SECONDS", 0.2)
    with Memory(place) as memory:
        memory.teach([1.0, 0.0], "cup")
        own.stop()
        try:
            with pytest.raises(CannotReach, match="Try again when the server is back") as caught:
                memory.teach([0.0, 1.0], "pen")
        finally:
            own.start()
        assert own.password not in str(caught.value)
        assert memory.teach([0.0, 1.0], "pen")
        with psycopg.connect(own.url()) as db:
            schema = parse_address(place).schema
            (count,) = db.execute(f'SELECT COUNT(*) FROM "{schema}".log'.encode()).fetchone()
        assert count == 2
