"""The Learner: a folder that is taught images and answers with names.

    journal.sqlite     what was taught, in order: the truth                    (journal.py)
    snapshot-*         the model at a position of the journal: a cache         (model.py)
    writer.lock        held by the one process that teaches                    (lock.py)

Teaching appends to the journal and returns when it is on disk. The model follows the journal when
it is asked, so that there is one way from the journal to the model, taken after a crash as after
every teaching.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from everlearn.errors import (
    CannotWrite,
    InvalidInput,
    InvalidParameter,
    NeverLearned,
    NotMergeable,
    ReadOnlyLearner,
    UnknownLabel,
    WrongEmbedder,
    WrongWidth,
)
from everlearn.features.decode import DEFAULT_LIMITS, Limits, read_bytes
from everlearn.features.embedders import Embedder
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.memory.answers import Answer, Answers, Outcome, Summary
from everlearn.memory.history import History
from everlearn.memory.intake import Intake, require_name
from everlearn.memory.journal import Example, Journal, NameRecord
from everlearn.memory.lock import WriterLock
from everlearn.memory.model import unit
from everlearn.memory.onnx_head import linear_head_model
from everlearn.memory.reading import Reading, linear_head
from everlearn.persistence import replace_file

# A snapshot is made when the log has grown by this much since the last one.
SNAPSHOT_EVERY = 4096
# Many teachings share one transaction: until there are this many, or this long has passed.
COMMIT_ROWS = 64
COMMIT_SECONDS = 0.25


def default_classifier() -> Any:
    """The classifier of a new Learner, chosen by measurement; docs/memory.md has the numbers."""
    return RecursiveRLSC(regularization=0.3, recoding=0.5)


class Learner:
    """Teach it examples and names, ask it about others; it keeps everything on disk.

    Parameters
    ----------
    path : path-like
        A folder; made if it is not there.
    embedder : Embedder, optional
        Turns images into vectors. By default EfficientNet-Lite0, which comes with everlearn.
    learner : an everlearn classifier, optional
        The classifier of a new folder. One that exists keeps its own; see :meth:`use`.
    accept : float in (0, 1), default=0.95
        The share of familiar things that should not be called unknown.
    read_only : bool, default=False
        Open to be asked, beside a process that teaches.
    limits : Limits
        What an image may cost at most.

    Notes
    -----
    A change is on disk when its method returns. Vectors are taught and asked at length one.

    Examples
    --------
    >>> import tempfile
    >>> from everlearn import Learner
    >>> with tempfile.TemporaryDirectory() as folder, Learner(folder) as learner:
    ...     for vector, name in [([0, 1], "cup"), ([0.1, 1], "cup"), ([1, 0], "pen")]:
    ...         _ = learner.teach(vector, name)
    ...     answers = learner.ask([0.05, 1])
    ...     answers[0].name, answers.unknown, learner.names()["cup"].count
    ('cup', False, 2)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | None = None,
        learner: Any = None,
        accept: float = 0.95,
        read_only: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if not 0.0 < accept < 1.0:
            raise InvalidParameter(f"accept is a share between 0 and 1, not {accept!r}")
        self.path = Path(path)
        self.accept = accept
        self.read_only = read_only
        self._intake = Intake(embedder, limits)
        self._guard = threading.RLock()
        self._reading: Reading | None = None
        self._names: dict[int, str] = {}
        self._names_at = (-1, -1)
        self._closed = False
        self._lock = None if read_only else _locked(self.path)
        try:
            self._journal = Journal(self.path, write=not read_only)
            self._history = History(self.path, self._journal, learner, default_classifier)
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Make a snapshot if it is worth it, and let others teach."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            try:
                if not self.read_only:
                    self._history.snapshot(at_least=1)
                    self._journal.checkpoint()
            finally:
                self._release()

    # Teaching.

    def teach(
        self, example: Any, name: str, *, source: str | None = None, again: bool = False
    ) -> bool:
        """Teach one example; on disk when this returns.

        Parameters
        ----------
        example : path-like, bytes, array of shape (height, width, 3), or vector
            An image file, its bytes, a picture in RGB, or features.
        name : str
        source : str, optional
            Where it came from, for :meth:`forget`; by default the path of the file.
        again : bool, default=False
            Teach it even if the same image is already taught under the same name.

        Returns
        -------
        bool
            Whether it was new.
        """
        require_name(name)
        with self._changing():
            taken = self._intake.one(example, source)
            return self._write([(name, taken)], None, "teach", again)[1][0]

    def teach_many(
        self,
        examples: Iterable[tuple[Any, str]],
        *,
        again: bool = False,
        acknowledge: Callable[[Outcome], None] | None = None,
    ) -> Summary:
        """Teach pairs of an example and a name, every core busy; one operation for :meth:`undo`.

        An image that cannot be read does not stop the others.

        Parameters
        ----------
        examples : iterable of pairs
        again : bool, default=False
        acknowledge : callable, optional
            Told the outcome of each example, in order, once it is on disk.
        """
        taught = repeated = unreadable = 0
        operation: int | None = None
        tell = acknowledge or (lambda outcome: None)
        with self._changing():
            for part in _in_parts(self._intake.many(_with_checked_names(examples))):
                good = [(name, taken) for name, taken in part if isinstance(taken, Example)]
                operation, news = self._write(good, operation, "teach", again)
                new_ones = iter(news)
                for name, taken in part:
                    if isinstance(taken, Example):
                        new = next(new_ones)
                        taught, repeated = taught + new, repeated + (not new)
                        tell(Outcome(taken.source, name, new))
                    else:
                        unreadable += 1
                        tell(Outcome(_words(taken.source), name, False, taken.error))
        return Summary(taught, repeated, unreadable)

    def forget(
        self,
        what: Any = None,
        *,
        name: str | None = None,
        source: str | None = None,
        erase: bool = False,
    ) -> int:
        """Unlearn an example, a name, or all that came from a source.

        Parameters
        ----------
        what : optional
            An example as for :meth:`teach`, or a word that is a name, a source or a file; say
            ``name=`` or ``source=`` where it could be more than one of them.
        name, source : str, optional
            A source may be a folder: it stands for all files in it.
        erase : bool, default=False
            Remove it from the history as well: the model becomes, bit for bit, as if it had never
            been taught, and there is no undo. Costs a rebuild; without it, :meth:`undo` works.

        Returns
        -------
        int
            How many teachings were forgotten.
        """
        with self._changing():
            found = self._found(what, name, source)
            if erase:
                classifier = self._history.model.classifier
                self._history.begin(classifier, lambda: self._journal.erase(found))
                self._journal.checkpoint()
            else:
                with self._journal.transaction():
                    self._journal.take_back(self._journal.begin("forget"), found)
            return len(found)

    def rename(self, old: str, new: str) -> None:
        """Call a name something else; if the new name exists, the two become one."""
        require_name(new)
        with self._changing(), self._journal.transaction():
            self._journal.rename(old, new)

    def undo(self) -> str:
        """Take the last teach, forget, rename or merge back; returns which it was."""
        with self._changing(), self._journal.transaction():
            return self._journal.undo()

    def merge(self, other: "Learner | str | os.PathLike[str]") -> int:
        """Learn everything that another Learner was taught; returns how many teachings were new."""
        if not isinstance(other, Learner):
            with Learner(other, read_only=True) as opened:
                return self.merge(opened)
        if other.path.resolve() == self.path.resolve():
            raise NotMergeable("a Learner cannot be merged with itself")
        with self._changing():
            operation, new = None, 0
            for part in _in_parts(other._journal.examples()):
                operation, news = self._write(part, operation, "merge", False)
                new += sum(news)
            return new

    def use(self, *, learner: Any) -> None:
        """Switch to another classifier and teach it everything in the journal."""
        with self._changing():
            self._history.begin(learner)

    # Asking.

    def ask(self, example: Any, *, top: int | None = 5) -> Answers:
        """What is this? The best answers first.

        Parameters
        ----------
        example : as for :meth:`teach`
        top : int or None, default=5
            How many answers at most; ``None`` for all names.
        """
        with self._guard:
            return self._answer(self._intake.one(example), top)

    def ask_many(
        self, examples: Iterable[Any], *, top: int | None = 5
    ) -> Iterator[Answers | Exception]:
        """Answers for many examples, every core busy; an error for what cannot be read."""
        for _, taken in self._intake.many((example, "") for example in examples):
            yield self._answer(taken, top) if isinstance(taken, Example) else taken.error

    def names(self) -> Mapping[str, NameRecord]:
        """Every name known, with ``count`` and ``last_taught`` (seconds since 1970)."""
        with self._guard:
            return self._journal.names()

    @property
    def classifier(self) -> Any:
        """The classifier, up to date; its labels are the numbers of the names. Not to be taught."""
        with self._guard, self._journal.one_view():
            return self._history.follow().classifier

    @property
    def embedder(self) -> Embedder:
        """What turns images into vectors."""
        return self._intake.embedder

    def info(self) -> dict[str, Any]:
        """What there is to know about the folder."""
        with self._guard:
            names = self._journal.names()
            return {
                "path": str(self.path),
                "names": len(names),
                "teachings": sum(record.count for record in names.values()),
                "log_entries": self._journal.last_position,
                "snapshot_at": self._history.snapshot_at,
                "features": int(self._journal.fact("n_features") or 0),
                "embedder": self._journal.fact("embedder"),
                "classifier": repr(self._history.model.classifier),
                "bytes": sum(f.stat().st_size for f in self.path.iterdir() if f.is_file()),
            }

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the classifier as one ONNX file: features in, probabilities out.

        The names are in its metadata under ``names``, a JSON list in the order of the columns.
        """
        with self._guard:
            reading = self._up_to_date()
            if reading is None:
                raise NeverLearned("nothing was taught yet, so there is nothing to export")
            weights, bias = linear_head(reading.classifier)
            facts = {"embedder": self._journal.fact("embedder") or "vectors"}
            names = [self._names[number] for number in reading.classes.tolist()]
            T = reading.temperature
            replace_file(Path(path), linear_head_model(weights, bias, T, names, facts))

    # Inside.

    def _up_to_date(self) -> Reading | None:
        """The model, ready to be asked; ``None`` before anything was taught."""
        with self._journal.one_view():
            model = self._history.follow()
            if not model.taught:
                return None
            if self._reading is None or not self._reading.is_of(model):
                self._reading = Reading(model, self._journal, self.accept, self._reading)
            named_at = model.position, self._journal.renames
            if self._names_at != named_at:
                self._names, self._names_at = self._journal.name_ids(), named_at
        return self._reading

    def _answer(self, example: Example, top: int | None) -> Answers:
        with self._guard:
            self._require_comparable(example)
            reading = self._up_to_date()
            if reading is None:
                return Answers([], unknown=True, familiarity=-np.inf, threshold=np.inf)
            shares, familiarity = reading.answer(unit(example.vector))
            best = np.argsort(-shares, kind="stable")[:top]
            classes = reading.classes
            answers = [Answer(self._names[int(classes[i])], float(shares[i])) for i in best]
            return Answers(
                answers,
                unknown=not reading.knows(familiarity),
                familiarity=familiarity,
                threshold=reading.familiarity.threshold,
            )

    def _changing(self) -> threading.RLock:
        if self.read_only:
            raise ReadOnlyLearner(
                f"{self.path} was opened with read_only=True; open it without to change it"
            )
        return self._guard

    def _write(
        self,
        examples: list[tuple[str, Example]],
        operation: int | None,
        kind: str,
        again: bool,
    ) -> tuple[int | None, list[bool]]:
        """Examples that are not known yet, in one transaction; which of them were new."""
        news: list[bool] = []
        if not examples:
            return operation, news
        with self._journal.transaction():
            for name, example in examples:
                self._require_comparable(example, settle=True)
                new = again or not self._journal.counts(name, example.digest)
                if new:
                    operation = operation or self._journal.begin(kind)
                    self._journal.add(operation, name, example)
                news.append(new)
        self._history.snapshot(at_least=SNAPSHOT_EVERY)
        return operation, news

    def _release(self) -> None:
        if hasattr(self, "_journal"):
            self._journal.close()
        if self._lock is not None:
            self._lock.release()

    def _require_comparable(self, example: Example, *, settle: bool = False) -> None:
        """Vectors must be alike; the first ones settle how."""
        mine = {"n_features": str(len(example.vector)), "embedder": example.embedder}
        known = {key: self._journal.fact(key) for key in mine}
        if known["embedder"] and mine["embedder"] and known["embedder"] != mine["embedder"]:
            raise WrongEmbedder(
                f"{self.path} was taught with the embedder {known['embedder']!r}, this is "
                f"{mine['embedder']!r}; vectors of two embedders cannot be compared: open it with "
                "the first, or begin a new folder"
            )
        if known["n_features"] and known["n_features"] != mine["n_features"]:
            raise WrongWidth(
                f"the vector has {mine['n_features']} features, this Learner was taught "
                f"{known['n_features']}; give vectors of one kind, or images"
            )
        for key, value in mine.items() if settle else ():
            if value and not known[key]:
                self._journal.set_fact(key, value)

    def _found(self, what: Any, name: str | None, source: str | None) -> list[int]:
        """The teachings that should be forgotten."""
        if name is not None or source is not None:
            if what is not None:
                raise InvalidInput("say what to forget once: an example, name= or source=")
            found = self._journal.find(name=name, source=source)
            if not found:
                raise UnknownLabel(f"nothing was taught with {name=}, {source=}")
            return found
        if what is None:
            raise InvalidInput("say what to forget: an example, name= or source=")
        if isinstance(what, (str, os.PathLike)):
            return self._found_by_word(os.fspath(what))
        found = self._journal.find(digest=self._intake.one(what).digest)
        if not found:
            raise NeverLearned("this example was never taught, or is forgotten already")
        return found

    def _found_by_word(self, word: str) -> list[int]:
        meanings = {
            "a name": self._journal.find(name=word),
            "a source": self._journal.find(source=os.path.abspath(word))
            or self._journal.find(source=word),
        }
        if not any(meanings.values()) and os.path.isfile(word):
            digest = hashlib.sha256(read_bytes(word, self._intake.limits)).digest()
            meanings["an image"] = self._journal.find(digest=digest)
        found = [teachings for teachings in meanings.values() if teachings]
        if not found:
            raise UnknownLabel(f"{word!r} is no name, source or image that was taught")
        if len(found) > 1:
            raise InvalidInput(f"{word!r} is a name and a source; say name= or source=")
        return found[0]


def _locked(path: Path) -> WriterLock:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be made: {error.strerror}") from None
    return WriterLock(path)


def _in_parts(pairs: Iterable[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    """What has come in since the last transaction, in parts that are worth one."""
    part: list[tuple[str, Any]] = []
    since = time.monotonic()
    for pair in pairs:
        part.append(pair)
        if len(part) >= COMMIT_ROWS or time.monotonic() - since > COMMIT_SECONDS:
            yield part
            part, since = [], time.monotonic()
    if part:
        yield part


def _with_checked_names(examples: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    for example, name in examples:
        require_name(name)
        yield example, name


def _words(source: Any) -> str:
    return "" if isinstance(source, bytes) else os.fspath(source)
