"""The journal: everything that was taught, in order, in a database. It is the source of truth.

Teachings are rows that never change, except for their name, their source and whether they count.
Every change to what counts is an entry of the *log*, a teaching with a sign:

    teach       +1 the new teaching
    forget      −1 a teaching that counts
    rename into a name that exists   −1 under the old name, +1 under the new
    undo, redo  the entries of an operation, signs reversed                    (operations.py)

A model is a fold over the log, so it can be rebuilt at any time, and a model at some position needs
only the entries after it. The log is folded in *windows* of ``WINDOW`` positions, which begin at
multiples of it. Two folds of the same log therefore do the same arithmetic in the same order and
agree to the last bit, whichever snapshot they started from (model.py handles the last window while
it is incomplete).

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
from everlearn.images.names import folded
from everlearn.memory.storage.interface import Database, damaged_journal
from everlearn.memory.storage.regions import (
    box_row,
    checked_box,
    has_boxes,
    proposals_of,
    taught_box,
    taught_boxes,
    write_proposals,
)
from everlearn.memory.storage.rows import (
    BEGINNING,
    Example,
    ImageAndBox,
    LogRun,
    NameIds,
    NameRecord,
    Teaching,
    Vectors,
    as_stored,
    content_digest,
    given_box,
    is_text,
    next_chain,
    require_row,
    require_width,
    row_checksum,
)
from everlearn.memory.storage.schema import PICTURES
from everlearn.regions.boxes import Box

WINDOW = 256
# The highest LIMIT that a query can have.
NO_LIMIT = (1 << 63) - 1
# Values per query that looks up many.
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
        """The hash chain at a position, which identifies the log; ``None`` if it is shorter."""
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

    def _counts(self, name_id: int) -> bool:
        query = "SELECT 1 FROM teachings WHERE name = ? AND position IS NOT NULL LIMIT 1"
        return self.db.value(query, name_id) is not None

    def spellings_of(self, key: str) -> list[str]:
        """Names with teachings that count whose folded form is this one, sorted.

        The database compares names regardless of case for ASCII only; other names are compared
        here.
        """
        if not is_text(key):
            return []
        rows = self.db.rows(
            f"SELECT id, name FROM names WHERE LOWER(name) = ? OR {self.db.not_ascii('name')} "
            "ORDER BY name",
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

    def counts(self, name: str, example: Example) -> bool:
        """Whether the same image and box already counts under this name."""
        return name in self.counting_names([example.same_as])[example.same_as]

    def counting_names(self, examples: Iterable[ImageAndBox]) -> dict[ImageAndBox, set[str]]:
        """The names that each of these images, or boxes in them, counts under."""
        found: dict[ImageAndBox, set[str]] = {same: set() for same in examples}
        columns, join = self.joined_boxes()
        query = (
            f"SELECT digest, names.name, {columns} FROM teachings "
            f"JOIN names ON names.id = teachings.name {join}"
            "WHERE position IS NOT NULL AND digest"
        )
        for digest, name, *box in self._among(query, {digest for digest, _ in found}):
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

    def has_negative_entry_after(self, position: int) -> bool:
        """Whether the log after a position has an entry with a negative sign."""
        query = "SELECT 1 FROM log WHERE sign = -1 AND position > ? LIMIT 1"
        return self.db.value(query, position) is not None

    def n_negative_entries_after(self, position: int, most: int) -> int:
        """Number of entries with a negative sign after a position, counted up to ``most``."""
        query = "SELECT 1 FROM log WHERE sign = -1 AND position > ? LIMIT ?"
        return int(self.db.value(f"SELECT COUNT(*) FROM ({query}) AS found", position, most))

    def runs(self, after: int, through: int, step: int = WINDOW) -> Iterator[LogRun]:
        """The log between two positions in runs of at most ``step`` entries; checks its chain."""
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
            for sign, name, _, content, position, operation, teaching, stored in rows:
                entry = position, operation, teaching, name, sign
                chain = next_chain(chain or b"", *entry, content)
                if chain != stored:
                    raise self._damaged(f"entry {position} of the log was altered")
            yield from self._runs_of_one_sign(rows)

    def counting_runs(self, after: int, through: int, step: int = WINDOW) -> Iterator[LogRun]:
        """As :meth:`runs`, but only teachings that still count: no negative signs."""
        query = (
            "SELECT 1, name, vector, content FROM teachings "
            "LEFT JOIN vectors ON vectors.teaching = teachings.id "
            "WHERE position > ? AND position <= ? ORDER BY position"
        )
        for start in range(after // step * step, through, step):
            rows = self.db.rows(query, max(after, start), min(through, start + step))
            yield from self._runs_of_one_sign(rows)

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
        """Ids, ids of names, sources and vectors of all teachings that count, in order."""
        rows = self.db.rows(
            "SELECT 1, name, vector, content, id, source FROM teachings "
            "LEFT JOIN vectors ON vectors.teaching = teachings.id "
            "WHERE position IS NOT NULL ORDER BY position"
        )
        names = np.array([row[1] for row in rows], dtype=np.int64)
        return [row[4] for row in rows], names, [row[5] for row in rows], self._matrix(rows)

    def examples(self) -> Iterator[tuple[str, Example]]:
        """Name and content of all teachings that count, in order."""
        query = (
            "SELECT 1, names.name, vector, content, source, digest, teachings.id FROM teachings "
            "LEFT JOIN vectors ON vectors.teaching = teachings.id "
            "JOIN names ON names.id = teachings.name "
            "WHERE position IS NOT NULL ORDER BY position"
        )
        embedder, boxes = self.fact("embedder") or "", taught_boxes(self)
        for row in self.db.each(query):
            thumbnail, image = self.thumbnail(row[6]) or b"", self.image(row[6]) or b""
            regions = boxes.get(row[6]), proposals_of(self, row[5])
            vector = self._matrix([row])[0]
            yield row[1], Example(vector, row[4], row[5], thumbnail, embedder, image, *regions)

    # Writing, always inside a transaction.

    def add(self, operation: int, name: str, example: Example) -> int:
        """Add one teaching; returns its id."""
        return self.add_many(operation, [(name, example)])[0]

    def add_many(self, operation: int, examples: Sequence[tuple[str, Example]]) -> list[int]:
        """Add teachings in this order; returns their ids. The number of statements is constant."""
        names = self._ids_for_names(name for name, _ in examples)
        first = self._next_teaching_id()
        position, chain = self._last_entry()
        tables: dict[str, list[tuple[Any, ...]]] = {
            table: [] for table in ("vectors", "thumbnails", "images", "boxes", "log", "teachings")
        }
        for teaching, (name, example) in enumerate(examples, start=first):
            require_width(len(example.vector))
            vector = example.vector.astype("<f4", copy=False).tobytes()
            content = content_digest(vector)
            tables["vectors"].append((teaching, vector))
            pictures = 0
            for table, data in (("thumbnails", example.thumbnail), ("images", example.image)):
                if data:
                    pictures |= PICTURES[table]
                    checksum = row_checksum(table, teaching, content_digest(data))
                    tables[table].append((teaching, data, checksum))
            if example.region is not None:
                pictures |= PICTURES["boxes"]
                tables["boxes"].append(box_row(teaching, example.region))
            if example.proposals is not None:
                write_proposals(self, example.digest, example.proposals)
            position += 1
            entry = position, operation, teaching, names[name], +1
            chain = next_chain(chain, *entry, content)
            tables["log"].append((*entry, chain))
            source = as_stored(example.source)
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

    def stop_counting(self, operation: int, teachings: Iterable[int]) -> None:
        """Append a negative entry for each of these teachings, which count."""
        for teaching in teachings:
            name_id = self.db.value("SELECT name FROM teachings WHERE id = ?", teaching)
            self.append_entry(operation, teaching, name_id, -1)

    def move(self, operation: int, teachings: Iterable[int], into: str) -> None:
        """Count these teachings under another name."""
        name_id = self._id_for_name(into)
        for teaching in teachings:
            before = self.db.value("SELECT name FROM teachings WHERE id = ?", teaching)
            self.append_entry(operation, teaching, before, -1)
            self.append_entry(operation, teaching, name_id, +1)

    def append_entry(self, operation: int, teaching: int, name_id: int, sign: int) -> None:
        """Append a log entry about an existing teaching."""
        row = self.db.row(
            "SELECT time, source, digest, content, pictures FROM teachings WHERE id = ?", teaching
        )
        if row is None:
            raise self._damaged(f"teaching {teaching} is missing")
        position = self._append_to_log(operation, teaching, name_id, sign, row[3])
        self._write_teaching(teaching, (position if sign > 0 else None, name_id, *row))

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

    def name_of(self, teaching: int) -> str:
        """The name of a teaching."""
        return self.name_by_id(self.db.value("SELECT name FROM teachings WHERE id = ?", teaching))

    def has_teaching_with(self, **value: str | bytes) -> bool:
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
        self._write_teaching(teaching, (*row[:3], as_stored(source), *row[3:]))

    def set_name(self, name_id: int, name: str) -> None:
        """Give an id another name; if that name has an id, the two ids swap their names."""
        other, before = self.id_of_name(name), self.name_by_id(name_id)
        if other is not None:
            self.db.run("UPDATE names SET name = '' WHERE id = ?", other)
        self._write_name(name_id, name)
        if other is not None:
            self._write_name(other, before)

    # Helpers.

    def _id_for_name(self, name: str) -> int:
        return self._ids_for_names([name])[name]

    def _ids_for_names(self, names: Iterable[str]) -> dict[str, int]:
        """The ids of names; new names get the next ids, in their order."""
        wanted = dict.fromkeys(names)
        known = dict(self._among("SELECT name, id FROM names WHERE name", wanted))
        if len(known) < len(wanted):
            last = int(self.db.value("SELECT MAX(id) FROM names") or 0)
            new = [name for name in wanted if name not in known]
            for name_id, name in enumerate(new, start=last + 1):
                self._write_name(name_id, name)
                known[name] = name_id
        return known

    def _among(self, query: str, values: Iterable[Any]) -> Iterator[Any]:
        """Rows of a query that ends with a column, restricted to these values of it."""
        rest = iter(values)
        while part := list(islice(rest, VALUES_AT_A_TIME)):
            # Powers of two: few distinct statements, which an engine can keep prepared.
            width = 1 << (len(part) - 1).bit_length()
            part += part[-1:] * (width - len(part))
            yield from self.db.rows(f"{query} IN ({', '.join('?' * width)})", *part)

    def _write_name(self, name_id: int, name: str) -> None:
        require_row("names", (name_id, name))
        row = name_id, name, row_checksum("names", name_id, name)
        self.db.replace("names", *row)

    def _next_teaching_id(self) -> int:
        # Ids are never reused, even after the last teachings were erased.
        used = int(self.fact("teachings_used") or 0)
        return max(used, int(self.db.value("SELECT MAX(id) FROM teachings") or 0)) + 1

    def _write_teaching(self, teaching: int, row: tuple[object, ...]) -> None:
        require_row("teachings", (teaching, *row))
        checksum = row_checksum("teachings", teaching, *row)  # type: ignore[arg-type]
        self.db.replace("teachings", teaching, *row, checksum)

    def _append_to_log(
        self, operation: int, teaching: int, name_id: int, sign: int, content: bytes
    ) -> int:
        before, chain = self._last_entry()
        entry = before + 1, operation, teaching, name_id, sign
        self.db.run(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", *entry, next_chain(chain, *entry, content)
        )
        return int(entry[0])

    def _last_entry(self) -> tuple[int, bytes]:
        """Position and chain of the last entry."""
        last = self.db.row("SELECT position, chain FROM log ORDER BY position DESC LIMIT 1")
        return last or (0, BEGINNING)

    def _runs_of_one_sign(self, rows: Sequence[tuple[object, ...]]) -> Iterator[LogRun]:
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
        if any(content_digest(row[2]) != row[3] for row in rows):  # type: ignore[arg-type]
            raise self._damaged("a vector was altered")
        if {len(blob) for blob in blobs} != {4 * self.n_features}:
            raise self._damaged("a vector has the wrong length")
        matrix = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
        if not np.isfinite(matrix).all():
            raise self._damaged("a vector holds NaN or infinity")
        return matrix

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
