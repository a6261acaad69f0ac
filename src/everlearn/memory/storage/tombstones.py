"""Records what was forgotten or erased, so that no other copy of a Memory brings it back.

A forgotten teaching is still in the journal: it does not count, and its operation has the time. An
erased one leaves a *tombstone*, a fact

    tombstone SALT HMAC(SALT, digest of the picture, name, box)  =  time

which reveals neither the picture nor the name to anyone who does not have both already. Every
Memory has its own salt. A merge copies tombstones with their salt, so that they can be copied
again.

A picture and each box that was given in it are forgotten separately, also under one name. A box
that the Memory found itself is not distinguished from the whole picture.
"""

import hmac
import re
import secrets
import struct
from collections.abc import Iterable
from typing import Any

from everlearn.memory.storage.interface import damaged_journal
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import ImageAndBox

PREFIX = "tombstone"
SALT = "tombstone_salt"
KEY = re.compile(rf"{PREFIX} ((?:[0-9a-f]{{2}})+) ([0-9a-f]{{64}})")

# A picture, or a box given in it, and its name.
Pair = tuple[ImageAndBox, str]


def counting(journal: Journal, pictures: Iterable[bytes] | None = None) -> dict[Pair, float]:
    """The pictures and boxes that count, with their names and the time of the last teaching.

    All of them, or those of some pictures, given by their digests.
    """
    columns, join = journal.joined_boxes()
    query = (
        f"SELECT digest, names.name, time, {columns} FROM teachings "
        f"JOIN names ON names.id = teachings.name {join}WHERE position IS NOT NULL"
    )
    if pictures is None:
        return _latest(journal, journal.db.rows(query))
    one = f"{query} AND digest = ?"
    return _latest(journal, (row for digest in pictures for row in journal.db.rows(one, digest)))


class Tombstones:
    """Pictures and boxes that a journal no longer counts under a name, and since when.

    Parameters
    ----------
    journal : Journal
    """

    def __init__(self, journal: Journal) -> None:
        columns, join = journal.joined_boxes()
        rows = journal.db.rows(
            f"SELECT digest, names.name, operations.time, {columns} FROM teachings "
            "JOIN names ON names.id = teachings.name JOIN log ON log.teaching = teachings.id "
            f"JOIN operations ON operations.id = log.operation {join}"
            "WHERE teachings.position IS NULL AND log.sign = -1 "
            # Negative entries that undo the same operation's positive ones are not a forgetting.
            "AND NOT EXISTS (SELECT 1 FROM log AS earlier WHERE earlier.teaching = log.teaching "
            "AND earlier.operation = log.operation AND earlier.sign = 1 "
            "AND earlier.position < log.position)"
        )
        self.forgotten = _latest(journal, rows)
        self.erased: dict[tuple[str, str], float] = {}
        query = "SELECT key FROM facts WHERE key >= ? AND key < ?"
        for (key,) in journal.db.rows(query, f"{PREFIX} ", f"{PREFIX}!"):
            match = KEY.fullmatch(key)
            try:
                when = float(journal.fact(key) or 0.0)
            except ValueError:
                match = None
            if match is None:
                raise damaged_journal(journal.db, "a tombstone is not valid")
            self.erased[match[1], match[2]] = when
        self._salts = {salt for salt, _ in self.erased}

    @property
    def forgotten_pictures(self) -> set[bytes]:
        """Digests of pictures that were forgotten and not erased."""
        return {digest for (digest, _), _ in self.forgotten}

    def since(self, pair: Pair) -> float | None:
        """Time at which a pair was forgotten or erased; ``None`` if neither."""
        found = [self.erased.get((salt, _digest(salt, pair))) for salt in self._salts]
        times = [when for when in (*found, self.forgotten.get(pair)) if when is not None]
        return max(times, default=None)

    def was_erased(self, pair: Pair) -> bool:
        return any((salt, _digest(salt, pair)) in self.erased for salt in self._salts)


def leave_tombstones(journal: Journal, pairs: Iterable[Pair], when: float) -> None:
    """Record that pairs were erased; call inside a transaction."""
    salt = journal.fact(SALT)
    for pair in pairs:
        if salt is None:
            salt = secrets.token_hex(16)
            journal.set_fact(SALT, salt)
        journal.set_fact(f"{PREFIX} {salt} {_digest(salt, pair)}", repr(when))


def copy_tombstones(journal: Journal, erased: dict[tuple[str, str], float]) -> None:
    """Copy the tombstones of another Memory; call inside a transaction."""
    for (salt, digest), when in erased.items():
        key = f"{PREFIX} {salt} {digest}"
        if float(journal.fact(key) or "-inf") < when:
            journal.set_fact(key, repr(when))


def _latest(journal: Journal, rows: Iterable[Any]) -> dict[Pair, float]:
    """The latest time of each pair, from rows of digest, name, time and the columns of a box."""
    found: dict[Pair, float] = {}
    for digest, name, when, *box in rows:
        pair = journal.image_and_box(digest, box), name
        found[pair] = max(float(when), found.get(pair, float("-inf")))
    return found


def _digest(salt: str, pair: Pair) -> str:
    (digest, box), name = pair
    message = digest + name.encode()
    if box is not None:  # names have no zero bytes
        message += b"\0" + struct.pack("<4d", *box)
    return hmac.digest(bytes.fromhex(salt), message, "sha256").hex()
