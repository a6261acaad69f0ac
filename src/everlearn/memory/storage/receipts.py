"""Receipts of erases: what was erased can be looked for, and not be read off them.

A receipt holds an HMAC-SHA256 of every vector, picture, path and name that was erased and is not
shared with a teaching that stays. The key is made by the first erase and kept in the journal:
without the Memory nobody can try guesses of a name against a receipt, and with it anybody can look
whether what was erased has come back. It proves that, at the time it was checked, nothing with
these digests was in the journal; not that there was never a copy elsewhere.
"""

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from everlearn.errors import CannotRead, InvalidInput
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import has_boxes, proposals_of, without_box
from everlearn.memory.storage.rows import content_of
from everlearn.persistence import replace_file

KEY = "receipt_key"
CHECKPOINTS = "checkpoints"

HOW_TO_CHECK = (
    "everlearn verify --receipt FILE, with the Memory, looks for what these keyed digests stand "
    "for in every row of the journal, checks that the file holds no free pages, that no "
    "write-ahead log is left, and that no file made before the erase is. Without the Memory the "
    "receipt tells nothing about what was erased. Who still has an erased image, name or path can "
    "also search every byte of the folder for it."
)

Trace = tuple[str, bytes]


@dataclass(frozen=True)
class Receipt:
    """Proof of an erase, without what was erased: keyed digests and counts.

    Attributes
    ----------
    teachings : list of int
        The numbers of the teachings erased.
    erased : list of str
        Digests, keyed with a secret of the Memory, of their vectors, images, sources and names; not
        of those that teachings which stay have as well.
    also_removed : int
        How many teachings went that had been forgotten before.
    time : float
        Seconds since 1970.
    model_before, model_after : str
        Digests of the model.
    log_after : str
        What names the log that is left.
    pending : bool
        Something still holds the old pages: a reader of a folder, the write-ahead log of a database
        server with its standbys and archives, or a file that could not be removed. The next change,
        the next opening to teach, or ``everlearn receipt check`` finishes the erase.
    key : str
        Names the secret: only the Memory that has it can check this receipt.
    unknowns_removed : int
        How many kept unknown images went with it.
    remaining : list of str
        What was made from erased pictures and cannot be cleaned: networks that were trained, and
        places that an ingest was told to keep vectors in.
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
    key: str = ""
    unknowns_removed: int = 0
    remaining: list[str] = field(default_factory=list)
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


def traces(journal: Journal, teachings: Collection[int]) -> set[Trace]:
    """Everything that names or shows these teachings; before they are erased."""
    found: set[Trace] = set()
    for teaching in teachings:
        source, digest = journal.origin(teaching)
        found |= {("image", digest), ("vector", journal.vector_bytes(teaching))}
        found.add(("name", journal.name_of(teaching).encode()))
        proposals = proposals_of(journal, digest)
        if proposals is not None and len(proposals.vectors):
            found.add(("proposals", proposals.vectors.tobytes()))
        if source:
            found.add(("source", source.encode()))
    return found


def gone(journal: Journal, found: Collection[Trace]) -> set[Trace]:
    """Those that no teaching has which stays; after the erase."""
    return {trace for trace in found if not _stays(journal, *trace)}


def keyed(journal: Journal, found: Collection[Trace]) -> list[str]:
    """Digests for a receipt; inside a transaction, for the first one makes the key."""
    secret = journal.fact(KEY)
    if secret is None:
        secret = secrets.token_hex(32)
        journal.set_fact(KEY, secret)
    return sorted(_digest(secret, data) for _, data in found)


def receipt(
    journal: Journal,
    teachings: Collection[int],
    erased: list[str],
    *,
    removed: tuple[int, int],
    models: tuple[str, str],
    state: str | None,
    remaining: Sequence[str],
) -> Receipt:
    """The receipt of an erase that was made; ``removed`` teachings and unknown images besides."""
    return Receipt(
        sorted(teachings),
        erased,
        removed[0],
        time.time(),
        *models,
        (journal.chain_at(journal.last_position) or b"").hex(),
        pending=state is not None,
        key=_name_of(journal.fact(KEY) or ""),
        unknowns_removed=removed[1],
        remaining=list(remaining),
        wal_position=(state or "").partition(" ")[2].partition(" ")[0],
    )


def checkpoints(journal: Journal) -> list[str]:
    """Places elsewhere in which an ingest kept vectors of what was taught."""
    try:
        known = json.loads(journal.fact(CHECKPOINTS) or "[]")
    except (ValueError, RecursionError):
        return []
    return [str(place) for place in known] if isinstance(known, list) else []


def remember_checkpoint(journal: Journal, address: str) -> None:
    """Note such a place; inside a transaction."""
    known = checkpoints(journal)
    if address not in known:
        journal.set_fact(CHECKPOINTS, json.dumps([*known, address]))


def found_again(
    journal: Journal, caches: Caches, path: Path, unfinished: bool
) -> tuple[list[str], int]:
    """What a receipt vouches to be gone and is still there; how many things it names."""
    facts = read_receipt(path)
    erased, secret = set(facts["erased"]), journal.fact(KEY) or ""
    if facts.get("key") and facts["key"] != _name_of(secret):
        problem = f"{path} is the receipt of another Memory, or of one that was put back since"
        return [problem], len(erased)

    def matches(data: bytes) -> bool:
        # Receipts of the first version have plain digests, and those of images as they are.
        plain = hashlib.sha256(data).hexdigest() in erased or data.hex() in erased
        return plain if not facts.get("key") else _digest(secret, data) in erased

    problems = [
        f"{what} that was erased is still there"
        for what, data in _everything_kept(journal)
        if matches(data)
    ]
    problems += journal.db.leftovers()
    if unfinished:
        problems.append("the erase is not finished; open the Memory to teach, which finishes it")
    return problems + caches.older_than(float(facts["time"])), len(erased)


def read_receipt(path: Path) -> dict[str, Any]:
    """A receipt out of its file, unless it was altered."""
    try:
        facts = json.loads(path.read_text())
        claimed = facts.pop("sha256")
        words = json.dumps(facts, sort_keys=True)
        intact = claimed == hashlib.sha256(words.encode()).hexdigest()
        intact = intact and all(isinstance(digest, str) for digest in facts["erased"])
        intact = intact and isinstance(facts["time"], float)
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise InvalidInput(f"{path} is not a receipt of an erase, or was altered")
    return dict(facts)


def _everything_kept(journal: Journal) -> Iterator[tuple[str, bytes]]:
    """Every name, source, picture and vector, each with what it is."""
    rows = {
        "a name": "SELECT name FROM names",
        "a source": "SELECT source FROM teachings",
        "an old name": "SELECT called FROM operations WHERE name IS NOT NULL",
        "a vector": "SELECT vector FROM vectors",
        "an image": "SELECT digest FROM teachings",
        "an unknown image's vector": "SELECT vector FROM strangers",
        "an unknown image": "SELECT digest FROM strangers",
    }
    if journal.db.has_table("stranger_images"):
        rows["the file of an unknown image"] = "SELECT file FROM stranger_images"
    if has_boxes(journal):
        rows["what else was seen in a picture"] = "SELECT vectors FROM proposals"
    for what, query in rows.items():
        for (value,) in journal.db.each(query):
            yield what, value.encode() if isinstance(value, str) else bytes(value)
    for (source,) in journal.db.each("SELECT source FROM strangers"):
        yield "an unknown image's source", without_box(source)[0].encode()


def _stays(journal: Journal, kind: str, data: bytes) -> bool:
    if kind == "name":
        return journal.find_name(data.decode()) is not None
    if kind == "source":
        return bool(journal.find_exactly(source=data.decode()))
    if kind == "image":
        return bool(journal.find_exactly(digest=data))
    if kind == "proposals":
        query = "SELECT 1 FROM proposals WHERE vectors = ? LIMIT 1"
        return journal.db.row(query, data) is not None
    return bool(journal.find_exactly(content=content_of(data)))


def _digest(secret: str, data: bytes) -> str:
    return hmac.digest(secret.encode(), data, "sha256").hex()


def _name_of(secret: str) -> str:
    return hashlib.sha256(f"receipt key {secret}".encode()).hexdigest()[:16]
