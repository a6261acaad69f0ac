"""Verifies that all stored data is unaltered and that the model equals a replay of the journal.

Opening a folder checks every small row (integrity.py). This checks also the database's own
structure, and every vector, thumbnail and image against its digest. The current model, and the one
loaded from a snapshot, are compared with one folded from the whole log.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from everlearn.errors import DamagedJournal, EverlearnError
from everlearn.memory.edits.unknowns import require_unknowns
from everlearn.memory.model.calibrated import (
    CalibratedModel,
    familiarity_of,
    still_calibrated,
)
from everlearn.memory.model.follower import ModelFollower
from everlearn.memory.model.head import ServingHead
from everlearn.memory.model.live import has_accurate_factor
from everlearn.memory.model.model import Model
from everlearn.memory.model.recalibration import calibrated
from everlearn.memory.model.serving import read_head
from everlearn.memory.storage.erase import UNFINISHED
from everlearn.memory.storage.integrity import require_intact
from everlearn.memory.storage.interface import damaged_journal
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import runs
from everlearn.memory.storage.receipts import Receipt, ReceiptCheck, check_receipt, read_receipt
from everlearn.memory.storage.regions import has_boxes, proposals_of
from everlearn.memory.storage.schema import PICTURES
from everlearn.memory.words import teachings


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes
    ----------
    problems : tuple of str
        Empty if everything is in order.
    teachings, log_entries : int
        Numbers checked.
    log : str
        Identifies the log: the digest of its last entry.
    model : str
        The digest of the model.
    erase_pending : bool
        An erase is not finished: a reader held old pages, or the process was killed. Opening the
        Memory for teaching finishes it.
    receipt : int or None
        Number of digests in the receipt of an erase that were searched for.
    unsearched : tuple of str
        Places named in the receipt that cannot be searched from here.
    """

    problems: tuple[str, ...]
    teachings: int
    log_entries: int
    log: str
    model: str
    erase_pending: bool
    receipt: int | None = None
    unsearched: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return f"wrong: {'; '.join(self.problems)}"
        return (
            f"{teachings(self.teachings)} and {self.log_entries} log entries are as they were "
            f"written; the model equals a replay in every bit{self._about_receipt()}"
        )

    def _about_receipt(self) -> str:
        if self.receipt is None:
            return ""
        places = f"; not searched: {', '.join(self.unsearched)}" if self.unsearched else ""
        return f"; none of the {self.receipt} items listed in the receipt is left{places}"


def verify(history: ModelFollower, receipt: str | os.PathLike[str] | None = None) -> Verification:
    """Check everything; call inside a read transaction."""
    journal = history.journal
    problems: list[str] = []

    def checked(check: Callable[[], Any]) -> Any:
        """The result of a check; an error becomes a problem, with ``None`` as result."""
        try:
            return check()
        except EverlearnError as error:
            problems.append(str(error))
            return None

    checked(lambda: journal.db.require_structure())
    checked(lambda: require_intact(journal))
    checked(lambda: require_vectors(journal))
    checked(lambda: require_pictures(journal))
    checked(lambda: require_proposals(journal))
    checked(lambda: require_unknowns(journal))
    model = checked(lambda: _require_model_as_replayed(history))
    unfinished = checked(lambda: journal.fact(UNFINISHED)) is not None
    search = None
    if receipt is not None:
        caches, path = history.storage.caches, Path(receipt)
        search = checked(lambda: check_receipt(journal, caches, path, unfinished))
        search = search or ReceiptCheck([])
        problems += search.problems
    last = checked(lambda: journal.last_position) or 0
    return Verification(
        tuple(problems),
        checked(lambda: int(journal.db.value("SELECT COUNT(*) FROM teachings"))) or 0,
        last,
        (checked(lambda: journal.chain_at(last)) or b"").hex(),
        model or "",
        unfinished,
        None if search is None else search.digests,
        () if search is None else search.unsearched,
    )


def require_vectors(journal: Journal) -> None:
    """Require every teaching to have a vector that matches its digest, and the chain to hold."""
    for _ in runs(journal, 0, journal.last_position):
        pass  # reading checks both
    query = (
        "SELECT 1 FROM vectors WHERE teaching NOT IN (SELECT id FROM teachings) "
        "UNION SELECT 1 FROM teachings WHERE id NOT IN (SELECT teaching FROM vectors) LIMIT 1"
    )
    if journal.db.row(query) is not None:
        raise damaged_journal(journal.db, "a teaching has no vector, or a vector no teaching")


def require_pictures(journal: Journal) -> None:
    """Require every thumbnail and image to match its checksum."""
    for table, read in (("thumbnails", journal.thumbnail), ("images", journal.image)):
        for (teaching,) in journal.db.rows(f"SELECT teaching FROM {table}"):
            read(teaching)
        with_picture = "SELECT id FROM teachings WHERE (pictures & ?) != 0"
        for (teaching,) in journal.db.rows(with_picture, PICTURES[table]):
            read(teaching)


def require_proposals(journal: Journal) -> None:
    """Require proposals to match their checksum and to belong to a taught picture."""
    if not has_boxes(journal):
        return
    for (digest,) in journal.db.rows("SELECT digest FROM proposals"):
        proposals_of(journal, digest)
    query = "SELECT 1 FROM proposals WHERE digest NOT IN (SELECT digest FROM teachings) LIMIT 1"
    if journal.db.row(query) is not None:
        raise damaged_journal(journal.db, "a picture has proposals and no teaching")


def complete_receipt(history: ModelFollower, receipt: Path) -> list[str]:
    """Mark a receipt complete if nothing is left to wait for; returns what is, as sentences.

    Call after the erase was continued, outside of any transaction.
    """
    journal = history.journal
    facts = read_receipt(receipt)
    state = journal.fact(UNFINISHED)
    if state is not None:
        return journal.db.waiting_for(state)
    with journal.db.read_transaction():
        found = check_receipt(journal, history.storage.caches, receipt, unfinished=False)
    if not found.problems and facts["pending"]:
        Receipt(**facts | {"pending": False}).save(receipt)
    return found.problems


def _require_model_as_replayed(history: ModelFollower) -> str:
    """Require every copy of the model to equal a replay of the log; returns its digest."""
    place = history.storage.path
    digest, model = history.replayed().digest(), history.opened()
    if model.digest() != digest or not has_accurate_factor(model):
        raise DamagedJournal(
            f"a snapshot in {place} differs from a replay of the journal; remove the files "
            "named snapshot-*, they will be rebuilt"
        )
    _require_calibration(history, model)
    head = read_head(history.storage.caches, history.journal)
    if head is not None and not _same(head, _head_as_calibrated(history, model, head)):
        raise DamagedJournal(
            f"the prepared answers in {place} differ from the model; "
            "remove the files named prepared-*, they will be rebuilt"
        )
    if history.follow(patient=False).digest() != digest:
        raise DamagedJournal(
            f"the current model of {place} differs from a replay of the journal; open it again"
        )
    return digest


def _require_calibration(history: ModelFollower, model: Model) -> None:
    """Require the calibration of a snapshot to equal one computed from a replay.

    An outdated calibration (much was taught since, or something was forgotten) is not checked,
    because it is recomputed before it is used.
    """
    stored = model.calibration
    if not stored or not model.taught or not still_calibrated(model, history.journal):
        return
    fresh = _calibrated_at(history, int(stored["position"]))
    if not fresh or not all(_alike(_array(stored[key]), _array(fresh[key])) for key in fresh):
        raise DamagedJournal(
            f"the calibration of a snapshot in {history.storage.path} differs from that of a "
            "replay of the journal; remove the files named snapshot-*, they will be rebuilt"
        )


def _head_as_calibrated(
    history: ModelFollower, model: Model, head: ServingHead
) -> ServingHead | None:
    """The head of a model, calibrated at the same position as a prepared head.

    If the snapshot with that calibration is gone, the model is calibrated there again.
    """
    position = int(head.calibrated_at[0])
    if model.calibration.get("position") != position and 0 < position <= model.position:
        model.take_calibration(_calibrated_at(history, position))
    return CalibratedModel(model, history.journal).head


def _calibrated_at(history: ModelFollower, position: int) -> dict[str, Any]:
    """The calibration at a position of the log; empty if nothing counted there."""
    model = Model(clone(history.classifier()))
    model.follow(history.journal, position)
    return calibrated(model, history.journal, familiarity_of(model)) if model.taught else {}


def _array(value: Any) -> NDArray[Any]:
    return np.atleast_1d(np.asarray(value, dtype=np.float64))


def _same(one: ServingHead, other: ServingHead | None) -> bool:
    """Whether two heads are equal, up to the rounding of another processor or BLAS."""
    if other is None:
        return False
    mine, theirs = one.arrays(), other.arrays()
    return all(_alike(array, theirs[key]) for key, array in mine.items())


def _alike(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.dtype.kind != "f" or one.shape != other.shape:
        return np.array_equal(one, other)
    # Half the digits of float64: a temperature is the result of a search, which amplifies rounding.
    tolerance = 1e-5 if one.dtype == np.float32 else 1e-8
    return bool(np.all(np.abs(one - other) <= tolerance * np.abs(one).max(initial=0.0)))
