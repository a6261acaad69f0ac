"""The journal: everything that was taught, in order, in a database. It is the source of truth.

Teachings are rows that never change, except for their name, their source and whether they count.
Every change to what counts appends an entry to the *log* (appending.py), and a model is a fold over
the log (log.py). Here the journal is opened, and its names and teachings are looked up. Facts about
the Memory, such as its embedder, are read and set here.

Rows carry checksums and entries are chained (rows.py); both are checked as they are read.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from everlearn.errors import DamagedJournal, UnknownLabel
from everlearn.images.names import folded
from everlearn.memory.storage.interface import Database, damaged_journal
from everlearn.memory.storage.regions import checked_box, has_boxes, taught_box
from everlearn.memory.storage.rows import (
    BEGINNING,
    ImageAndBox,
    NameRecord,
    Teaching,
    as_stored,
    content_digest,
    given_box,
    is_text,
    require_row,
    row_checksum,
)
from everlearn.memory.storage.schema import PICTURES
from everlearn.regions.boxes import Box

# The highest LIMIT that a query can have.
NO_LIMIT = (1 << 63) - 1
# Values per query that looks up many.
VALUES_AT_A_TIME = 256


class Journal:
    """What was taught, through one connection.

    Parameters
    ----------
    db : Database
        Open for writing, or read-only.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.writes = db.writes

    def close(self) -> None:
        self.db.close()

    def transaction(self) -> AbstractContextManager[None]:
        """All changes inside happen, or none; they are on disk when this returns."""
        return self.db.transaction()

    # Facts.

    def fact(self, key: str) -> str | None:
        """A fact about the Memory, such as its embedder; ``None`` if it is not recorded."""
        row = self.db.row("SELECT value, seal FROM facts WHERE key = ?", key)
        if row is None:
            return None
        self._require_checksum(row[1], "facts", key, row[0])
        return str(row[0])

    def facts(self, *keys: str) -> dict[str, str]:
        """Several facts at once; those not recorded are empty."""
        marks = ", ".join("?" * len(keys))
        found = dict.fromkeys(keys, "")
        for key, value, checksum in self.db.rows(
            f"SELECT key, value, seal FROM facts WHERE key IN ({marks})", *keys
        ):
            self._require_checksum(checksum, "facts", key, value)
            found[key] = str(value)
        return found

    def set_fact(self, key: str, value: str) -> None:
        require_row("facts", (key, value))
        row = key, value, row_checksum("facts", key, value)
        self.db.replace("facts", *row)

    def drop_fact(self, key: str) -> None:
        self.db.run("DELETE FROM facts WHERE key = ?", key)

    @property
    def n_features(self) -> int:
        """Length of the vectors; 0 before the first."""
        return int(self.fact("n_features") or 0)

    # The log.

    @property
    def last_position(self) -> int:
        return int(self.db.value("SELECT MAX(position) FROM log") or 0)

    @property
    def last_operation(self) -> int:
        return int(self.db.value("SELECT MAX(id) FROM operations") or 0)

    def chain_at(self, position: int) -> bytes | None:
        """The hash chain at a position, which identifies the log; ``None`` if it is shorter."""
        if position == 0:
            return BEGINNING
        chain = self.db.value("SELECT chain FROM log WHERE position = ?", position)
        return None if chain is None else bytes(chain)

    # Names.

    @property
    def n_names(self) -> int:
        """Number of names ever used."""
        return int(self.db.value("SELECT MAX(id) FROM names") or 0)

    def names(
        self,
        containing: str | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        latest_first: bool = False,
    ) -> dict[str, NameRecord]:
        """Names with teachings that count: all, or a page of those that contain a text.

        Sorted by name or, with ``latest_first``, by their last teaching. Compared as in
        :func:`folded`; databases do so for ASCII only, so other names are compared here.
        """
        condition, values = "", list[str | int]()
        if containing and not is_text(containing):
            return {}
        key = folded(containing or "")
        if key.isascii() and key:
            other = self.db.not_ascii("names.name")
            condition = f"AND (LOWER(names.name) LIKE ? ESCAPE '!' OR {other}) "
            escaped = key.replace("!", "!!").replace("%", "!%").replace("_", "!_")
            values.append(f"%{escaped}%")
        order = "MAX(time) DESC, names.name" if latest_first else "names.name"
        query = (
            "SELECT names.name, COUNT(*), MAX(time) FROM teachings "
            f"JOIN names ON names.id = teachings.name WHERE position IS NOT NULL {condition}"
            f"GROUP BY names.id, names.name ORDER BY {order} "
        )
        if key:
            found = (row for row in self.db.rows(query, *values) if key in folded(row[0]))
            rows = list(islice(found, offset, None if limit is None else offset + limit))
        else:
            most = NO_LIMIT if limit is None else limit
            rows = self.db.rows(f"{query}LIMIT ? OFFSET ?", most, offset)
        return {name: NameRecord(count, last) for name, count, last in rows}

    def is_taught(self, name: str) -> bool:
        """Whether a teaching counts under this name, in this spelling."""
        name_id = self.id_of_name(name)
        return name_id is not None and self._counts(name_id)

    def spellings_of(self, key: str) -> list[str]:
        """Names with teachings that count whose folded form is this one, sorted.

        The database compares names regardless of case for ASCII only; other names are compared
        here.
        """
        if not is_text(key):
            return []
        rows = self.db.rows(
            f"SELECT id, name FROM names WHERE {self.db.same_letters('name')} "
            f"OR {self.db.not_ascii('name')} ORDER BY name",
            key,
        )
        return [
            name for name_id, name in rows if folded(name) == key and self._counts(int(name_id))
        ]

    def totals(self) -> tuple[int, int]:
        """Number of names with teachings that count, and number of those teachings."""
        query = "SELECT COUNT(DISTINCT name), COUNT(*) FROM teachings WHERE position IS NOT NULL"
        names, teachings = self.db.row(query)
        return int(names), int(teachings)

    def names_by_id(self) -> dict[int, str]:
        """All names ever used."""
        return dict(self.db.rows("SELECT id, name FROM names"))

    def id_of_name(self, name: str) -> int | None:
        """The id of a name; ``None`` if it was never used."""
        if not is_text(name):
            return None
        found = self.db.value("SELECT id FROM names WHERE name = ?", name)
        return None if found is None else int(found)

    def name_by_id(self, name_id: int) -> str:
        """The name with this id."""
        row = self.db.row("SELECT name, seal FROM names WHERE id = ?", name_id)
        if row is None:
            raise self._damaged(f"name {name_id} is missing")
        self._require_checksum(row[1], "names", name_id, row[0])
        return str(row[0])

    def name_of(self, teaching: int) -> str:
        """The name of a teaching."""
        return self.name_by_id(self.db.value("SELECT name FROM teachings WHERE id = ?", teaching))

    def is_in_history_only(self, name: str) -> bool:
        """Whether a name without any teachings is still stored, as an old name or a used id."""
        if self.find(name=name, forgotten=True):
            return False
        query = "SELECT 1 FROM names WHERE name = ? UNION SELECT 1 FROM operations WHERE called = ?"
        return self.db.row(query, name, name) is not None

    def unknown_name_error(self, name: str) -> UnknownLabel:
        """The error for a name without teachings that count."""
        known = ", ".join(repr(name) for name in self.names(limit=8))
        return UnknownLabel(f"{name!r} was never taught; known names: {known or 'none yet'}")

    # Teachings.

    def counting_names(self, examples: Iterable[ImageAndBox]) -> dict[ImageAndBox, set[str]]:
        """The names that each of these images, or boxes in them, counts under."""
        found: dict[ImageAndBox, set[str]] = {same: set() for same in examples}
        columns, join = self.joined_boxes()
        query = (
            f"SELECT digest, names.name, {columns} FROM teachings "
            f"JOIN names ON names.id = teachings.name {join}"
            "WHERE position IS NOT NULL AND digest"
        )
        for digest, name, *box in rows_among(self.db, query, {digest for digest, _ in found}):
            same = self.image_and_box(digest, box)
            if same in found:
                found[same].add(name)
        return found

    def joined_boxes(self) -> tuple[str, str]:
        """Columns for :meth:`image_and_box` in a query of ``teachings``, and the join they need."""
        if self.writes or has_boxes(self):  # opening for writing creates the table
            columns = "boxes.teaching, x0, y0, x1, y1, found, boxes.seal"
            return columns, "LEFT JOIN boxes ON boxes.teaching = teachings.id "
        return "NULL", ""

    def image_and_box(self, digest: bytes, columns: Sequence[Any]) -> ImageAndBox:
        """A picture and the given box of a teaching, from the columns of its row."""
        taught = None if columns[0] is None else checked_box(self, columns)
        return bytes(digest), given_box(taught)

    def find_same(self, example: ImageAndBox, name: str | None = None) -> list[int]:
        """Teachings that count and have this picture and given box."""
        columns, join = self.joined_boxes()
        query = (
            f"SELECT digest, id, {columns} FROM teachings {join}"
            "WHERE position IS NOT NULL AND digest = ?"
        )
        values: list[str | bytes] = [example[0]]
        if name is not None:
            query += " AND name = (SELECT id FROM names WHERE name = ?)"
            values.append(name)
        return [
            teaching
            for digest, teaching, *box in self.db.rows(f"{query} ORDER BY id", *values)
            if self.image_and_box(digest, box) == example
        ]

    def find(
        self,
        *,
        id: int | None = None,
        name: str | None = None,
        source: str | None = None,
        digest: bytes | None = None,
        forgotten: bool = False,
    ) -> list[int]:
        """Ids of teachings by id, name, source (or folder of sources) and digest.

        Only those that count or, with ``forgotten``, also those that no longer do.
        """
        if name is not None and not is_text(name):
            return []
        conditions = ["TRUE" if forgotten else "position IS NOT NULL"]
        values = list[str | bytes | int]()
        if id is not None:
            conditions.append("id = ?")
            values.append(id)
        if name is not None:
            conditions.append("name = (SELECT id FROM names WHERE name = ?)")
            values.append(name)
        if source is not None:
            # A folder includes everything in it: from its separator to the next character.
            stored = as_stored(source)
            folder = stored.rstrip(os.sep)
            conditions.append("(source = ? OR (source >= ? AND source < ?))")
            values += [stored, folder + os.sep, folder + chr(ord(os.sep) + 1)]
        if digest is not None:
            conditions.append("digest = ?")
            values.append(digest)
        query = f"SELECT id FROM teachings WHERE {' AND '.join(conditions)} ORDER BY id"
        return [row[0] for row in self.db.rows(query, *values)]

    def tally(self, teachings: Sequence[int]) -> dict[str, int]:
        """How many of these teachings each name has."""
        tally: dict[str, int] = {}
        query = (
            "SELECT names.name FROM teachings JOIN names ON names.id = teachings.name "
            "WHERE teachings.id = ?"
        )
        for teaching in teachings:
            name = self.db.value(query, teaching)
            tally[name] = tally.get(name, 0) + 1
        return dict(sorted(tally.items()))

    def teachings(self, name: str | None, limit: int | None, offset: int) -> list[Teaching]:
        """Teachings that count, in the order they were taught."""
        if name is not None and not is_text(name):
            return []
        condition = "" if name is None else "AND names.name = ? "
        rows = self.db.rows(
            "SELECT teachings.id, names.name, source, time, pictures FROM teachings "
            "JOIN names ON names.id = teachings.name "
            f"WHERE position IS NOT NULL {condition}ORDER BY teachings.id LIMIT ? OFFSET ?",
            *([] if name is None else [name]),
            NO_LIMIT if limit is None else limit,
            offset,
        )
        return [
            Teaching(
                number,
                word,
                source,
                taught_at,
                has_thumbnail=bool(pictures & PICTURES["thumbnails"]),
                box=self._box(number) if pictures & PICTURES["boxes"] else None,
            )
            for number, word, source, taught_at, pictures in rows
        ]

    def thumbnail(self, teaching: int) -> bytes | None:
        return self._checked_bytes("thumbnails", "jpeg", teaching)

    def image(self, teaching: int) -> bytes | None:
        """The image file itself, if it was stored."""
        return self._checked_bytes("images", "file", teaching)

    def origin(self, teaching: int) -> tuple[str, bytes]:
        """Source and digest of a teaching."""
        row = self.db.row("SELECT source, digest FROM teachings WHERE id = ?", teaching)
        return str(row[0]), bytes(row[1])

    def vector_bytes(self, teaching: int) -> bytes:
        """The stored bytes of a teaching's vector."""
        found = self.db.value("SELECT vector FROM vectors WHERE teaching = ?", teaching)
        if not isinstance(found, bytes):
            raise self._damaged("a vector is missing or is not stored as bytes")
        return found

    def has_teaching_with(self, **value: str | bytes) -> bool:
        """Whether a teaching, counting or not, has this source, digest or content."""
        ((column, wanted),) = value.items()
        query = f"SELECT 1 FROM teachings WHERE {column} = ? LIMIT 1"
        return self.db.value(query, wanted) is not None

    # Helpers.

    def _counts(self, name_id: int) -> bool:
        query = "SELECT 1 FROM teachings WHERE name = ? AND position IS NOT NULL LIMIT 1"
        return self.db.value(query, name_id) is not None

    def _checked_bytes(self, table: str, column: str, teaching: int) -> bytes | None:
        row = self.db.row(f"SELECT {column}, seal FROM {table} WHERE teaching = ?", teaching)
        if row is None:
            if self._pictures(teaching) & PICTURES[table]:
                raise self._damaged(f"teaching {teaching} is missing among the {table}")
            return None
        if not isinstance(row[0], bytes):
            raise self._damaged(f"a row of {table} is not stored as bytes")
        self._require_checksum(row[1], table, teaching, content_digest(row[0]))
        return row[0]

    def _box(self, teaching: int) -> Box:
        taught = taught_box(self, teaching)
        if taught is None:
            raise self._damaged(f"teaching {teaching} is missing among the boxes")
        return taught.box

    def _pictures(self, teaching: int) -> int:
        query = "SELECT pictures FROM teachings WHERE id = ?"
        return int(self.db.value(query, teaching) or 0)

    def _require_checksum(self, stored: object, table: str, *values: object) -> None:
        if stored != row_checksum(table, *values):  # type: ignore[arg-type]
            raise self._damaged(f"a row of {table} was altered")

    def _damaged(self, what: str) -> DamagedJournal:
        return damaged_journal(self.db, what)


def rows_among(db: Database, query: str, values: Iterable[Any]) -> Iterator[Any]:
    """Rows of a query that ends with a column, restricted to these values of it."""
    rest = iter(values)
    while part := list(islice(rest, VALUES_AT_A_TIME)):
        # Powers of two: few distinct statements, which an engine can keep prepared.
        width = 1 << (len(part) - 1).bit_length()
        part += part[-1:] * (width - len(part))
        yield from db.rows(f"{query} IN ({', '.join('?' * width)})", *part)
