"""Everything that changes a Memory: each method is one operation on the journal.

A change is made inside :meth:`OpenMemory.changing`, so there is one writer, and is on disk when the
method returns. The file named after a change implements it.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from everlearn.images.embedders import Embedder
from everlearn.images.folders import require_name
from everlearn.memory.answers import Outcome, Summary
from everlearn.memory.edits import operations
from everlearn.memory.edits.before_reembed import keep_before, remove_before, undo_reembed
from everlearn.memory.edits.correcting import Correction, correct
from everlearn.memory.edits.forgetting import Forgotten, TeachingSelection
from everlearn.memory.edits.intake import Intake
from everlearn.memory.edits.merging import Merged, merge
from everlearn.memory.edits.operations import Change
from everlearn.memory.edits.part_vectors import embed_missing
from everlearn.memory.edits.reembed import (
    Progress,
    Reembedding,
    replace_vectors,
    require_all_there,
)
from everlearn.memory.edits.relocating import Relocation, relocate
from everlearn.memory.edits.unknowns import nearest_names
from everlearn.memory.edits.writing import Spelling, TeachingWriter, begin, in_parts, require_group
from everlearn.memory.opened import OpenMemory
from everlearn.memory.storage import erase as erasing
from everlearn.memory.storage import receipts
from everlearn.memory.storage.backup import NETWORKS
from everlearn.memory.storage.rows import Example
from everlearn.memory.storage.tombstones import counting

# A snapshot is written when the log has grown by this much since the last one.
SNAPSHOT_EVERY = 4096


class Editor:
    """Changes to an open Memory.

    Parameters
    ----------
    opened : OpenMemory
    intake : Intake
        Turns images, files and vectors into examples.
    """

    def __init__(self, opened: OpenMemory, intake: Intake) -> None:
        self._opened = opened
        self.intake = intake

    def teach(
        self,
        example: Any,
        name: str,
        *,
        source: str | None,
        again: bool,
        also: bool,
        group: str | None,
    ) -> bool:
        require_name(name)
        require_group(group)
        with self._opened.changing() as journal:
            spelled = Spelling(journal)(name)
            taken = self.intake.one(example, source)
            writer = TeachingWriter(journal, "teach", again=again, also=also, group=group)
            outcome = writer.write([(spelled, taken)])[0]
            self._snapshot()
            if not isinstance(outcome, bool):
                raise outcome
            return outcome

    def teach_many(
        self,
        examples: Iterable[tuple[Any, str]],
        *,
        again: bool,
        also: bool,
        acknowledge: Callable[[Outcome], None] | None,
    ) -> Summary:
        taught = repeated = refused = 0
        tell = acknowledge or (lambda outcome: None)
        with self._opened.changing() as journal:
            writer = TeachingWriter(journal, "teach", again=again, also=also)
            taken_in = self.intake.many(_spelled(examples, Spelling(journal)))
            for part in in_parts(taken_in, journal.db.rows_at_once):
                good = [(name, taken) for name, taken in part if isinstance(taken, Example)]
                outcomes = iter(writer.write(good))
                for name, taken in part:
                    found = next(outcomes) if isinstance(taken, Example) else taken.error
                    if isinstance(found, bool):
                        taught, repeated = taught + found, repeated + (not found)
                        tell(Outcome(_as_text(taken.source), name, found))
                    else:
                        refused += 1
                        tell(Outcome(_as_text(taken.source), name, False, found))
                self._snapshot()
        return Summary(taught, repeated, refused)

    def correct(self, example: Any, name: str, *, source: str | None, also: bool) -> Correction:
        require_name(name)
        with self._opened.changing() as journal:
            spelled = Spelling(journal)(name)
            taken = self.intake.one(example, source)
            with journal.transaction():
                return correct(journal, taken, spelled, also=also)

    def forget(self, selection: TeachingSelection) -> Forgotten:
        with self._opened.one_change() as journal:
            found = selection.found(journal, self.intake, forgotten=False)
            tally = journal.tally(found)
            journal.take_back(begin(journal, "forget"), found)
            journal.db.record_event("forgotten", count=len(found), names=tally)
        return Forgotten(len(found), tally)

    def erase(self, selection: TeachingSelection) -> Forgotten:
        opened = self._opened
        with opened.changing() as journal, journal.db.exclusive():
            before = opened.read(lambda: opened.model().digest())
            likely = opened.read(lambda: nearest_names(opened.model(), journal))
            with journal.transaction():
                found = _found_in_history(selection, journal, self.intake)
                tally, traces = journal.tally(found), receipts.traces(journal, found)
                whole = {name for name in tally if set(journal.find(name=name)) <= set(found)}
                resembling = [number for number, name in likely.items() if name in whole]
                removed = erasing.erase(journal, found, resembling)
                journal.db.record_event("erased", count=len(found), names={})
                digests = receipts.keyed(journal, receipts.gone(journal, traces))
            opened.history.drop()
            opened.finish_erase(wait=True)
            after = opened.read(lambda: opened.model().digest())
            networks = opened.storage.caches.names(NETWORKS)
            receipt = receipts.receipt(
                journal,
                found,
                digests,
                removed=removed,
                models=(before, after),
                state=journal.fact(erasing.UNFINISHED) if opened.erase_pending else None,
                remaining=[*networks, *receipts.checkpoints(journal)],
            )
        return Forgotten(len(found), tally, receipt)

    def remember_checkpoint(self, address: str) -> None:
        with self._opened.one_change() as journal:
            receipts.remember_checkpoint(journal, address)

    def rename(self, old: str, new: str) -> None:
        require_name(old)
        require_name(new)
        with self._opened.one_change() as journal:
            operations.rename(journal, old, new)

    def undo(self, id: int | None) -> Change:
        with self._opened.changing() as journal:
            if operations.undoes_a_reembed(journal, id):
                done = undo_reembed(self._opened.storage.caches, journal)
                self.intake.embedder_changed()
                return done
            with journal.transaction():
                return operations.undo(journal, id)

    def redo(self, id: int | None) -> Change:
        with self._opened.one_change() as journal:
            return operations.redo(journal, id)

    def merge(self, other: OpenMemory) -> Merged:
        """Take over what another Memory was taught and what it forgot."""
        with self._opened.changing() as journal, other.journal.db.one_view():
            return merge(journal, other.journal, self._snapshot)

    def counting(self) -> set[tuple[bytes, str]]:
        """The pictures that count, each as a pair of digest and name."""
        return self._opened.read(lambda: set(counting(self._opened.journal)))

    def move_pictures(self, digests: Iterable[bytes], name: str) -> None:
        """Make pictures count under this name only, whatever names they have."""
        with self._opened.one_change() as journal:
            operation = begin(journal, "correct")
            for digest in digests:
                first, *more = journal.find(digest=digest)
                before = journal.tally([first, *more])
                journal.take_back(operation, more)
                journal.move(operation, [first], name)
                journal.db.record_event("corrected", name=name, moved_from=list(before))

    def relocate(self, old: str, new: str) -> Relocation:
        with self._opened.one_change() as journal:
            return relocate(journal, old, new, self.intake.limits)

    def reembed(
        self, embedder: Embedder, progress: Progress | None, mode: str = "whole", *, drop: bool
    ) -> Reembedding:
        caches = self._opened.storage.caches
        with self._opened.changing() as journal, journal.db.exclusive():
            anew = embed_missing(caches, journal, embedder, self.intake.limits, progress, mode)
            if not drop:
                require_all_there(journal, anew)
            keep_before(caches, journal)
            with journal.transaction():
                done = replace_vectors(journal, embedder, anew, mode)
            self._opened.history.drop()
            caches.remove_collected()
            remove_before(caches, keep=journal.last_operation)
            self.intake.embedder = embedder
            return done

    def _snapshot(self) -> None:
        self._opened.snapshot(at_least=SNAPSHOT_EVERY)


def _found_in_history(selection: TeachingSelection, journal: Any, intake: Intake) -> list[int]:
    """As for forgetting, but also finds names and sources that exist only in the history."""
    word = selection.name if selection.name is not None else selection.what
    if isinstance(word, str) and journal.only_remembered(word):
        return []
    return selection.found(journal, intake, forgotten=True)


def _spelled(examples: Iterable[tuple[Any, str]], spelling: Spelling) -> Iterator[tuple[Any, str]]:
    for example, name in examples:
        yield example, spelling(name)


def _as_text(source: Any) -> str:
    return "" if isinstance(source, bytes) else os.fspath(source)
