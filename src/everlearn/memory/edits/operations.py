"""The history of operations, with undo and redo.

An operation is the effect of one call (teach_many is one, however many it taught), or of several
calls of one *group*, such as a folder dropped on the page, or a name taught while a button is held.
Calls of a group continue the operation as long as nothing else is done in between.

Undo appends the operation's entries to the log with their signs reversed, and redo reverses those;
nothing is removed from the log. A rename to a new word has no log entries: its row has the word
that the name does not have now, and undo and redo swap the two. In the same way, the row of an
operation on unknown images has the states that they do not have now (unknowns.py).

An undone operation can be redone until something else is done. An erase rewrites the log and cannot
be undone, nor can anything before it.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from everlearn.errors import ChangedMeanwhile, InvalidInput, NothingToUndo
from everlearn.memory.edits.unknowns import SET_ASIDE, UnknownImage, set_states, with_image
from everlearn.memory.edits.writing import COLUMNS, begin, keep_operation
from everlearn.memory.storage.appending import add_teachings, append_entry, move, set_name
from everlearn.memory.storage.journal import NO_LIMIT, Journal
from everlearn.memory.storage.rows import ABOUT_UNKNOWNS, format_states, parse_states
from everlearn.memory.words import counted, listed

ERASE = "erase"
REEMBED = "reembed"

Row = tuple[int, str, float, int, int, int | None, str]


@dataclass(frozen=True)
class Change:
    """One operation: done, undone or redone.

    Attributes
    ----------
    id : int
    kind : str
        "teach", "forget", "rename", "merge", "correct", "reembed" or "erase"; of unknown pictures
        "name", "ignore" or "drop".
    count : int
        Number of teachings, or of unknown pictures, that it changed.
    names : tuple of str
        Their names; for a rename the old and the new one; for a change of network the names of
        teachings that were left out because their pictures could not be read.
    time : float
        When it was first done, in seconds since 1970.
    undone : bool
        Whether it is currently undone.
    """

    id: int
    kind: str
    count: int
    names: tuple[str, ...]
    time: float
    undone: bool

    def __str__(self) -> str:
        return self.about + (", undone" if self.undone else "")

    @property
    def about(self) -> str:
        """What it did, in words."""
        unknown = self.kind in ("ignore", "drop")
        if self.kind == REEMBED and self.names:
            left_out = f"without pictures of {listed(self.names)} that could not be read"
            return f"{self.kind}, {counted(self.count, 'teaching')}, {left_out}"
        names = f" ({listed(self.names)})" if self.names else ""
        noun = "unknown picture" if unknown else "teaching"
        return f"{self.kind}, {counted(self.count, noun)}{names}"


def rename(journal: Journal, old: str, new: str) -> None:
    """Rename a name; if the new name exists, the two are merged."""
    teachings = journal.find(name=old)
    named = journal.id_of_name(old)
    if named is None or not teachings:
        raise journal.unknown_name_error(old)
    if old == new:
        raise InvalidInput(f"{old!r} already has that name")
    operation = begin(journal, "rename")
    journal.db.record_event("renamed", old=old, new=new)
    if journal.id_of_name(new) is not None:
        move(journal, operation, teachings, new)
        return
    set_name(journal, named, new)
    row = journal.db.row(f"SELECT {COLUMNS} FROM operations WHERE id = ?", operation)
    keep_operation(journal, (*row[:5], named, old))


def name_unknowns(journal: Journal, group: list[UnknownImage], name: str) -> int:
    """Teach a group of unknown images; returns how many were new. Inside a transaction."""
    operation = _set_aside(journal, "name", group)
    examples = [with_image(journal, one) for one in group]
    new = [(name, example) for example in examples if not journal.find_same(example.same_as, name)]
    add_teachings(journal, operation, new)
    journal.db.record_event("named", name=name, count=len(new))
    return len(new)


def ignore_unknowns(journal: Journal, group: list[UnknownImage]) -> None:
    """Mark a group as ignored; inside a transaction."""
    _set_states(journal, "ignore", {one.id: group[0].id for one in group})
    journal.db.record_event("ignored", count=len(group))


def drop_unknowns(journal: Journal, group: list[UnknownImage]) -> None:
    """Set a group aside, as an operation; inside a transaction."""
    _set_aside(journal, "drop", group)
    journal.db.record_event("dropped", count=len(group))


def _set_aside(journal: Journal, kind: str, group: list[UnknownImage]) -> int:
    """Set a group aside; returns the operation."""
    return _set_states(journal, kind, dict.fromkeys((one.id for one in group), SET_ASIDE))


def _set_states(journal: Journal, kind: str, states: dict[int, int]) -> int:
    """Change states of unknown images; returns the operation, which has the earlier states."""
    operation = begin(journal, kind)
    row = journal.db.row(f"SELECT {COLUMNS} FROM operations WHERE id = ?", operation)
    keep_operation(journal, (*row[:6], format_states(set_states(journal, states))))
    return operation


def undo(journal: Journal, id: int | None = None) -> Change:
    """Undo the last operation; ``ChangedMeanwhile`` if that is not the one with this ``id``."""
    return _reverse(journal, _with_id(journal, _undoable(journal), id))


def redo(journal: Journal, id: int | None = None) -> Change:
    """Redo the operation undone last; ``ChangedMeanwhile`` as for :func:`undo`."""
    return _reverse(journal, _with_id(journal, _redoable(journal), id))


def undoes_a_reembed(journal: Journal, id: int | None = None) -> bool:
    """Whether undo would reverse a change of network, which before_reembed.py does."""
    return _with_id(journal, _undoable(journal), id)[1] == REEMBED


def would_undo(journal: Journal) -> Change:
    """What :func:`undo` would undo."""
    return _change(journal, _undoable(journal))


def would_redo(journal: Journal) -> Change:
    """What :func:`redo` would redo."""
    return _change(journal, _redoable(journal))


def _with_id(journal: Journal, row: Row, id: int | None) -> Row:
    """The row, required to be that of an operation if its number is given."""
    if id is not None and row[0] != id:
        raise ChangedMeanwhile(
            f"another operation was done or undone in the meantime: the last one is now "
            f"{_change(journal, row)}. Nothing was changed; check the history and try again"
        )
    return row


def _undoable(journal: Journal) -> Row:
    """The last operation that is not undone."""
    row: Row | None = journal.db.row(
        f"SELECT {COLUMNS} FROM operations WHERE turns % 2 = 0 ORDER BY id DESC LIMIT 1"
    )
    if row is None:
        raise NothingToUndo("nothing has been taught, forgotten or renamed that could be undone")
    if row[1] == ERASE:
        raise NothingToUndo(
            "the last operation was an erase, which cannot be undone, nor can anything before it"
        )
    return row


def _redoable(journal: Journal) -> Row:
    """The operation that was undone last, if nothing else was done since."""
    row: Row | None = journal.db.row(
        f"SELECT {COLUMNS} FROM operations WHERE turns % 2 = 1 AND dropped = 0 ORDER BY id LIMIT 1"
    )
    if row is None:
        raise NothingToUndo("nothing was undone since the last change, so there is nothing to redo")
    return row


def history(journal: Journal, limit: int | None) -> list[Change]:
    """Operations, latest first."""
    rows = journal.db.rows(
        f"SELECT {COLUMNS} FROM operations ORDER BY id DESC LIMIT ?",
        NO_LIMIT if limit is None else limit,
    )
    return [_change(journal, row) for row in rows]


def _reverse(journal: Journal, row: Row) -> Change:
    """Undo an operation, or redo it if it is undone."""
    operation, kind, done_at, turns, dropped, named, called = row
    if named is not None:
        word = journal.name_by_id(named)
        set_name(journal, named, called)
        called = word
    if kind in ABOUT_UNKNOWNS:
        called = format_states(set_states(journal, parse_states(called)))
    for teaching, entered_as, sign in _latest_entries(journal, operation, turns):
        append_entry(journal, operation, teaching, entered_as, -sign)
    after = operation, kind, done_at, turns + 1, dropped, named, called
    keep_operation(journal, after)
    done = _change(journal, after)
    event = "undone" if done.undone else "redone"
    journal.db.record_event(event, kind=kind, count=done.count, names=list(done.names))
    return done


def _latest_entries(journal: Journal, operation: int, turns: int) -> list[tuple[int, int, int]]:
    """The log entries of when an operation was last done, undone or redone; latest first."""
    entries = journal.db.rows(
        "SELECT teaching, name, sign FROM log WHERE operation = ? ORDER BY position DESC", operation
    )
    return entries[: len(entries) // (turns + 1)]


def _change(journal: Journal, row: Row) -> Change:
    operation, kind, done_at, turns, _, named, called = row
    undone = turns % 2 == 1
    if kind in (ERASE, REEMBED):
        first, *left_out = (called or "0").split("\n")
        return Change(operation, kind, int(first), tuple(left_out), done_at, False)
    if named is not None:
        count = journal.db.value("SELECT COUNT(*) FROM teachings WHERE name = ?", named)
        words = called, journal.name_by_id(named)
        return Change(operation, kind, count, words[::-1] if undone else words, done_at, undone)
    if kind in ("ignore", "drop"):
        return Change(operation, kind, len(parse_states(called)), (), done_at, undone)
    query = (
        "SELECT DISTINCT names.name FROM log JOIN names ON names.id = log.name "
        "WHERE operation = ? ORDER BY names.name"
    )
    words = tuple(row[0] for row in journal.db.rows(query, operation))
    count = journal.db.value(
        "SELECT COUNT(DISTINCT teaching) FROM log WHERE operation = ?", operation
    )
    return Change(operation, kind, count, words, done_at, undone)


def record_reembed(journal: Journal, count: int, left_out: Iterable[str]) -> None:
    """Record a change of network as an operation, with the names of teachings left out."""
    operation = begin(journal, REEMBED)
    written = "\n".join([str(count), *left_out])
    keep_operation(journal, (operation, REEMBED, time.time(), 0, 0, None, written))


def record_erase(journal: Journal, operation: int, count: int) -> None:
    """Record an erase as an operation: the number of teachings, without their names."""
    keep_operation(journal, (operation, ERASE, time.time(), 0, 0, None, str(count)))
