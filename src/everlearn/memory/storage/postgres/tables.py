"""The tables of a Memory in PostgreSQL: those of the journal, and those needed for many writers.

Every Memory has its own schema (``everlearn_NAME``), so Memories share a database without sharing a
table, and rights are granted per Memory. The journal's tables are those of a folder (schema.py)
with PostgreSQL's types; text is compared by its bytes, as SQLite does. The other tables:

    state       one row: format, number of changes, and a random tag of the last change
    events      the latest changes, for followers
    cursors     the progress of each consumer of the events
    inbox       teachings that are acknowledged and have no position yet
    requests    the result of each request, so that a repeated one is executed once
    caches      snapshots, in pieces
    collected   vectors collected during a re-embedding

Columns of text or bytes have no planner statistics: PostgreSQL would keep samples of their values
in its catalogue, which an erase does not clean.
"""

import re

from everlearn.memory.storage.schema import FORMAT_VERSION, SCHEMA, TABLES, added_tables, has_table

TYPES = {
    "INTEGER": "bigint",
    "REAL": "double precision",
    "TEXT": 'text COLLATE "C"',
    "BLOB": "bytea",
}
# Version of the tables that only a database has.
SHARED_VERSION = 2
# Indexes not created: an entry is limited to a third of a page, and sources may be longer.
WITHOUT_INDEX = {"by_source"}

SHARED = """
CREATE TABLE state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    format bigint NOT NULL,
    version bigint NOT NULL,            -- goes up by one with every change
    tag bigint NOT NULL,                -- a new random number with every change
    position bigint NOT NULL            -- of the last entry of the log
);
CREATE TABLE inbox (
    id bigserial PRIMARY KEY,           -- order of arrival; positions are assigned later
    request text COLLATE "C" NOT NULL,  -- teachings of one request get successive positions
    place bigint NOT NULL,              -- within the request
    options text NOT NULL,              -- JSON: how to teach them
    name text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    embedder text NOT NULL,
    vector bytea NOT NULL,
    thumbnail bytea NOT NULL,
    image bytea NOT NULL,
    region bytea NOT NULL DEFAULT '',   -- its box and the picture's proposals, if any
    UNIQUE (request, place)
);
CREATE TABLE requests (
    id text COLLATE "C" PRIMARY KEY,
    digest bytea NOT NULL,              -- of the request
    time double precision NOT NULL,
    answer text NOT NULL                -- JSON
);
CREATE INDEX requests_by_time ON requests (time);
CREATE TABLE caches (
    name text COLLATE "C" NOT NULL,
    part bigint NOT NULL,
    parts bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (name, part)
);
CREATE TABLE collected (
    key text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    vector bytea NOT NULL,
    PRIMARY KEY (key, digest)
);
"""

# Added in version 2 of these tables.
EVENTS = """
ALTER TABLE state ADD COLUMN shared bigint NOT NULL DEFAULT 2;
ALTER TABLE state ADD COLUMN last_event bigint NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN dropped_event bigint NOT NULL DEFAULT 0;
CREATE TABLE events (
    number bigint PRIMARY KEY,          -- grows in the order of commits, with gaps
    time double precision NOT NULL,
    kind text COLLATE "C" NOT NULL,
    facts text COLLATE "C" NOT NULL     -- JSON
);
CREATE TABLE cursors (
    consumer text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL              -- of the last event it was sent
);
"""

SHARED_TABLES = ("state", "inbox", "requests", "caches", "collected", "events", "cursors")
ALL_TABLES = (*TABLES, *SHARED_TABLES)
# Tables that may hold names or pictures of teachings; rewritten after an erase.
WITH_CONTENT = (*TABLES, "inbox", "requests", "caches", "collected", "events")


def creation_statements() -> list[str]:
    """Statements that create an empty journal in the current schema."""
    created = [*_with_postgres_types(SCHEMA), *_split(SHARED), *_split(EVENTS)]
    return [
        *created,
        *_without_statistics(_content_columns(created)),
        # Vectors of a thousand numbers are stored in the row itself, uncompressed.
        "ALTER TABLE vectors ALTER COLUMN vector SET STORAGE EXTERNAL",
        "ALTER TABLE vectors SET (toast_tuple_target = 8160)",
        f"INSERT INTO state (format, version, tag, position) VALUES ({FORMAT_VERSION}, 0, 0, 0)",
    ]


def primary_key(table: str) -> str:
    """The first column of a journal's table, which is its primary key."""
    return columns(table)[0]


def columns(table: str) -> list[str]:
    """The columns of one of the journal's tables, in order."""
    return [part.split()[0] for part in _columns(table)]


def column_types(table: str) -> list[str]:
    """The types of these columns."""
    found = [part.split()[1] for part in _columns(table)]
    return ["double precision" if kind == "double" else kind for kind in found]


def _columns(table: str) -> list[str]:
    tables = _with_postgres_types(SCHEMA)
    body = next(text for text in tables if text.startswith(f"CREATE TABLE {table} "))
    return body[body.index("(") + 1 : body.rindex(")")].split(",")


def journal_upgrade_statements(version: int) -> list[str]:
    """Statements that upgrade a journal of an older format."""
    statements = _with_postgres_types(added_tables(version))
    columns = _content_columns(statements)
    if not has_table(version, "boxes"):
        statements.append("ALTER TABLE inbox ADD COLUMN region bytea NOT NULL DEFAULT ''")
        columns.append(("inbox", "region"))
    return statements + _without_statistics(columns)


def event_upgrade_statements() -> list[str]:
    """Statements that upgrade a Memory from version 1 of the shared tables."""
    statements = _split(EVENTS)
    return statements + _without_statistics(_content_columns(statements))


def _with_postgres_types(script: str) -> list[str]:
    """The statements of an SQLite script, for PostgreSQL."""
    found = []
    for statement in _split(script):
        if any(f"INDEX {index} " in statement for index in WITHOUT_INDEX):
            continue
        text = statement.replace("WITHOUT ROWID", "").rstrip()
        found.append(re.sub(r"\b(INTEGER|REAL|TEXT|BLOB)\b", lambda kind: TYPES[kind[0]], text))
    return found


def _split(script: str) -> list[str]:
    """The statements of a script, without comments."""
    without_comments = re.sub(r"--[^\n]*", "", script)
    return [" ".join(part.split()) for part in without_comments.split(";") if part.strip()]


def _content_columns(statements: list[str]) -> list[tuple[str, str]]:
    """Table and name of every column of text or bytes that these statements create."""
    found = []
    for statement in statements:
        match = re.match(r"CREATE TABLE (\w+) \((.*)\)", statement)
        if match:
            columns = re.findall(r"(\w+) (?:text|bytea)\b", match[2])
            found += [(match[1], column) for column in columns]
    return found


def _without_statistics(columns: list[tuple[str, str]]) -> list[str]:
    """Statements that keep samples of these columns out of PostgreSQL's catalogue."""
    return [
        f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0" for table, column in columns
    ]
