"""Keeps a model up to date with its journal.

The journal says which classifier is in use: it has the word for a default (classifiers.py), or a
chosen classifier, serialised untaught. The model is that classifier after all entries of the log
were applied to it; a snapshot makes it unnecessary to begin with the first entry.
"""

import base64
import binascii
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.errors import (
    CannotWrite,
    DamagedJournal,
    EverlearnError,
    InvalidParameter,
    NewerFormat,
    NotAMemory,
)
from everlearn.memory.model.classifiers import DEFAULT, DEFAULTS, require_usable
from everlearn.memory.model.model import Model, is_exact_in_order
from everlearn.memory.model.serving import CLASSIFIER
from everlearn.memory.storage.interface import Storage
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import WINDOW
from everlearn.memory.storage.rows import LONGEST_FACT
from everlearn.memory.storage.snapshot import (
    SnapshotVanished,
    last_window,
    latest_calibration,
    latest_snapshot,
    snapshot_position,
    write_calibration,
    write_snapshot,
)
from everlearn.persistence import digest_of, dumps, loads

# Lengths of the vectors with which a classifier is tried before a Memory uses it.
SHORT = (4, 5)
# Writing this many bytes of a snapshot takes as long as replaying one log entry.
BYTES_PER_ENTRY = 20_000
# Upper limit of the entries that are replayed because that is faster; it takes half a second.
MOST_REPLAYED = 4096
# A snapshot of many names is written when 1 / SHARE of its position was added since the last one.
SHARE = 16

logger = logging.getLogger("everlearn")


class ModelFollower:
    """The model of a folder, updated on demand.

    Parameters
    ----------
    storage : Storage
    journal : Journal
    classifier : optional
        For a folder that has none yet; by default ``DEFAULT``.
    """

    def __init__(self, storage: Storage, journal: Journal, classifier: Any) -> None:
        self.storage = storage
        self.journal = journal
        self.model: Model | None = None
        self._template: str | None = None
        self._classifier: Any = None
        self._untaught = ""
        self._model_of = ""
        if journal.fact(CLASSIFIER) is None:
            if not journal.writes:
                raise NotAMemory(f"there is no Memory in {storage.path} yet; teach one first")
            if classifier is None:
                self._keep(DEFAULT)
            else:
                self.use(classifier)
        self._require_same(classifier)

    def use(self, classifier: Any) -> None:
        """Switch to another classifier.

        It is first created from its serialised form and trained on two examples, so that an invalid
        parameter cannot make the folder unusable.
        """
        require_usable(classifier)
        data = dumps(clone(classifier))
        template = base64.b64encode(data).decode()
        if len(template) > LONGEST_FACT:
            raise InvalidParameter(
                f"{_shown(classifier)} cannot be used: its parameters take "
                f"{len(template) >> 20} MB as they are stored, and at most {LONGEST_FACT >> 20} "
                "are allowed; the Memory keeps the classifier it has"
            )
        _require_teachable(data, classifier, self.journal.n_features)
        self._keep(template)

    def _keep(self, template: str) -> None:
        with self.journal.transaction():
            self.journal.set_fact(CLASSIFIER, template)

    def classifier(self) -> Any:
        """The untaught classifier; clone it before teaching it."""
        template = self.journal.fact(CLASSIFIER) or ""
        if template != self._template:
            try:
                self._classifier = clone(self._made(template))
            except (binascii.Error, ValueError, EverlearnError) as error:
                raise DamagedJournal(
                    f"{self.journal.db.location} names a classifier that cannot be created: "
                    f"{error}; everything taught is kept: switch to another classifier (everlearn "
                    "use ridge)"
                ) from None
            self._untaught = digest_of(self._classifier)
            self._template = template
        return self._classifier

    def _made(self, template: str) -> Any:
        if template in DEFAULTS:
            return DEFAULTS[template]()
        if template.startswith("default-"):
            raise NewerFormat(f"{template!r} is of a newer everlearn; upgrade everlearn")
        return loads(base64.b64decode(template, validate=True), self.journal.db.location)

    def broken(self) -> bool:
        """Whether the stored classifier cannot be created; :meth:`use` replaces it."""
        try:
            self.classifier()
        except DamagedJournal:
            return True
        return False

    def follow(self, *, patient: bool = True) -> Model:
        """The model at the end of the log.

        If ``patient``, raises ``SnapshotVanished`` if a snapshot was removed while it was read:
        with the journal opened again, a newer one is likely to be found.
        """
        self.classifier()
        model, self.model = self.model, None
        if model is not None and not model.is_of(self.journal):
            logger.warning(
                "%s holds another journal than the one followed to position %d (after an erase, a "
                "restored backup, or a server without the last changes); the model is rebuilt",
                self.storage.path,
                model.position,
            )
            model = None
        if model is None or self._model_of != self._untaught:
            model = self._opened(patient)
            self._model_of = self._untaught
        last = self.journal.last_position
        if model.position != last:
            model.follow(self.journal, last)
        # An exception before this line leaves the model half updated; it is then discarded.
        self.model = model
        return model

    def drop(self) -> None:
        """Discard the model, because the log is being rewritten; it is rebuilt when needed."""
        self.model = None

    def opened(self) -> Model:
        """The model as a new process would load it, beginning with the newest snapshot."""
        model = self._opened(patient=False)
        model.follow(self.journal, self.journal.last_position)
        return model

    def replayed(self) -> Model:
        """The model from a replay of the whole log, without any snapshot."""
        model = Model(clone(self.classifier()))
        model.follow(self.journal, self.journal.last_position)
        return model

    def snapshot(self, *, at_least: int, prepare: Callable[[Model], bool] | None = None) -> None:
        """Write a snapshot if it saves replaying this many log entries.

        ``prepare`` may add to the model; if it returns that it did, the snapshot is written in any
        case. With many names none is written if that takes longer than replaying the entries since
        the last one.
        """
        last = last_window(self.journal.last_position)
        missing = last - self.snapshot_at
        is_small = self._replayed_as_fast() <= WINDOW
        if not is_small:
            at_least = max(at_least, self._replayed_as_fast(), self.snapshot_at // SHARE)
        if not last or (missing < at_least and prepare is None):
            return
        try:
            if missing < at_least and not is_small:
                self._keep_calibration()
            else:
                self._make_snapshot(last, missing >= at_least, is_small, prepare)
        except CannotWrite as error:
            logger.warning("no snapshot was made, so opening will take longer: %s", error)

    def _make_snapshot(
        self, last: int, wanted: bool, is_small: bool, prepare: Callable[[Model], bool] | None
    ) -> None:
        model, live = self._nearest_before(last), self.model
        if model is live:
            self.model = None  # an exception leaves it half updated
        model.follow(self.journal, last)
        with model.as_in_snapshot() if is_small else contextlib.nullcontext():
            prepared = prepare is not None and is_small and prepare(model)
            if wanted or prepared:
                write_snapshot(self.storage.caches, model, self._untaught)
        if live is None or model is live:
            self.model, self._model_of = model, self._untaught

    def _keep_calibration(self) -> None:
        """Store a new calibration of the model without a new snapshot."""
        if self.model is not None and self.model.has_new_calibration:
            write_calibration(self.storage.caches, self.journal, self.model, self._untaught)

    def _replayed_as_fast(self) -> int:
        """Number of entries replayed in the time of writing a snapshot, at most MOST_REPLAYED."""
        size = 16 * self.journal.n_features * self.journal.n_names
        return min(MOST_REPLAYED, size // BYTES_PER_ENTRY)

    def _nearest_before(self, last: int) -> Model:
        """A model at or before a position, from which a replay leads to the same bits."""
        live = self.model
        usable = (
            live is not None
            and self._model_of == self._untaught
            and live.position <= last
            and is_exact_in_order(live.classifier, self.journal)
            and live.is_of(self.journal)
        )
        return live if live is not None and usable else self._opened(False, through=last)

    @property
    def snapshot_at(self) -> int:
        """The position of the newest snapshot."""
        self.classifier()
        return snapshot_position(self.storage.caches, self.journal, self._untaught)

    def _opened(self, patient: bool, through: int | None = None) -> Model:
        last = self.journal.last_position if through is None else through
        untaught = self.classifier()
        try:
            found = latest_snapshot(self.storage.caches, self.journal, self._untaught, last)
        except SnapshotVanished:
            if patient:
                raise
            found = None
        model = found or Model(clone(untaught))
        newer = latest_calibration(self.storage.caches, self.journal, self._untaught, last)
        if newer is not None:
            model.take_calibration(newer)
        return model

    def _require_same(self, classifier: Any) -> None:
        if classifier is None:
            return
        known = self.classifier()
        if digest_of(clone(classifier)) != self._untaught:
            raise InvalidParameter(
                f"{self.storage.path} has the classifier {known!r}; "
                f"call use(classifier=...) to switch it to {classifier!r}"
            )


def _require_teachable(data: bytes, meant: Any, width: int) -> None:
    """Require that a serialised classifier can be loaded and trained on two examples.

    ``width`` is the length of the Memory's vectors, 0 if it has none. Most classifiers take any
    length and are trained on short vectors; the others, such as one with a covariance, on the
    Memory's own length.
    """
    if all(_why_not_teachable(data, short) is None for short in SHORT):
        return
    error: Exception | str | None = _why_not_teachable(data, width or SHORT[0])
    if error is None and not width:
        error = (
            "it takes vectors of one length, which this Memory does not have before something is "
            "taught; teach first"
        )
    if error is not None:
        raise InvalidParameter(
            f"{_shown(meant)} cannot be used: {error}; the Memory keeps the classifier it has"
        )


def _shown(classifier: Any) -> str:
    """A classifier on one line; its parameters may be large arrays."""
    return f"{' '.join(repr(classifier).split()):.200}"


def _why_not_teachable(data: bytes, width: int) -> Exception | None:
    """The error if a serialised classifier is trained on two vectors of this length."""
    X, y = np.eye(2, width), np.array([1, 2])
    try:
        made = clone(loads(data, "the classifier"))
        made.partial_fit(X, y)
        made.partial_fit(X[::-1], y)
        made.predict(X)
    except (ValueError, TypeError, ArithmeticError) as error:
        return error
    return None
