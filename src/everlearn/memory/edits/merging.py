"""Merges two Memories: one takes over what the other was taught and what it forgot.

For every picture, or box in one, and name the later event counts, whichever Memory it happened in:
taught after it was forgotten, it is taught; forgotten or erased after it was taught, it is
forgotten. A picture, or a box in one, that has another name there than here is a conflict: it keeps
its names and is listed. Names that differ in capitals or spaces only are the same; they keep the
spelling they have here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from everlearn.errors import InvalidParameter, OtherName
from everlearn.images.names import folded
from everlearn.memory.edits.writing import (
    Spelling,
    TeachingWriter,
    begin,
    begin_operation,
    continued,
    in_parts,
)
from everlearn.memory.storage.appending import move, stop_counting
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import counting_examples
from everlearn.memory.storage.rows import Example, ImageAndBox
from everlearn.memory.storage.tombstones import Pair, Tombstones, copy_tombstones, counting
from everlearn.memory.words import counted, teachings
from everlearn.regions.boxes import Box

# Looking up one picture takes as long as reading this many together.
ROWS_PER_LOOKUP = 10


@dataclass(frozen=True)
class Conflict:
    """One picture, or a box in one, with different names in two Memories.

    Attributes
    ----------
    source : str
    here : tuple of str
        The names it has here.
    there : str
        The name it has there, which it was not given here.
    digest : bytes
        Of the picture.
    box : Box or None
        The box that was taught, as shares of the picture; ``None`` for the whole picture.
    """

    source: str
    here: tuple[str, ...]
    there: str
    digest: bytes
    box: Box | None = None


class Merged(int):
    """Number of new teachings, with the other effects of a merge.

    Attributes
    ----------
    forgotten : int
        Teachings that were forgotten or erased there after they were taught here.
    erased : int
        Those of them that were erased there; here they are forgotten and can still be erased.
    kept_out : int
        Teachings that were forgotten or erased here after they were taught there; not taken over.
    conflicts : tuple of Conflict
    """

    forgotten: int
    erased: int
    kept_out: int
    conflicts: tuple[Conflict, ...]

    def __new__(
        cls, taught: int, *, forgotten: int, erased: int, kept_out: int, conflicts: list[Conflict]
    ) -> "Merged":
        made = super().__new__(cls, taught)
        made.forgotten, made.erased, made.kept_out = forgotten, erased, kept_out
        made.conflicts = tuple(conflicts)
        return made

    def __str__(self) -> str:
        words = [f"learned {teachings(int(self))}"]
        if self.forgotten:
            erased = f" ({self.erased} of them erased there)" if self.erased else ""
            words.append(f"forgot {self.forgotten} that were forgotten there{erased}")
        if self.kept_out:
            words.append(f"left out {self.kept_out} that were forgotten here")
        if self.conflicts:
            have = "has" if len(self.conflicts) == 1 else "have"
            words.append(f"{counted(len(self.conflicts), 'picture')} {have} another name there")
        return ", ".join(words)


@dataclass(frozen=True)
class Synced:
    """The result of merging two Memories in both directions.

    Attributes
    ----------
    here, there : Merged
    equal : bool
        Whether both now count the same pictures and boxes under the same names.
    """

    here: Merged
    there: Merged
    equal: bool


def are_equal(one: Iterable[Pair], other: Iterable[Pair]) -> bool:
    """Whether the same pictures and boxes count under the same names, whatever their spelling."""
    here, there = ({(same, folded(name)) for same, name in pairs} for pairs in (one, other))
    return here == there


def require_resolution(conflicts: str) -> None:
    """Require a way to handle conflicts: list them, or use one side's name in both."""
    if conflicts not in ("list", "here", "there"):
        raise InvalidParameter(f"conflicts must be 'list', 'here' or 'there', not {conflicts!r}")


class _Sides:
    """What counts in two journals, by picture and box, and by name as it is spelled here.

    Parameters
    ----------
    journal : Journal
        The one that takes over.
    other : Journal
    """

    def __init__(self, journal: Journal, other: Journal) -> None:
        self._other = other
        found_there = counting(other)
        self._tombstones, self.tombstones_there = Tombstones(journal), Tombstones(other)
        spelling = Spelling(journal)
        names_there = {name for _, name in (*found_there, *self.tombstones_there.forgotten)}
        self._spelled_here = {name: spelling.of_known(name) for name in sorted(names_there)}
        self._spelled_there = {own: name for name, own in self._spelled_here.items() if own != name}
        self._theirs: dict[Pair, float] = {}
        for (same, name), when in found_there.items():
            pair = same, self._spelled_here[name]
            self._theirs[pair] = max(when, self._theirs.get(pair, when))
        self._ours = counting(journal, self._pictures_to_look_up(journal))
        self.kept_out = 0

    def _pictures_to_look_up(self, journal: Journal) -> set[bytes] | None:
        """The pictures known there; ``None`` if reading all of ours is faster or necessary.

        It is necessary if something was erased there, because a tombstone names no picture.
        """
        known = {digest for (digest, _), _ in self._theirs}
        known |= self.tombstones_there.forgotten_pictures
        few = ROWS_PER_LOOKUP * len(known) < journal.last_position
        return known if few and not self.tombstones_there.erased else None

    def wanted(self) -> Iterator[tuple[str, Example]]:
        """Examples to teach here, with their names; counts those that stay forgotten."""
        for name_there, example in counting_examples(self._other):
            pair = example.same_as, self._spelled_here[name_there]
            if pair in self._ours:
                continue
            since = self._tombstones.since(pair)
            if since is not None and since >= self._theirs[pair]:
                self.kept_out += 1
            else:
                yield pair[1], replace(example, taught_at=self._theirs[pair])

    def names_there(self, examples: Iterable[ImageAndBox]) -> dict[ImageAndBox, set[str]]:
        """The names of pictures, or boxes in them, that count there."""
        found = self._other.counting_names(examples)
        return {same: {self._spelled_here[n] for n in names} for same, names in found.items()}

    def forgotten_there(self) -> list[Pair]:
        """What counts here and was forgotten or erased there after it was taught here."""
        return [
            pair
            for pair, when in self._ours.items()
            if pair not in self._theirs and self._gone_since(pair) >= when
        ]

    def was_erased_there(self, pair: Pair) -> bool:
        return self.tombstones_there.was_erased(self._as_spelled_there(pair))

    def _gone_since(self, pair: Pair) -> float:
        since = self.tombstones_there.since(self._as_spelled_there(pair))
        return float("-inf") if since is None else since

    def _as_spelled_there(self, pair: Pair) -> Pair:
        same, name = pair
        return same, self._spelled_there.get(name, name)


def merge(
    journal: Journal, other: Journal, done: Callable[[], None], group: str | None = None
) -> Merged:
    """Bring a journal up to date with another; ``done`` is called after every transaction.

    Merges of one ``group``, with nothing else in between, are one operation.
    """
    sides = _Sides(journal, other)
    writer = TeachingWriter(journal, "merge", again=False, also=True, group=group)
    taught = 0
    conflicts: list[Conflict] = []
    for part in in_parts(sides.wanted()):
        n_new, refused = _teach(writer, sides, part)
        taught += n_new
        conflicts += refused
        done()
    gone = sides.forgotten_there()
    with journal.transaction():
        forgotten = [one for same, name in gone for one in journal.find_same(same, name)]
        if forgotten:
            operation = continued(journal, writer.operation) or begin_operation(
                journal, "merge", group
            )
            tally = journal.tally(forgotten)
            stop_counting(journal, int(operation[0]), forgotten)
            journal.db.record_event("forgotten", count=len(forgotten), names=tally)
        copy_tombstones(journal, sides.tombstones_there.erased)
    return Merged(
        taught,
        forgotten=len(forgotten),
        erased=sum(map(sides.was_erased_there, gone)),
        kept_out=sides.kept_out,
        conflicts=conflicts,
    )


def _teach(
    writer: TeachingWriter, sides: _Sides, part: list[tuple[str, Example]]
) -> tuple[int, list[Conflict]]:
    """Teach some examples from there; returns how many were new, and the conflicts."""
    n_new, conflicts = 0, []
    here = writer.journal.counting_names(example.same_as for _, example in part)
    there = sides.names_there(example.same_as for _, example in part)
    for also in (True, False):
        # Several names of one picture are kept if all names it has here are among those there.
        some = [
            (name, example)
            for name, example in part
            if (here[example.same_as] <= there[example.same_as]) == also
        ]
        writer.also = also
        for (name, example), outcome in zip(some, writer.write(some), strict=True):
            n_new += outcome is True
            if isinstance(outcome, OtherName):
                digest, box = example.same_as
                known = tuple(sorted(here[example.same_as]))
                conflicts.append(Conflict(example.source, known, name, digest, box))
    return n_new, conflicts


def take_names_there(journal: Journal, conflicts: Iterable[Conflict]) -> bool:
    """Give each picture the name it has there instead of those it has here, as one operation.

    Of several names there it gets the first; returns whether any picture has several. Call inside
    a transaction.
    """
    several = False
    settled = set[ImageAndBox]()
    operation = begin(journal, "correct")
    for conflict in conflicts:
        same = conflict.digest, conflict.box
        several = several or same in settled
        teachings = [] if same in settled else journal.find_same(same)
        settled.add(same)
        if teachings:  # otherwise another process has forgotten it
            before = journal.tally(teachings)
            stop_counting(journal, operation, teachings[1:])
            move(journal, operation, teachings[:1], conflict.there)
            journal.db.record_event("corrected", name=conflict.there, moved_from=list(before))
    return several
