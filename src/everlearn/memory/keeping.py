"""What a Memory keeps: teaching, forgetting, undoing, and seeing what is there.

Teaching appends to the journal and returns when it is on disk. What a Memory answers is in
memory.py; each thing done here is in a file of its own.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from everlearn.errors import InvalidInput, InvalidParameter, NotMergeable
from everlearn.images.by_name import Given
from everlearn.images.decode import DEFAULT_LIMITS, Limits
from everlearn.images.embedders import Embedder
from everlearn.images.folders import require_name
from everlearn.memory.answers import Outcome, Summary
from everlearn.memory.edits import operations
from everlearn.memory.edits.correcting import Correction
from everlearn.memory.edits.correcting import correct as corrected
from everlearn.memory.edits.forgetting import Forgotten, Selection
from everlearn.memory.edits.intake import Intake
from everlearn.memory.edits.operations import Change
from everlearn.memory.edits.writing import TeachingWriter, in_parts
from everlearn.memory.insight.verify import Verification
from everlearn.memory.insight.verify import verify as verified
from everlearn.memory.model.classifiers import classifier_for, default_classifier
from everlearn.memory.opened import OpenMemory
from everlearn.memory.storage import erase as erasing
from everlearn.memory.storage.backup import write_backup
from everlearn.memory.storage.erase import Receipt
from everlearn.memory.storage.journal import Example, NameRecord, Teaching

# A snapshot is made when the log has grown by this much since the last one.
SNAPSHOT_EVERY = 4096


class Keeping:
    """A folder that is taught; :class:`Memory` is one that is asked as well."""

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
        if not 0.0 < accept < 1.0:
            raise InvalidParameter(f"accept is a share between 0 and 1, not {accept!r}")
        if not os.fspath(path):
            raise InvalidParameter("a Memory lives in a folder; its path is empty")
        self.path = Path(path)
        self.accept = accept
        self.read_only = read_only
        self._intake = Intake(
            embedder,
            limits,
            keep_images,
            known=lambda: self._store.read(lambda: self._store.journal.fact("embedder")),
        )
        self._store = OpenMemory(
            self.path, classifier_for(classifier), default_classifier, read_only=read_only
        )

    def __repr__(self) -> str:
        opened = "open to be asked" if self.read_only else "open"
        state = "closed" if self._store.closed else opened
        return f"<{type(self).__name__} in {self.path}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Make a snapshot if it is worth it, and let others teach."""
        self._store.close()

    def teach(
        self,
        example: Any,
        name: str,
        *,
        source: str | None = None,
        again: bool = False,
        also: bool = False,
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
        also : bool, default=False
            Teach it even if the same image is already taught under another name, and keep both;
            to move it, see :meth:`correct`.

        Returns
        -------
        bool
            Whether it was new.
        """
        require_name(name)
        with self._store.changing() as journal:
            taken = self._intake.one(example, source)
            outcome = TeachingWriter(journal, "teach", again=again, also=also).write(
                [(name, taken)]
            )[0]
            self._store.history.snapshot(at_least=SNAPSHOT_EVERY)
            if not isinstance(outcome, bool):
                raise outcome
            return outcome

    def teach_many(
        self,
        examples: Iterable[tuple[Any, str]],
        *,
        again: bool = False,
        also: bool = False,
        acknowledge: Callable[[Outcome], None] | None = None,
    ) -> Summary:
        """Teach pairs of an example and a name, every core busy; one operation for :meth:`undo`.

        An image that cannot be read, or is taught under another name, does not stop the others.

        Parameters
        ----------
        examples : iterable of pairs
        again, also : bool, default=False
            As for :meth:`teach`.
        acknowledge : callable, optional
            Told the outcome of each example, in order, once it is on disk.
        """
        taught = repeated = refused = 0
        tell = acknowledge or (lambda outcome: None)
        with self._store.changing() as journal:
            writer = TeachingWriter(journal, "teach", again=again, also=also)
            for part in in_parts(self._intake.many(_with_checked_names(examples))):
                good = [(name, taken) for name, taken in part if isinstance(taken, Example)]
                outcomes = iter(writer.write(good))
                for name, taken in part:
                    found = next(outcomes) if isinstance(taken, Example) else taken.error
                    if isinstance(found, bool):
                        taught, repeated = taught + found, repeated + (not found)
                        tell(Outcome(_words(taken.source), name, found))
                    else:
                        refused += 1
                        tell(Outcome(_words(taken.source), name, False, found))
                self._store.history.snapshot(at_least=SNAPSHOT_EVERY)
        return Summary(taught, repeated, refused)

    def correct(self, example: Any, name: str, *, also: bool = False) -> Correction:
        """This is a ``name``: teach it, and if the same image stands under another name, move it.

        One operation for :meth:`undo`.

        Parameters
        ----------
        example : as for :meth:`teach`
        name : str
        also : bool, default=False
            Keep the other names as well.
        """
        require_name(name)
        with self._store.changing() as journal:
            taken = self._intake.one(example)
            with journal.transaction():
                return corrected(journal, taken, name, also=also)

    def forget(
        self,
        what: Any = None,
        *,
        id: int | None = None,
        name: str | None = None,
        source: str | None = None,
        erase: bool = False,
    ) -> Forgotten:
        """Unlearn an example, a name, or all that came from a source.

        Parameters
        ----------
        what : optional
            An example as for :meth:`teach`, or a word that is a name, a source or a file; say
            ``name=`` or ``source=`` where it could be more than one of them.
        id : int, optional
            The number of a teaching, as :meth:`teachings` lists it.
        name, source : str, optional
            A source may be a folder: it stands for all files in it.
        erase : bool, default=False
            Remove it from the history as well, so that no byte of it stays, and with it whatever
            was forgotten before; there is no undo. The model becomes, bit for bit, that of a new
            Memory taught what is left. Costs a rebuild; without it, :meth:`undo` works.

        Returns
        -------
        Forgotten
            How many teachings of which names, and the receipt of an erase.
        """
        choice = Selection(what, id, name, source)
        with self._store.changing() as journal:
            if erase:
                return self._erase(choice)
            with journal.transaction():
                found = choice.found(journal, self._intake, forgotten=False)
                tally = journal.tally(found)
                journal.take_back(operations.begin(journal, "forget"), found)
            return Forgotten(len(found), tally)

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
        choice = Selection(what, id, name, source)

        def look() -> Forgotten:
            found = choice.found(self._store.journal, self._intake, forgotten=erase)
            return Forgotten(len(found), self._store.journal.tally(found))

        return self._store.read(look)

    def rename(self, old: str, new: str) -> None:
        """Call a name something else; if the new name exists, the two become one."""
        require_name(old)
        require_name(new)
        with self._store.one_change() as journal:
            operations.rename(journal, old, new)

    def undo(self) -> Change:
        """Take the last operation back; returns what it was, and about how many teachings.

        An erase cannot be undone, nor anything before it.
        """
        with self._store.one_change() as journal:
            return operations.undo(journal)

    def redo(self) -> Change:
        """Do again what was undone last, if nothing else was done since."""
        with self._store.one_change() as journal:
            return operations.redo(journal)

    def history(self, limit: int | None = None) -> list[Change]:
        """What was done, the latest first."""
        require_count("limit", limit)
        return self._store.read(lambda: operations.history(self._store.journal, limit))

    def merge(self, other: "Keeping | str | os.PathLike[str]") -> int:
        """Learn everything that another Memory was taught; returns how many teachings were new."""
        if not isinstance(other, Keeping):
            with Keeping(other, read_only=True) as opened:
                return self.merge(opened)
        if other.path.resolve() == self.path.resolve():
            raise NotMergeable("a Memory cannot be merged with itself")
        with self._store.changing() as journal, other._store.journal.db.one_view():
            writer, new = TeachingWriter(journal, "merge", again=False, also=True), 0
            for part in in_parts(other._store.journal.examples()):
                new += sum(outcome is True for outcome in writer.write(part))
                self._store.history.snapshot(at_least=SNAPSHOT_EVERY)
            return new

    def use(self, *, classifier: Any) -> None:
        """Switch to another classifier and teach it everything in the journal.

        Parameters
        ----------
        classifier : an everlearn learner, or one of "ridge", "lda", "mean" and "auto"
        """
        with self._store.changing():
            self._store.history.use(classifier_for(classifier))

    def names(self) -> Mapping[str, NameRecord]:
        """Every name known, with ``count`` and ``last_taught`` (seconds since 1970)."""
        return self._store.read(lambda: self._store.journal.names())

    def teachings(
        self, name: str | None = None, *, limit: int | None = None, offset: int = 0
    ) -> list[Teaching]:
        """What was taught and counts, in the order it was taught: all of it, or one name's."""
        require_count("limit", limit)
        require_count("offset", offset)
        return self._store.read(lambda: self._store.journal.teachings(name, limit, offset))

    def thumbnail(self, id: int) -> bytes | None:
        """A small JPEG of a teaching, if one was kept."""
        require_count("id", id, least=1)
        return self._store.read(lambda: self._store.journal.thumbnail(id))

    @property
    def embedder(self) -> Embedder:
        """What turns images into vectors."""
        return self._intake.embedder

    def info(self) -> dict[str, Any]:
        """What there is to know about the folder."""

        def look() -> dict[str, Any]:
            journal = self._store.journal
            names = journal.names()
            return {
                "path": str(self.path),
                "names": len(names),
                "teachings": sum(record.count for record in names.values()),
                "log_entries": journal.last_position,
                "snapshot_at": self._store.history.snapshot_at,
                "features": journal.n_features,
                "embedder": journal.fact("embedder"),
                "classifier": " ".join(repr(self._store.history.classifier()).split()),
                "erase_pending": journal.fact(erasing.UNFINISHED) is not None,
                "bytes": _size(self.path),
            }

        return self._store.read(look)

    def verify(self, receipt: str | os.PathLike[str] | None = None) -> Verification:
        """Look at everything: every row and digest, and the model against a replay, bit for bit.

        Parameters
        ----------
        receipt : path-like, optional
            The receipt of an erase: look also for what it says is gone.
        """
        return self._store.read(lambda: verified(self._store.history, receipt))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy everything into a new folder; safe while somebody teaches.

        A backup is a Memory itself; ``everlearn restore`` puts it back.
        """
        self._store.read(lambda: write_backup(self._store.journal.db, Path(path)))

    def _erase(self, choice: Selection) -> Forgotten:
        store, journal = self._store, self._store.journal
        before = store.read(lambda: store.model().digest())
        with journal.transaction():
            found = _found_in_history(choice, journal, self._intake)
            tally, traces = journal.tally(found), erasing.traces(journal, found)
            also_removed = erasing.erase(journal, found)
        store.finish_erase(wait=True)
        after, log_after = store.read(
            lambda: (store.model().digest(), store.journal.chain_at(store.journal.last_position))
        )
        receipt: Receipt = erasing.receipt(
            found,
            traces,
            also_removed=also_removed,
            models=(before, after),
            log_after=log_after or b"",
            pending=store.erase_pending,
        )
        return Forgotten(len(found), tally, receipt)


def _found_in_history(choice: Selection, journal: Any, intake: Intake) -> list[int]:
    """As for forgetting, but a word that only the history remembers is found as well."""
    word = choice.name if choice.name is not None else choice.what
    if isinstance(word, str) and journal.only_remembered(word):
        return []
    return choice.found(journal, intake, forgotten=True)


def _with_checked_names(examples: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    for example, name in examples:
        require_name(name)
        yield example, name


def _words(source: Any) -> str:
    return "" if isinstance(source, bytes) else os.fspath(source)


def _size(folder: Path) -> int:
    """Bytes of all files; one that vanishes meanwhile has none."""
    total = 0
    for file in folder.iterdir():
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def require_count(name: str, value: int | None, *, least: int = 0) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and least <= value < 1 << 63):
        raise InvalidInput(f"{name} is a whole number of at least {least}, not {value!r}")
