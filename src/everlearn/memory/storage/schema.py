"""The journal's tables, and nothing else: a file with any other schema is not opened.

A view, a trigger or a column that computes something would run when it is read, so the schema is
compared word by word before any table is.
"""

import sqlite3
from functools import cache

FORMAT_VERSION = 2
# "ever" in ASCII: how the file says that it is one of ours.
APPLICATION_ID = 0x65766572

SCHEMA = """
CREATE TABLE facts (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    seal BLOB NOT NULL             -- of every column but itself, as in every table
) WITHOUT ROWID;
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seal BLOB NOT NULL);
CREATE TABLE operations (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    time REAL NOT NULL,            -- seconds since 1970
    turns INTEGER NOT NULL,        -- how often it was undone or redone; odd: it is undone now
    dropped INTEGER NOT NULL,      -- 1: undone, and something else was done since
    name INTEGER,                  -- rename: which name, and the word it does not have now
    called TEXT,
    seal BLOB NOT NULL
);
CREATE TABLE teachings (
    id INTEGER PRIMARY KEY,
    position INTEGER,              -- of the log entry by which it counts; NULL while it does not
    name INTEGER NOT NULL,
    time REAL NOT NULL,
    source TEXT NOT NULL,
    digest BLOB NOT NULL,          -- sha256 of the image's bytes, or of the vector
    content BLOB NOT NULL,         -- digest of the vector as it is kept
    pictures INTEGER NOT NULL,     -- which are kept of it: 1 a thumbnail, 2 the image, 3 both
    seal BLOB NOT NULL
);
CREATE TABLE vectors (
    teaching INTEGER PRIMARY KEY,
    vector BLOB NOT NULL           -- float32, little-endian
);
CREATE TABLE thumbnails (teaching INTEGER PRIMARY KEY, jpeg BLOB NOT NULL, seal BLOB NOT NULL);
CREATE TABLE images (teaching INTEGER PRIMARY KEY, file BLOB NOT NULL, seal BLOB NOT NULL);
CREATE TABLE log (
    position INTEGER PRIMARY KEY,  -- 1, 2, 3 … without a gap
    operation INTEGER NOT NULL,
    teaching INTEGER NOT NULL,
    name INTEGER NOT NULL,
    sign INTEGER NOT NULL,         -- +1 or -1
    chain BLOB NOT NULL            -- digest of this entry and all before it
);
CREATE TABLE strangers (
    id INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    source TEXT NOT NULL,
    digest BLOB NOT NULL,
    ignored INTEGER NOT NULL,      -- the group it is ignored with, or 0
    thumbnail BLOB NOT NULL,
    vector BLOB NOT NULL,
    seal BLOB NOT NULL
);
CREATE INDEX by_position ON teachings (position) WHERE position IS NOT NULL;
CREATE INDEX by_name ON teachings (name, time) WHERE position IS NOT NULL;
CREATE INDEX by_digest ON teachings (digest, name) WHERE position IS NOT NULL;
CREATE INDEX by_source ON teachings (source) WHERE position IS NOT NULL;
CREATE INDEX by_operation ON log (operation);
CREATE INDEX takings ON log (position) WHERE sign = -1;
"""

# What a teaching says is kept of it, in which table.
PICTURES = {"thumbnails": 1, "images": 2}

# Small rows, looked at one by one when a journal is opened; the others when they are read.
SMALL_TABLES = ("facts", "names", "operations", "teachings", "log")
TABLES = (*SMALL_TABLES, "vectors", "thumbnails", "images", "strangers")

EVERYTHING = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


def write_schema(db: sqlite3.Connection) -> None:
    """The tables of a new journal."""
    db.executescript(SCHEMA)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


@cache
def expected_schema() -> tuple[tuple[str, str, str, str | None], ...]:
    """What :data:`EVERYTHING` gives for a journal."""
    db = sqlite3.connect(":memory:")
    try:
        write_schema(db)
        return tuple(db.execute(EVERYTHING).fetchall())
    finally:
        db.close()
