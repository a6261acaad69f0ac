"""Merges two Memories: one takes over what the other was taught and what it forgot.

For every picture and name the later event counts, whichever Memory it happened in: taught after it
was forgotten, it is taught; forgotten or erased after it was taught, it is forgotten. A picture
that has another name there than here is a conflict: it keeps its names and is listed. Names that
differ in capitals or spaces only are the same; they keep the spelling they have here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from everlearn.errors import InvalidParameter, OtherName
from everlearn.images.folders import folded
from everlearn.memory.edits.writing import Spelling, TeachingWriter, begun, going_on, in_parts
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import Example
from everlearn.memory.storage.tombstones import Pair, Tombstones, adopt, counting
from everlearn.memory.words import counted, teachings

# Looking up one picture takes as long as reading so many in one go.
SINGLE_LOOKS = 10


@dataclass(frozen=True)
class Conflict:
    """One picture with different names in two Memories.

    Attributes
    ----------
    source : str
    here : tuple of str
        The names it has here.
    there : str
        The name it has there, which it was not given here.
    digest : bytes
        Of the picture.
    """

    source: str
    here: tuple[str, ...]
    there: str
    digest: bytes


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
        Whether both now count the same pictures under the same names.
    """

    here: Merged
    there: Merged
    equal: bool


def are_equal(one: Iterable[Pair], other: Iterable[Pair]) -> bool:
    """Whether the same pictures count under the same names, in any spelling of these."""
    here, there = ({(digest, folded(name)) for digest, name in pairs} for pairs in (one, other))
    return here == there


def require_resolution(conflicts: str) -> None:
    """What may be done with conflicts: list them, or take one side's name in both."""
    if conflicts not in ("list", "here", "there"):
        raise InvalidParameter(f"conflicts must be 'list', 'here' or 'there', not {conflicts!r}")


def merge(
    journal: Journal, other: Journal, done: Callable[[], None], group: str | None = None
) -> Merged:
    """Bring a journal up to date with another; ``done`` is called after every transaction.

    Merges of one ``group``, with nothing else in between, are one operation.
    """
    found_there = counting(other)
    buried, buried_there = Tombstones(journal), Tombstones(other)
    spelling = Spelling(journal)
    names_known = {name for _, name in (*found_there, *buried_there.forgotten)}
    here = {name: spelling.of_known(name) for name in sorted(names_known)}
    there = {own: name for name, own in here.items() if own != name}
    theirs: dict[Pair, float] = {}
    for (digest, name), when in found_there.items():
        pair = digest, here[name]
        theirs[pair] = max(when, theirs.get(pair, when))
    # A tombstone names no picture, so all of ours are looked at; else, if they are fewer, theirs.
    known_there = {digest for digest, _ in theirs} | buried_there.forgotten_pictures
    few = not buried_there.erased and SINGLE_LOOKS * len(known_there) < journal.last_position
    ours = counting(journal, known_there if few else None)
    names_there: dict[bytes, set[str]] = {}
    for digest, name in theirs:
        names_there.setdefault(digest, set()).add(name)
    names_here: dict[bytes, set[str]] = {}
    for digest, name in ours:
        names_here.setdefault(digest, set()).add(name)
    writer = TeachingWriter(journal, "merge", again=False, also=True, group=group)
    taught = kept_out = 0
    conflicts: list[Conflict] = []

    def wanted() -> Iterator[tuple[str, Example]]:
        nonlocal kept_out
        for name_there, example in other.examples():
            name = here[name_there]
            pair = example.digest, name
            since = buried.since(pair)
            if pair not in ours and since is not None and since >= theirs[pair]:
                kept_out += 1
            elif pair not in ours or example.region is not None:
                yield name, replace(example, taught_at=theirs[pair])

    for part in in_parts(wanted()):
        for also in (True, False):
            # Both names are kept where they were taught side by side, there or here.
            some = [
                (name, example)
                for name, example in part
                if (names_here.get(example.digest, set()) <= names_there[example.digest]) == also
            ]
            writer.also = also
            for (name, example), outcome in zip(some, writer.write(some), strict=True):
                taught += outcome is True
                if isinstance(outcome, OtherName):
                    known = tuple(sorted(names_here[example.digest]))
                    conflicts.append(Conflict(example.source, known, name, example.digest))
        done()

    def spelled_there(pair: Pair) -> Pair:
        digest, name = pair
        return digest, there.get(name, name)

    gone = [
        pair
        for pair, when in ours.items()
        if pair not in theirs and (buried_there.since(spelled_there(pair)) or float("-inf")) >= when
    ]
    with journal.transaction():
        forgotten = [one for digest, name in gone for one in journal.find(name=name, digest=digest)]
        if forgotten:
            operation = going_on(journal, writer.operation) or begun(journal, "merge", group)
            tally = journal.tally(forgotten)
            journal.take_back(int(operation[0]), forgotten)
            journal.db.record_event("forgotten", count=len(forgotten), names=tally)
        adopt(journal, buried_there.erased)
    erased = sum(buried_there.was_erased(spelled_there(pair)) for pair in gone)
    return Merged(
        taught, forgotten=len(forgotten), erased=erased, kept_out=kept_out, conflicts=conflicts
    )
