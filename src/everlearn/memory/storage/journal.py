"""The journal: everything that was taught, in order, in a database. It is the source of truth.

Teachings are rows that never change, except for their name and whether they count. Every change to
what counts is an entry of the *log*, a teaching with a sign:

    teach       +1 the new teaching
    forget      −1 a teaching that counts
    rename into a name that exists   −1 under the old name, +1 under the new
    undo, redo  the entries of an operation, signs reversed                    (operations.py)

A model is a fold over the log, so it can be rebuilt at any time, and a model at some position needs
only the entries after it. The log is folded in *windows* of ``WINDOW`` positions, always the same
ones: two folds of the same log do the same arithmetic in the same order and agree to the last bit,
whichever snapshot they started from (model.py holds the window that is not yet complete).

Rows carry checksums and entries are chained (rows.py); both are checked as they are read.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby, islice
from typing import Any

import numpy as np

from everlearn.errors import DamagedJournal, UnknownLabel
from everlearn.images.folders import folded
from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.regions import (
    box_row,
    has_boxes,
    keep_proposals,
    proposals_of,
    taught_box,
    taught_boxes,
)
from everlearn.memory.storage.rows import (
    BEGINNING,
    Example,
    LogRun,
    NameIds,
    NameRecord,
    Sameness,
    Teaching,
    Vectors,
    as_kept,
    content_of,
    given_box,
    is_text,
    linked,
    require_row,
    require_width,
    row_checksum,
)
from everlearn.memory.storage.schema import PICTURES
from everlearn.regions.boxes import Box

WINDOW = 256
# Upper limit of a page of results.
MOST_ROWS = 2**62
# As a LIMIT: none.
EVERY_ROW = (1 << 63) - 1
VALUES_AT_A_TIME = 256


class Journal:
    """Reads and writes what was taught, through one connection.

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
        row = self.db.row("SELECT value, seal FROM facts WHERE key = ?", key)
        if row is None:
            return None
        self._require_checksum(row[1], "facts", key, row[0])
        return str(row[0])

    def facts(self, *keys: str) -> dict[str, str]:
        """Several facts at once; missing ones are left out."""
        marks = ", ".join("?" * len(keys))
        found = dict.fromkeys(keys, "")
        for key, value, own in self.db.rows(
            f"SELECT key, value, seal FROM facts WHERE key IN ({marks})", *keys
        ):
            self._require_checksum(own, "facts", key, value)
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

    # Reading.

    @property
    def n_names(self) -> int:
        """Number of names ever used."""
        return int(self.db.value("SELECT MAX(id) FROM names") or 0)

    @property
    def last_position(self) -> int:
        return int(self.db.value("SELECT MAX(position) FROM log") or 0)

    @property
    def last_operation(self) -> int:
        return int(self.db.value("SELECT MAX(id) FROM operations") or 0)

    def chain_at(self, position: int) -> bytes | None:
        """Identifies the log up to a position; ``None`` if it is shorter."""
        if position == 0:
            return BEGINNING
        chain = self.db.value("SELECT chain FROM log WHERE position = ?", position)
        return None if chain is None else bytes(chain)

    def names(
        self,
        containing: str | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        latest_first: bool = False,
    ) -> dict[str, NameRecord]:
        """Names with teachings that count, sorted: all, or a page of those that contain a text."""
        condition, values = "", list[str | int]()
        if containing and not is_text(containing):
            return {}
        if containing:
            condition = "AND LOWER(names.name) LIKE ? ESCAPE '!' "
            escaped = containing.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
            values.append(f"%{escaped}%")
        page = "" if limit is None and not offset else "LIMIT ? OFFSET ?"
        if page:
            values += [MOST_ROWS if limit is None else limit, offset]
        order = "MAX(time) DESC, names.name" if latest_first else "names.name"
        rows = self.db.rows(
            "SELECT names.name, COUNT(*), MAX(time) FROM teachings "
            f"JOIN names ON names.id = teachings.name WHERE position IS NOT NULL {condition}"
            f"GROUP BY names.id, names.name ORDER BY {order} {page}",
            *values,
        )
        return {name: NameRecord(count, last) for name, count, last in rows}

    def is_taught(self, name: str) -> bool:
        """Whether a teaching counts under this very name."""
        named = self.find_name(name)
        return named is not None and self._counts(named)

    def _counts(self, named: int) -> bool:
        query = "SELECT 1 FROM teachings WHERE name = ? AND position IS NOT NULL LIMIT 1"
        return self.db.value(query, named) is not None

    def spellings_of(self, key: str) -> list[str]:
        """Names with teachings that count whose folded form is this one, sorted.

        One pass over the names inside the database, which can only compare ASCII regardless of
        case; all other names are compared here.
        """
        if not is_text(key):
            return []
        rows = self.db.rows(
            f"SELECT id, name FROM names WHERE LOWER(name) = ? OR {self.db.not_ascii('name')} "
            "ORDER BY name",
            key,
        )
        return [name for named, name in rows if folded(name) == key and self._counts(int(named))]

    def totals(self) -> tuple[int, int]:
        """Number of names with teachings that count, and number of those teachings."""
        query = "SELECT COUNT(DISTINCT name), COUNT(*) FROM teachings WHERE position IS NOT NULL"
        names, teachings = self.db.row(query)
        return int(names), int(teachings)

    def name_ids(self) -> dict[int, str]:
        return dict(self.db.rows("SELECT id, name FROM names"))

    def find_name(self, name: str) -> int | None:
        if not is_text(name):
            return None
        found = self.db.value("SELECT id FROM names WHERE name = ?", name)
        return None if found is None else int(found)

    def word(self, named: int) -> str:
        """The word of a name."""
        row = self.db.row("SELECT name, seal FROM names WHERE id = ?", named)
        if row is None:
            raise self._damaged(f"name {named} is missing")
        self._require_checksum(row[1], "names", named, row[0])
        return str(row[0])

    def counts(self, name: str, example: Example) -> bool:
        """Whether the same image and box already counts under this name."""
        return name in self.counting_names([example.same_as])[example.same_as]

    def counting_names(self, examples: Iterable[Sameness]) -> dict[Sameness, set[str]]:
        """The names that each of these images, or boxes in them, counts under."""
        found: dict[Sameness, set[str]] = {same: set() for same in examples}
        query = (
            "SELECT digest, names.name, x0, y0, x1, y1, found FROM teachings "
            "JOIN names ON names.id = teachings.name LEFT JOIN boxes ON teaching = teachings.id "
            "WHERE position IS NOT NULL AND digest"
        )
        for digest, name, *box, auto in self._among(query, {digest for digest, _ in found}):
            same = digest, None if auto is None or auto else Box(*box)
            if same in found:
                found[same].add(name)
        return found

    def same(self, example: Example, name: str | None = None) -> list[int]:
        """Teachings that count and have the same picture and given box."""
        found = self.find(digest=example.digest, name=name)
        if not found or not has_boxes(self):
            return found
        own = given_box(example.region)
        return [teaching for teaching in found if given_box(taught_box(self, teaching)) == own]

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
            kept = as_kept(source)
            folder = kept.rstrip(os.sep)
            conditions.append("(source = ? OR (source >= ? AND source < ?))")
            values += [kept, folder + os.sep, folder + chr(ord(os.sep) + 1)]
        if digest is not None:
            conditions.append("digest = ?")
            values.append(digest)
        query = f"SELECT id FROM teachings WHERE {' AND '.join(conditions)} ORDER BY id"
        return [row[0] for row in self.db.rows(query, *values)]

    def tally(self, teachings: Sequence[int]) -> dict[str, int]:
        """Number of these teachings per name."""
        tally: dict[str, int] = {}
        query = (
            "SELECT names.name FROM teachings JOIN names ON names.id = teachings.name "
            "WHERE teachings.id = ?"
        )
        for teaching in teachings:
            word = self.db.value(query, teaching)
            tally[word] = tally.get(word, 0) + 1
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
            EVERY_ROW if limit is None else limit,
            offset,
        )
        has, boxed = PICTURES["thumbnails"], PICTURES["boxes"]
        return [
            Teaching(i, named, source, at, bool(of & has), self._box(i) if of & boxed else None)
            for i, named, source, at, of in rows
        ]

    def thumbnail(self, teaching: int) -> bytes | None:
        return self._sealed_bytes("thumbnails", "jpeg", teaching)

    def image(self, teaching: int) -> bytes | None:
        """The image file itself, if it was stored."""
        return self._sealed_bytes("images", "file", teaching)

    def taken_back_after(self, position: int) -> bool:
        """Whether any entry after a position has a negative sign."""
        query = "SELECT 1 FROM log WHERE sign = -1 AND position > ? LIMIT 1"
        return self.db.value(query, position) is not None

    def runs(self, after: int, through: int, step: int = WINDOW) -> Iterator[LogRun]:
        """The log between two positions, ``step`` entries at a time; checks its hash chain."""
        query = (
            "SELECT log.sign, log.name, vector, content, log.position, operation, log.teaching, "
            "chain FROM log JOIN teachings ON teachings.id = log.teaching "
            "LEFT JOIN vectors ON vectors.teaching = log.teaching "
            "JOIN names ON names.id = log.name "
            "WHERE log.position > ? AND log.position <= ? ORDER BY log.position"
        )
        chain = self.chain_at(after)
        for start in range(after // step * step, through, step):
            first, last = max(after, start), min(through, start + step)
            rows = self.db.rows(query, first, last)
            if len(rows) != last - first:
                raise self._damaged(f"entries {first + 1} to {last} of the log are not complete")
            for sign, name, _, content, position, operation, teaching, kept in rows:
                link = linked(chain or b"", position, operation, teaching, name, sign, content)
                if link != kept:
                    raise self._damaged(f"entry {position} of the log was altered")
                chain = link
            yield from self._grouped(rows)

    def counting_runs(self, after: int, through: int, step: int = WINDOW) -> Iterator[LogRun]:
        """As :meth:`runs`, but only teachings that still count: no negative signs."""
        query = (
            "SELECT 1, name, vector, content FROM teachings "
            "LEFT JOIN vectors ON vectors.teaching = teachings.id "
            "WHERE position > ? AND position <= ? ORDER BY position"
        )
        for start in range(after // step * step, through, step):
            rows = self.db.rows(query, max(after, start), min(through, start + step))
            yield from self._grouped(rows)

    def sample(self, size: int, through: int) -> tuple[Vectors, NameIds]:
        """At most ``size`` teachings that count up to a position, spread over all of them."""
        rows = self.db.rows(
            "SELECT 1, name, vector, content FROM teachings LEFT JOIN vectors ON teaching = id "
            "JOIN (SELECT id AS chosen FROM teachings WHERE position <= ? "
            "ORDER BY (id * 2654435761) % 4294967296 LIMIT ?) AS picked ON id = chosen ORDER BY id",
            through,
            size,
        )
        return self._matrix(rows), np.array([row[1] for row in rows], dtype=np.int64)

    def everything(self) -> tuple[list[int], NameIds, list[str], Vectors]:
        """Ids, names, sources and vectors of all teachings that count, in order."""
        rows = self.db.rows(
            "SELECT 1, name, vector, content, id, source FROM teachings "
            "LEFT JOIN vectors ON vectors.teaching = teachings.id "
            "WHERE position IS NOT NULL ORDER BY position"
        )
        named = np.array([row[1] for row in rows], dtype=np.int64)
        return [row[4] for row in rows], named, [row[5] for row in rows], self._matrix(rows)

    def examples(self) -> Iterator[tuple[str, Example]]:
        """All teachings that count, in order."""
        query = (
            "SELECT 1, names.name, vector, content, source, digest, teachings.id FROM teachings "
            "LEFT JOIN vectors ON vectors.teaching = teachings.id "
            "JOIN names ON names.id = teachings.name "
            "WHERE position IS NOT NULL ORDER BY position"
        )
        embedder, boxes = self.fact("embedder") or "", taught_boxes(self)
        for row in self.db.each(query):
            thumbnail, image = self.thumbnail(row[6]) or b"", self.image(row[6]) or b""
            own = boxes.get(row[6]), proposals_of(self, row[5])
            vector = self._matrix([row])[0]
            yield row[1], Example(vector, row[4], row[5], thumbnail, embedder, image, *own)

    # Writing, always inside a transaction.

    def add(self, operation: int, name: str, example: Example) -> int:
        """Add one teaching; returns its id."""
        return self.add_many(operation, [(name, example)])[0]

    def add_many(self, operation: int, examples: Sequence[tuple[str, Example]]) -> list[int]:
        """Add teachings in this order; returns their ids. The number of statements is constant."""
        names = self._names_for(name for name, _ in examples)
        first = self._next_teaching()
        position, chain = self._end()
        tables: dict[str, list[tuple[Any, ...]]] = {
            table: [] for table in ("vectors", "thumbnails", "images", "boxes", "log", "teachings")
        }
        for teaching, (name, example) in enumerate(examples, start=first):
            require_width(len(example.vector))
            vector = example.vector.astype("<f4", copy=False).tobytes()
            content = content_of(vector)
            tables["vectors"].append((teaching, vector))
            pictures = 0
            for table, data in (("thumbnails", example.thumbnail), ("images", example.image)):
                if data:
                    pictures |= PICTURES[table]
                    own = row_checksum(table, teaching, content_of(data))
                    tables[table].append((teaching, data, own))
            if example.region is not None:
                pictures |= PICTURES["boxes"]
                tables["boxes"].append(box_row(teaching, example.region))
            if example.proposals is not None:
                keep_proposals(self, example.digest, example.proposals)
            position += 1
            entry = position, operation, teaching, names[name], +1
            chain = linked(chain, *entry, content)
            tables["log"].append((*entry, chain))
            source = as_kept(example.source)
            row = (
                teaching, position, names[name], example.taught_at or time.time(), source,
                example.digest, content, pictures,
            )  # fmt: skip
            require_row("teachings", row)
            tables["teachings"].append((*row, row_checksum("teachings", *row)))
        for table, rows in tables.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self.db.run_many(f"INSERT INTO {table} VALUES ({marks})", rows)
        return list(range(first, first + len(examples)))

    def take_back(self, operation: int, teachings: Iterable[int]) -> None:
        """Stop counting these teachings."""
        for teaching in teachings:
            named = self.db.value("SELECT name FROM teachings WHERE id = ?", teaching)
            self.enter(operation, teaching, named, -1)

    def move(self, operation: int, teachings: Iterable[int], into: str) -> None:
        """Count these teachings under another name."""
        named = self._name_for(into)
        for teaching in teachings:
            before = self.db.value("SELECT name FROM teachings WHERE id = ?", teaching)
            self.enter(operation, teaching, before, -1)
            self.enter(operation, teaching, named, +1)

    def enter(self, operation: int, teaching: int, named: int, sign: int) -> None:
        """Append a log entry about an existing teaching."""
        row = self.db.row(
            "SELECT time, source, digest, content, pictures FROM teachings WHERE id = ?", teaching
        )
        if row is None:
            raise self._damaged(f"teaching {teaching} is missing")
        position = self._append(operation, teaching, named, sign, row[3])
        self._keep_teaching(teaching, (position if sign > 0 else None, named, *row))

    def origin(self, teaching: int) -> tuple[str, bytes]:
        """Source and digest of a teaching."""
        row = self.db.row("SELECT source, digest FROM teachings WHERE id = ?", teaching)
        return str(row[0]), bytes(row[1])

    def vector_bytes(self, teaching: int) -> bytes:
        """The stored bytes of a teaching's vector."""
        return bytes(self.db.value("SELECT vector FROM vectors WHERE teaching = ?", teaching))

    def name_of(self, teaching: int) -> str:
        """The name of a teaching."""
        return self.word(self.db.value("SELECT name FROM teachings WHERE id = ?", teaching))

    def find_exactly(self, **value: str | bytes) -> bool:
        """Whether a teaching, counting or not, has this source, digest or content."""
        ((column, wanted),) = value.items()
        query = f"SELECT 1 FROM teachings WHERE {column} = ? LIMIT 1"
        return self.db.value(query, wanted) is not None

    def relocate(self, teaching: int, source: str) -> None:
        """Give a teaching another source."""
        row = self.db.row(
            "SELECT position, name, time, digest, content, pictures FROM teachings WHERE id = ?",
            teaching,
        )
        self._keep_teaching(teaching, (*row[:3], as_kept(source), *row[3:]))

    def call(self, named: int, name: str) -> None:
        """Change the word of a name; if an unused name has that word, the two swap."""
        other, word = self.find_name(name), self.word(named)
        if other is not None:
            self.db.run("UPDATE names SET name = '' WHERE id = ?", other)
        self._keep_name(named, name)
        if other is not None:
            self._keep_name(other, word)

    # Helpers.

    def _name_for(self, name: str) -> int:
        return self._names_for([name])[name]

    def _names_for(self, names: Iterable[str]) -> dict[str, int]:
        """The ids of names; new names get the next ids, in their order."""
        wanted = dict.fromkeys(names)
        known = dict(self._among("SELECT name, id FROM names WHERE name", wanted))
        if len(known) < len(wanted):
            last = int(self.db.value("SELECT MAX(id) FROM names") or 0)
            new = [name for name in wanted if name not in known]
            for named, name in enumerate(new, start=last + 1):
                self._keep_name(named, name)
                known[name] = named
        return known

    def _among(self, query: str, values: Iterable[Any]) -> Iterator[Any]:
        """Rows of a query that ends with a column, restricted to these values of it."""
        rest = iter(values)
        while some := list(islice(rest, VALUES_AT_A_TIME)):
            # Few distinct statements, so that an engine can keep them prepared.
            width = 1 << (len(some) - 1).bit_length()
            some += some[-1:] * (width - len(some))
            yield from self.db.rows(f"{query} IN ({', '.join('?' * width)})", *some)

    def _keep_name(self, named: int, name: str) -> None:
        require_row("names", (named, name))
        row = named, name, row_checksum("names", named, name)
        self.db.replace("names", *row)

    def _next_teaching(self) -> int:
        # Ids are never reused, even after the last teachings were erased.
        used = int(self.fact("teachings_used") or 0)
        return max(used, int(self.db.value("SELECT MAX(id) FROM teachings") or 0)) + 1

    def _keep_teaching(self, teaching: int, row: tuple[object, ...]) -> None:
        require_row("teachings", (teaching, *row))
        own = row_checksum("teachings", teaching, *row)  # type: ignore[arg-type]
        self.db.replace("teachings", teaching, *row, own)

    def _append(self, operation: int, teaching: int, named: int, sign: int, content: bytes) -> int:
        before, chain = self._end()
        entry = before + 1, operation, teaching, named, sign
        self.db.run(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", *entry, linked(chain, *entry, content)
        )
        return int(entry[0])

    def _end(self) -> tuple[int, bytes]:
        """Position and chain of the last entry."""
        last = self.db.row("SELECT position, chain FROM log ORDER BY position DESC LIMIT 1")
        return last or (0, BEGINNING)

    def _grouped(self, rows: Sequence[tuple[object, ...]]) -> Iterator[LogRun]:
        for sign, entries in groupby(rows, key=lambda row: row[0]):
            part = list(entries)
            names = np.array([row[1] for row in part], dtype=np.int64)
            yield LogRun(int(sign), self._matrix(part), names)

    def _matrix(self, rows: Sequence[tuple[object, ...]]) -> Vectors:
        """Column 2 of some rows, checked against the digests in column 3."""
        blobs: list[bytes] = [row[2] for row in rows]  # type: ignore[misc]
        if not blobs:
            return np.empty((0, self.n_features), dtype=np.float32)
        if None in blobs:
            raise self._damaged("a vector is missing")
        if not all(isinstance(blob, bytes) for blob in blobs):
            raise self._damaged("a vector is not stored as bytes")
        if any(content_of(row[2]) != row[3] for row in rows):  # type: ignore[arg-type]
            raise self._damaged("a vector was altered")
        if {len(blob) for blob in blobs} != {4 * self.n_features}:
            raise self._damaged("a vector has the wrong length")
        matrix = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
        if not np.isfinite(matrix).all():
            raise self._damaged("a vector holds NaN or infinity")
        return matrix

    def _sealed_bytes(self, table: str, column: str, teaching: int) -> bytes | None:
        row = self.db.row(f"SELECT {column}, seal FROM {table} WHERE teaching = ?", teaching)
        if row is None:
            if self._pictures(teaching) & PICTURES[table]:
                raise self._damaged(f"teaching {teaching} is missing among the {table}")
            return None
        if not isinstance(row[0], bytes):
            raise self._damaged(f"a row of {table} is not stored as bytes")
        self._require_checksum(row[1], table, teaching, content_of(row[0]))
        return row[0]

    def _box(self, teaching: int) -> Box:
        taught = taught_box(self, teaching)
        if taught is None:
            raise self._damaged(f"teaching {teaching} is missing among the boxes")
        return taught.box

    def _pictures(self, teaching: int) -> int:
        query = "SELECT pictures FROM teachings WHERE id = ?"
        return int(self.db.value(query, teaching) or 0)

    def _require_checksum(self, kept: object, table: str, *values: object) -> None:
        if kept != row_checksum(table, *values):  # type: ignore[arg-type]
            raise self._damaged(f"a row of {table} was altered")

    def _damaged(self, what: str) -> DamagedJournal:
        return DamagedJournal(
            f"{self.db.location} is damaged: {what}; restore it from a backup (everlearn restore)"
        )

    def only_remembered(self, name: str) -> bool:
        """Whether a name has no teachings at all but its word is still stored somewhere."""
        if self.find(name=name, forgotten=True):
            return False
        query = "SELECT 1 FROM names WHERE name = ? UNION SELECT 1 FROM operations WHERE called = ?"
        return self.db.row(query, name, name) is not None

    def never_taught(self, name: str) -> UnknownLabel:
        """The error for a name without teachings that count."""
        known = ", ".join(repr(name) for name in self.names(limit=8))
        return UnknownLabel(f"{name!r} was never taught; known names: {known or 'none yet'}")
