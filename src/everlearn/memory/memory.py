"""The Memory: a folder that is taught images and answers with names.

    journal.sqlite     what was taught, in order: the source of truth     (storage/journal.py)
    snapshot-*         the model at a position of the journal: a cache    (storage/snapshot.py)
    prepared-*         the part of the model that questions need: a cache (model/serving.py)
    writer.lock        held by the one process that teaches               (storage/sqlite/folder.py)

Teaching appends to the journal and returns when the entry is on disk. The model is brought up to
date with the journal when a question arrives; recovery after a crash is the same step.

A Memory is composed of its parts: the open folder (opened.py), changes to it (edits/editor.py) and
answers from it (answering.py). This file is the public interface.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from everlearn.deprecation import renamed_attribute
from everlearn.errors import InvalidParameter
from everlearn.images.by_name import Given, as_embedder
from everlearn.images.decode import DEFAULT_LIMITS, Limits
from everlearn.images.embedders import Embedder
from everlearn.images.video import read_frames
from everlearn.memory.answering import Answering
from everlearn.memory.answers import Answers, Outcome, Summary
from everlearn.memory.edits import operations, unknowns
from everlearn.memory.edits.correcting import Correction
from everlearn.memory.edits.editor import Editor
from everlearn.memory.edits.forgetting import Forgotten, TeachingSelection
from everlearn.memory.edits.intake import Intake, KeepImages
from everlearn.memory.edits.merging import Merged, Synced, require_resolution
from everlearn.memory.edits.operations import Change
from everlearn.memory.edits.reembed import (
    Comparison,
    Progress,
    Reembedding,
    image_of_teaching,
)
from everlearn.memory.edits.relocating import Relocation
from everlearn.memory.edits.unknowns import Group
from everlearn.memory.edits.writing import Spelling, misspelled_among
from everlearn.memory.finding import Finding, Thing
from everlearn.memory.following import FollowedFrame, Following
from everlearn.memory.insight.report import Report
from everlearn.memory.insight.verify import Verification, verify
from everlearn.memory.insight.why import Why
from everlearn.memory.model.classifiers import WORDS, Standing, classifier_for
from everlearn.memory.model.strictness import require_accept
from everlearn.memory.opened import OpenMemory
from everlearn.memory.session import FRAMES, Session
from everlearn.memory.storage.backup import write_backup
from everlearn.memory.storage.interface import EventLog
from everlearn.memory.storage.locations import storage_at
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.rows import Example, NameRecord, Teaching
from everlearn.memory.storage.tombstones import Pair
from everlearn.memory.words import require_count, require_count_or_none, require_text
from everlearn.persistence import replace_file
from everlearn.regions.proposals import FEW, MOST
from everlearn.regions.region_embedder import Mode, Region

# Longest time that ``ask(..., after=position)`` waits.
AFTER_SECONDS = 10.0

_RENAMED = {
    "strangers": "unknowns",
    "stranger_thumbnail": "unknown_thumbnail",
    "name_strangers": "name_unknowns",
    "ignore_strangers": "ignore_unknowns",
    "drop_strangers": "drop_unknowns",
    "compare_embedders": "compare_networks",
}


class Memory:
    """A durable classifier: teach it examples with names, ask it about others.

    Parameters
    ----------
    path : path-like or address
        A folder, or a PostgreSQL database (``postgresql://user@host/database``), which any number
        of processes may teach and ask at once. Created if it does not exist.
    name : str, optional
        Name of the Memory in a database, by default "memory"; may also be part of the address,
        ``postgresql://…#name``.
    embedder : Embedder or path-like, optional
        Turns images into vectors: an object, a model name such as ``"efficientnet-lite0-int8"``,
        or the path of an ONNX file, for which images are preprocessed as they were when the folder
        was taught. Defaults to the one the folder was taught with if it comes with everlearn; for a
        new folder to ``balanced``, or ``basic`` without everlearn-networks.
    network : {"basic", "fast", "balanced", "best"} or path-like, optional
        The embedder chosen by purpose. Accepts everything ``embedder`` does except an embedder
        object.
    classifier : an everlearn learner or a word, optional
        The classifier of a new folder; see :meth:`use` for the names. An existing folder keeps
        its own.
    accept : float in (0, 1), optional
        Lower bound on the share of familiar things that are not called unknown. Defaults to the
        value written by :meth:`set_accept`, or 0.95.
    randomised : bool, default=False
        Decide unknown by a randomised p-value, so that exactly ``accept`` is accepted on average.
        The same picture always gets the same answer, but frames of one scene may differ.
    read_only : bool, default=False
        Open for asking only; works beside a process that teaches.
    limits : Limits
        Limits on the size of an image.
    keep_images : {"thumbnail", "image", "none"}, default="thumbnail"
        What is stored of an image beside its vector: a small JPEG (about 3 kB), the JPEG and the
        file itself, which :meth:`reembed` can use when the source is gone, or nothing.
    regions : {"whole", "main", "things"}, optional
        Which part of a picture is used where no box is given, for a new folder: the whole picture
        (the default), its main thing, or the main thing with everything else taught as background,
        which :meth:`find` needs. An existing folder keeps its own; :meth:`reembed` changes it.

    Notes
    -----
    A change is on disk when its method returns. Vectors are normalised to length one.

    *Cost*: teaching embeds one picture and updates the default classifier in O(d²), d the number of
    features; asking embeds one picture and costs O(d² + K d) for K names.

    *Promises*: acknowledged changes survive a crash; forgetting is exact, erasing exact to the
    bit; at least the share ``accept`` of new pictures of taught things is not called unknown.

    Examples
    --------
    >>> import tempfile
    >>> from everlearn import Memory
    >>> with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
    ...     for vector, name in [([0, 1], "cup"), ([0.1, 1], "cup"), ([1, 0], "pen")]:
    ...         _ = memory.teach(vector, name)
    ...     answers = memory.ask([0.05, 1])
    ...     answers[0].name, answers.unknown, memory.names()["cup"].count
    ('cup', False, 2)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | PostgresAddress,
        *,
        name: str | None = None,
        embedder: Embedder | Given | None = None,
        network: Given | None = None,
        classifier: Any = None,
        accept: float | None = None,
        randomised: bool = False,
        read_only: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        keep_images: KeepImages = "thumbnail",
        regions: Mode | None = None,
    ) -> None:
        if accept is not None:
            require_accept(accept)
        if network is not None and embedder is not None:
            raise InvalidParameter("network and embedder are alternatives; give only one of them")
        storage = storage_at(path, name)
        self.path = storage.path
        self.read_only = read_only
        self._intake = Intake(
            network if embedder is None else embedder,
            limits,
            keep_images,
            known=lambda: self._opened.read(lambda: self._opened.journal.fact("embedder")),
            mode=lambda: self._opened.mode,
        )
        chosen = None if classifier is None else classifier_for(classifier)
        self._opened = OpenMemory(storage, chosen, read_only=read_only)
        self._editor = Editor(self._opened, self._intake)
        self._strictness = accept, randomised
        if regions is not None:
            try:
                self._editor.set_region_mode(regions)
            except BaseException:
                self.close()
                raise

    @cached_property
    def _answering(self) -> Answering:
        """Created with the first question; teaching does not need it."""
        return Answering(self._opened, *self._strictness)

    @cached_property
    def _finding(self) -> Finding:
        return Finding(self._opened, self._answering, self._intake)

    @property
    def accept(self) -> float:
        """Lower bound on the share of familiar things that are not called unknown."""
        return self._opened.read(lambda: self._answering.chosen_accept())

    @property
    def regions(self) -> str:
        """Which part of a picture is used where no box is given."""
        return self._opened.mode

    def __getattr__(self, name: str) -> Any:
        return renamed_attribute(self, name, _RENAMED)

    def __repr__(self) -> str:
        opened = "open to be asked" if self.read_only else "open"
        state = "closed" if self._opened.closed else opened
        return f"<{type(self).__name__} in {self.path}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write a snapshot if it saves enough replay, and release the writer lock."""
        self._opened.close()

    # Teaching and forgetting.

    def teach(
        self,
        example: Any,
        name: str,
        *,
        box: Any = None,
        source: str | None = None,
        again: bool = False,
        also: bool = False,
        group: str | None = None,
    ) -> bool:
        """Teach one example; it is on disk when this returns. Returns whether it was new.

        Parameters
        ----------
        example : path-like, bytes, array of shape (height, width, 3), or vector
            An image file, its bytes, a picture in RGB, or a feature vector.
        name : str
        box : (left, top, right, bottom) or "auto", optional
            The part of the image to teach, in pixels or, where all four are at most 1, as shares of
            its size; ``"auto"`` for the main thing. Defaults to the mode set by ``regions``.
        source : str, optional
            Where it came from, for :meth:`forget`; by default the path of the file.
        again, also : bool, default=False
            Teach it even if the same image (and box) is already taught under the same name; under
            another name, and keep both (to move it, see :meth:`correct`).
        group : str, optional
            Successive calls with the same value are one operation for :meth:`undo`.
        """
        return self._editor.teach(
            _part(example, box), name, source=source, again=again, also=also, group=group
        )

    def teach_many(
        self,
        examples: Iterable[tuple[Any, str]],
        *,
        again: bool = False,
        also: bool = False,
        acknowledge: Callable[[Outcome], None] | None = None,
    ) -> Summary:
        """Teach pairs of an example and a name, using every core; one operation for :meth:`undo`.

        An example may be a part of an image, :class:`Region`. Those that cannot be read, or are
        taught under another name, do not stop the rest. ``acknowledge`` is called with the outcome
        of each, in order, once it is on disk; ``again`` and ``also`` are as for :meth:`teach`.
        """
        return self._editor.teach_many(examples, again=again, also=also, acknowledge=acknowledge)

    def correct(
        self,
        example: Any,
        name: str,
        *,
        box: Any = None,
        source: str | None = None,
        also: bool = False,
    ) -> Correction:
        """Teach an example as ``name``; if the image is taught under another name, move it.

        One operation for :meth:`undo`. Arguments are as for :meth:`teach`; a moved teaching keeps
        the source it has, and with ``also`` the other names as well.
        """
        return self._editor.correct(_part(example, box), name, source=source, also=also)

    def forget(
        self,
        what: Any = None,
        *,
        id: int | None = None,
        name: str | None = None,
        source: str | None = None,
        erase: bool = False,
    ) -> Forgotten:
        """Unlearn an example, a name, or everything from a source.

        Parameters
        ----------
        what : optional
            An example as for :meth:`teach`, or a string that is a name, a source or a file. Use
            ``name=`` or ``source=`` where it could be more than one of them.
        id : int, optional
            The number of a teaching, as :meth:`teachings` lists it.
        name, source : str, optional
            A source may be a folder: it stands for all files in it.
        erase : bool, default=False
            Remove it from the history as well, together with everything forgotten before, so that
            no byte of it remains; this cannot be undone. The model then equals, bit for bit, that
            of a new Memory taught the rest. Costs a rebuild, and gives a receipt.
        """
        selection = TeachingSelection(what, id, name, source)
        return self._editor.erase(selection) if erase else self._editor.forget(selection)

    def would_forget(
        self,
        what: Any = None,
        *,
        id: int | None = None,
        name: str | None = None,
        source: str | None = None,
        erase: bool = False,
    ) -> Forgotten:
        """What :meth:`forget` would forget; changes nothing."""
        return self._editor.would_forget(TeachingSelection(what, id, name, source), erase=erase)

    def rename(self, old: str, new: str) -> str:
        """Rename a name; if the new name exists, the two are merged.

        Returns the name as it is stored. Names that differ only in capitals or spaces are the same.
        """
        return self._editor.rename(old, new)

    def similar_name(self, name: str) -> str | None:
        """The known name that a new one looks like a misspelling of, or ``None``.

        Also ``None`` if there are so many names that comparing them would take long.
        """
        require_text("name", name)
        return misspelled_among([name], self.names()).get(name)

    def undo(self, id: int | None = None) -> Change:
        """Undo the last operation, and return it.

        If ``id`` is given and is not the number of the last operation, nothing changes
        (``ChangedMeanwhile``). An erase cannot be undone, nor anything before it.
        """
        return self._editor.undo(id)

    def redo(self, id: int | None = None) -> Change:
        """Redo the last undone operation if nothing else was done since; ``id`` as for undo."""
        return self._editor.redo(id)

    def would_undo(self) -> Change:
        """What :meth:`undo` would undo; changes nothing."""
        return self._opened.read(lambda: operations.would_undo(self._opened.journal))

    def would_redo(self) -> Change:
        """What :meth:`redo` would redo; changes nothing."""
        return self._opened.read(lambda: operations.would_redo(self._opened.journal))

    def history(self, limit: int | None = None) -> list[Change]:
        """The operations, latest first."""
        require_count_or_none("limit", limit)
        return self._opened.read(lambda: operations.history(self._opened.journal, limit))

    # Exchange with another Memory.

    def merge(
        self,
        other: "Memory | str | os.PathLike[str]",
        *,
        conflicts: Literal["list", "there"] = "list",
        group: str | None = None,
    ) -> Merged:
        """Take over what another Memory was taught and what it forgot.

        For each picture, or box in one, and name the later event counts: what was forgotten or
        erased here after it was taught there stays forgotten. A picture or box that has a different
        name there keeps its names here and is listed as a conflict; with ``conflicts="there"`` it
        gets the name it has there, all of them in a second operation. Merges of one ``group`` are
        one operation for :meth:`undo`.
        """
        if conflicts not in ("list", "there"):
            raise InvalidParameter(f"conflicts must be 'list' or 'there', not {conflicts!r}")
        with (
            nullcontext(other)
            if isinstance(other, Memory)
            else Memory(other, read_only=True) as opened
        ):
            return self._editor.merge(opened._editor, conflicts, group)

    def sync(
        self,
        other: "Memory | str | os.PathLike[str]",
        *,
        conflicts: Literal["list", "here", "there"] = "list",
    ) -> Synced:
        """Merge two Memories in both directions until they are equal; both are written to.

        Where a picture or box has different names, ``conflicts`` says what to do: ``"list"`` it and
        change neither, or use the name from ``"here"``, or from ``"there"``, in both.
        """
        require_resolution(conflicts)
        with nullcontext(other) if isinstance(other, Memory) else Memory(other) as opened:
            return self._editor.sync(opened._editor, conflicts)

    def parts(self, place: str | os.PathLike[str], most_bytes: int) -> Iterator[Path]:
        """Write everything a merge needs as journals of at most about ``most_bytes`` each.

        They are made to be sent one by one. Yields the file of each, in a folder of its own below
        ``place`` that opens as a Memory.
        """
        yield from self._editor.parts(Path(place), most_bytes)

    def counting(self) -> set[Pair]:
        """What currently counts: pairs of a picture, or a box in it, and a name.

        The first is itself a pair: the picture's sha256 digest, and the box that was given;
        ``None`` for the whole picture.
        """
        return self._editor.counting()

    # Network, classifier, paths.

    def reembed(
        self,
        embedder: Embedder | Given | None = None,
        progress: Progress | None = None,
        *,
        regions: Mode | None = None,
        drop: bool = False,
    ) -> Reembedding:
        """Recompute every vector, with another embedder or from other parts; all or nothing.

        Images come from the journal (``keep_images="image"``) or from the files they were taught
        from. If one can no longer be read, nothing changes (``PicturesMissing``; see
        :meth:`relocate`) unless ``drop`` is true. Names, history and given boxes stay, and
        :meth:`undo` restores the previous state. If the process is killed, the old state remains
        and the next call resumes. Of networks used side by side, only new ones process the images.

        Parameters
        ----------
        embedder : Embedder, or a name or file as for ``network``, optional
            Defaults to the one in use.
        progress : callable, optional
            Called with the number of teachings done and the total.
        regions : {"whole", "main", "things"}, optional
            Which part of a picture is used from now on; unchanged by default.
        drop : bool, default=False
            Drop teachings whose image can no longer be read.
        """
        chosen = None if embedder is None else as_embedder(embedder)
        return self._editor.reembed(chosen, progress, regions, drop=drop)

    def remember_checkpoint(self, address: str) -> None:
        """Record the address of a checkpoint with vectors of taught images.

        Receipts of erases list it, because an erase does not remove it.
        """
        self._editor.remember_checkpoint(address)

    def relocate(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> Relocation:
        """Update paths after pictures were moved: ``old`` and ``new`` are files or folders.

        A file counts as moved if the new path holds the same bytes; the other teachings keep their
        path. Nothing else changes.
        """
        return self._editor.relocate(os.path.abspath(old), os.path.abspath(new))

    def set_accept(self, accept: float) -> None:
        """Store the ``accept`` that is used where none is given."""
        self._editor.set_accept(accept)

    def set_network(self) -> str:
        """Store in a new folder which network it uses; returns the network's name.

        A folder that has been taught keeps its own; :meth:`reembed` changes it.
        """
        return self._editor.set_network()

    def use(self, *, classifier: Any) -> None:
        """Switch to another classifier and train it on everything in the journal.

        An everlearn learner, or one of ``"ridge"``, ``"lda"``, ``"mean"`` and ``"auto"``.
        """
        self._editor.use(classifier_for(classifier))

    # Asking.

    def ask(
        self,
        example: Any,
        *,
        box: Any = None,
        where: bool = False,
        top: int | None = 5,
        remember: bool = False,
        after: int | None = None,
    ) -> Answers:
        """Name an example; best answers first.

        Parameters
        ----------
        example, box : as for :meth:`teach`
        where : bool, default=False
            Ask about the thing in the picture that matches a name best, or about the main thing if
            none is found; ``answers.box`` says where it is.
        top : int or None, default=5
            How many answers at most; ``None`` for all names.
        remember : bool, default=False
            Keep it among the :meth:`unknowns` if it is unknown; the latest thousand stay.
        after : int, optional
            Wait until everything up to this position (see :attr:`position`) is included, at most
            ten seconds; then ``NotSeenYet`` is raised.
        """
        require_count_or_none("top", top, least=1)
        require_count_or_none("after", after)
        if after is not None:
            self._answering.wait_for(after, AFTER_SECONDS)
        if where and box is None:
            box = self._finding.best_box(example)
        return self._answered(self._intake.one(_part(example, box)), top, remember)

    def ask_many(
        self, examples: Iterable[Any], *, top: int | None = 5, remember: bool = False
    ) -> Iterator[Answers | Exception]:
        """Answers for many examples, using every core; errors for unreadable ones."""
        require_count_or_none("top", top, least=1)
        for _, found in self._intake.many((example, "") for example in examples):
            if isinstance(found, Example):
                yield self._answered(found, top, remember)
            else:
                yield found.error

    def _answered(self, example: Example, top: int | None, remember: bool) -> Answers:
        answers = self._answering.answer(example, top)
        if remember and answers.unknown and not answers.ignored:
            self._answering.keep_unknowns([example])
        return answers

    def why(self, example: Any, name: str | None = None, *, box: Any = None, top: int = 5) -> Why:
        """Which pictures led to this answer, and what would it be without them?

        Explains the score of ``name``, by default the best answer, by the ``top`` teachings with
        the strongest effect.
        """
        require_text("name", name)
        require_count_or_none("top", top)
        return self._answering.why(self._intake.one(_part(example, box)), name, top)

    def report(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Was enough taught? Accuracy by exact leave-one-out, doubtful pictures, and advice.

        ``progress`` is called with the number of teachings examined and the total.
        """
        return self._answering.report(progress)

    def compare_networks(
        self, networks: Iterable[Embedder | Given], progress: Progress | None = None
    ) -> list[Comparison]:
        """Leave-one-out accuracy with each network, best first; changes nothing.

        Networks are embedders, or names or files as for ``network``. Each image is read once for
        all of them, and :meth:`reembed`, which takes the same ``progress``, reuses the vectors.
        """
        embedders = [as_embedder(network) for network in networks]
        return self._editor.compare(embedders, (self.regions,), progress)

    def compare_regions(
        self, regions: Iterable[Mode] = ("whole", "main"), progress: Progress | None = None
    ) -> list[Comparison]:
        """Leave-one-out accuracy with other parts of the pictures, best first.

        As :meth:`compare_networks`; given boxes stay in every mode. ``"things"`` recognises names
        by the main thing alone, ``"main"`` also by the whole picture.
        """
        return self._editor.compare([self._intake.embedder], tuple(regions), progress)

    def compare_classifiers(
        self,
        classifiers: Iterable[Any] = tuple(WORDS),
        progress: Callable[[], None] = lambda: None,
    ) -> list[Standing]:
        """Cross-validated accuracy with each classifier, best first; changes nothing.

        Classifiers are names or learners, as for :meth:`use`. In each of five folds, a fifth of the
        teachings of every name is held out; ``progress`` is called after every one.
        """
        return self._answering.compare_classifiers(classifiers, progress)

    # Things within pictures.

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
            Keep every unknown thing, with its box, among the :meth:`unknowns`.
        """
        require_count_or_none("top", top, least=1)
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
        most, remember
            As for :meth:`find`; only things whose track is settled as unknown are kept.
        motion : bool, default=False
            Examine moving areas of a fixed camera; no proposer is used.
        patience : int, default=15
            A track ends when its thing was not found in more than this many successive frames.
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
        """Keep examples such as ``frame.unknown_views`` among the :meth:`unknowns`, each once."""
        self._answering.keep_unknowns(examples)

    def following(self, *, most: int = FEW, motion: bool = False, patience: int = 15) -> Following:
        """The object behind :meth:`follow`; call its ``frame`` with frames as they arrive."""
        require_count("most", most, least=1)
        require_count("patience", patience)
        return Following(self._finding, self._intake, most=most, motion=motion, patience=patience)

    def ask_stream(self, frames: Iterable[Any], *, window: int = FRAMES) -> Iterator[Answers]:
        """Answers to successive frames of one camera; ``answers.steady`` combines them.

        ``window`` is approximately the number of frames that vote.
        """
        require_count("window", window, least=1)
        session = Session(window)
        for frame in frames:
            answers = self.ask(frame)
            answers.steady = session.add(answers)
            yield answers

    # Kept unknown images.

    def unknowns(self) -> list[Group]:
        """Examples kept because they were *unknown* (``remember=True``), grouped by similarity."""
        return self._opened.read(self._answering.described_unknowns)

    def unknown_thumbnail(self, id: int) -> bytes | None:
        """A small JPEG of an unknown image, if one was kept."""
        require_count("id", id, least=1)
        return self._opened.read(lambda: unknowns.thumbnail_of(self._opened.journal, id))

    def name_unknowns(self, group: int, name: str) -> int:
        """Teach a group of unknown images as ``name``; returns how many were taught.

        ``group`` is the id of the group, or of any image in it.
        """
        return self._editor.name_unknowns(self._answering.unknown_groups, group, name)

    def ignore_unknowns(self, group: int) -> int:
        """Answer whatever resembles this group with *ignored*; returns the group's size."""
        return self._editor.ignore_unknowns(self._answering.unknown_groups, group)

    def drop_unknowns(self, group: int) -> int:
        """Forget a group of unknown images; returns its size.

        It can be undone until the pictures are deleted: to keep newer unknowns, at most a thousand
        in all, or by the next erase.
        """
        return self._editor.drop_unknowns(self._answering.unknown_groups, group)

    # For services: positions, changes by others, repeated requests.

    @property
    def lag_seconds(self) -> float:
        """Upper bound on the age of the state that answers use.

        For a folder 0, because every question checks the journal. For a database, the time since
        the server last reported the end of the journal, which it does with every change and
        otherwise twice a second.
        """
        return self._opened.lag_seconds()

    def once(self, key: str, content: bytes, work: Callable[[], Any]) -> Any:
        """Run a change under an idempotency key: a repeated key returns the first result.

        ``work`` changes this Memory and returns a JSON-serialisable value; ``content`` is the
        request, and a different one under the same key raises ``KeyReused``. A database keeps keys
        for a day, in the transaction of the change. A folder has a single writer and stores no
        keys: there ``work`` is always run.
        """
        return self._editor.once(key, content, work)

    def event_log(self) -> EventLog | None:
        """The changes made by any process; the caller closes the log. ``None`` for a folder."""
        return self._opened.storage.events()

    @property
    def keeps_keys(self) -> bool:
        """Whether :meth:`once` stores keys: true for a database."""
        return self._opened.journal.db.inbox is not None

    @property
    def position(self) -> int:
        """Number of entries in the journal; ``ask(…, after=position)`` waits for them."""
        return self._opened.read(lambda: self._opened.journal.last_position)

    # Contents.

    def names(
        self,
        containing: str | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        latest_first: bool = False,
    ) -> Mapping[str, NameRecord]:
        """The known names, with ``count`` and ``last_taught`` (seconds since 1970).

        All of them, or a page of those that contain a text, ignoring case; alphabetically, or the
        latest taught first.
        """
        require_text("containing", containing)
        require_count_or_none("limit", limit)
        require_count("offset", offset)
        return self._opened.read(
            lambda: self._opened.journal.names(
                containing, limit=limit, offset=offset, latest_first=latest_first
            )
        )

    def teachings(
        self, name: str | None = None, *, limit: int | None = None, offset: int = 0
    ) -> list[Teaching]:
        """Current teachings in the order they were taught: all of them, or those of one name."""
        require_text("name", name)
        require_count_or_none("limit", limit)
        require_count("offset", offset)

        def of_one_spelling() -> list[Teaching]:
            journal = self._opened.journal
            meant = None if name is None else Spelling(journal).of_known(name)
            return journal.teachings(meant, limit, offset)

        return self._opened.read(of_one_spelling)

    def image(self, id: int) -> bytes | None:
        """The image file of a teaching: from the journal, or from its source if unchanged."""
        require_count("id", id, least=1)
        return self._opened.read(
            lambda: image_of_teaching(self._opened.journal, id, self._intake.limits)
        )

    def thumbnail(self, id: int) -> bytes | None:
        """A small JPEG of a teaching, if one is stored."""
        require_count("id", id, least=1)
        return self._opened.read(lambda: self._opened.journal.thumbnail(id))

    @property
    def embedder(self) -> Embedder:
        """The embedder that turns images into vectors."""
        return self._intake.embedder

    @property
    def classifier(self) -> Any:
        """The current classifier; its labels are name ids. Do not train it directly."""
        return self._opened.read(lambda: self._opened.model().classifier)

    def info(self) -> dict[str, Any]:
        """Facts about the folder: counts, network, classifier, sizes."""
        return self._answering.info()

    def verify(self, receipt: str | os.PathLike[str] | None = None) -> Verification:
        """Check every row and digest, and compare the model with a replay, bit for bit.

        With the receipt of an erase, also check that what it lists is gone.
        """
        return self._opened.read(lambda: verify(self._opened.history, receipt))

    def complete_receipt(self, receipt: str | os.PathLike[str]) -> list[str]:
        """Continue a pending erase; returns what it still waits for, as sentences.

        When nothing is left to wait for and nothing erased is found, the receipt is rewritten and
        marked complete.
        """
        return self._editor.complete_receipt(Path(receipt))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy everything into a new folder; safe during teaching.

        A backup is a Memory itself; ``everlearn restore`` puts it back.
        """
        opened = self._opened
        opened.read(lambda: write_backup(opened.storage, opened.journal.db, Path(path)))

    def export(self, path: str | os.PathLike[str], *, with_embedder: bool = False) -> None:
        """Write the classifier as one ONNX file: features in, probabilities out.

        The names are in its metadata under ``names``, a JSON list in the order of the columns. With
        the embedder, pixels of shape (n, size, size, 3), one byte each, go in, and ``name``,
        ``probabilities``, ``unknown`` and ``p_value`` come out.
        """
        embedder = self._intake.embedder if with_embedder else None
        replace_file(Path(path), self._answering.as_onnx(embedder))


def _part(example: Any, box: Any) -> Any:
    """The example, or the region of it given by ``box``."""
    return example if box is None else Region(example, box)
