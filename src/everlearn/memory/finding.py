"""Finds the things in a picture: where they are and what they are called.

    proposals (regions/proposals.py) → vectors of the boxes → names and background (model/finder.py)
    → boxes that look like background are dropped → boxes of one name on the same thing are merged

A thing that resembles nothing that was taught is *unknown*, by the same rule as in ``ask``. A box
with a high proposal score that looks like background is unknown as well.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, softmax
from everlearn.errors import InvalidInput
from everlearn.memory.answering import Answering
from everlearn.memory.answers import Answers
from everlearn.memory.edits.intake import Intake
from everlearn.memory.model.background import Background
from everlearn.memory.model.calibrated import CalibratedModel
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.finder import FindHead
from everlearn.memory.model.head import as_answers, unit
from everlearn.memory.opened import OpenMemory, Stamp
from everlearn.memory.storage.rows import Example
from everlearn.regions.boxes import MOST_BOXES, Box, Boxes, merged, rounded, suppressed
from everlearn.regions.proposals import MOST
from everlearn.regions.region_embedder import AUTO

if TYPE_CHECKING:
    from PIL import Image

# A name may score this much below background: with few examples all scores are low.
LENIENCE = 0.1
# A box that looks like background but has at least this proposal score is unknown.
THING = 0.4
# Boxes of two names that overlap by more than this are one thing.
ONE_THING = 0.5


@dataclass(frozen=True)
class Thing:
    """One thing in a picture.

    Attributes
    ----------
    box : Box
        Where it is, as shares of the picture's width and height.
    answers : Answers
        Its names, best first; ``answers.unknown`` if it resembles nothing that was taught.
    score : float
        Confidence that this is a thing of that name; comparable within one Memory.
    vector : ndarray
        Embedding of the box.
    """

    box: Box
    answers: Answers
    score: float
    vector: NDArray[np.float32]

    @property
    def name(self) -> str | None:
        """The best name; ``None`` for unknown."""
        return None if self.answers.unknown or not self.answers else self.answers[0].name


class _Proposed(NamedTuple):
    """An opened picture, and the boxes in it that may show things."""

    image: "Image.Image"
    digest: bytes
    boxes: Boxes
    scores: Array
    vectors: NDArray[np.float32]


class Finding:
    """Finds things in pictures with the examples taught to a Memory.

    Parameters
    ----------
    opened : OpenMemory
    answering : Answering
    intake : Intake
    """

    def __init__(self, opened: OpenMemory, answering: Answering, intake: Intake) -> None:
        self._opened = opened
        self._answering = answering
        self._intake = intake
        self._background: Background | None = None
        # With the stamp of the journal for which it was made.
        self._head: tuple[Stamp, FindHead] | None = None

    def find(
        self,
        picture: Any,
        *,
        top: int | None,
        most: int,
        everything: bool = False,
        remember: bool = False,
    ) -> list[Thing]:
        """Things, most confident first; ``everything`` includes apparent background."""
        if not isinstance(most, (int, np.integer)) or not 1 <= most <= MOST_BOXES:
            raise InvalidInput(
                f"most must be a number of boxes from 1 to {MOST_BOXES}, not {most!r}"
            )
        proposed = self._proposed(picture, most)
        things = self.named(
            proposed.boxes, proposed.scores, proposed.vectors, top=top, everything=everything
        )
        if remember:
            source = os.path.abspath(picture) if isinstance(picture, (str, os.PathLike)) else ""
            image, digest = proposed.image, proposed.digest
            self._answering.keep_unknowns(
                [
                    self._intake.of_part(image, thing.box, thing.vector, digest, source)
                    for thing in things
                    if thing.answers.unknown and not thing.answers.ignored
                ]
            )
        return things

    def best_box(self, picture: Any) -> Any:
        """The box that matches a name best, whatever its proposal score.

        With the proposal score, other things in a busy picture are often preferred to the taught
        one. If no box matches a name, it is that of the most confident thing; if nothing is found,
        ``AUTO``, which selects the main thing.
        """
        proposed = self._proposed(picture, MOST)
        boxes, vectors = proposed.boxes, proposed.vectors
        with self._opened.guard:
            calibrated = self._answering.up_to_date()
            if calibrated is not None and len(boxes):
                head = self._current_head(calibrated)
                names, background = head.scores(unit(vectors))
                match = head.confidence(names, np.ones(len(boxes))).max(axis=1)
                named = np.flatnonzero(names.max(axis=1) > background - LENIENCE)
                if len(named):
                    return rounded(boxes[named[match[named].argmax()]])
        things = self.named(boxes, proposed.scores, vectors)
        return things[0].box if things else AUTO

    def _proposed(self, picture: Any, most: int) -> "_Proposed":
        """Open a picture, and embed the boxes in it that may show things."""
        region_embedder = self._intake.region_embedder
        image, digest = region_embedder.open(_file_or_pixels(picture))
        proposed = region_embedder.proposer.propose(image)
        boxes, scores = proposed.boxes[:most], proposed.scores[:most]
        vectors = region_embedder.vectors(image, [Box(*row) for row in boxes])
        return _Proposed(image, digest, boxes, scores, vectors)

    def named(
        self,
        boxes: Boxes,
        proposer_scores: Array,
        vectors: NDArray[np.float32],
        *,
        top: int | None = None,
        everything: bool = False,
    ) -> list[Thing]:
        """Turn boxes and their vectors into named things; boxes on the same thing are merged."""

        def things_found() -> list[Thing]:
            calibrated = self._answering.up_to_date()
            if calibrated is None or not len(boxes):
                return self._nameless(boxes, proposer_scores, vectors)
            embedder = self._intake.embedder.name
            self._answering.require_alike(Example(vectors[0], "", b"", embedder=embedder))
            head = self._current_head(calibrated)
            x = unit(vectors)
            names, background = head.scores(x)
            best = names.argmax(axis=1)
            rows = np.arange(len(boxes))
            confidence = head.confidence(names, proposer_scores)[rows, best]
            named = names[rows, best] > background - LENIENCE
            unknown = ~named & (proposer_scores >= THING) & (not everything)
            listed = np.flatnonzero(named | unknown | everything)
            kept = _one_for_each_thing(boxes, confidence, np.where(unknown, -1, best), listed)
            things = []
            for i in kept:
                box, shares = rounded(boxes[i]), softmax(names[i] / calibrated.temperature)
                answers = self._answers(
                    calibrated, head, x[i], shares, top, box, unknown=bool(unknown[i])
                )
                things.append(Thing(box, answers, float(confidence[i]), vectors[i]))
            return things

        return self._answering.at_one_position(things_found)

    def _answers(
        self,
        calibrated: CalibratedModel,
        head: FindHead,
        x: Array,
        shares: Array,
        top: int | None,
        box: Box,
        *,
        unknown: bool,
    ) -> Answers:
        """Names with the given probabilities; unless ``unknown``, that is decided as in ``ask``."""
        asked = calibrated.answer(x)
        self._answering.names.expect(len(shares) if top is None else min(top, len(shares)))
        verdict = replace(
            asked,
            probabilities=replace(asked.probabilities, shares=shares, places=None),
            p_value=0.0 if unknown else asked.p_value,
        )
        acceptance, accept = calibrated.judgement.acceptance, self._answering.accept
        return as_answers(
            verdict,
            head.classes,
            self._answering.names,
            top=top,
            accept=accept,
            threshold=np.inf if unknown else acceptance.threshold(accept, verdict.nearest),
            ignored=lambda: self._opened.read(lambda: self._answering.is_ignored(x)),
            box=box,
            randomised=self._answering.randomised,
        )

    def _nameless(self, boxes: Boxes, scores: Array, vectors: NDArray[np.float32]) -> list[Thing]:
        """All things, unknown, because nothing has been taught yet."""
        nothing = Answers([], unknown=True, familiarity=-np.inf, threshold=np.inf)
        return [
            Thing(rounded(boxes[i]), nothing, float(np.log(scores[i])), vectors[i])
            for i in merged(boxes, scores)
        ]

    def _current_head(self, calibrated: CalibratedModel) -> FindHead:
        """The head of the current model, rebuilt after a change."""
        stamp = self._answering.read_at
        if self._head is None or stamp is None or self._head[0] != stamp:
            head = self._opened.read(lambda: self._new_head(calibrated))
            self._head = (stamp or (0, 0, 0), head)
        return self._head[1]

    def _new_head(self, calibrated: CalibratedModel) -> FindHead:
        """A head of the model and the background; call inside :meth:`OpenMemory.read`."""
        power, learner = power_and_learner(calibrated.classifier)
        journal = self._opened.journal
        settings = journal.n_features, power, journal.fact("embedder") or ""
        known = self._background
        if known is None or (known.n_features, known.power, known.embedder) != settings:
            known = self._background = Background(*settings)
        return FindHead(learner, power, known.follow(journal))


def _one_for_each_thing(
    boxes: Boxes, confidence: Array, names: NDArray[np.intp], listed: NDArray[np.intp]
) -> Sequence[int]:
    """The index of one of the listed boxes for each thing, by falling confidence."""
    kept: list[int] = []
    for name in np.unique(names[listed]):
        own = listed[names[listed] == name]
        kept += own[merged(boxes[own], confidence[own])].tolist()
    chosen = np.array(sorted(kept), dtype=np.intp)
    best = suppressed(boxes[chosen], confidence[chosen], most_overlap=ONE_THING)
    return [int(i) for i in chosen[best]]


def _file_or_pixels(picture: Any) -> Any:
    """The pixels of an image of Pillow; anything else unchanged."""
    return np.asarray(picture.convert("RGB")) if hasattr(picture, "convert") else picture
