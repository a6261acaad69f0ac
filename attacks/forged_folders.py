"""Forged folders: opened, asked, merged and taught, each in its own process.

    python -m attacks.forged_folders [FOLDERS] [SEED]

The forger knows the format: rows are given hostile values and their digests recomputed. Allowed
outcomes are answers and named errors within ten seconds of processor time and a gigabyte.
"""

import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attacks.altered_journals import WIDTH, build
from everlearn import Memory
from everlearn.errors import EverlearnError
from everlearn.memory.storage.rows import BEGINNING, content_digest, next_chain, row_checksum
from everlearn.memory.storage.sqlite.database import FILE

# Limits of processor time, and of wall time for what waits without computing.
SECONDS = 10
ASLEEP = 120
MEGABYTES = 1500

COLUMNS = {
    "facts": "key, value",
    "names": "id, name",
    "operations": "id, kind, time, turns, dropped, name, called",
    "teachings": "id, position, name, time, source, digest, content, pictures",
    "boxes": "teaching, x0, y0, x1, y1, found",
    "proposals": "digest, boxes, vectors",
}
HOSTILE: tuple[Any, ...] = (
    None,
    "",
    " ",
    b"",
    b"\xff\xfe",
    "\x1b[31mred",
    "two\nlines",
    "x" * 1_000_000,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    1e308,
    float("inf"),
    float("nan"),
    "\x00",
    "[/x]",
    "\u202e",
    b"\x00" * 100_000,
    2.5,
)
SCHEMAS = (
    "CREATE VIEW extra AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END",
    "CREATE TABLE extra (x)",
    "DROP INDEX by_digest",
    "ALTER TABLE log ADD COLUMN more INTEGER DEFAULT 1",
    "DROP TABLE thumbnails",
)
LOOP = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {columns} FROM n"

Forgery = Callable[[sqlite3.Connection, np.random.Generator], str]


def a_row(db: sqlite3.Connection, rng: np.random.Generator) -> str:
    """A hostile value in one row, with a valid checksum."""
    table = str(rng.choice(list(COLUMNS)))
    columns = COLUMNS[table].split(", ")
    column = columns[int(rng.integers(len(columns)))]
    value = HOSTILE[int(rng.integers(len(HOSTILE)))]
    key = columns[0]
    keys = [row[0] for row in db.execute(f"SELECT {key} FROM {table}")]
    chosen = keys[int(rng.integers(len(keys)))]
    db.execute("PRAGMA ignore_check_constraints = ON")
    db.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, chosen))
    where = {"facts": "key", "proposals": "digest"}.get(table, "rowid")
    for row in db.execute(f"SELECT {where}, {COLUMNS[table]} FROM {table}").fetchall():
        own = row_checksum(table, *row[1:])
        db.execute(f"UPDATE {table} SET seal = ? WHERE {where} = ?", (own, row[0]))
    return f"{table}.{column} = {value!r:.20}"


def a_vector(db: sqlite3.Connection, rng: np.random.Generator) -> str:
    """A hostile vector, with matching digest and chain."""
    kinds = {
        "inf": np.full(WIDTH, np.inf, np.float32).tobytes(),
        "nan": np.full(WIDTH, np.nan, np.float32).tobytes(),
        "huge": np.full(WIDTH, 3e38, np.float32).tobytes(),
        "tiny": np.full(WIDTH, 1e-45, np.float32).tobytes(),
        "zero": bytes(4 * WIDTH),
        "short": b"\x00\x01\x02",
        "long": bytes(4 * WIDTH + 4),
        "empty": b"",
        "a megabyte": bytes(1 << 20),
    }
    what = str(rng.choice(list(kinds)))
    teaching = int(rng.integers(1, 250))
    db.execute("UPDATE vectors SET vector = ? WHERE teaching = ?", (kinds[what], teaching))
    content = content_digest(kinds[what])
    db.execute("UPDATE teachings SET content = ? WHERE id = ?", (content, teaching))
    for row in db.execute(f"SELECT {COLUMNS['teachings']} FROM teachings").fetchall():
        own = row_checksum("teachings", *row)
        db.execute("UPDATE teachings SET seal = ? WHERE id = ?", (own, row[0]))
    _chain_anew(db)
    return f"vector {what}"


def a_log(db: sqlite3.Connection, rng: np.random.Generator) -> str:
    """A hostile log entry, with a matching chain."""
    column = str(rng.choice(["position", "operation", "teaching", "name", "sign"]))
    value = HOSTILE[int(rng.integers(len(HOSTILE)))]
    at = int(rng.integers(1, 250))
    db.execute(f"UPDATE log SET {column} = ? WHERE position = ?", (value, at))
    _chain_anew(db)
    return f"log.{column} = {value!r:.20}"


def a_schema(db: sqlite3.Connection, rng: np.random.Generator) -> str:
    """Another schema, or an endless view in place of a table."""
    if rng.random() < 0.5:
        statement = str(rng.choice(SCHEMAS))
        db.execute(statement)
        return statement[:30]
    table = str(rng.choice([*COLUMNS, "log", "vectors", "thumbnails", "strangers"]))
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    db.execute(f"DROP TABLE {table}")
    columns = ", ".join(f"x AS {name}" for name in names)
    db.execute(f"CREATE VIEW {table} AS {LOOP.format(columns=columns)}")
    return f"endless {table}"


def a_fact(db: sqlite3.Connection, rng: np.random.Generator) -> str:
    """Facts with invalid values."""
    key = str(rng.choice(["n_features", "embedder", "classifier", "teachings_used", "other"]))
    values = ["-1", "0", "1e9", "99999999999999999999", "x", "", "A" * 4096, "²", "AAAA", "7"]
    value = str(rng.choice(values))
    db.execute(
        "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)",
        (key, value, row_checksum("facts", key, value)),
    )
    return f"fact {key} = {value[:12]}"


def _chain_anew(db: sqlite3.Connection) -> None:
    contents = dict(db.execute("SELECT id, content FROM teachings").fetchall())
    chain = BEGINNING
    rows = db.execute("SELECT position, operation, teaching, name, sign FROM log").fetchall()
    for position, operation, teaching, name, sign in rows:
        content = contents.get(teaching) or b""
        chain = next_chain(chain, position, operation, teaching, name, sign, content)
        db.execute("UPDATE log SET chain = ? WHERE position = ?", (chain, position))


FORGERIES: tuple[Forgery, ...] = (a_row, a_vector, a_log, a_schema, a_fact)


def forge(folder: Path, rng: np.random.Generator) -> str:
    """Forge one folder; returns a description."""
    forgery = FORGERIES[int(rng.integers(len(FORGERIES)))]
    db = sqlite3.connect(folder / FILE, isolation_level=None)
    try:
        what = forgery(db, rng)
    except sqlite3.Error as error:
        what = f"refused by SQLite: {error}"
    finally:
        db.close()
    if rng.random() < 0.2:
        for path in folder.glob("snapshot-*"):
            path.write_bytes(rng.bytes(int(rng.integers(0, 5000))))
    return what


def use(folder: Path, mine: Path) -> None:
    """Everything a person might do with a folder from someone else."""
    questions = np.random.default_rng(1).normal(size=(3, WIDTH))
    with Memory(folder, read_only=True) as memory:
        memory.names()
        memory.history()
        for teaching in memory.teachings(limit=20):
            memory.thumbnail(teaching.id)
        for question in questions:
            memory.ask(question)
    with Memory(mine) as own:
        own.teach(np.ones(WIDTH), "mine")
        own.merge(folder)
        own.ask(questions[0])
    with Memory(folder) as memory:
        memory.teach(np.ones(WIDTH), "mine")
        memory.ask(questions[0])
        memory.undo()


def judged(folder: Path, mine: Path) -> str:
    """The outcome of using a folder, in a separate process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(ASLEEP)
        limit = MEGABYTES << 20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        try:
            use(folder, mine)
            verdict = "used"
        except EverlearnError as error:
            verdict = type(error).__name__
        except BaseException as error:
            verdict = f"RAW {type(error).__name__}: {str(error)[:100]}"
        os.write(writing, verdict.encode())
        os._exit(0)
    os.close(writing)
    verdict = os.read(reading, 1 << 16).decode()
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    return verdict or f"KILLED by signal {os.WTERMSIG(status)}"


def attack(folders: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Counts of outcomes, with the causes of the forbidden ones."""
    rng = np.random.default_rng(seed)
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        original = Path(place, "original")
        build(original)
        for number in range(folders):
            folder, mine = Path(place, f"forged {number}"), Path(place, f"mine {number}")
            shutil.copytree(original, folder)
            what = forge(folder, rng)
            verdict = judged(folder, mine)
            verdicts[verdict] += 1
            if verdict.startswith(("RAW", "KILLED")):
                wrong.append(f"{what}: {verdict}")
            shutil.rmtree(folder)
            shutil.rmtree(mine, ignore_errors=True)
    return verdicts, wrong


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    verdicts, wrong = attack(*(arguments or [2000]))
    print(json.dumps((verdicts, wrong), indent=2))
    print(
        f"{verdicts.total():,} forged journals: {len(wrong)} crashes, hangs, unnamed errors",
        file=sys.stderr,
    )
