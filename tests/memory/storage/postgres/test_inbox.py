"""One Memory in a database, taught and asked by many processes at once."""

import concurrent.futures
import contextlib
import json
import logging
import threading

import numpy as np
import psycopg
import pytest

from everlearn import Memory
from everlearn.errors import (
    CannotReach,
    InvalidParameter,
    KeyReused,
    NotAllowed,
    OtherName,
    WrongWidth,
)
from everlearn.memory.storage.postgres import inbox as inbox_module
from everlearn.memory.storage.postgres.address import parse_address
from everlearn.memory.storage.postgres.connecting import connected, lock_key
from everlearn.memory.storage.postgres.inbox import QueuedTeaching


def vectors(seed, count, width=8):
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


@contextlib.contextmanager
def locked_by_another_process(address):
    """Another process holds the Memory's lock."""
    parsed = parse_address(address)
    with connected(parsed) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (lock_key(parsed.schema),))
        yield other
        other.execute("SELECT pg_advisory_unlock(%s)", (lock_key(parsed.schema),))


def waiting_in_inbox(address):
    with connected(parse_address(address)) as db:
        return db.execute("SELECT COUNT(*) FROM inbox").fetchone()[0]


def test_concurrent_writers_lose_and_duplicate_nothing(address):
    """Each of six writers teaches one by one and in batches; replicas and a folder agree."""
    Memory(address).close()

    def write(number):
        X = vectors(number, 40)
        with Memory(address) as memory:
            for x in X[:20]:
                assert memory.teach(x, f"name {number}")
            memory.teach_many((x, f"name {number}") for x in X[20:])

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    with Memory(address, read_only=True) as memory:
        assert {n: r.count for n, r in memory.names().items()} == {
            f"name {k}": 40 for k in range(6)
        }
        found = memory.verify()
        assert found.problems == ()
        assert found.log_entries == 240
    assert waiting_in_inbox(address) == 0


def test_waiting_teachings_are_ordered_by_the_next_writer(address, monkeypatch):
    """A writer is killed after its teachings were committed and before they have positions."""
    X = vectors(0, 8)
    with Memory(address) as memory, Memory(address) as second:
        memory.teach(X[0], "a")
        db = memory._opened.journal.db

        def killed():
            raise KeyboardInterrupt

        with locked_by_another_process(address), monkeypatch.context() as patch:
            patch.setattr(db, "transaction", killed)
            with pytest.raises(KeyboardInterrupt):
                memory.teach_many((x, "b") for x in X[1:5])
        assert waiting_in_inbox(address) == 4
        assert "b" not in second.names()
        second.teach(X[5], "c")
        assert second.names()["b"].count == 4
        assert [t.name for t in second.teachings()] == ["a", "b", "b", "b", "b", "c"]
        assert waiting_in_inbox(address) == 0
        assert second.verify().problems == ()


@pytest.mark.parametrize(
    "malformed",
    [
        {"region": b"not arrays"},
        {"vector": b"odd"},
        {"vector": np.full(8, np.nan, dtype="<f4").tobytes()},
        {"options": "no JSON"},
        {"options": "[]"},
        {"digest": b"short"},
    ],
    ids=["region", "width", "nan", "json", "options", "digest"],
)
def test_a_malformed_row_in_the_inbox_does_not_stop_other_writers(address, malformed):
    """Users who may only add to the inbox can write anything there."""
    X = vectors(0, 4)
    options = {"kind": "teach", "again": False, "also": False, "group": None, "operation": None}
    row = QueuedTeaching(
        "request", 0, json.dumps(options), "b", "", bytes(32), "", X[1].tobytes(), b"", b"", b""
    )
    with Memory(address) as memory:
        memory.teach(X[0], "a")
        with connected(parse_address(address)) as db:
            marks = ", ".join(["%s"] * len(row))
            db.execute(
                f"INSERT INTO inbox ({', '.join(row._fields)}) VALUES ({marks})".encode(),
                row._replace(**malformed),
            )
        assert memory.teach(X[2], "c")
        assert waiting_in_inbox(address) == 0
        assert list(memory.names()) == ["a", "c"]
        assert memory.verify().problems == ()


def test_errors_of_a_request_are_raised_only_in_its_writer(address):
    X = vectors(0, 8)
    with Memory(address) as memory, Memory(address) as second:
        memory.teach(X[0], "a")
        errors = []

        def refused():
            for example, name in ((X[0][:3], "short"), (X[0], "another")):
                try:
                    memory.teach(example, name)
                except Exception as error:
                    errors.append(error)

        with locked_by_another_process(address):
            thread = threading.Thread(target=refused)
            thread.start()
            while not waiting_in_inbox(address):
                pass
        thread.join()
        assert [type(error) for error in errors] == [WrongWidth, OtherName]
        assert "'a'" in str(errors[1])
        assert second.teach(X[1], "b")
        assert second.verify().problems == ()


def test_a_request_whose_answer_was_lost_is_done_once(address, monkeypatch):
    """The connection breaks after the commit, before the writer gets the answer."""
    monkeypatch.setattr(inbox_module, "PAUSE_SECONDS", 0.0)
    X = vectors(0, 4)
    with Memory(address) as memory:
        db = memory._opened.journal.db
        execute, lost = db._execute, []

        def cut(statement):
            execute(statement)
            if statement == "COMMIT" and not lost:
                lost.append(statement)
                raise inbox_module.DatabaseUnreachable("the connection was lost")

        monkeypatch.setattr(db, "_execute", cut)
        assert memory.teach(X[0], "a", again=True)
        assert lost
        assert memory.names()["a"].count == 1


def test_work_under_a_key_is_done_once(address):
    X = vectors(0, 4)
    with Memory(address) as memory:
        inbox = memory._opened.journal.db.inbox

        def work():
            return memory.teach(X[0], "a", again=True)

        assert inbox.once("key", b"request", work) is True
        assert inbox.once("key", b"request", work) is True
        assert memory.names()["a"].count == 1
        with pytest.raises(KeyReused):
            inbox.once("key", b"another", work)


def test_memories_of_one_database_are_independent(postgres):
    with Memory(postgres.url(), name="one") as one, Memory(f"{postgres.url()}#two") as two:
        one.teach([1.0, 0.0], "cup")
        two.teach([1.0, 0.0, 0.0], "pen")
        assert (list(one.names()), list(two.names())) == (["cup"], ["pen"])
    with pytest.raises(InvalidParameter, match="letters"):
        Memory(postgres.url(), name='x"; DROP SCHEMA')
    with pytest.raises(InvalidParameter, match="once"):
        Memory(f"{postgres.url()}#two", name="one")


def test_the_password_is_never_shown(postgres, caplog):
    url = postgres.url(tcp=True)
    with caplog.at_level(logging.DEBUG):
        with Memory(f"{url}#secret") as memory:
            memory.teach([1.0, 0.0], "cup")
            assert postgres.password not in repr(memory)
            assert postgres.password not in str(memory.info())
        wrong = url.replace(postgres.password, "wr0ng-pass")
        with pytest.raises(CannotReach) as caught:
            Memory(f"{wrong}#secret")
        assert "wr0ng-pass" not in str(caught.value)
        nowhere = url.replace(f":{postgres.port}/", ":1/")
        with pytest.raises(CannotReach, match="cannot be reached") as caught:
            Memory(nowhere)
        assert postgres.password not in str(caught.value)
        with pytest.raises(InvalidParameter) as caught:
            Memory("postgresql://user:pass word@[half")
        assert "pass word" not in str(caught.value)
    assert postgres.password not in caplog.text


def test_a_replica_ahead_of_a_restored_journal_rebuilds(address, tmp_path, caplog):
    """As after a failover to a standby without the last commits: the log is shorter, then other."""
    from everlearn.memory.storage.backup import restore

    X = vectors(0, 30)
    with Memory(address) as writer, Memory(address, read_only=True) as replica:
        writer.teach_many((x, f"name {k % 3}") for k, x in enumerate(X[:20]))
        writer.backup(tmp_path / "earlier")
        writer.teach_many((x, "lost") for x in X[20:])
        replica.ask(X[0], after=writer.position)
        restore(tmp_path / "earlier", address)
        writer.teach_many((x, "new") for x in -X[20:])
        replica.ask(X[0], after=writer.position)
        assert "lost" not in replica.names()
        assert replica.verify().problems == ()
        assert "another journal" in caplog.text


def test_broken_connections_are_reopened(address):
    X = vectors(0, 6)
    with Memory(address) as memory, Memory(address, read_only=True) as replica:
        memory.teach(X[0], "a")
        assert replica.ask(X[0])[0].name == "a"
        with psycopg.connect(**parse_address(address).settings, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'everlearn' AND pid <> pg_backend_pid()"
            )
        assert memory.teach(X[1], "b")
        assert replica.ask(X[1], after=memory.position)[0].name in ("a", "b")
        assert set(replica.names()) == {"a", "b"}


def test_the_error_for_missing_rights_says_what_to_do(postgres, address):
    with Memory(address) as memory:
        memory.teach([1.0, 0.0], "cup")
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        admin.execute("CREATE ROLE stranger LOGIN PASSWORD 'x-stranger'")
    url = postgres.url(tcp=True).replace(f"everlearn:{postgres.password}", "stranger:x-stranger")
    name = address.partition("#")[2]
    with pytest.raises(NotAllowed, match="grant"):
        Memory(f"{url}#{name}", read_only=True)
