"""Answers questions from the calibrated model, which is kept up to date with the journal.

The model is updated when a question arrives and the journal has changed since the last one.
Read-only callers on the command line skip this where they can (model/serving.py).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from everlearn.errors import DamagedJournal, NeverLearned, NotExportable
from everlearn.images.embedders import Embedder
from everlearn.memory.answers import Answers
from everlearn.memory.edits import unknowns
from everlearn.memory.edits.unknowns import Group, UnknownImage
from everlearn.memory.edits.writing import (
    Kind,
    Spelling,
    ensure_kinds,
    kind_of_vectors,
    require_alike,
)
from everlearn.memory.export.onnx_classifier import linear_head_model
from everlearn.memory.export.onnx_pipeline import pipeline_model
from everlearn.memory.insight.report import Report, report_on
from everlearn.memory.insight.taught import TaughtMatrix, taught_matrix
from everlearn.memory.insight.why import Why, explain
from everlearn.memory.model.calibrated import CalibratedModel, familiarity_of
from everlearn.memory.model.classifiers import Standing, standings
from everlearn.memory.model.head import as_answers, unit
from everlearn.memory.model.strictness import USUAL_ACCEPT, accept_of
from everlearn.memory.name_words import NameWords
from everlearn.memory.opened import READ_ATTEMPTS, OpenMemory, Result, Stamp
from everlearn.memory.storage.erase import UNFINISHED
from everlearn.memory.storage.regions import taught_boxes
from everlearn.memory.storage.rows import Example


class Answering:
    """Answers of an open Memory, and the model behind them.

    Parameters
    ----------
    opened : OpenMemory
    accept : float, optional
        Share of familiar things that should not be called unknown. Defaults to the stored value.
    randomised : bool
        Whether unknown is decided by randomised p-values.

    Attributes
    ----------
    calibrated : CalibratedModel or None
        The model at the last refresh; ``None`` before anything was taught.
    names : NameWords
        Words of the model's names.
    read_at : tuple of int, optional
        The journal's stamp at the last refresh; ``None`` if that failed.
    """

    def __init__(
        self, opened: OpenMemory, accept: float | None = None, randomised: bool = False
    ) -> None:
        self._opened = opened
        self._given_accept = accept
        self.accept = accept or USUAL_ACCEPT
        self.randomised = randomised
        self.calibrated: CalibratedModel | None = None
        self.names = self._words()
        self.read_at: Stamp | None = None
        self._kind: Kind = {}
        # With the journal's stamp for which it was made.
        self._taught_matrix: tuple[Stamp, TaughtMatrix] | None = None

    def wait_for(self, position: int, seconds: float) -> None:
        """Wait until everything up to a position of the journal is included in answers."""
        with self._opened.guard:
            if self.calibrated is not None and self.calibrated.position >= position:
                return
        self._opened.wait_for(position, seconds)
        self._opened.read(self.refresh)

    def up_to_date(self) -> CalibratedModel | None:
        """The current calibrated model; ``None`` before anything was taught."""
        is_old = self.read_at is None or self._opened.stamp() != self.read_at
        if is_old or (self.calibrated is not None and self.calibrated.is_recalibrating):
            self._opened.read(self.refresh)
        return self.calibrated

    def chosen_accept(self) -> float:
        """``accept`` as given, or as stored in the folder; call inside :meth:`OpenMemory.read`."""
        return self._given_accept or accept_of(self._opened.journal)

    def refresh(self, *, exact: bool = False) -> None:
        """Update the model to the end of the journal; call inside :meth:`OpenMemory.read`.

        Computes a slice of a recalibration that is due; ``exact`` does it at once (calibrated.py).
        """
        self.read_at = None
        model, journal = self._opened.model(), self._opened.journal
        if not model.taught:
            self.calibrated = None
        elif exact or self.calibrated is None or not self.calibrated.is_of(model):
            self.calibrated = CalibratedModel(model, journal, self.calibrated, exact=exact)
        if self.calibrated is not None and self.calibrated.recalibrate(model, journal):
            self.calibrated = CalibratedModel(model, journal, self.calibrated)
        self.accept = self.chosen_accept()
        self.names = self._words()
        self._opened.note_mode()
        self._kind = kind_of_vectors(journal)
        self.read_at = self._opened.stamp_of_read()

    def require_alike(self, example: Example) -> None:
        """Require a vector of the same length and embedder as those that were taught."""
        require_alike(self._kind, example, str(self._opened.path))

    def answer(self, example: Example, top: int | None) -> Answers:
        """The best answers to one example, from one position of the journal."""
        return self.at_one_position(lambda: self._answer(example, top))

    def at_one_position(self, action: Callable[[], Result]) -> Result:
        """Result of an action that reads the words of names after the scores.

        Another process may have changed them in between, or restored a backup without them. Then
        the action is repeated.
        """
        with self._opened.guard:
            for attempt in range(READ_ATTEMPTS):
                try:
                    result = action()
                except DamagedJournal:
                    if attempt == READ_ATTEMPTS - 1 or self._opened.stamp() == self.read_at:
                        raise
                else:
                    if not self._opened.read_only or self._opened.stamp() == self.read_at:
                        break
            return result

    def _words(self) -> NameWords:
        def one(name: int) -> str:
            return self._opened.read(lambda: self._opened.journal.name_by_id(name))

        def every() -> dict[int, str]:
            return self._opened.read(lambda: self._opened.journal.names_by_id())

        return NameWords(one, every)

    def _answer(self, example: Example, top: int | None) -> Answers:
        calibrated = self.up_to_date()
        box = None if example.region is None else example.region.box
        self.require_alike(example)
        if calibrated is None:
            return Answers([], unknown=True, familiarity=-np.inf, threshold=np.inf, box=box)
        x = unit(example.vector)
        verdict = calibrated.answer(x, top)
        n_classes = len(calibrated.classes)
        self.names.expect(n_classes if top is None else min(top, n_classes))
        acceptance = calibrated.judgement.acceptance
        return as_answers(
            verdict,
            calibrated.classes,
            self.names,
            top=top,
            accept=self.accept,
            threshold=acceptance.threshold(self.accept, verdict.nearest),
            ignored=lambda: self._opened.read(lambda: self.is_ignored(x)),
            box=box,
            randomised=self.randomised,
        )

    def why(self, example: Example, name: str | None, top: int) -> Why:
        """The teachings that led to the score of a name, by default the best answer."""

        def explained() -> Why:
            journal = self._opened.journal
            require_alike(kind_of_vectors(journal), example, str(self._opened.path))
            taught = self._taught()
            self.refresh()
            assert self.calibrated is not None  # something was taught
            T = self.calibrated.temperature
            x = taught.mapped(example.vector)
            best = int(taught.influence.scores(x).argmax())
            meant = None if name is None else Spelling(journal).of_known(name)
            if meant is not None and meant not in taught.names:
                raise journal.unknown_name_error(meant)
            target = best if meant is None else taught.names.index(meant)
            boxes = {number: region.box for number, region in taught_boxes(journal).items()}
            teachings = [
                (number, source, boxes.get(number))
                for number, source in zip(taught.ids, taught.sources, strict=True)
            ]
            return explain(taught.influence, x, target, taught.names, teachings, top, T)

        return self._opened.read(explained)

    def report(self, progress: Callable[[int, int], None] | None) -> Report:
        """Accuracy of the Memory, doubtful teachings, and what to teach next."""

        def reported() -> Report:
            self.refresh(exact=True)
            if self.calibrated is None:
                raise NeverLearned("nothing was taught yet, so there is nothing to report on")
            T, noticed = self.calibrated.temperature, self.calibrated.noticed(self.accept)
            report = report_on(self._taught(), self._opened.journal, T, progress)
            report.strangers_noticed = noticed
            return report

        return self._opened.read(reported)

    def compare_classifiers(
        self, classifiers: Iterable[Any], progress: Callable[[], None]
    ) -> list[Standing]:
        """Cross-validated accuracy with each classifier, beside the one in use."""
        opened = self._opened
        return opened.read(
            lambda: standings(
                opened.journal, classifiers, progress, in_use=opened.history.classifier()
            )
        )

    def info(self) -> dict[str, Any]:
        """Facts about the Memory: counts, network, classifier, sizes."""
        opened = self._opened

        def facts() -> dict[str, Any]:
            journal = opened.journal
            n_names, n_teachings = journal.totals()
            return {
                "path": str(opened.path),
                "names": n_names,
                "teachings": n_teachings,
                "log_entries": journal.last_position,
                "snapshot_at": opened.history.snapshot_at,
                "features": journal.n_features,
                "embedder": journal.fact("embedder"),
                "regions": journal.fact("regions") or "whole",
                "accept": self.chosen_accept(),
                "classifier": " ".join(repr(opened.history.classifier()).split()),
                "erase_pending": journal.fact(UNFINISHED) is not None,
                "bytes": opened.storage.size(),
            }

        return opened.read(facts)

    def as_onnx(self, embedder: Embedder | None) -> bytes:
        """The classifier as an ONNX model, behind an embedder if one is given."""

        def calibrated_and_names() -> tuple[CalibratedModel, list[str]]:
            self._opened.read(lambda: self.refresh(exact=True))
            calibrated = self.calibrated
            if calibrated is None:
                raise NeverLearned("nothing was taught yet, so there is nothing to export")
            self.names.expect(len(calibrated.classes))
            return calibrated, [self.names[number] for number in calibrated.classes.tolist()]

        calibrated, names = self.at_one_position(calibrated_and_names)
        taught_by = self._opened.journal.fact("embedder")
        if embedder is None:
            head, T = calibrated.linear_head(), calibrated.temperature
            return linear_head_model(*head, T, names, {"embedder": taught_by or "vectors"})
        if embedder.name != taught_by:
            raise NotExportable(
                f"this Memory was taught vectors of {taught_by!r}, not of {embedder.name!r}; "
                "open it with its own embedder, or export without the embedder"
            )
        accept = self._opened.read(self.chosen_accept)
        return pipeline_model(embedder, calibrated, names, accept)

    def keep_unknowns(self, examples: Sequence[Example]) -> None:
        """Keep examples among the unknowns, each once."""
        if not examples:
            return
        with self._opened.one_change() as journal:
            ensure_kinds(journal, examples)
            for example in examples:
                unknowns.remember(journal, example)

    def unknown_groups(self) -> list[list[UnknownImage]]:
        """Kept unknown images, grouped by similarity; call inside a read or a change."""
        found = unknowns.all_unknowns(self._opened.journal)
        known = self._opened.model().taught
        return unknowns.groups(found, self._likeness() if known else unknowns.USUAL_LIKENESS)

    def described_unknowns(self) -> list[Group]:
        """Groups of kept unknown images, as records; call inside :meth:`OpenMemory.read`."""
        self.refresh()
        return [
            Group(
                id=group[0].id,
                count=len(group),
                examples=tuple(one.id for one in group),
                likely=self._nearest_name(group),
                ignored=bool(group[0].ignored),
                sources=tuple(one.example.source for one in group),
            )
            for group in self.unknown_groups()
        ]

    def _nearest_name(self, group: list[UnknownImage]) -> str | None:
        """The name that the mean of a group resembles most."""
        if self.calibrated is None:
            return None
        mean = unit(unit(np.stack([one.example.vector for one in group])).mean(axis=0))
        return self._opened.journal.name_by_id(self.calibrated.answer(mean).nearest)

    def _likeness(self) -> float:
        """Cosine similarity above which unknown images are grouped."""
        familiarity = familiarity_of(self._opened.model())
        return unknowns.likeness_of(familiarity.counts, familiarity.means, familiarity.lengths)

    def is_ignored(self, x: Any) -> bool:
        """Whether an unknown example resembles a group of unknowns that is set to be ignored."""
        journal = self._opened.journal
        if not unknowns.any_ignored(journal):
            return False
        return unknowns.resembles_ignored(unknowns.all_unknowns(journal), x, self._likeness())

    def _taught(self) -> TaughtMatrix:
        """All current teachings as a matrix, cached until something changes."""
        stamp = self._opened.stamp_of_read()
        if self._taught_matrix is None or self._taught_matrix[0] != stamp:
            self._taught_matrix = None  # freed before the next one is made
            taught = taught_matrix(self._opened.model(), self._opened.journal)
            self._taught_matrix = stamp, taught
        return self._taught_matrix[1]
