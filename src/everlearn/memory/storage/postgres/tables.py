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

Columns that hold words, digests or pictures have no planner statistics: PostgreSQL would keep
samples of their values in its catalogue, where an erase does not reach.
"""

import re

from everlearn.memory.storage.schema import FORMAT_VERSION, SCHEMA, TABLES, added, has_table

TYPES = {
    "INTEGER": "bigint",
    "REAL": "double precision",
    "TEXT": 'text COLLATE "C"',
    "BLOB": "bytea",
}
# Version of the tables that a folder does not have.
SHARED_VERSION = 2
# An index entry is limited to a third of a page; sources may be longer.
WITHOUT_INDEX = {"by_source"}

SHARED = """
CREATE TABLE state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    format bigint NOT NULL,
    version bigint NOT NULL,            -- goes up by one with every change
    tag bigint NOT NULL,                -- a random number, another one with every change
    position bigint NOT NULL            -- of the last entry of the log
);
CREATE TABLE inbox (
    id bigserial PRIMARY KEY,           -- orders what waits; positions are given later
    request text COLLATE "C" NOT NULL,  -- teachings of one request are ordered together
    place bigint NOT NULL,              -- within the request
    options text NOT NULL,              -- JSON: how they are to be taught
    name text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    embedder text NOT NULL,
    vector bytea NOT NULL,
    thumbnail bytea NOT NULL,
    image bytea NOT NULL,
    region bytea NOT NULL DEFAULT '',   -- its box, and what else was seen; empty for neither
    UNIQUE (request, place)
);
CREATE TABLE requests (
    id text COLLATE "C" PRIMARY KEY,
    digest bytea NOT NULL,              -- of what was asked for
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
    number bigint NOT NULL              -- of the last event it was told
);
"""

SHARED_TABLES = ("state", "inbox", "requests", "caches", "collected", "events", "cursors")
ALL_TABLES = (*TABLES, *SHARED_TABLES)
# Tables that may hold words or pictures of teachings; rewritten after an erase.
WITH_CONTENT = (*TABLES, "inbox", "requests", "caches", "collected", "events")


def statements() -> list[str]:
    """Statements that create an empty journal in the current schema."""
    made = [*_translated(), *_parts(SHARED), *_parts(EVENTS)]
    made += [
        f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0"
        for table, column in _wordy(made)
    ]
    # Vectors of a thousand numbers stay in the row, next to what is read with them.
    made += [
        "ALTER TABLE vectors ALTER COLUMN vector SET STORAGE EXTERNAL",
        "ALTER TABLE vectors SET (toast_tuple_target = 8160)",
        f"INSERT INTO state (format, version, tag, position) VALUES ({FORMAT_VERSION}, 0, 0, 0)",
    ]
    return made


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
    body = next(text for text in _translated() if text.startswith(f"CREATE TABLE {table} "))
    return body[body.index("(") + 1 : body.rindex(")")].split(",")


def statements_for_journal(version: int) -> list[str]:
    """Statements that upgrade a journal of an older format."""
    made = _translated(added(version))
    wordy = _wordy(made)
    if not has_table(version, "boxes"):
        made.append("ALTER TABLE inbox ADD COLUMN region bytea NOT NULL DEFAULT ''")
        wordy.append(("inbox", "region"))
    return made + [
        f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0" for table, column in wordy
    ]


def statements_for_events() -> list[str]:
    """Statements that upgrade a Memory from version 1 of the shared tables."""
    made = _parts(EVENTS)
    return made + [
        f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0"
        for table, column in _wordy(made)
    ]


def _translated(script: str = SCHEMA) -> list[str]:
    found = []
    for statement in _parts(script):
        if any(f"INDEX {index} " in statement for index in WITHOUT_INDEX):
            continue
        text = statement.replace("WITHOUT ROWID", "").rstrip()
        found.append(re.sub(r"\b(INTEGER|REAL|TEXT|BLOB)\b", lambda kind: TYPES[kind[0]], text))
    return found


def _parts(script: str) -> list[str]:
    without_comments = re.sub(r"--[^\n]*", "", script)
    return [" ".join(part.split()) for part in without_comments.split(";") if part.strip()]


def _wordy(made: list[str]) -> list[tuple[str, str]]:
    found = []
    for statement in made:
        match = re.match(r"CREATE TABLE (\w+) \((.*)\)", statement)
        if match:
            columns = re.findall(r"(\w+) (?:text|bytea)\b", match[2])
            found += [(match[1], column) for column in columns]
    return found
