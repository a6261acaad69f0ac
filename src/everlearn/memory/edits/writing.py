"""Writes teachings into the journal, each as part of an operation.

An example that is already taught is not taught twice, and all vectors have the same length and
embedder. Names are stripped of surrounding spaces and keep their first spelling: ``purple finch``
and `` Purple Finch`` are the name ``Purple Finch`` if that was taught before. Words that answers
use for something else, such as *unknown*, cannot be names.
"""

import difflib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from everlearn.errors import InvalidInput, InvalidLabel, OtherName, WrongEmbedder, WrongWidth
from everlearn.images.names import folded, is_reserved, require_name, tidy
from everlearn.memory.edits.relocating import follow_moved
from everlearn.memory.storage.appending import add_teachings
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import (
    Example,
    require_row,
    require_source,
    require_width,
    row_checksum,
)

# A transaction takes at most this many teachings, or those that arrive within this time.
COMMIT_ROWS = 64
COMMIT_SECONDS = 0.25

# Outcomes of a teaching: it is taught already, it is new, it is taught under another name.
REPEATED, NEW, OTHER = 0, 1, 2

# Two names at least this similar, from 0 to 1, may be spellings of the same one.
ALIKE = 0.8
# Misspellings are searched among at most this many pairs of a new and a known name.
MOST_COMPARED = 20_000
# Up to this many names are read together instead of being looked up one by one.
FEW_NAMES = 10_000

LONGEST_GROUP = 100
# Columns of an operation; ``turns`` is how often it was undone or redone.
COLUMNS = "id, kind, time, turns, dropped, name, called"

# Length and embedder of vectors, by the name of the fact.
Kind = dict[str, str]
# Number and time of an operation, which identify it across transactions; a list for JSON.
Operation = list[float]


class TeachingWriter:
    """Writes the examples of one operation, in any number of transactions.

    Parameters
    ----------
    journal : Journal
    kind : str
        The kind of operation.
    again : bool
        Write an example even if it counts under the same name already.
    also : bool
        Write an example even if it counts under another name.
    group : str, optional
        Continue the last operation if it is of this group.
    """

    def __init__(
        self, journal: Journal, kind: str, *, again: bool, also: bool, group: str | None = None
    ) -> None:
        self.journal = journal
        self.kind = kind
        self.again = again
        self.also = also
        self.group = group
        self.operation: Operation | None = None

    def write(self, examples: Iterable[tuple[str, Example]]) -> list[bool | InvalidInput]:
        """Write one transaction; returns whether each example was new, or its error."""
        pairs = list(examples)
        errors = [_error_of_source(example) for _, example in pairs]
        valid = [pair for pair, error in zip(pairs, errors, strict=True) if error is None]
        outcomes = iter(self._write_valid(valid) if valid else [])
        return [next(outcomes) if error is None else error for error in errors]

    def _write_valid(self, pairs: list[tuple[str, Example]]) -> list[bool | InvalidInput]:
        options = {
            "kind": self.kind,
            "again": self.again,
            "also": self.also,
            "group": self.group,
            "operation": self.operation,
        }
        inbox = self.journal.db.inbox
        if inbox is None:
            with self.journal.transaction():
                answer = write_request(self.journal, options, pairs)
        else:
            answer = inbox.teach(options, pairs)
        self.operation = answer["operation"]
        return self._outcomes(pairs, answer["outcomes"])

    def _outcomes(
        self, pairs: list[tuple[str, Example]], codes: list[int]
    ) -> list[bool | InvalidInput]:
        refused = [
            pair[1].same_as for pair, code in zip(pairs, codes, strict=True) if code == OTHER
        ]
        names = self.journal.counting_names(refused)
        return [
            _other_name(name, example, names[example.same_as]) if code == OTHER else code == NEW
            for (name, example), code in zip(pairs, codes, strict=True)
        ]


def write_request(
    journal: Journal, options: dict[str, Any], pairs: list[tuple[str, Example]]
) -> dict[str, Any]:
    """Write teachings; returns a code for each, and the operation. Call inside a transaction."""
    ensure_kinds(journal, [example for _, example in pairs])
    known = journal.counting_names(example.same_as for _, example in pairs)
    codes: list[int] = []
    new: list[tuple[str, Example]] = []
    for name, example in pairs:
        names = known[example.same_as]
        if names and name not in names and not options["also"]:
            codes.append(OTHER)
        elif name in names and not options["again"]:
            codes.append(REPEATED)
            follow_moved(journal, name, example)
        else:
            codes.append(NEW)
            new.append((name, example))
            names.add(name)
    operation = options["operation"]
    if new:
        operation = continued(journal, operation) or begin_operation(
            journal, options["kind"], options.get("group")
        )
        add_teachings(journal, int(operation[0]), new)
        for name, count in Counter(name for name, _ in new).items():
            journal.db.record_event("taught", name=name, new=True, count=count)
    return {"outcomes": codes, "operation": operation}


def _other_name(name: str, example: Example, names: set[str]) -> OtherName:
    what = example.source or "this example"
    known = ", ".join(repr(other) for other in sorted(names))
    return OtherName(
        f"{what} is already taught as {known}; use correct to move it to {name!r}, or also=True "
        "(--also) to keep both names"
    )


def _error_of_source(example: Example) -> InvalidInput | None:
    """The error if the source of an example cannot be stored."""
    try:
        require_source(example.source)
    except InvalidInput as error:
        return error
    return None


def kind_of_vectors(journal: Journal) -> Kind:
    """Length and embedder of the vectors of a journal."""
    return journal.facts("n_features", "embedder")


def require_alike(known: Kind, example: Example, memory: str) -> Kind:
    """Require a vector of the known length and embedder; returns those of the example."""
    require_source(example.source)
    require_width(len(example.vector))
    mine = {"n_features": str(len(example.vector)), "embedder": example.embedder}
    if known["embedder"] and mine["embedder"] and known["embedder"] != mine["embedder"]:
        raise WrongEmbedder(
            f"{memory} was taught with the embedder {known['embedder']!r}, not "
            f"{mine['embedder']!r}; vectors of two embedders cannot be compared: open it with "
            "the first (embedder=, or everlearn --network FILE), or convert it with reembed"
        )
    if known["n_features"] and known["n_features"] != mine["n_features"]:
        raise WrongWidth(
            f"the vector has {mine['n_features']} features, this Memory was taught "
            f"{known['n_features']}; give vectors of that length, or images"
        )
    return mine


def ensure_kind(journal: Journal, example: Example) -> None:
    """Require a vector of the journal's length and embedder, which the first vectors set.

    Call inside a transaction.
    """
    ensure_kinds(journal, [example])


def ensure_kinds(journal: Journal, examples: Sequence[Example]) -> None:
    """As :func:`ensure_kind`, for many examples in this order."""
    known = kind_of_vectors(journal)
    for example in examples:
        for key, value in require_alike(known, example, journal.db.memory).items():
            if value and not known[key]:
                journal.set_fact(key, value)
                known[key] = value


def in_parts(
    pairs: Iterable[tuple[str, Any]], rows: int = COMMIT_ROWS
) -> Iterator[list[tuple[str, Any]]]:
    """Group pairs into parts for one transaction each, by number and time of arrival."""
    part: list[tuple[str, Any]] = []
    since = time.monotonic()
    for pair in pairs:
        part.append(pair)
        if len(part) >= rows or time.monotonic() - since > COMMIT_SECONDS:
            yield part
            part, since = [], time.monotonic()
    if part:
        yield part


def begin(journal: Journal, kind: str, group: str | None = None) -> int:
    """Begin a new operation, or continue the last one if it is of the same group.

    Operations that are undone can no longer be redone. Returns the number of the operation.
    """
    return int(begin_operation(journal, kind, group)[0])


def begin_operation(journal: Journal, kind: str, group: str | None = None) -> Operation:
    """As :func:`begin`; returns what :func:`continued` needs."""
    last = journal.db.row(f"SELECT {COLUMNS} FROM operations ORDER BY id DESC LIMIT 1")
    if group is not None and last is not None and last[1:2] + last[3:] == (kind, 0, 0, None, group):
        return [int(last[0]), last[2]]
    for row in journal.db.rows(
        f"SELECT {COLUMNS} FROM operations WHERE turns % 2 = 1 AND dropped = 0"
    ):
        keep_operation(journal, (*row[:4], 1, *row[5:]))
    operation = 1 if last is None else int(last[0]) + 1
    when = time.time()
    keep_operation(journal, (operation, kind, when, 0, 0, None, group))
    return [operation, when]


def continued(journal: Journal, operation: Operation | None) -> Operation | None:
    """An operation begun in an earlier transaction; ``None`` if it was undone or erased since."""
    if operation is None:
        return None
    number, when = operation
    query = "SELECT 1 FROM operations WHERE id = ? AND time = ? AND turns = 0 AND dropped = 0"
    return operation if journal.db.value(query, int(number), when) is not None else None


def keep_operation(journal: Journal, row: tuple[object, ...]) -> None:
    """Insert or update an operation."""
    require_row("operations", row)
    own = row_checksum("operations", *row)  # type: ignore[arg-type]
    journal.db.replace("operations", *row, own)


def require_group(group: str | None) -> None:
    """Require a valid group: a word that the caller chooses anew for every operation."""
    if group is not None and not (
        isinstance(group, str) and 0 < len(group) <= LONGEST_GROUP and group.isascii()
    ):
        raise InvalidInput(
            f"a group is a word of at most {LONGEST_GROUP} ASCII characters, not {group!r:.120}"
        )


class Spelling:
    """The stored spelling of names.

    Other spellings of the first new name are searched in the database; with the second new name,
    all names are read once.

    Parameters
    ----------
    journal : Journal
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._by_key: dict[str, str] = {}
        self._n_new = 0
        # Cached, so that teaching a thousand pictures of a name looks it up once.
        self._stored: set[str] = set()
        self._n_lookups = 0
        self._has_all_stored = False

    def __call__(self, name: str) -> str:
        """The name as it is stored."""
        require_name(name)
        if is_reserved(name):
            raise InvalidLabel(f"{tidy(name)!r} is a reserved word in answers; choose another name")
        return self._looked_up(tidy(name))

    def of_known(self, name: str) -> str:
        """The stored spelling of a name; the name itself if it is not stored."""
        if self._journal.is_taught(name):
            return name
        return self._looked_up(tidy(name)) if name.strip() else name

    def _looked_up(self, name: str) -> str:
        inbox = self._journal.db.inbox
        if inbox is None:
            return self._spelled(name)
        return str(inbox.with_retries(lambda: self._spelled(name)))

    def _spelled(self, name: str) -> str:
        if name in self._stored or self._is_stored(name):
            return name
        key = folded(name)
        if key not in self._by_key:
            self._n_new += 1
            same: Iterable[str] = ()
            if self._n_new == 1:
                same = self._journal.spellings_of(key)
            elif self._n_new == 2:
                same = self._journal.names()
            self._by_key = {folded(known): known for known in same} | self._by_key
        return self._by_key.setdefault(key, name)

    def _is_stored(self, name: str) -> bool:
        """Whether a name is stored; with the second lookup, all names are read if they are few."""
        self._n_lookups += 1
        if self._n_lookups == 2 and self._journal.n_names <= FEW_NAMES:
            self._stored.update(self._journal.names_by_id().values())
            self._has_all_stored = True
        if not self._has_all_stored and self._journal.id_of_name(name) is not None:
            self._stored.add(name)
        return name in self._stored


def misspelled(name: str, known: Iterable[str]) -> str | None:
    """The known name that a new one looks like a misspelling of, or ``None``.

    Names with different digits, such as ``shelf 1`` and ``shelf 2``, are not misspellings.
    """
    key = folded(name)
    keys = ((folded(other), other) for other in known)
    by_key = {other: spelled for other, spelled in keys if _digits(other) == _digits(key)}
    if key in by_key:
        return None
    found = difflib.get_close_matches(key, by_key, n=1, cutoff=ALIKE)
    return by_key[found[0]] if found else None


def misspelled_among(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """The known name that each new one looks like a misspelling of.

    Empty if there are more than ``MOST_COMPARED`` pairs.
    """
    new = [name for name in names if name not in known]
    if len(new) * len(known) > MOST_COMPARED:
        return {}
    similar = {name: misspelled(name, known) for name in new}
    return {name: other for name, other in similar.items() if other is not None}


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))
