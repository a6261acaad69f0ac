"""The methods of a Memory that deal with parts of pictures.

A mixin of :class:`~everlearn.Memory` (memory.py has the rest): the region mode, things in a
picture, things over the frames of a video.
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
    """Mixin that finds and follows things; :class:`~everlearn.Memory` sets its parts."""

    path: Any
    read_only: bool
    _opened: OpenMemory
    _intake: Intake
    _strictness: tuple[float | None, bool]

    @cached_property
    def _answering(self) -> Answering:
        """Created by the first question; teaching does not need it."""
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
        """Find the things in a picture and where they are, most confident first.

        Parameters
        ----------
        image : path-like, bytes, or array of shape (height, width, 3)
        top : int or None, default=5
            Maximum number of answers per thing.
        most : int, default=15
            Number of boxes examined; each costs as much as embedding one image.
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
        """Find and follow things in the frames of a video; yields one result per frame.

        Parameters
        ----------
        frames : path-like, address, or iterable of pictures
            A video file, a camera (``"/dev/video0"``), a stream (``"rtsp://…"``), or arrays of
            shape (height, width, 3).
        every : float, default=0.2
            Seconds between examined frames of a video; pictures are all examined.
        most : int, default=8
            Number of boxes examined per frame.
        motion : bool, default=False
            Examine moving areas of a fixed camera; no proposer is used.
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
        """The object behind :meth:`follow`, for frames that arrive one by one: ``frame(…)``."""
        require_count("most", most, least=1)
        require_count("patience", patience)
        return Following(self._finding, self._intake, most=most, motion=motion, patience=patience)

    def ask_stream(self, frames: Iterable[Any], *, window: int = FRAMES) -> Iterator[Answers]:
        """Answers to successive frames of one camera; ``answers.steady`` combines them.

        Parameters
        ----------
        frames : iterable of examples
            As for :meth:`~everlearn.Memory.ask`.
        window : int, default=6
            Approximate number of frames in the vote.
        """
        session = Session(window)
        for frame in frames:
            answers = self.ask(frame)
            answers.steady = session.add(answers)
            yield answers

    def compare_regions(
        self, regions: Iterable[str] = ("whole", "main"), progress: Progress | None = None
    ) -> list[Comparison]:
        """Leave-one-out accuracy with other parts of the pictures, best first.

        As :meth:`compare_networks`; given boxes stay in every mode. ``"things"`` recognises names
        by the main thing alone, ``"main"`` also by the whole picture.
        """
        return self._compared([self._intake.embedder], tuple(regions), progress)
