"""Taking teachings out of the history itself, so that no byte of them stays.

The log is written anew: what still counts, in the order it was taught, with names and positions
numbered from one. The model is then, bit for bit, that of a new Memory that was taught what is left
in the same order. Whatever no longer counted (forgotten, undone, an old word for a name) goes as
well: it could only have come back by an undo, and undo does not go beyond an erase.

That is one transaction. Then the traces: snapshots are removed, every page of the file is written
anew, and the write-ahead log, which still holds the old pages, is emptied. A fact in the journal
says that this is still to be done until it is; whoever opens the folder to teach next goes on with
it, so neither a kill nor a reader that holds on to the old pages leaves anything behind for good.
"""

import hashlib
import json
import os
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from everlearn.errors import CannotWrite
from everlearn.memory.edits.operations import record_erase
from everlearn.memory.model.serving import remove_prepared
from everlearn.memory.storage.checksums import BEGINNING, linked, row_checksum
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import drop_boxes, proposals_of
from everlearn.memory.storage.snapshot import remove_snapshots
from everlearn.persistence import replace_file

# What is still to be done; what follows the first state is known to the database.
UNFINISHED = "erase_unfinished"
PAGES = "pages"

HOW_TO_CHECK = (
    "everlearn verify --receipt FILE looks for these digests in every row of the journal, checks "
    "that the file holds no free pages and that no write-ahead log or older snapshot is left. Who "
    "still has an erased image, name or path can also search every byte of the folder for it."
)


@dataclass(frozen=True)
class Receipt:
    """Proof of an erase, without what was erased: digests (sha256) and counts.

    Attributes
    ----------
    teachings : list of int
        The numbers of the teachings erased.
    erased : list of str
        Digests of their vectors, images, sources and names.
    also_removed : int
        How many teachings went that had been forgotten before.
    time : float
        Seconds since 1970.
    model_before, model_after : str
        Digests of the model.
    log_after : str
        What names the log that is left.
    pending : bool
        Something still holds the old pages: a reader of a folder, or the write-ahead log of a
        database server with its standbys and archives. The next change, the next opening to teach,
        or ``everlearn receipt check`` finishes the erase.
    how_to_check : str
    wal_position : str
        In a database: up to where its write-ahead log has to be gone.
    """

    teachings: list[int]
    erased: list[str]
    also_removed: int
    time: float
    model_before: str
    model_after: str
    log_after: str
    pending: bool
    how_to_check: str = HOW_TO_CHECK
    wal_position: str = ""

    def as_json(self) -> str:
        """The receipt with a digest of itself, so that it cannot be altered unnoticed."""
        facts = asdict(self)
        words = json.dumps(facts, sort_keys=True)
        return json.dumps(facts | {"sha256": hashlib.sha256(words.encode()).hexdigest()}, indent=2)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which should not be in the Memory's folder."""
        replace_file(Path(path), self.as_json().encode())


def erase(journal: Journal, teachings: Collection[int]) -> int:
    """Rewrite the history without these teachings; how many others went because they did not count.

    Inside a transaction; :func:`finish` has to follow.
    """
    gone = set(teachings)
    kept = journal.db.rows(
        "SELECT teachings.id, names.name, time, source, digest, content, pictures FROM teachings "
        "JOIN names ON names.id = teachings.name WHERE position IS NOT NULL ORDER BY position"
    )
    kept = [row for row in kept if row[0] not in gone]
    staying = {row[0] for row in kept}
    dropped = [row for row in journal.db.rows("SELECT id FROM teachings") if row[0] not in staying]
    _remember_numbers(journal)
    for table in ("vectors", "thumbnails", "images"):
        journal.db.run_many(f"DELETE FROM {table} WHERE teaching = ?", dropped)
    _drop_strangers(journal, gone)
    for table in ("teachings", "names", "log"):
        journal.db.run(f"DELETE FROM {table}")
    journal.db.run("DELETE FROM operations WHERE kind != 'erase'")
    operation = int(journal.db.value("SELECT MAX(id) FROM operations") or 0) + 1
    record_erase(journal, operation, len(gone))
    _write_anew(journal, operation, kept)
    drop_boxes(journal, dropped)
    journal.set_fact(UNFINISHED, PAGES)
    return len(dropped) - len(gone)


def finish(caches: Caches, journal: Journal, *, wait: bool = True) -> bool:
    """Remove what an erase left behind; whether nothing is left to do.

    Parameters
    ----------
    wait : bool
        Give readers a moment to let go of what they read.
    """
    state = journal.fact(UNFINISHED)
    try:
        while state is not None:
            if state == PAGES:
                remove_snapshots(caches)
                remove_prepared(caches)
                caches.remove_collected()
            reached = journal.db.remove_traces(state, wait=wait)
            if reached == state:
                return False
            with journal.transaction():
                if reached is None:
                    journal.drop_fact(UNFINISHED)
                else:
                    journal.set_fact(UNFINISHED, reached)
            state = reached
    except CannotWrite:
        return False
    return True


def traces(journal: Journal, teachings: Collection[int]) -> list[str]:
    """Digests of everything a receipt should vouch for."""
    found: set[str] = set()
    gone = set(teachings)
    for teaching in teachings:
        source, digest, named = journal.db.row(
            "SELECT source, digest, name FROM teachings WHERE id = ?", teaching
        )
        vector = journal.db.value("SELECT vector FROM vectors WHERE teaching = ?", teaching)
        if not any(other not in gone for other in journal.find(digest=digest)):
            found.add(digest.hex())
            proposals = proposals_of(journal, digest)
            if proposals is not None and len(proposals.vectors):
                found.add(sha256(proposals.vectors.tobytes()))
        found.add(sha256(vector))
        if source:
            found.add(sha256(source.encode()))
        if not _stays(journal, named, teachings):
            found.add(sha256(journal.word(named).encode()))
    return sorted(found)


def sha256(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def receipt(
    teachings: Collection[int],
    erased: list[str],
    *,
    also_removed: int,
    models: tuple[str, str],
    log_after: bytes,
    state: str | None,
) -> Receipt:
    return Receipt(
        sorted(teachings),
        erased,
        also_removed,
        time.time(),
        *models,
        log_after.hex(),
        pending=state is not None,
        wal_position=(state or "").partition(" ")[2].partition(" ")[0],
    )


def _stays(journal: Journal, named: int, teachings: Collection[int]) -> bool:
    """Whether a name has teachings that are not erased."""
    counting = journal.db.rows(
        "SELECT id FROM teachings WHERE name = ? AND position IS NOT NULL", named
    )
    gone = set(teachings)
    return any(row[0] not in gone for row in counting)


def _remember_numbers(journal: Journal) -> None:
    highest = int(journal.db.value("SELECT MAX(id) FROM teachings") or 0)
    used = max(highest, int(journal.fact("teachings_used") or 0))
    journal.set_fact("teachings_used", str(used))


def _drop_strangers(journal: Journal, gone: Collection[int]) -> None:
    """An erased picture may also be among the strangers."""
    digests = [
        (journal.db.value("SELECT digest FROM teachings WHERE id = ?", teaching),)
        for teaching in gone
    ]
    journal.db.run_many("DELETE FROM strangers WHERE digest = ?", digests)


def _write_anew(journal: Journal, operation: int, kept: list[Any]) -> None:
    names: dict[str, int] = {}
    for row in kept:
        names.setdefault(row[1], len(names) + 1)
    journal.db.run_many(
        "INSERT INTO names VALUES (?, ?, ?)",
        [(named, word, row_checksum("names", named, word)) for word, named in names.items()],
    )
    chain, teachings, log = BEGINNING, [], []
    for position, row in enumerate(kept, start=1):
        teaching, word, when, source, digest, content, pictures = row
        named = names[word]
        entry = position, operation, teaching, named, 1
        chain = linked(chain, *entry, content)
        log.append((*entry, chain))
        values = teaching, position, named, when, source, digest, content, pictures
        teachings.append((*values, row_checksum("teachings", *values)))
    journal.db.run_many("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", log)
    journal.db.run_many("INSERT INTO teachings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", teachings)
