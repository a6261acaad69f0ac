"""Is everything as it was written, and is the model what the journal says?

Opening a folder looks at every small row; this looks at all of it: what the engine checks of
its own files, the chain of the log from its first entry, every vector, thumbnail and image against
its digest, and the model, the one that answers now as well as the one a snapshot leads to, against
one folded from the whole log.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CannotRead, DamagedJournal, EverlearnError, InvalidInput
from everlearn.memory.model.calibrated import CalibratedModel
from everlearn.memory.model.follower import ModelFollower
from everlearn.memory.model.head import ServingHead
from everlearn.memory.model.serving import read_head
from everlearn.memory.storage.erase import UNFINISHED, Receipt, sha256
from everlearn.memory.storage.integrity import damaged, require_sound
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import has_boxes, proposals_of
from everlearn.memory.storage.schema import PICTURES
from everlearn.memory.words import teachings


@dataclass(frozen=True)
class Verification:
    """What was looked at, and what was wrong with it.

    Attributes
    ----------
    problems : tuple of str
        Empty if everything is as it should be.
    teachings, log_entries : int
        How many were looked at.
    log : str
        What names the log: the digest of its last entry.
    model : str
        The digest of the model.
    erase_pending : bool
        An erase is not finished: a reader kept the write-ahead log from being emptied, or the
        process was killed. Opening the Memory to teach finishes it.
    """

    problems: tuple[str, ...]
    teachings: int
    log_entries: int
    log: str
    model: str
    erase_pending: bool

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return f"wrong: {'; '.join(self.problems)}"
        return (
            f"{teachings(self.teachings)} and {self.log_entries} log entries are as they were "
            "written; the model equals a replay in every bit"
        )


def verify(history: ModelFollower, receipt: str | os.PathLike[str] | None = None) -> Verification:
    """Look at everything; inside one view of the journal."""
    journal = history.journal
    problems: list[str] = []

    def ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except EverlearnError as error:
            problems.append(str(error))
            return None

    ask(lambda: journal.db.require_structure())
    ask(lambda: require_sound(journal))
    ask(lambda: require_vectors(journal))
    ask(lambda: require_pictures(journal))
    ask(lambda: require_proposals(journal))
    model = ask(lambda: _model_as_replayed(history))
    if receipt is not None:
        problems += ask(lambda: found_again(journal, Path(receipt))) or []
    last = ask(lambda: journal.last_position) or 0
    return Verification(
        tuple(problems),
        ask(lambda: int(journal.db.value("SELECT COUNT(*) FROM teachings"))) or 0,
        last,
        (ask(lambda: journal.chain_at(last)) or b"").hex(),
        model or "",
        ask(lambda: journal.fact(UNFINISHED)) is not None,
    )


def require_vectors(journal: Journal) -> None:
    """Every vector is what its digest says, and the chain of the log holds from its beginning."""
    for _ in journal.runs(0, journal.last_position):
        pass
    for table in ("vectors", "teachings"):
        other, key = ("teachings", "id") if table == "vectors" else ("vectors", "teaching")
        own = "teaching" if table == "vectors" else "id"
        query = f"SELECT 1 FROM {table} WHERE {own} NOT IN (SELECT {key} FROM {other}) LIMIT 1"
        if journal.db.row(query) is not None:
            raise damaged(journal.db, "a teaching has no vector, or a vector no teaching")


def require_pictures(journal: Journal) -> None:
    """Every thumbnail and image is what its checksum says."""
    for table, read in (("thumbnails", journal.thumbnail), ("images", journal.image)):
        for (teaching,) in journal.db.rows(f"SELECT teaching FROM {table}"):
            read(teaching)
        kept = "SELECT id FROM teachings WHERE (pictures & ?) != 0"
        for (teaching,) in journal.db.rows(kept, PICTURES[table]):
            read(teaching)


def require_proposals(journal: Journal) -> None:
    """The proposals of every picture are what their checksum says, and of a taught picture."""
    if not has_boxes(journal):
        return
    for (digest,) in journal.db.rows("SELECT digest FROM proposals"):
        proposals_of(journal, digest)
    query = "SELECT 1 FROM proposals WHERE digest NOT IN (SELECT digest FROM teachings) LIMIT 1"
    if journal.db.row(query) is not None:
        raise damaged(journal.db, "a picture has proposals and no teaching")


def completed(history: ModelFollower, receipt: Path) -> list[str]:
    """What keeps a receipt from being complete; where nothing does, the file says so from now on.

    After the erase was gone on with, outside of any view.
    """
    journal = history.journal
    facts = _read_receipt(receipt)
    state = journal.fact(UNFINISHED)
    if state is not None:
        return journal.db.waiting_for(state)
    with journal.db.one_view():
        problems = found_again(journal, receipt)
    if not problems and facts["pending"]:
        Receipt(**facts | {"pending": False}).save(receipt)
    return problems


def found_again(journal: Journal, receipt: Path) -> list[str]:
    """What a receipt of an erase vouches to be gone and is still there."""
    erased = set(_read_receipt(receipt)["erased"])
    rows = {
        "a name": "SELECT name FROM names",
        "a source": "SELECT source FROM teachings",
        "an old name": "SELECT called FROM operations WHERE name IS NOT NULL",
        "a vector": "SELECT vector FROM vectors",
        "a stranger's vector": "SELECT vector FROM strangers",
    }
    if has_boxes(journal):
        rows["what else was seen in a picture"] = "SELECT vectors FROM proposals"
    problems = [
        f"{what} that was erased is still there"
        for what, query in rows.items()
        for (value,) in journal.db.each(query)
        if sha256(value.encode() if isinstance(value, str) else value) in erased
    ]
    for (digest,) in journal.db.each("SELECT digest FROM teachings"):
        if digest.hex() in erased:
            problems.append("an image that was erased is still there")
    problems += journal.db.leftovers()
    if journal.fact(UNFINISHED) is not None:
        problems.append("the erase is not finished; open the Memory to teach, which finishes it")
    return problems


def _read_receipt(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text())
        claimed = facts.pop("sha256")
        words = json.dumps(facts, sort_keys=True)
        intact = claimed == hashlib.sha256(words.encode()).hexdigest()
        intact = intact and all(isinstance(digest, str) for digest in facts["erased"])
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise InvalidInput(f"{path} is not a receipt of an erase, or was altered")
    return dict(facts)


def _model_as_replayed(history: ModelFollower) -> str:
    place = history.storage.path
    digest, model = history.replayed().digest(), history.opened()
    if model.digest() != digest:
        raise DamagedJournal(
            f"a snapshot in {place} is not what the journal leads to; remove the files "
            "named snapshot-*, they are made anew"
        )
    head = read_head(history.storage.caches, history.journal)
    if head is not None and not _same(head, CalibratedModel(model, history.journal).head):
        raise DamagedJournal(
            f"what was prepared for questions in {place} is not what the model says; "
            "remove the files named prepared-*, they are made anew"
        )
    if history.follow(patient=False).digest() != digest:
        raise DamagedJournal(
            f"the model of {place} in use is not what the journal leads to; open it again"
        )
    return digest


def _same(one: ServingHead, other: ServingHead | None) -> bool:
    """Whether two heads are equal, but for what another processor or BLAS rounds otherwise."""
    if other is None:
        return False
    mine, theirs = one.arrays(), other.arrays()
    return all(_alike(array, theirs[key]) for key, array in mine.items())


def _alike(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.dtype.kind != "f" or one.shape != other.shape:
        return np.array_equal(one, other)
    # Half the digits of float64: a temperature is where a search ends, and that wanders.
    share = 1e-5 if one.dtype == np.float32 else 1e-8
    return bool(np.all(np.abs(one - other) <= share * np.abs(one).max(initial=0.0)))
