"""Operating a Memory in a database: commands, rights, and erasing on the server."""

import json

import numpy as np
import psycopg
import pytest
from click.testing import CliRunner

from attacks import traces
from everlearn import Memory
from everlearn.cli.app import app
from everlearn.errors import NotAllowed, NotOrderedYet
from everlearn.memory.storage.postgres import inbox as inbox_module
from everlearn.memory.storage.postgres import traces as server_traces
from everlearn.memory.storage.postgres.address import parse_address
from everlearn.memory.storage.postgres.connecting import connected
from everlearn.memory.storage.postgres.rights import grant
from everlearn.memory.storage.postgres.tables import columns
from everlearn.memory.storage.schema import TABLES, expected_schema


def run(address, *words, **options):
    return CliRunner().invoke(app, ["-m", address, *map(str, words)], **options)


def as_role(postgres, address, role):
    """The address as another user of the server, who needs a password over the network."""
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {role} PASSWORD 'of-{role}'".encode())
    url = postgres.url(tcp=True).replace(f"everlearn:{postgres.password}", f"{role}:of-{role}")
    return f"{url}#{address.partition('#')[2]}"


def test_commands_take_an_address(address, tmp_path):
    with Memory(address) as memory:
        memory.teach([1.0, 0.0], "cup")
        memory.teach([0.0, 1.0], "pen")
    assert "cup" in run(address, "names").output
    assert "as they were written" in run(address, "verify").output
    assert run(address, "rename", "cup", "mug").exit_code == 0
    assert run(address, "undo").exit_code == 0
    assert "backed up" in run(address, "backup", tmp_path / "backup").output
    assert run(address, "restore", tmp_path / "backup", input="n\n").exit_code == 1
    assert "restored 2" in run(address, "restore", "--yes", tmp_path / "backup").output
    assert json.loads(run(address, "postgres", "migrate", "--json").output)["format"] >= 2
    assert run(str(tmp_path / "backup"), "postgres", "migrate").exit_code == 1
    assert "postgresql://" in run(address, "info").output


def test_the_ask_role_may_only_ask(postgres, address):
    with Memory(address) as memory:
        memory.teach([1.0, 0.0], "cup")
    assert grant(parse_address(address), "an_asker", "asker")
    mine = as_role(postgres, address, "an_asker")
    with Memory(mine, read_only=True) as memory:
        assert memory.ask([1.0, 0.1])[0].name == "cup"
        assert memory.verify().problems == ()
    with Memory(mine) as memory, pytest.raises(NotAllowed, match="grant"):
        memory.teach([0.0, 1.0], "pen")


def test_teachings_of_the_teach_role_wait_for_another_role(postgres, address, monkeypatch):
    with Memory(address) as owner:
        owner.teach([1.0, 0.0], "cup")
        assert "teacher" in run(address, "postgres", "grant", "a_teacher", "--as", "teacher").output
        mine = as_role(postgres, address, "a_teacher")
        # From its second question on, the owner watches the inbox and assigns positions.
        for _ in range(2):
            owner.ask([1.0, 0.0])
        with Memory(mine) as teacher:
            assert teacher.teach([0.0, 1.0], "pen")
            assert not teacher.teach([0.0, 1.0], "pen")
            for action in (teacher.undo, lambda: teacher.forget(name="cup")):
                with pytest.raises(NotAllowed):
                    action()
        assert owner.names()["pen"].count == 1
    monkeypatch.setattr(inbox_module, "POSITION_SECONDS", 0.3)
    with Memory(mine) as teacher, pytest.raises(NotOrderedYet, match="stored"):
        teacher.teach([0.5, 0.5], "later")
    with Memory(address) as owner:
        owner.teach([0.1, 0.9], "pen")
        assert owner.names()["later"].count == 1


def test_the_write_role_may_do_everything_but_create_tables(postgres, address):
    with Memory(address) as memory:
        memory.teach([1.0, 0.0], "cup")
    grant(parse_address(address), "a_writer", "writer")
    mine = as_role(postgres, address, "a_writer")
    with Memory(mine) as memory:
        assert memory.teach([0.0, 1.0], "pen")
        memory.rename("cup", "mug")
        memory.undo()
        assert memory.forget(name="pen", erase=True).receipt.pending
    with Memory(address) as memory:
        assert memory.verify().problems == ()
        assert list(memory.names()) == ["cup"]
    with pytest.raises(NotAllowed):
        Memory(mine.replace("#", "#other-"))


def test_tables_have_the_columns_of_a_folder(address):
    """Both schemas are derived from one text."""
    Memory(address).close()
    parsed = parse_address(address)
    folder = {row[1]: row[3] for row in expected_schema() if row[0] == "table"}
    with psycopg.connect(**parsed.settings) as db:
        for table in TABLES:
            found = db.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = %s "
                "AND table_name = %s ORDER BY ordinal_position",
                (parsed.schema, table),
            ).fetchall()
            assert [row[0] for row in found] == columns(table)
            assert all(column in folder[table] for (column,) in found)


def test_no_file_of_the_server_holds_erased_bytes_once_the_receipt_is_complete(postgres, tmp_path):
    """Tables, indexes, write-ahead log and all."""
    address = f"{postgres.url()}#erased"
    words = "Geheimnisvollerbecher"
    # Vectors of no other test: the server is shared.
    vectors = np.random.default_rng(20261118).normal(size=(300, 64)).astype(np.float32)
    wanted = traces.of_text("name or path", words)
    wanted += [trace for row in vectors[::10] for trace in traces.of_vector("vector", row)]
    with Memory(address) as memory:
        memory.teach_many((x, "cup") for x in np.random.default_rng(0).normal(size=(300, 64)))
        for k, x in enumerate(vectors):
            memory.teach(x, words, source=f"/home/{words}/{k}.jpg")
        before = " ".join(traces.found([postgres.data], wanted))
        assert "name or path in" in before
        assert "vector (<f4) in" in before
        with psycopg.connect(postgres.url(), autocommit=True) as admin:
            admin.execute("CHECKPOINT")
            admin.execute("ANALYZE")
        done = memory.forget(name=words, erase=True)
        done.receipt.save(tmp_path / "receipt.json")
        assert done.receipt.wal_position or not done.receipt.pending
        assert memory.complete_receipt(tmp_path / "receipt.json") == []
        memory.backup(tmp_path / "backup")
    assert traces.found([postgres.data, tmp_path], wanted) == []
    assert json.loads((tmp_path / "receipt.json").read_text())["pending"] is False
    checked = run(address, "receipt", "check", tmp_path / "receipt.json")
    assert "complete" in checked.output


def test_a_long_transaction_of_another_client_keeps_an_erase_pending(
    postgres, address, monkeypatch
):
    monkeypatch.setattr(server_traces, "WAIT_SECONDS", 0.2)
    parsed = parse_address(address)
    with Memory(address) as memory:
        memory.teach([1.0, 0.0], "cup")
        memory.teach([0.0, 1.0], "pen")
        with connected(parsed) as reader:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT COUNT(*) FROM teachings")
            assert memory.forget(name="pen", erase=True).receipt.pending
            assert list(memory.names()) == ["cup"]
            assert memory.teach([0.9, 0.1], "cup")
            reader.execute("ROLLBACK")
        assert memory.teach([0.8, 0.1], "cup")
        assert memory.verify().problems == ()
    with Memory(address) as memory:
        assert not memory.info()["erase_pending"]


def test_a_replication_slot_keeps_a_receipt_pending(postgres, address, tmp_path):
    """The slot of a disconnected standby retains the write-ahead log from before the erase."""
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        admin.execute("SELECT pg_create_physical_replication_slot('held', true)")
        try:
            with Memory(address) as memory:
                memory.teach([1.0, 0.0], "cup")
                memory.teach([0.0, 1.0], "pen")
                done = memory.forget(name="pen", erase=True)
                assert done.receipt.pending
                done.receipt.save(tmp_path / "receipt.json")
                waiting = run(address, "receipt", "check", tmp_path / "receipt.json")
                assert waiting.exit_code == 1
                assert "slot held" in waiting.output
        finally:
            admin.execute("SELECT pg_drop_replication_slot('held')")
    assert run(address, "receipt", "check", tmp_path / "receipt.json").exit_code == 0
