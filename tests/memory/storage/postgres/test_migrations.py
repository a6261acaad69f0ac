"""Tables of an older version are migrated with their contents."""

import contextlib

import numpy as np
import pytest

from everlearn import Memory
from everlearn.errors import NewerFormat, NotAMemory
from everlearn.memory.edits.unknowns import remember
from everlearn.memory.storage.postgres.address import parse_address
from everlearn.memory.storage.postgres.connecting import connected
from everlearn.memory.storage.postgres.rights import grant
from everlearn.memory.storage.rows import Example
from tests.memory.storage.postgres.test_rights import as_role


def remove_events(address):
    """Give a Memory the tables of the version before events."""
    with connected(parse_address(address)) as db:
        db.execute("DROP TABLE events, cursors")
        for column in ("shared", "last_event", "dropped_event"):
            db.execute(f"ALTER TABLE state DROP COLUMN {column}".encode())


def test_a_memory_without_events_gets_their_tables_and_rights(postgres, address):
    with Memory(address) as memory:
        memory.teach([1.0, 0.0], "cup")
        before = memory.verify()
    grant(parse_address(address), "old_writer", "writer")
    grant(parse_address(address), "old_asker", "asker")
    writer, asker = (as_role(postgres, address, role) for role in ("old_writer", "old_asker"))
    remove_events(address)
    with pytest.raises(NotAMemory, match="owner open it"):
        Memory(asker, read_only=True)
    with Memory(address) as memory:
        after = memory.verify()
        assert (after.log, after.model, after.problems) == (before.log, before.model, ())
    with Memory(writer) as memory:
        memory.teach([0.0, 1.0], "pen")
    with Memory(asker, read_only=True) as memory, contextlib.closing(memory.event_log()) as log:
        assert [event.facts["name"] for event in log.after(0, 10)] == ["pen"]


def test_a_journal_of_the_previous_format_gets_new_tables_and_rights(postgres, address):
    with Memory(address) as memory:
        memory.teach([1.0, 0.0], "cup")
    grant(parse_address(address), "late_writer", "writer")
    grant(parse_address(address), "late_asker", "asker")
    with connected(parse_address(address)) as db:
        db.execute("DROP TABLE stranger_images")
        db.execute("UPDATE state SET format = 3")
    with Memory(address) as memory:
        assert memory.verify().problems == ()
    unknown = Example(np.ones(2, np.float32), "", bytes(32), image=b"a picture")
    with Memory(as_role(postgres, address, "late_writer")) as memory:
        with memory._opened.one_change() as journal:
            remember(journal, unknown)
        memory.drop_unknowns(memory.unknowns()[0].id)
        memory.undo()
    with Memory(as_role(postgres, address, "late_asker"), read_only=True) as memory:
        assert [group.count for group in memory.unknowns()] == [1]
        assert memory.verify().problems == ()


def test_tables_of_a_later_version_are_not_changed(address):
    Memory(address).close()
    with connected(parse_address(address)) as db:
        db.execute("UPDATE state SET shared = 99")
    with pytest.raises(NewerFormat, match="version 99"):
        Memory(address)
