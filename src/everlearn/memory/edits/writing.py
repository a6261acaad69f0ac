"""Writes teachings into the journal, each as part of an operation.

An example that is already known is not taught twice, and all vectors are of one kind. Names are
stripped of surrounding spaces and keep their first spelling: ``purple finch`` and `` Purple Finch``
are the name ``Purple Finch`` if that was taught before. Words with a meaning in answers cannot be
names.
"""

import difflib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from everlearn.errors import InvalidInput, InvalidLabel, OtherName, WrongEmbedder, WrongWidth
from everlearn.images.folders import folded, is_reserved, require_name, tidy
from everlearn.memory.edits.relocating import follow_moved
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import (
    Example,
    require_row,
    require_source,
    require_width,
    row_checksum,
)

# Teachings share a transaction until there are this many, or this much time has passed.
COMMIT_ROWS = 64
COMMIT_SECONDS = 0.25

# Outcome of a teaching: it was there already, it is new, it is taught under another name.
REPEATED, NEW, OTHER = 0, 1, 2

# Two names at least this similar, from 0 to 1, may be spellings of the same one.
ALIKE = 0.8
# At most this many pairs of a new and a known name are compared.
MOST_COMPARED = 20_000
# Up to this many names are read at once rather than looked up one by one.
FEW_NAMES = 10_000

LONGEST_GROUP = 100
# Columns of an operation.
COLUMNS = "id, kind, time, turns, dropped, name, called"

Kind = dict[str, str]


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
        self.operation: list[float] | None = None

    def write(self, examples: Iterable[tuple[str, Example]]) -> list[bool | InvalidInput]:
        """Write one transaction; returns whether each example was new, or its error."""
        everything = list(examples)
        refusals = [_too_long(example) for _, example in everything]
        pairs = [pair for pair, no in zip(everything, refusals, strict=True) if no is None]
        outcomes = iter(self._written(pairs) if pairs else [])
        return [next(outcomes) if no is None else no for no in refusals]

    def _written(self, pairs: list[tuple[str, Example]]) -> list[bool | InvalidInput]:
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
    """Write teachings and return outcome codes without names; call inside a transaction."""
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
        operation = going_on(journal, operation) or begun(
            journal, options["kind"], options.get("group")
        )
        journal.add_many(int(operation[0]), new)
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


def _too_long(example: Example) -> InvalidInput | None:
    """Why this example cannot be stored, though the others of its operation can."""
    try:
        require_source(example.source)
    except InvalidInput as error:
        return error
    return None


def kind_of_vectors(journal: Journal) -> Kind:
    """Length and embedder of the first vectors, which later ones must match."""
    return journal.facts("n_features", "embedder")


def require_alike(known: Kind, example: Example, memory: str) -> Kind:
    """Require vectors of one kind; returns the kind of the example."""
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
            f"{known['n_features']}; give vectors of one kind, or images"
        )
    return mine


def ensure_kind(journal: Journal, example: Example) -> None:
    """Require vectors of one kind; the first ones set it. Call inside a transaction."""
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
    """Group what has arrived since the last transaction into parts of useful size."""
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

    Operations undone before can no longer be redone.
    """
    return int(begun(journal, kind, group)[0])


def begun(journal: Journal, kind: str, group: str | None = None) -> list[float]:
    """As :func:`begin`, with the time, which :func:`going_on` uses to recognise the operation."""
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


def going_on(journal: Journal, operation: list[float] | None) -> list[float] | None:
    """An operation begun in an earlier transaction, if it was not undone or erased since."""
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
    """Require a valid group: a word chosen by the caller, new for every operation."""
    if group is not None and not (
        isinstance(group, str) and 0 < len(group) <= LONGEST_GROUP and group.isascii()
    ):
        raise InvalidInput(
            f"a group is a word of at most {LONGEST_GROUP} ASCII characters, not {group!r:.120}"
        )


class Spelling:
    """The spelling of names in one journal; all names are read once, with the second new one.

    Parameters
    ----------
    journal : Journal
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, str] = {}
        self._n_new = 0
        # Cached per name: teaching a thousand pictures of a name looks it up once.
        self._there: set[str] = set()
        self._looks = 0
        self._has_all = False

    def __call__(self, name: str) -> str:
        """The name as it is stored."""
        require_name(name)
        if is_reserved(name):
            raise InvalidLabel(f"{tidy(name)!r} is a reserved word in answers; choose another name")
        return self._looked_up(tidy(name))

    def of_known(self, name: str) -> str:
        """The spelling of a name that should be known; one that is not comes back unchanged."""
        if self._journal.is_taught(name):
            return name
        return self._looked_up(tidy(name)) if name.strip() else name

    def _looked_up(self, name: str) -> str:
        inbox = self._journal.db.inbox
        if inbox is None:
            return self._spelled(name)
        return str(inbox.persistently(lambda: self._spelled(name)))

    def _spelled(self, name: str) -> str:
        if name in self._there or self._is_there(name):
            return name
        key = folded(name)
        if key not in self._known:
            self._n_new += 1
            if self._n_new <= 2:
                same = (
                    self._journal.spellings_of(key) if self._n_new == 1 else self._journal.names()
                )
                self._known = {folded(known): known for known in same} | self._known
        return self._known.setdefault(key, name)

    def _is_there(self, name: str) -> bool:
        """Whether a name is known; a small journal's names are read together the second time."""
        self._looks += 1
        if self._looks == 2 and self._journal.n_names <= FEW_NAMES:
            self._there.update(self._journal.name_ids().values())
            self._has_all = True
        if not self._has_all and self._journal.find_name(name) is not None:
            self._there.add(name)
        return name in self._there


def misspelled(name: str, known: Iterable[str]) -> str | None:
    """The known name that a new one looks like a misspelling of, or ``None``.

    Names with different digits, such as ``shelf 1`` and ``shelf 2``, are different on purpose.
    """
    key = folded(name)
    by_key = {folded(other): other for other in known if _digits(other) == _digits(name)}
    if key in by_key:
        return None
    found = difflib.get_close_matches(key, by_key, n=1, cutoff=ALIKE)
    return by_key[found[0]] if found else None


def misspelled_among(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """The known name that each new one looks like a misspelling of.

    Empty if there are more pairs than can be compared in a moment.
    """
    new = [name for name in names if name not in known]
    if len(new) * len(known) > MOST_COMPARED:
        return {}
    similar = {name: misspelled(name, known) for name in new}
    return {name: other for name, other in similar.items() if other is not None}


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))
