"""The Memory: a folder that is taught images and answers with names.

    journal.sqlite     what was taught, in order: the truth                    (journal.py)
    snapshot-*         the model at a position of the journal: a cache         (snapshot.py)
    prepared-*         what a question needs of the model: a cache             (prepared.py)
    writer.lock        held by the one process that teaches                    (lock.py)

Teaching appends to the journal and returns when it is on disk. The model follows the journal when
it is asked, so that there is one way from the journal to the model, taken after a crash as after
every teaching.

This file says what a Memory can do; each thing it does is in a file of its own.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.errors import NeverLearned, NotExportable
from everlearn.images.by_name import Given
from everlearn.images.decode import DEFAULT_LIMITS, Limits
from everlearn.images.embedders import Embedder
from everlearn.images.folders import require_name
from everlearn.memory.answers import Answers
from everlearn.memory.edits import operations
from everlearn.memory.edits.intake import Intake
from everlearn.memory.edits.reembed import (
    Comparison,
    Progress,
    Reembedding,
    compare,
    embed_anew,
    remove_collected,
    replace_vectors,
)
from everlearn.memory.edits.unknowns import (
    USUAL_LIKENESS,
    Group,
    UnknownImage,
    all_strangers,
    drop,
    find_group,
    groups,
    ignore,
    likeness_of,
    resembles_ignored,
    thumbnail_of,
)
from everlearn.memory.edits.unknowns import remember as kept_stranger
from everlearn.memory.edits.writing import Kind, kind_of_vectors, require_alike, settle_kind
from everlearn.memory.export.onnx_classifier import linear_head_model
from everlearn.memory.export.onnx_pipeline import chain_model
from everlearn.memory.insight.report import Report, report_on
from everlearn.memory.insight.taught import TaughtMatrix, everything_taught
from everlearn.memory.insight.why import Why, explain
from everlearn.memory.keeping import Keeping, require_count
from everlearn.memory.model.calibrated import CalibratedModel, familiarity_of
from everlearn.memory.model.classifiers import WORDS, Standing, standings
from everlearn.memory.model.head import as_answers, unit
from everlearn.memory.storage.journal import Example
from everlearn.persistence import replace_file


class Memory(Keeping):
    """Teach it examples and names, ask it about others; it keeps everything on disk.

    Parameters
    ----------
    path : path-like
        A folder; made if it is not there.
    embedder : Embedder or path-like, optional
        Turns images into vectors. By default the one the folder was taught with if it comes with
        everlearn, and EfficientNet-Lite0 for a new folder. Also a word, such as
        ``"efficientnet-lite0-int8"``, or the path of an ONNX file, whose pictures are prepared as
        they were when the folder was taught.
    classifier : an everlearn learner or a word, optional
        The classifier of a new folder; words are those of :meth:`use`. A folder that exists keeps
        its own.
    accept : float in (0, 1), default=0.95
        The share of familiar things that should not be called unknown.
    read_only : bool, default=False
        Open to be asked, beside a process that teaches.
    limits : Limits
        What an image may cost at most.
    keep_images : {"thumbnail", "image", "none"}, default="thumbnail"
        What is kept of an image beside its vector: a small JPEG (about 3 kB), also the file itself,
        which :meth:`reembed` can use when the source is gone, or nothing.

    Notes
    -----
    A change is on disk when its method returns. Vectors are taught and asked at length one.

    *Promises*: what was acknowledged survives a crash; forgetting is exact, erasing exact to the
    bit; of new pictures of taught things the share ``accept`` is not called unknown.

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
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | Given | None = None,
        classifier: Any = None,
        accept: float = 0.95,
        read_only: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        keep_images: str = "thumbnail",
    ) -> None:
        super().__init__(
            path,
            embedder=embedder,
            classifier=classifier,
            accept=accept,
            read_only=read_only,
            limits=limits,
            keep_images=keep_images,
        )
        self._reading: CalibratedModel | None = None
        self._names: dict[int, str] = {}
        self._kind: Kind = {}
        self._read_at: tuple[int, int] | None = None
        self._everything: tuple[tuple[int, int], TaughtMatrix] | None = None

    def reembed(self, embedder: Embedder, progress: Progress | None = None) -> Reembedding:
        """Make every vector anew with another embedder; all at once, when all are there.

        Images come from the journal (``keep_images="image"``) or from the files they were taught
        from. What can no longer be read no longer counts, and is reported. Names, history and undo
        stay. Killed meanwhile, the old state stays and the work goes on the next time.

        Parameters
        ----------
        embedder : Embedder
        progress : callable, optional
            Told how many teachings are done, and of how many.
        """
        with self._store.changing() as journal:
            vectors = embed_anew(self.path, journal, embedder, self._intake.limits, progress)
            with journal.transaction():
                done = replace_vectors(journal, embedder, vectors)
            remove_collected(self.path)
            self._intake = Intake(embedder, self._intake.limits, self._intake.keep_images)
            return done

    def compare_embedders(
        self, embedders: Iterable[Embedder], progress: Progress | None = None
    ) -> list[Comparison]:
        """How well the names would be known with each embedder, by leave-one-out, the best first.

        Changes nothing; vectors that were made are used again by :meth:`reembed`.
        """
        found = []
        with self._store.changing() as journal:
            for embedder in embedders:
                vectors = embed_anew(self.path, journal, embedder, self._intake.limits, progress)
                classifier = clone(self._store.history.classifier())
                found.append(compare(journal, classifier, embedder, vectors))
        return sorted(found, key=lambda comparison: -comparison.accuracy)

    def compare_classifiers(
        self,
        classifiers: Iterable[Any] = tuple(WORDS),
        progress: Callable[[], None] = lambda: None,
    ) -> list[Standing]:
        """How well the names would be known with each classifier, the best first.

        A fifth of the teachings of every name is held out in turn, and the others are taught.
        Changes nothing.

        Parameters
        ----------
        classifiers : words or learners, as for :meth:`use`
        progress : callable
            Called for every fifth of every classifier.
        """
        return self._store.read(lambda: standings(self._store.journal, classifiers, progress))

    def strangers(self) -> list[Group]:
        """Pictures answered with *unknown* and kept (``ask(…, remember=True)``), by likeness."""
        return self._store.read(lambda: self._described(self._strangers()))

    def stranger_thumbnail(self, id: int) -> bytes | None:
        """A small JPEG of a stranger, if one was kept."""
        require_count("id", id, least=1)
        return self._store.read(lambda: thumbnail_of(self._store.journal, id))

    def name_strangers(self, group: int, name: str) -> int:
        """Teach a group of strangers their name; returns how many were taught."""
        require_name(name)
        with self._store.one_change() as journal:
            found = find_group(self._strangers(), group)
            operation = operations.begin(journal, "name")
            new = [s for s in found if not journal.counts(name, s.example.digest)]
            for stranger in new:
                journal.add(operation, name, stranger.example)
            drop(journal, found)
        return len(new)

    def ignore_strangers(self, group: int) -> int:
        """Keep a group quiet: what resembles it is answered with *ignored*; how many it has."""
        with self._store.one_change() as journal:
            found = find_group(self._strangers(), group)
            ignore(journal, found)
        return len(found)

    def drop_strangers(self, group: int) -> int:
        """Forget a group of strangers; returns how many it had."""
        with self._store.one_change() as journal:
            found = find_group(self._strangers(), group)
            drop(journal, found)
        return len(found)

    def ask(self, example: Any, *, top: int | None = 5, remember: bool = False) -> Answers:
        """What is this? The best answers first.

        Parameters
        ----------
        example : as for :meth:`teach`
        top : int or None, default=5
            How many answers at most; ``None`` for all names.
        remember : bool, default=False
            Keep it among the :meth:`strangers` if it is unknown; the latest thousand are kept.
        """
        require_count("top", top, least=1)
        return self._answered(self._intake.one(example), top, remember)

    def ask_many(
        self, examples: Iterable[Any], *, top: int | None = 5, remember: bool = False
    ) -> Iterator[Answers | Exception]:
        """Answers for many examples, every core busy; an error for what cannot be read."""
        require_count("top", top, least=1)
        for _, taken in self._intake.many((example, "") for example in examples):
            if isinstance(taken, Example):
                yield self._answered(taken, top, remember)
            else:
                yield taken.error

    def why(self, example: Any, name: str | None = None, *, top: int = 5) -> Why:
        """Which teachings carried the answer, by their exact effect, and what without them.

        Parameters
        ----------
        example : as for :meth:`teach`
        name : str, optional
            Explain the score of this name; by default that of the best answer.
        top : int, default=5
            How many teachings to list.
        """
        require_count("top", top)
        taken = self._intake.one(example)

        def look() -> Why:
            require_alike(kind_of_vectors(self._store.journal), taken, self.path)
            taught = self._taught()
            x = taught.seen(taken.vector)
            best = int(taught.influence.scores(x).argmax())
            if name is not None and name not in taught.names:
                raise self._store.journal.never_taught(name)
            target = best if name is None else taught.names.index(name)
            teachings = list(zip(taught.ids, taught.sources, strict=True))
            return explain(taught.influence, x, target, taught.names, teachings, top)

        return self._store.read(look)

    def report(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Have I taught enough? Accuracy by exact leave-one-out, doubts, and what to show next.

        Parameters
        ----------
        progress : callable, optional
            Told how many teachings were looked at, and of how many.
        """

        def look() -> Report:
            self._refresh()
            if self._reading is None:
                raise NeverLearned("nothing was taught yet, so there is nothing to report on")
            T = self._reading.temperature
            return report_on(self._taught(), self._store.journal, T, progress)

        return self._store.read(look)

    @property
    def classifier(self) -> Any:
        """The classifier, up to date; its labels are the numbers of the names. Not to be taught."""
        return self._store.read(lambda: self._store.model().classifier)

    def export(self, path: str | os.PathLike[str], *, with_embedder: bool = False) -> None:
        """Write the classifier as one ONNX file: features in, probabilities out.

        The names are in its metadata under ``names``, a JSON list in the order of the columns.

        Parameters
        ----------
        path : path-like
        with_embedder : bool, default=False
            The whole chain in one file: pixels in (n, size, size, 3), one byte each; out come
            ``name``, ``probabilities``, ``unknown`` and ``p_value``.
        """
        reading = self._up_to_date()
        if reading is None:
            raise NeverLearned("nothing was taught yet, so there is nothing to export")
        names = [self._names[number] for number in reading.classes.tolist()]
        if with_embedder:
            embedder, taught_by = self._intake.embedder, self._store.journal.fact("embedder")
            if embedder.name != taught_by:
                raise NotExportable(
                    f"this Memory was taught vectors of {taught_by!r}; {embedder.name!r} cannot "
                    "go before them; open it with its own embedder, or export the head alone"
                )
            replace_file(Path(path), chain_model(embedder, reading, names, self.accept))
            return
        facts = {"embedder": self._store.journal.fact("embedder") or "vectors"}
        T = reading.temperature
        replace_file(Path(path), linear_head_model(*reading.linear_head(), T, names, facts))

    def _up_to_date(self) -> CalibratedModel | None:
        """The model, ready to be asked; ``None`` before anything was taught."""
        if self._read_at is None or self._store.stamp() != self._read_at:
            self._store.read(self._refresh)
        return self._reading

    def _answered(self, taken: Example, top: int | None, remember: bool) -> Answers:
        answers = self._answer(taken, top)
        if remember and answers.unknown and not answers.ignored:
            with self._store.one_change() as journal:
                settle_kind(journal, taken)
                kept_stranger(journal, taken)
        return answers

    def _likeness(self) -> float:
        familiarity = familiarity_of(self._store.model())
        return likeness_of(familiarity.counts, familiarity.means, familiarity.lengths)

    def _strangers(self) -> list[list[UnknownImage]]:
        found = all_strangers(self._store.journal)
        known = self._store.model().taught
        return groups(found, self._likeness() if known else USUAL_LIKENESS)

    def _described(self, found: list[list[UnknownImage]]) -> list[Group]:
        self._refresh()
        described = []
        for group in found:
            likely = None
            if self._reading is not None:
                mean = unit(unit(np.stack([s.example.vector for s in group])).mean(axis=0))
                likely = self._names[self._reading.answer(mean).nearest]
            members = tuple(stranger.id for stranger in group)
            quiet = bool(group[0].ignored)
            described.append(Group(group[0].id, len(group), members, likely, quiet))
        return described

    def _is_ignored(self, x: Any) -> bool:
        """Whether something unknown resembles strangers that are to be ignored."""
        journal = self._store.journal
        if journal.db.value("SELECT 1 FROM strangers WHERE ignored != 0 LIMIT 1") is None:
            return False
        return resembles_ignored(all_strangers(journal), x, self._likeness())

    def _taught(self) -> TaughtMatrix:
        """Everything that counts; kept while nothing changes."""
        stamp = self._store.journal.db.stamp()
        if self._everything is None or self._everything[0] != stamp:
            self._everything = None
            taught = everything_taught(self._store.model(), self._store.journal)
            self._everything = stamp, taught
        return self._everything[1]

    def _refresh(self) -> None:
        self._read_at = None
        model = self._store.model()
        if not model.taught:
            self._reading = None
        elif self._reading is None or not self._reading.is_of(model):
            self._reading = CalibratedModel(model, self._store.journal)
        self._names = self._store.journal.name_ids()
        self._kind = kind_of_vectors(self._store.journal)
        self._read_at = self._store.journal.db.stamp()

    def _answer(self, example: Example, top: int | None) -> Answers:
        with self._store.guard:
            reading = self._up_to_date()
            require_alike(self._kind, example, self.path)
            if reading is None:
                return Answers([], unknown=True, familiarity=-np.inf, threshold=np.inf)
            x = unit(example.vector)
            verdict = reading.answer(x)
            return as_answers(
                verdict,
                reading.classes,
                self._names,
                top=top,
                accept=self.accept,
                threshold=reading.judgement.acceptance.threshold(self.accept, verdict.nearest),
                ignored=lambda: self._store.read(lambda: self._is_ignored(x)),
            )
