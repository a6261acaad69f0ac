"""Answering from a cached serving head, without loading a learner.

    prepared-KEY     the head of the model at the end of the log: a cache      (head.py)

It is written when a Memory that was taught is closed. Read-only callers load these arrays and
import none of the packages a learner needs, because most of the cost of one question on the command
line is start-up. The key is a digest of the classifier and of the whole log, so a head is used only
for the log it was made from. An erase removes it together with the snapshots. Without a head, the
Memory itself answers.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from everlearn.acceleration import COMPILED
from everlearn.errors import EverlearnError
from everlearn.images.decode import DEFAULT_LIMITS, Limits
from everlearn.memory.answers import Answers
from everlearn.memory.edits.intake import Intake
from everlearn.memory.edits.writing import kind_of_vectors, require_alike
from everlearn.memory.model.head import Probabilities, ServingHead, as_answers, head_of, unit
from everlearn.memory.model.strictness import accept_of
from everlearn.memory.storage.integrity import require_intact
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.locations import storage_at
from everlearn.memory.storage.rows import Example, row_checksum

MAGIC = b"everlearn head 4\n"
PREFIX = "prepared-"
CLASSIFIER = "classifier"
DIGEST_BYTES = 32


def write_head(caches: Caches, journal: Journal, head: ServingHead) -> None:
    """Store a head and remove older ones."""
    from safetensors.numpy import save

    name = _name(journal)
    body = save(head.arrays())
    caches.write(name, MAGIC + hashlib.sha256(body).digest() + body)
    remove_prepared(caches, keep=name)


def remove_prepared(caches: Caches, *, keep: str = "") -> None:
    """Remove all heads but one."""
    for name in caches.names(PREFIX):
        if name != keep:
            caches.remove(name)


def has_head(caches: Caches, journal: Journal) -> bool:
    """Whether there is a head for the current state of the journal."""
    return _name(journal) in caches.names(PREFIX)


def read_head(caches: Caches, journal: Journal) -> ServingHead | None:
    """The head of the current journal, if there is a valid one."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    start = len(MAGIC) + DIGEST_BYTES
    try:
        data = caches.read(_name(journal))
        if not data.startswith(MAGIC) or data[len(MAGIC) : start] != _digest(data[start:]):
            return None
        return head_of(load(data[start:]))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return None


class PreparedAnswers:
    """Answers from a head that was read; the storage is closed already.

    Parameters
    ----------
    memory : str
        How messages refer to it.
    head : ServingHead
    names : dict of int to str
        The word of each name.
    kind : dict
        Length and embedder that vectors must have (writing.py).
    network : str, optional
        A model name, or the ONNX file of the embedder if it is not one of everlearn's.
    mode : str
        Which part of a picture is used.
    accept : float
        Share of familiar things that should not be called unknown.
    """

    def __init__(
        self,
        memory: str,
        head: ServingHead,
        names: dict[int, str],
        kind: Any,
        network: str | None,
        mode: str,
        accept: float,
    ) -> None:
        self._memory = memory
        self._accept = accept
        self._head = head
        self._judgement = head.judgement()
        self._names = names
        self._kind = kind
        self._network = network
        self._mode = mode

    def ask_many(
        self,
        examples: Iterable[Any],
        *,
        top: int | None = 5,
        accept: float | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Iterator[Answers | Exception]:
        """As :meth:`Memory.ask_many`."""
        intake = Intake(
            self._network, limits, known=lambda: self._kind["embedder"], mode=lambda: self._mode
        )
        for _, found in intake.many((example, "") for example in examples):
            if isinstance(found, Example):
                yield self._answer(found, top, accept or self._accept)
            else:
                yield found.error

    def _answer(self, example: Example, top: int | None, accept: float) -> Answers:
        require_alike(self._kind, example, self._memory)
        x = unit(example.vector).astype("float32")
        scores, likeness = self._head.products(x)
        probabilities = Probabilities.of(scores, self._judgement.temperature)
        verdict = self._judgement.verdict(probabilities, likeness, x)
        return as_answers(
            verdict,
            self._head.classes,
            self._names,
            top=top,
            accept=accept,
            threshold=self._judgement.acceptance.threshold(accept, verdict.nearest),
            ignored=lambda: False,
            box=None if example.region is None else example.region.box,
        )


def prepared_answers(path: Any, network: str | None = None) -> PreparedAnswers | None:
    """Prepared answers of a Memory; ``None`` if the Memory itself has to be asked.

    That is the case if there is no head, if the folder changes during the call or is damaged (the
    Memory says how), and if a group of unknowns is ignored, because unknown examples must then be
    compared with it.
    """
    storage = storage_at(path)
    try:
        if not storage.caches.names(PREFIX):
            return None
        with contextlib.closing(Journal(storage.open(write=False))) as journal:
            with journal.db.read_transaction():
                require_intact(journal)
                head = read_head(storage.caches, journal)
                names, kind = journal.names_by_id(), kind_of_vectors(journal)
                mode = journal.fact("regions") or "whole"
                accept = accept_of(journal)
                ignored = journal.db.value("SELECT 1 FROM strangers WHERE ignored > 0 LIMIT 1")
            if head is None or ignored is not None or journal.db.changed_since_opening():
                return None
    except EverlearnError:
        return None
    finally:
        storage.release()
    if not set(head.classes.tolist()) <= set(names) or kind["n_features"] != str(
        head.rows.shape[1]
    ):
        return None
    return PreparedAnswers(str(path), head, names, kind, network, mode, accept)


def _name(journal: Journal) -> str:
    last = journal.last_position
    kind = "head" if COMPILED else "head without compiled loops"
    key = row_checksum(kind, journal.fact(CLASSIFIER), last, journal.chain_at(last))
    return f"{PREFIX}{key.hex()}"


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
