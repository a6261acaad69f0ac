"""Receipts of erases: with them, erased content can be searched for but not read.

A receipt holds an HMAC-SHA256 of every vector, picture, path and name that was erased and is not
shared with a remaining teaching or its picture. The key is created by the first erase and stored in
the journal. With the Memory, anybody can check whether erased content has come back; without it,
nobody can test guesses of a name against a receipt. A check shows that nothing with these digests
is in the journal at that time; it does not show that no copy exists outside of the Memory.
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
from everlearn.memory.storage.interface import NETWORK_PREFIX, Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import has_boxes, proposals_of, without_box
from everlearn.memory.storage.rows import content_digest
from everlearn.memory.storage.sqlite.derived_files import stored_before
from everlearn.persistence import replace_file

KEY = "receipt_key"
CHECKPOINTS = "checkpoints"

HOW_TO_CHECK = (
    "everlearn verify --receipt FILE, run on the Memory, searches every row of the journal for "
    "these keyed digests and checks that the file has no free pages, that no write-ahead log is "
    "left, and that no file made before the erase remains. Without the Memory the receipt reveals "
    "nothing about what was erased. If you still have an erased image, name or path, you can also "
    "search every byte of the folder for it."
)

Trace = tuple[str, bytes]


@dataclass(frozen=True)
class Receipt:
    """Proof of an erase by keyed digests and counts, without the erased content.

    Attributes
    ----------
    teachings : list of int
        Ids of the erased teachings.
    erased : list of str
        Digests, keyed with a secret of the Memory, of their vectors, images, sources and names,
        except those shared with remaining teachings, or with a proposal in a remaining picture.
    also_removed : int
        Number of teachings removed that had been forgotten before.
    time : float
        Seconds since 1970.
    model_before, model_after : str
        Digests of the model.
    log_after : str
        Identifies the remaining log.
    pending : bool
        Something still holds old pages: a reader of a folder, the write-ahead log of a database
        server with its standbys and archives, or a file that could not be removed. The next change,
        the next opening for teaching, or ``everlearn receipt check`` finishes the erase.
    key : str
        Identifies the secret: only the Memory that has it can check this receipt.
    unknowns_removed : int
        Number of stored unknown images removed.
    remaining : list of str
        What was made from erased pictures and cannot be cleaned: trained networks, and places
        outside of the Memory where an ingest stored vectors.
    how_to_check : str
    wal_position : str
        For a database: the position up to which its write-ahead log has to be gone.
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
        """The receipt with a digest of itself, which reveals alterations."""
        facts = asdict(self)
        words = json.dumps(facts, sort_keys=True)
        return json.dumps(facts | {"sha256": hashlib.sha256(words.encode()).hexdigest()}, indent=2)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which should be outside of the Memory's folder."""
        replace_file(Path(path), self.as_json().encode())


def traces(journal: Journal, teachings: Collection[int]) -> set[Trace]:
    """Everything that names or shows these teachings; call before they are erased."""
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


def not_shared(journal: Journal, found: Collection[Trace]) -> set[Trace]:
    """The traces that remaining teachings and their pictures do not share; call after the erase.

    A picture with another taught box keeps its proposals; one of them may be the erased box.
    """
    left = {trace for trace in found if not _is_stored(journal, *trace)}
    vectors = {data for kind, data in left if kind == "vector"}
    return left - {("vector", data) for data in vectors.intersection(_proposed_vectors(journal))}


def keyed_digests(journal: Journal, found: Collection[Trace]) -> list[str]:
    """Digests for a receipt; call inside a transaction: the first call creates the key."""
    secret = journal.fact(KEY)
    if secret is None:
        secret = secrets.token_hex(32)
        journal.set_fact(KEY, secret)
    return sorted(_digest(secret, data) for _, data in found)


def make_receipt(
    journal: Journal,
    teachings: Collection[int],
    erased: list[str],
    *,
    removed: tuple[int, int],
    models: tuple[str, str],
    state: str | None,
    remaining: Sequence[str],
) -> Receipt:
    """The receipt of an erase; ``removed`` counts the further teachings and unknown images."""
    return Receipt(
        sorted(teachings),
        erased,
        removed[0],
        time.time(),
        *models,
        (journal.chain_at(journal.last_position) or b"").hex(),
        pending=state is not None,
        key=_key_id(journal.fact(KEY) or ""),
        unknowns_removed=removed[1],
        remaining=list(remaining),
        wal_position=(state or "").partition(" ")[2].partition(" ")[0],
    )


def checkpoints(journal: Journal) -> list[str]:
    """Places outside of the Memory where an ingest stored vectors of taught pictures."""
    try:
        recorded = json.loads(journal.fact(CHECKPOINTS) or "[]")
    except (ValueError, RecursionError):
        return []
    return [str(place) for place in recorded] if isinstance(recorded, list) else []


def remember_checkpoint(journal: Journal, address: str) -> None:
    """Record such a place; call inside a transaction."""
    recorded = checkpoints(journal)
    if address not in recorded:
        journal.set_fact(CHECKPOINTS, json.dumps([*recorded, address]))


@dataclass(frozen=True)
class ReceiptCheck:
    """The result of checking a receipt.

    Attributes
    ----------
    problems : list of str
        Erased content, or something derived from it, that is still there; as sentences.
    digests : int
        Number of digests that were searched for.
    unsearched : tuple of str
        Places named in the receipt that cannot be searched from here.
    """

    problems: list[str]
    digests: int = 0
    unsearched: tuple[str, ...] = ()


def check_receipt(journal: Journal, caches: Caches, path: Path, unfinished: bool) -> ReceiptCheck:
    """Check a receipt: the journal, the files beside it, and the places that it names."""
    facts = read_receipt(path)
    erased, secret = set(facts["erased"]), journal.fact(KEY) or ""
    if facts.get("key") and facts["key"] != _key_id(secret):
        problem = f"{path} is the receipt of another Memory, or of one that was restored since"
        return ReceiptCheck([problem], len(erased))

    def matches(data: bytes) -> bool:
        if facts.get("key"):
            return _digest(secret, data) in erased
        # Receipts of the first version have no key: sha256 of the content, or an image's digest.
        return hashlib.sha256(data).hexdigest() in erased or data.hex() in erased

    problems = [
        f"{what} that was erased is still there"
        for what, data in _stored_content(journal)
        if matches(data)
    ]
    problems += journal.db.leftovers()
    if unfinished:
        problems.append("the erase is not finished; open the Memory for teaching to finish it")
    older = caches.older_than(facts["time"])
    left, unsearched = _still_remaining(caches, facts)
    # A copied network has a new date but the same name, which is derived from its contents.
    problems += older + [words for name, words in left if not any(name in one for one in older)]
    return ReceiptCheck(problems, len(erased), tuple(unsearched))


def _still_remaining(
    caches: Caches, facts: dict[str, Any]
) -> tuple[list[tuple[str, str]], list[str]]:
    """What the receipt names and is still there, with a sentence each; and remote places."""
    found: list[tuple[str, str]] = []
    unsearched = []
    networks = caches.names(NETWORK_PREFIX)
    for name in facts.get("remaining", []):
        if name in networks:
            found.append((name, f"{name} is a network that was trained before the erase"))
        elif "://" in name:
            unsearched.append(name)
        elif not name.startswith(NETWORK_PREFIX):
            found += [(words, words) for words in stored_before(Path(name), facts["time"])]
    return found, unsearched


def read_receipt(path: Path) -> dict[str, Any]:
    """Read a receipt from its file; refuses an altered one."""
    try:
        facts = json.loads(path.read_text())
        claimed = facts.pop("sha256")
        words = json.dumps(facts, sort_keys=True)
        intact = claimed == hashlib.sha256(words.encode()).hexdigest()
        intact = intact and all(isinstance(digest, str) for digest in facts["erased"])
        intact = intact and isinstance(facts["time"], float)
        intact = intact and all(isinstance(name, str) for name in facts.get("remaining", []))
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise InvalidInput(f"{path} is not a receipt of an erase, or was altered")
    return dict(facts)


def _stored_content(journal: Journal) -> Iterator[tuple[str, bytes]]:
    """Descriptions and bytes of every stored name, source, digest and vector."""
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
        rows["a proposal of a picture"] = "SELECT vectors FROM proposals"
    for what, query in rows.items():
        for (value,) in journal.db.each(query):
            yield what, value.encode() if isinstance(value, str) else bytes(value)
    for vector in _proposed_vectors(journal):
        yield "a vector of a proposal", vector
    for (source,) in journal.db.each("SELECT source FROM strangers"):
        yield "an unknown image's source", without_box(source)[0].encode()


def _proposed_vectors(journal: Journal) -> Iterator[bytes]:
    """The vectors of all proposals, one by one; altered rows are for ``verify`` to report."""
    width = 4 * journal.n_features
    if width and has_boxes(journal):
        for (vectors,) in journal.db.each("SELECT vectors FROM proposals"):
            if isinstance(vectors, bytes):
                for start in range(0, len(vectors), width):
                    yield vectors[start : start + width]


def _is_stored(journal: Journal, kind: str, data: bytes) -> bool:
    if kind == "name":
        return journal.id_of_name(data.decode()) is not None
    if kind == "source":
        return bool(journal.has_teaching_with(source=data.decode()))
    if kind == "image":
        return bool(journal.has_teaching_with(digest=data))
    if kind == "proposals":
        query = "SELECT 1 FROM proposals WHERE vectors = ? LIMIT 1"
        return journal.db.row(query, data) is not None
    return bool(journal.has_teaching_with(content=content_digest(data)))


def _digest(secret: str, data: bytes) -> str:
    return hmac.digest(secret.encode(), data, "sha256").hex()


def _key_id(secret: str) -> str:
    return hashlib.sha256(f"receipt key {secret}".encode()).hexdigest()[:16]
