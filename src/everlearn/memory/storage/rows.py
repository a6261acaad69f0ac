"""Rows of the journal: their values, validation and checksums.

A row is validated before it is written (appending.py) and when a folder is opened (integrity.py),
by the same rules.

Rows carry a *checksum* in their column ``seal``: a digest of the other columns, which reveals an
altered row. Entries of the log form a hash chain instead,

    chain_i = digest(chain_(i−1), entry_i, digest of the teaching's vector),   chain_0 = zeros

so that the chain at a position identifies everything up to it: two journals with the same chain at
the same position hold the same log, and a model folded from one is a model of the other. The
digests protect against damage, not against an attacker, who can compute them too.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import InvalidInput
from everlearn.images.names import is_storable
from everlearn.memory.storage.schema import PICTURES
from everlearn.regions.boxes import Box, Boxes

DIGEST_BYTES = 16
# The chain before the first entry.
BEGINNING = bytes(DIGEST_BYTES)
SHA256_BYTES = 32

Value = int | float | str | bytes | None
LONGEST_SOURCE = 32_768
LONGEST_FACT = 1 << 24
MOST_FEATURES = 1 << 24
KINDS = {
    "teach", "forget", "rename", "merge", "correct", "name", "ignore", "drop", "reembed", "erase",
}  # fmt: skip
# Kinds of operations about unknown images.
ABOUT_UNKNOWNS = frozenset({"name", "ignore", "drop"})
# The column ``called`` of an operation about unknown images: their earlier states, by number.
STATES = re.compile(r"([1-9][0-9]{0,17}:(-1|0|[1-9][0-9]{0,17})( |$))*")
# Of an erase: the number of teachings. Of a change of network: also the names of teachings left
# out, one per line. Both are empty while the operation begins.
COUNT = re.compile(r"([0-9]{1,18})?")
COUNT_AND_NAMES = re.compile(r"([0-9]{1,18}(\n[^\n]+)*)?")
CALLED_PATTERNS = dict.fromkeys(ABOUT_UNKNOWNS, STATES) | {
    "erase": COUNT,
    "reembed": COUNT_AND_NAMES,
}

# A byte of a path that is not UTF-8, as :func:`as_stored` writes it.
ESCAPED_BYTE = re.compile(r"\\u(dc[89a-f][0-9a-f])")

Row = tuple[Any, ...]
Check = Callable[[Row], bool]

Vectors = NDArray[np.float32]
NameIds = NDArray[np.int64]
ImageAndBox = tuple[bytes, Box | None]


@dataclass(frozen=True)
class TaughtBox:
    """The box of a teaching; ``found`` if the Memory chose it because none was given."""

    box: Box
    found: bool


@dataclass(frozen=True)
class PictureProposals:
    """Proposed boxes of a taught picture, and their vectors."""

    boxes: Boxes
    vectors: NDArray[np.float32]


def given_box(taught: TaughtBox | None) -> Box | None:
    """The box given by the user, if any: it distinguishes two teachings of one picture."""
    return None if taught is None or taught.found else taught.box


@dataclass(frozen=True)
class Example:
    """The content of one teaching; ``embedder`` is empty for a vector given by the caller.

    ``region`` is the part of the picture, ``None`` for the whole; ``proposals`` are other boxes
    found in it. ``taught_at`` is the time to record, ``None`` for now.
    """

    vector: Vectors
    source: str
    digest: bytes
    thumbnail: bytes = b""
    embedder: str = ""
    image: bytes = b""
    region: TaughtBox | None = None
    proposals: PictureProposals | None = None
    taught_at: float | None = None

    @property
    def same_as(self) -> ImageAndBox:
        """Equal for two examples of the same image and given box."""
        return self.digest, given_box(self.region)


@dataclass(frozen=True)
class NameRecord:
    """How many teachings of a name count, and the time of the last one."""

    count: int
    last_taught: float


@dataclass(frozen=True)
class Teaching:
    """One labelled example as stored; ``box`` is the part of the picture it is about."""

    id: int
    name: str
    source: str
    taught_at: float
    has_thumbnail: bool
    box: Box | None = None


@dataclass(frozen=True)
class LogRun:
    """Consecutive log entries of one sign within one window."""

    sign: int
    vectors: Vectors
    names: NameIds


def row_checksum(table: str, *values: Value) -> bytes:
    """Digest of a row's other columns; the same in every version of Python."""
    return blake2b(ascii((table, *values)).encode(), digest_size=DIGEST_BYTES).digest()


def content_digest(data: bytes) -> bytes:
    """Digest of the bytes of a vector or picture."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def next_chain(
    chain: bytes,
    position: int,
    operation: int,
    teaching: int,
    name: int,
    sign: int,
    content: bytes,
) -> bytes:
    """The chain at a log entry, from the chain before it."""
    entry = ascii((position, operation, teaching, name, sign)).encode()
    return blake2b(chain + content + entry, digest_size=DIGEST_BYTES).digest()


def require_row(table: str, row: Row) -> None:
    """Require a row, given without its checksum, to be valid; raises ``InvalidInput``."""
    if not VALID[table](row):
        raise InvalidInput(
            f"this cannot be stored in the table {table}: a value is too long, too large or of the "
            f"wrong type: {row!r:.200}; nothing was changed"
        )


def require_source(source: str) -> None:
    """Require a source no longer than the limit."""
    if len(as_stored(source)) > LONGEST_SOURCE:
        raise InvalidInput(
            f"a source is stored with at most {LONGEST_SOURCE} characters, this one has "
            f"{len(as_stored(source))} ({as_stored(source)[:60]}…); use a shorter path, or source= "
            "in Python"
        )


def require_width(width: int) -> None:
    """Require a vector no longer than the limit."""
    if width > MOST_FEATURES:
        raise InvalidInput(f"a vector has at most {MOST_FEATURES} features, not {width}")


def as_stored(source: str) -> str:
    """A source as stored: zero bytes, and bytes that are not UTF-8, are escaped."""
    text = source.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("\0", "\\x00")


def as_path(stored: str) -> str:
    """The path of a stored source; bytes that are not UTF-8 are restored if no file is there."""
    if "\\udc" not in stored or os.path.lexists(stored):
        return stored
    return ESCAPED_BYTE.sub(lambda found: chr(int(found[1], 16)), stored)


def format_states(states: dict[int, int]) -> str:
    """States of unknown images by number, as an operation stores them."""
    return " ".join(f"{number}:{state}" for number, state in states.items())


def parse_states(text: str | None) -> dict[int, int]:
    """Inverse of :func:`format_states`; older journals have no states."""
    pairs = (pair.split(":") for pair in (text or "").split())
    return {int(number): int(state) for number, state in pairs}


def _valid_fact(row: Row) -> bool:
    return _have_types(row, (str, str)) and len(row[1]) <= LONGEST_FACT and is_text(*row)


def _valid_name(row: Row) -> bool:
    return _have_types(row, (int, str)) and row[0] >= 1 and is_storable(row[1])


def _valid_operation(row: Row) -> bool:
    number, kind, when, turns, dropped, name, called = row
    return (
        _have_types((number, kind, when, turns, dropped), (int, str, float, int, int))
        and number >= 1
        and kind in KINDS
        and isfinite(when)
        and turns >= 0
        and dropped in (0, 1)
        and (name is None or isinstance(name, int))
        and (called is None or isinstance(called, str))
        and (name is None or called is not None)
        and (
            kind not in CALLED_PATTERNS or CALLED_PATTERNS[kind].fullmatch(called or "") is not None
        )
    )


def _valid_teaching(row: Row) -> bool:
    number, position, name, when, source, digest, content, pictures = row
    return (
        _have_types(
            (number, name, when, source, digest, content), (int, int, float, str, bytes, bytes)
        )
        and number >= 1
        and (position is None or isinstance(position, int))
        and isfinite(when)
        and len(source) <= LONGEST_SOURCE
        and len(digest) == SHA256_BYTES
        and len(content) == DIGEST_BYTES
        and isinstance(pictures, int)
        and 0 <= pictures <= sum(PICTURES.values())
        and is_text(source)
    )


def _valid_box(row: Row) -> bool:
    teaching, x0, y0, x1, y1, found = row
    return (
        _have_types(row, (int, float, float, float, float, int))
        and teaching >= 1
        and 0.0 <= x0 < x1 <= 1.0
        and 0.0 <= y0 < y1 <= 1.0
        and found in (0, 1)
    )


def is_text(*values: str) -> bool:
    """Whether the values can be encoded as UTF-8, as SQLite requires."""
    try:
        for value in values:
            value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _have_types(values: Row, types: tuple[type, ...]) -> bool:
    return tuple(map(type, values)) == types


VALID: dict[str, Check] = {
    "facts": _valid_fact,
    "names": _valid_name,
    "operations": _valid_operation,
    "teachings": _valid_teaching,
    "boxes": _valid_box,
}
