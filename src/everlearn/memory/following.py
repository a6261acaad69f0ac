"""Follows things over the frames of a video and names each from all of its frames.

    frame → boxes (proposals, or what moves) → things (finding.py) → tracks (regions/tracks.py)

A track's name combines the evidence of its frames. An event is emitted when the name is settled,
and again when it changes. Of each track a few views that look different are kept, so that teaching
the track teaches these and not a hundred copies of one.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.images.batches import digest_of_pixels
from everlearn.images.embedders import as_picture
from everlearn.images.video import VideoFrame
from everlearn.memory.answers import Answers
from everlearn.memory.edits.intake import Intake
from everlearn.memory.finding import Finding, Thing
from everlearn.memory.storage.rows import Example
from everlearn.regions.boxes import Box
from everlearn.regions.motion import MotionProposer
from everlearn.regions.tracks import Track, Tracker

# A view of a track is kept if its cosine similarity to all others is below this.
ALIKE = 0.9
# Largest number of views kept of a track.
MOST_VIEWS = 8


@dataclass(frozen=True)
class TrackedThing:
    """A thing in a frame, with what is known about it from all frames so far.

    Attributes
    ----------
    id : int
        The number of its track.
    box : Box
    name : str or None
        From all frames; ``None`` for unknown.
    probability : float
        Of the name, among all names and unknown.
    settled : bool
        Whether the name leads clearly.
    answers : Answers
        For this frame alone.
    views : tuple of Example
        Distinct frames of it; ``memory.teach_many((view, name) for view in views)`` teaches them.
    """

    id: int
    box: Box
    name: str | None
    probability: float
    settled: bool
    answers: Answers
    views: tuple[Example, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class TrackEvent:
    """A track's name was settled or has changed; ``name`` is ``None`` for unknown.

    Attributes
    ----------
    track : int
    name, before : str or None
        The name, and the one of the previous event.
    first : bool
        Whether this is the first event of the track.
    seconds : float
        Time of the frame.
    box : Box
        Where the thing is in this frame.
    """

    track: int
    name: str | None
    before: str | None
    first: bool
    seconds: float
    box: Box


@dataclass(frozen=True)
class FollowedFrame:
    """The result for one frame.

    Attributes
    ----------
    seconds : float
    things : tuple of TrackedThing
    events : tuple of TrackEvent
    pixels : ndarray of shape (height, width, 3)
    """

    seconds: float
    things: tuple[TrackedThing, ...]
    events: tuple[TrackEvent, ...]
    pixels: NDArray[np.uint8] = field(repr=False)

    @property
    def unknown_views(self) -> list[Example]:
        """Views of the tracks that were settled as unknown in this frame, to be kept."""
        settled = {event.track for event in self.events if event.name is None}
        return [
            view
            for thing in self.things
            if thing.id in settled and not thing.answers.ignored
            for view in thing.views
        ]


class Following:
    """Follows things over frames.

    Parameters
    ----------
    finding : Finding
    intake : Intake
    most : int
        Boxes examined per frame.
    motion : bool
        Examine moving areas of a fixed camera instead of the proposer's boxes.
    patience : int
        A track ends when its thing was not found in more than this many successive frames.
    """

    def __init__(
        self, finding: Finding, intake: Intake, *, most: int, motion: bool, patience: int
    ) -> None:
        self._finding = finding
        self._intake = intake
        self._most = most
        self._motion = MotionProposer() if motion else None
        self._tracker = Tracker(patience=patience)
        self._views: dict[int, list[Example]] = {}
        self._announced: dict[int, str | None] = {}

    def frames(self, frames: Iterable[Any]) -> Iterator[FollowedFrame]:
        """Yield one result per frame; a reading error ends the iteration."""
        for number, frame in enumerate(frames):
            if isinstance(frame, VideoFrame):
                path = frame.path if "://" in frame.path else os.path.abspath(frame.path)
                yield self.frame(frame.opened(), frame.seconds, path)
            else:
                pixels = frame.convert("RGB") if hasattr(frame, "convert") else frame
                yield self.frame(np.asarray(pixels), float(number), "")

    def frame(self, pixels: NDArray[np.uint8], seconds: float, source: str) -> FollowedFrame:
        """Process the next frame; ``source`` is the video it is from, empty if there is none."""
        picture = as_picture(pixels)
        region_embedder = self._intake.region_embedder
        proposer = self._motion or region_embedder.proposer
        proposed = proposer.propose(picture)
        boxes, scores = proposed.boxes[: self._most], proposed.scores[: self._most]
        vectors = region_embedder.vectors(picture, [Box(*row) for row in boxes])
        found = self._finding.named(boxes, scores, vectors)
        tracks = self._tracker.update(
            [thing.box for thing in found], [thing.vector.astype(np.float64) for thing in found]
        )
        digest = digest_of_pixels(pixels) if found else b""
        events, things = [], []
        for thing, track in zip(found, tracks, strict=True):
            shares = {answer.name: answer.probability for answer in thing.answers}
            track.evidence.add(shares, unknown=thing.answers.unknown)
            time = f"{seconds:.3f}s"
            self._keep_view(track, thing, picture, digest, f"{source}/{time}" if source else time)
            event = self._event(track, seconds)
            if event is not None:
                events.append(event)
            things.append(self._tracked_thing(track, thing))
        for track in self._tracker.ended:
            self._views.pop(track.id, None)
            self._announced.pop(track.id, None)
        return FollowedFrame(seconds, tuple(things), tuple(events), pixels)

    def _tracked_thing(self, track: Track, thing: Thing) -> TrackedThing:
        evidence = track.evidence
        return TrackedThing(
            track.id,
            thing.box,
            evidence.name,
            evidence.probability(),
            evidence.settled,
            thing.answers,
            tuple(self._views[track.id]),
        )

    def _event(self, track: Track, seconds: float) -> TrackEvent | None:
        evidence = track.evidence
        first = track.id not in self._announced
        before = self._announced.get(track.id)
        if not evidence.settled or (not first and evidence.name == before):
            return None
        self._announced[track.id] = evidence.name
        return TrackEvent(track.id, evidence.name, before, first, seconds, track.box)

    def _keep_view(
        self, track: Track, thing: Thing, picture: Any, digest: bytes, source: str
    ) -> None:
        views = self._views.setdefault(track.id, [])
        if len(views) >= MOST_VIEWS:
            return
        own = _unit(thing.vector)
        if any(float(_unit(view.vector) @ own) >= ALIKE for view in views):
            return
        views.append(self._intake.of_part(picture, thing.box, thing.vector, digest, source))


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = vector.astype(np.float64)
    length = float(np.linalg.norm(wide))
    return wide / length if length else wide
