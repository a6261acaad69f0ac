"""Things within pictures: what a Memory can do about them.

One part of what :class:`~everlearn.Memory` offers (memory.py has the others): which part of a
picture is meant, things in a picture, things over the frames of a video.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from everlearn.errors import InvalidParameter
from everlearn.images.embedders import Embedder
from everlearn.images.video import read_frames
from everlearn.memory.answering import Answering
from everlearn.memory.answers import Answers
from everlearn.memory.edits.intake import Intake
from everlearn.memory.edits.reembed import Comparison, Progress
from everlearn.memory.finding import Finding, Thing
from everlearn.memory.following import FollowedFrame, Following
from everlearn.memory.opened import OpenMemory
from everlearn.memory.session import FRAMES, Session
from everlearn.memory.storage.rows import Example
from everlearn.memory.words import require_count
from everlearn.regions.looking import require_mode
from everlearn.regions.proposals import FEW, MOST


class FindsThings:
    """A Memory that finds things; made by :class:`~everlearn.Memory`, which sets these parts."""

    path: Any
    read_only: bool
    _opened: OpenMemory
    _intake: Intake
    _strictness: tuple[float | None, bool]

    @cached_property
    def _answering(self) -> Answering:
        """Made with the first question: whoever only teaches needs none."""
        return Answering(self._opened, *self._strictness)

    @cached_property
    def _finding(self) -> Finding:
        return Finding(self._opened, self._answering, self._intake)

    def close(self) -> None:
        raise NotImplementedError

    def ask(self, example: Any) -> Answers:
        raise NotImplementedError

    def _compared(
        self, embedders: list[Embedder], modes: tuple[str, ...], progress: Progress | None
    ) -> list[Comparison]:
        raise NotImplementedError

    def _settle_regions(self, wanted: str) -> None:
        if wanted == self._opened.mode:
            return
        require_mode(wanted)
        if self.read_only or self._opened.read(lambda: self._opened.journal.last_position):
            self.close()
            raise InvalidParameter(
                f"{self.path} was taught with regions={self._opened.mode!r}; open it without "
                f"regions= and call reembed(regions={wanted!r}) to change it"
            )
        with self._opened.one_change() as journal:
            journal.set_fact("regions", wanted)
            self._opened.note_mode()

    def find(
        self,
        image: Any,
        *,
        top: int | None = 5,
        most: int = MOST,
        everything: bool = False,
        remember: bool = False,
    ) -> list[Thing]:
        """Which things are in this picture, and where? The surest first.

        Parameters
        ----------
        image : path-like, bytes, or array of shape (height, width, 3)
        top : int or None, default=5
            How many answers each thing has at most.
        most : int, default=15
            How many boxes are looked at; each costs what embedding one image does.
        everything : bool, default=False
            List also what looks like background.
        remember : bool, default=False
            Keep every unknown thing, with its box, among the :meth:`~everlearn.Memory.unknowns`.
        """
        require_count("top", top, least=1)
        return self._finding.find(
            image, top=top, most=most, everything=everything, remember=remember
        )

    def follow(
        self,
        frames: Any,
        *,
        every: float = 0.2,
        most: int = FEW,
        motion: bool = False,
        patience: int = 15,
        remember: bool = False,
    ) -> Iterator[FollowedFrame]:
        """Find things in the frames of a video and follow them; one result a frame.

        Parameters
        ----------
        frames : path-like, address, or iterable of pictures
            A video file, a camera (``"/dev/video0"``), a stream (``"rtsp://…"``), or arrays of
            shape (height, width, 3).
        every : float, default=0.2
            Seconds between two frames that are looked at; pictures are all looked at.
        most : int, default=8
            How many boxes of a frame are looked at.
        motion : bool, default=False
            Look at what moves before a camera that does not; no proposer is asked.
        patience : int, default=15
            A thing that was missed in more frames than this is given up.
        remember : bool, default=False
            Keep a thing that is settled as unknown among the :meth:`~everlearn.Memory.unknowns`.
        """
        following = self.following(most=most, motion=motion, patience=patience)
        if isinstance(frames, (str, os.PathLike)):
            frames = read_frames(frames, every, limits=self._intake.limits)
        followed = following.frames(frames)
        return self._remembering(followed) if remember else followed

    def _remembering(self, followed: Iterator[FollowedFrame]) -> Iterator[FollowedFrame]:
        for frame in followed:
            self.keep_unknowns(frame.unknown_views)
            yield frame

    def keep_unknowns(self, examples: Sequence[Example]) -> None:
        """Keep examples among the :meth:`~everlearn.Memory.unknowns`, each once.

        Parameters
        ----------
        examples : sequence of Example
            For instance ``frame.unknown_views`` of a :class:`FollowedFrame`.
        """
        self._answering.keep_unknowns(examples)

    def following(self, *, most: int = FEW, motion: bool = False, patience: int = 15) -> Following:
        """What :meth:`follow` follows with, for frames that come one by one: ``frame(…)``."""
        require_count("most", most, least=1)
        require_count("patience", patience)
        return Following(self._finding, self._intake, most=most, motion=motion, patience=patience)

    def ask_stream(self, frames: Iterable[Any], *, window: int = FRAMES) -> Iterator[Answers]:
        """Answers to successive frames of one camera; ``answers.steady`` is what they say together.

        Parameters
        ----------
        frames : iterable of examples
            As for :meth:`~everlearn.Memory.ask`.
        window : int, default=6
            Over about how many frames the votes reach.
        """
        session = Session(window)
        for frame in frames:
            answers = self.ask(frame)
            answers.steady = session.add(answers)
            yield answers

    def compare_regions(
        self, regions: Iterable[str] = ("whole", "main"), progress: Progress | None = None
    ) -> list[Comparison]:
        """How well the names would be known by other parts of the pictures, the best first.

        As :meth:`compare_networks`; boxes that were given stay in every mode. ``"things"`` knows
        names as ``"main"`` does, and takes longer.
        """
        return self._compared([self._intake.embedder], tuple(regions), progress)
