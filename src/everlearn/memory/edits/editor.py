"""Everything that changes a Memory: each method is one operation on the journal.

A change is made inside :meth:`OpenMemory.changing`, so there is one writer, and is on disk when the
method returns. Each change is implemented in the file with its name.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from everlearn.errors import AlreadyThere, InvalidParameter, NotMergeable
from everlearn.images.embedders import Embedder
from everlearn.images.names import folded, is_reserved, is_storable, require_name, tidy
from everlearn.memory.answers import Outcome, Summary
from everlearn.memory.edits import operations
from everlearn.memory.edits.before_reembed import keep_before, remove_before, undo_reembed
from everlearn.memory.edits.correcting import Correction, correct
from everlearn.memory.edits.exchanging import parts
from everlearn.memory.edits.forgetting import Forgotten, TeachingSelection
from everlearn.memory.edits.intake import Intake
from everlearn.memory.edits.merging import Merged, Synced, are_equal, merge, take_names_there
from everlearn.memory.edits.operations import Change
from everlearn.memory.edits.part_vectors import compare_all, embed_missing
from everlearn.memory.edits.reembed import (
    Comparison,
    Progress,
    Reembedding,
    replace_vectors,
    require_all_there,
)
from everlearn.memory.edits.relocating import Relocation, relocate
from everlearn.memory.edits.room import ALWAYS_FITS, require_room
from everlearn.memory.edits.unknowns import UnknownImage, find_group, nearest_names
from everlearn.memory.edits.writing import Spelling, TeachingWriter, begin, in_parts, require_group
from everlearn.memory.insight.verify import complete_receipt
from everlearn.memory.model.strictness import ACCEPT, require_accept
from everlearn.memory.opened import OpenMemory
from everlearn.memory.storage import erase as erasing
from everlearn.memory.storage import receipts
from everlearn.memory.storage.appending import stop_counting
from everlearn.memory.storage.integrity import require_intact
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import Example, require_width
from everlearn.memory.storage.tombstones import Pair, counting
from everlearn.regions.region_embedder import require_mode

# A snapshot is written when the log has grown by this many entries since the last one.
SNAPSHOT_EVERY = 4096

# Returns the groups of kept unknown images.
Groups = Callable[[], list[list[UnknownImage]]]


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
            converted = self.intake.one(example, source)
            self._require_room(journal, converted)
            writer = TeachingWriter(journal, "teach", again=again, also=also, group=group)
            (outcome,) = writer.write([(spelled, converted)])
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
        report = acknowledge or (lambda outcome: None)
        with self._opened.changing() as journal:
            writer = TeachingWriter(journal, "teach", again=again, also=also)
            converted = self.intake.many(_spelled(examples, Spelling(journal)))
            for part in in_parts(converted, journal.db.rows_at_once):
                readable = [(name, one) for name, one in part if isinstance(one, Example)]
                for _, first in readable[:1]:
                    self._require_room(journal, first)
                outcomes = iter(writer.write(readable))
                for name, one in part:
                    result = next(outcomes) if isinstance(one, Example) else one.error
                    if isinstance(result, bool):
                        taught, repeated = taught + result, repeated + (not result)
                        report(Outcome(_as_text(one.source), name, result))
                    else:
                        refused += 1
                        report(Outcome(_as_text(one.source), name, False, result))
                self._snapshot()
        return Summary(taught, repeated, refused)

    def correct(self, example: Any, name: str, *, source: str | None, also: bool) -> Correction:
        require_name(name)
        with self._opened.changing() as journal:
            spelled = Spelling(journal)(name)
            converted = self.intake.one(example, source)
            self._require_room(journal, converted)
            with journal.transaction():
                return correct(journal, converted, spelled, also=also)

    def forget(self, selection: TeachingSelection) -> Forgotten:
        with self._opened.one_change() as journal:
            found = selection.found(journal, self.intake, forgotten=False)
            tally = journal.tally(found)
            stop_counting(journal, begin(journal, "forget"), found)
            journal.db.record_event("forgotten", count=len(found), names=tally)
        return Forgotten(len(found), tally)

    def would_forget(self, selection: TeachingSelection, *, erase: bool) -> Forgotten:
        def found_and_counted() -> Forgotten:
            journal = self._opened.journal
            found = selection.found(journal, self.intake, forgotten=erase)
            return Forgotten(len(found), journal.tally(found))

        return self._opened.read(found_and_counted)

    def erase(self, selection: TeachingSelection) -> Forgotten:
        opened = self._opened
        with opened.changing() as journal, journal.db.exclusive():
            before = opened.read(lambda: opened.model().digest())
            nearest = opened.read(lambda: nearest_names(opened.model(), journal))
            with journal.transaction():
                found = _found_in_history(selection, journal, self.intake)
                tally, traces = journal.tally(found), receipts.traces(journal, found)
                erased_names = {
                    name for name in tally if set(journal.find(name=name)) <= set(found)
                }
                resembling = [number for number, name in nearest.items() if name in erased_names]
                removed = erasing.erase(journal, found, resembling)
                journal.db.record_event("erased", count=len(found), names={})
                digests = receipts.keyed_digests(journal, receipts.not_shared(journal, traces))
            opened.history.drop()
            opened.finish_erase(wait=True)
            after = opened.read(lambda: opened.model().digest())
            receipt = receipts.make_receipt(
                journal,
                found,
                digests,
                removed=removed,
                models=(before, after),
                state=journal.fact(erasing.UNFINISHED) if opened.erase_pending else None,
                remaining=[*opened.storage.caches.remaining(), *receipts.checkpoints(journal)],
            )
        return Forgotten(len(found), tally, receipt)

    def remember_checkpoint(self, address: str) -> None:
        with self._opened.one_change() as journal:
            receipts.remember_checkpoint(journal, address)

    def rename(self, old: str, new: str) -> str:
        if not (isinstance(old, str) and is_storable(old)):
            require_name(old)
        require_name(new)
        with self._opened.changing() as journal:
            spelling = Spelling(journal)
            old = spelling.of_known(old)
            respelled = folded(new) == folded(old) and not is_reserved(new)
            spelled = tidy(new) if respelled else spelling(new)
            with journal.transaction():
                operations.rename(journal, old, spelled)
        return spelled

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

    def merge(self, other: "Editor", conflicts: str = "list", group: str | None = None) -> Merged:
        """Take over what another Memory was taught and what it forgot.

        With ``conflicts="there"`` a picture with a different name there gets that name.
        """
        require_group(group)
        here, there = self._opened, other._opened
        if there.storage.identity() == here.storage.identity():
            raise NotMergeable("a Memory cannot be merged with itself")
        if here.mode != there.mode and self._has_embedder() and other._has_embedder():
            raise NotMergeable(
                f"{there.path} was taught with regions={there.mode!r}, this Memory with "
                f"{here.mode!r}; change one of them: everlearn reembed --regions, in Python "
                "reembed(regions=...)"
            )
        with here.changing() as journal, there.journal.db.read_transaction():
            require_intact(there.journal)
            merged = merge(journal, there.journal, self._snapshot, group)
        if conflicts == "there" and merged.conflicts:
            with here.one_change() as journal:
                several = take_names_there(journal, merged.conflicts)
            if several:
                self.merge(other)  # teaches the other names of these pictures
        return merged

    def sync(self, other: "Editor", conflicts: str) -> Synced:
        """Merge in both directions; conflicting names are resolved, or only listed."""
        here = self.merge(other, "there" if conflicts == "there" else "list")
        there = other.merge(self, "there" if conflicts == "here" else "list")
        if conflicts != "list":
            self.merge(other)
            other.merge(self)
        return Synced(here, there, are_equal(self.counting(), other.counting()))

    def _has_embedder(self) -> bool:
        opened = self._opened
        return bool(opened.read(lambda: opened.journal.fact("embedder")))

    def parts(self, place: Path, most_bytes: int) -> Iterator[Path]:
        """Write everything a merge needs below a folder, as journals of about ``most_bytes``."""
        with self._opened.guard, self._opened.journal.db.read_transaction():
            yield from parts(self._opened.journal, place, most_bytes)

    def counting(self) -> set[Pair]:
        """All current teachings, each as its picture and box, and its name."""
        return self._opened.read(lambda: set(counting(self._opened.journal)))

    def relocate(self, old: str, new: str) -> Relocation:
        with self._opened.one_change() as journal:
            return relocate(journal, old, new, self.intake.limits)

    def reembed(
        self,
        embedder: Embedder | None,
        progress: Progress | None,
        regions: str | None,
        *,
        drop: bool,
    ) -> Reembedding:
        """Recompute all vectors; ``None`` keeps the embedder or the region mode."""
        mode = self._opened.mode if regions is None else regions
        require_mode(mode)
        embedder = self.intake.embedder if embedder is None else embedder
        caches = self._opened.storage.caches
        with self._opened.changing() as journal, journal.db.exclusive():
            reembedded = embed_missing(
                caches, journal, embedder, self.intake.limits, progress, mode
            )
            if not drop:
                require_all_there(journal, reembedded)
            keep_before(caches, journal)
            with journal.transaction():
                done = replace_vectors(journal, embedder, reembedded, mode)
            self._opened.history.drop()
            caches.remove_collected()
            remove_before(caches, keep=journal.last_operation)
            self.intake.embedder = embedder
        self._opened.read(self._opened.note_mode)
        return done

    def compare(
        self, embedders: list[Embedder], modes: tuple[str, ...], progress: Progress | None
    ) -> list[Comparison]:
        """Accuracy with other embedders and region modes; :meth:`reembed` reuses the vectors."""
        for mode in modes:
            require_mode(mode)
        caches, limits = self._opened.storage.caches, self.intake.limits
        with self._opened.changing() as journal:
            classifier = self._opened.history.classifier()
            return compare_all(caches, journal, classifier, embedders, limits, progress, modes)

    def set_region_mode(self, wanted: str) -> None:
        """Store in a new folder which part of a picture is used where no box is given."""
        opened = self._opened
        if wanted == opened.mode:
            return
        require_mode(wanted)
        if opened.read_only or opened.read(lambda: opened.journal.last_position):
            raise InvalidParameter(
                f"{opened.path} was taught with regions={opened.mode!r}; to change it, leave "
                f"--regions away and run everlearn reembed --regions {wanted} first, in Python "
                f"reembed(regions={wanted!r})"
            )
        with opened.one_change() as journal:
            journal.set_fact("regions", wanted)
            opened.note_mode()

    def set_accept(self, accept: float) -> None:
        require_accept(accept)
        with self._opened.one_change() as journal:
            journal.set_fact(ACCEPT, repr(float(accept)))

    def set_network(self) -> str:
        path, embedder = self._opened.path, self.intake.embedder
        with self._opened.one_change() as journal:
            known = journal.fact("embedder")
            if known not in (None, embedder.name):
                raise AlreadyThere(f"{path} uses {known!r}; everlearn reembed changes the network")
            if journal.n_features not in (0, embedder.n_features):
                raise AlreadyThere(f"{path} was taught vectors of {journal.n_features} numbers")
            journal.set_fact("embedder", embedder.name)
            journal.set_fact("n_features", str(embedder.n_features))
        return embedder.name

    def use(self, classifier: Any) -> None:
        with self._opened.changing():
            self._opened.history.use(classifier)

    def once(self, key: str, content: bytes, work: Callable[[], Any]) -> Any:
        with self._opened.changing() as journal:
            inbox = journal.db.inbox
            return work() if inbox is None else inbox.once(key, content, work)

    def complete_receipt(self, receipt: Path) -> list[str]:
        with self._opened.changing():
            self._opened.finish_erase(wait=True)
            return complete_receipt(self._opened.history, receipt)

    def name_unknowns(self, groups: Groups, group: int, name: str) -> int:
        """Teach a group of kept unknown images; ``groups`` lists them inside the change."""
        require_name(name)
        with self._opened.one_change() as journal:
            name = Spelling(journal)(name)
            found = find_group(groups(), group)
            return operations.name_unknowns(journal, found, name)

    def ignore_unknowns(self, groups: Groups, group: int) -> int:
        with self._opened.one_change() as journal:
            found = find_group(groups(), group)
            operations.ignore_unknowns(journal, found)
        return len(found)

    def drop_unknowns(self, groups: Groups, group: int) -> int:
        with self._opened.one_change() as journal:
            found = find_group(groups(), group)
            operations.drop_unknowns(journal, found)
        return len(found)

    def _require_room(self, journal: Journal, first: Example) -> None:
        """Before the first vector, require that the classifier can learn ones of its length."""
        width = len(first.vector)
        if width > ALWAYS_FITS and not journal.n_features:
            require_width(width)
            require_room(self._opened.history.classifier(), width)

    def _snapshot(self) -> None:
        self._opened.snapshot(at_least=SNAPSHOT_EVERY)


def _found_in_history(selection: TeachingSelection, journal: Journal, intake: Intake) -> list[int]:
    """Ids of the selected teachings, including those that no longer count.

    Empty for a name that no teaching has and only the history contains; an erase removes it.
    """
    word = selection.name if selection.name is not None else selection.what
    if isinstance(word, str) and journal.is_in_history_only(word):
        return []
    return selection.found(journal, intake, forgotten=True)


def _spelled(examples: Iterable[tuple[Any, str]], spelling: Spelling) -> Iterator[tuple[Any, str]]:
    """The examples with their names as they are stored."""
    for example, name in examples:
        yield example, spelling(name)


def _as_text(source: Any) -> str:
    """The path of a source; empty for bytes."""
    return "" if isinstance(source, bytes) else os.fspath(source)
