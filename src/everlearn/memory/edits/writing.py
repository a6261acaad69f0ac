"""Teachings into the journal: what is known already is not taught twice, and vectors are alike."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from everlearn.errors import InvalidInput, OtherName, WrongEmbedder, WrongWidth
from everlearn.memory.edits.operations import begin
from everlearn.memory.storage.integrity import LONGEST_SOURCE
from everlearn.memory.storage.journal import Example, Journal

# Many teachings share one transaction: until there are this many, or this long has passed.
COMMIT_ROWS = 64
COMMIT_SECONDS = 0.25

Kind = dict[str, str]


class TeachingWriter:
    """Writes the examples of one operation, however many transactions it takes.

    Parameters
    ----------
    journal : Journal
    kind : str
        What the operation is called.
    again : bool
        Write an example even if it counts under the same name already.
    also : bool
        Write an example even if it counts under another name.
    """

    def __init__(self, journal: Journal, kind: str, *, again: bool, also: bool) -> None:
        self.journal = journal
        self.kind = kind
        self.again = again
        self.also = also
        self.operation: int | None = None

    def write(self, examples: Iterable[tuple[str, Example]]) -> list[bool | OtherName]:
        """One transaction; whether each was new, or why it was not written."""
        operation = self.operation
        outcomes: list[bool | OtherName] = []
        with self.journal.transaction():
            for name, example in examples:
                settle_kind(self.journal, example)
                refusal = None if self.also else self._other_name(name, example)
                new = self.again or not self.journal.counts(name, example.digest)
                if refusal is None and new:
                    operation = operation or begin(self.journal, self.kind)
                    self.journal.add(operation, name, example)
                outcomes.append(refusal or new)
        self.operation = operation
        return outcomes

    def _other_name(self, name: str, example: Example) -> OtherName | None:
        others = self.journal.tally(self.journal.find(digest=example.digest))
        if not others or name in others:
            return None
        what = example.source or "this example"
        known = ", ".join(repr(other) for other in others)
        return OtherName(
            f"{what} is already taught as {known}: correct it to move it to {name!r}, or teach it "
            "with also=True (--also) to keep both names"
        )


def kind_of_vectors(journal: Journal) -> Kind:
    """What the first vectors settled: how long they are, and which embedder made them."""
    return {key: journal.fact(key) or "" for key in ("n_features", "embedder")}


def require_alike(known: Kind, example: Example, memory: str) -> Kind:
    """Vectors must be of one kind; returns that of the example."""
    if len(example.source) > LONGEST_SOURCE:
        raise InvalidInput(f"a source has at most {LONGEST_SOURCE} characters")
    mine = {"n_features": str(len(example.vector)), "embedder": example.embedder}
    if known["embedder"] and mine["embedder"] and known["embedder"] != mine["embedder"]:
        raise WrongEmbedder(
            f"{memory} was taught with the embedder {known['embedder']!r}, this is "
            f"{mine['embedder']!r}; vectors of two embedders cannot be compared: open it with "
            "the first (embedder=, or everlearn --network FILE), or change it over with reembed"
        )
    if known["n_features"] and known["n_features"] != mine["n_features"]:
        raise WrongWidth(
            f"the vector has {mine['n_features']} features, this Memory was taught "
            f"{known['n_features']}; give vectors of one kind, or images"
        )
    return mine


def settle_kind(journal: Journal, example: Example) -> None:
    """Vectors must be of one kind, and the first ones settle which; inside a transaction."""
    known = kind_of_vectors(journal)
    for key, value in require_alike(known, example, journal.db.memory).items():
        if value and not known[key]:
            journal.set_fact(key, value)


def in_parts(pairs: Iterable[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
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
