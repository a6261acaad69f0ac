"""The journal's tables. A file with any other schema is rejected.

A view, a trigger or a generated column would run code when it is read, so the schema is compared
word by word before any table is read.
"""

import sqlite3
from functools import cache

FORMAT_VERSION = 4
# The first released version. Later ones are read as they are, without tables that were added
# since, and upgraded when they are opened for writing.
OLDEST_VERSION = 2
# Limit of the length of a row, so that a forged length cannot make a reader allocate more.
LONGEST_BYTES = 1 << 28
# "ever" in ASCII: identifies the file as a journal.
APPLICATION_ID = 0x65766572

FIRST_TABLES = """
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

# The tables added by each later format version.
ADDED = {
    3: """
CREATE TABLE boxes (
    teaching INTEGER PRIMARY KEY,
    x0 REAL NOT NULL,              -- left, top, right, bottom, as shares of the picture
    y0 REAL NOT NULL,
    x1 REAL NOT NULL,
    y1 REAL NOT NULL,
    found INTEGER NOT NULL,        -- 0: given by the user; 1: found, the user gave none
    seal BLOB NOT NULL
);
CREATE TABLE proposals (
    digest BLOB PRIMARY KEY,       -- of the picture, as in teachings
    boxes BLOB NOT NULL,           -- n x 4 float64, little-endian
    vectors BLOB NOT NULL,         -- n x features float32, little-endian
    seal BLOB NOT NULL
) WITHOUT ROWID;
""",
    4: """
CREATE TABLE stranger_images (
    stranger INTEGER PRIMARY KEY,
    file BLOB NOT NULL,            -- the image file
    seal BLOB NOT NULL
);
""",
}

SCHEMA = FIRST_TABLES + "".join(ADDED.values())

# Flags of the stored files of a teaching, and their tables.
PICTURES = {"thumbnails": 1, "images": 2, "boxes": 4}

# Small rows, checked one by one when a journal is opened; the others when they are read.
SMALL_TABLES = ("facts", "names", "operations", "teachings", "log")
TABLES = (
    *SMALL_TABLES, "boxes", "proposals", "vectors", "thumbnails", "images", "strangers",
    "stranger_images",
)  # fmt: skip

SCHEMA_QUERY = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


def hardened(db: sqlite3.Connection, *settings: str) -> sqlite3.Connection:
    """The connection, set up for files of unknown origin and with further settings.

    It is closed if that fails.
    """
    try:
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_BYTES)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", *settings):
            db.execute(f"PRAGMA {setting}")
        db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def write_schema(db: sqlite3.Connection, version: int = FORMAT_VERSION) -> None:
    """Create the tables of a new journal."""
    db.executescript(FIRST_TABLES + added_tables(OLDEST_VERSION, version))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {version}")


def added_tables(after: int, version: int = FORMAT_VERSION) -> str:
    """SQL that creates the tables added after a version, up to another."""
    return "".join(ADDED[number] for number in range(after + 1, version + 1))


def has_table(version: int, table: str) -> bool:
    """Whether journals of a version have a table."""
    return f"CREATE TABLE {table} " in FIRST_TABLES + added_tables(OLDEST_VERSION, version)


def upgrade(db: sqlite3.Connection) -> None:
    """Create the tables that a journal of an older version lacks, in one transaction.

    Any other file is left unchanged; opening it reports what is wrong (integrity.py).
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    if owner != APPLICATION_ID or not OLDEST_VERSION <= version < FORMAT_VERSION:
        return
    if tuple(db.execute(SCHEMA_QUERY).fetchall()) != expected_schema(version):
        return
    tables = added_tables(version)
    db.executescript(f"BEGIN IMMEDIATE;{tables}PRAGMA user_version = {FORMAT_VERSION};COMMIT;")


@cache
def expected_schema(
    version: int = FORMAT_VERSION,
) -> tuple[tuple[str, str, str, str | None], ...]:
    """The result of :data:`SCHEMA_QUERY` for a valid journal."""
    db = sqlite3.connect(":memory:")
    try:
        write_schema(db, version)
        return tuple(db.execute(SCHEMA_QUERY).fetchall())
    finally:
        db.close()
