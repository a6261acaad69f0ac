"""What a row of the journal may hold: one definition, for whoever writes it and whoever reads it.

A row is checked before it is written (journal.py) and when a folder is opened (integrity.py), so
that nothing is accepted by the one and refused by the other.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any

from everlearn.errors import InvalidInput, InvalidLabel
from everlearn.images.folders import require_name
from everlearn.memory.storage.checksums import SIZE
from everlearn.memory.storage.schema import PICTURES

SHA256_BYTES = 32
LONGEST_SOURCE = 32_768
LONGEST_FACT = 1 << 24
MOST_FEATURES = 1 << 24
KINDS = {"teach", "forget", "rename", "merge", "correct", "name", "reembed", "erase"}

Row = tuple[Any, ...]
Check = Callable[[Row], bool]


def require_row(table: str, row: Row) -> None:
    """Refuse a row, without its checksum, that could not be read again."""
    if not VALID[table](row):
        raise InvalidInput(
            f"this cannot be kept among the {table}, since it is too long, too large or of another "
            f"kind than what is kept there: {row!r:.200}; nothing was changed"
        )


def require_source(source: str) -> None:
    """A source as it is kept is so long at most."""
    if len(as_kept(source)) > LONGEST_SOURCE:
        raise InvalidInput(
            f"a source has at most {LONGEST_SOURCE} characters as it is kept, this one "
            f"{len(as_kept(source))} ({as_kept(source)[:60]}…); give it a shorter source="
        )


def require_width(width: int) -> None:
    """A vector has so many features at most."""
    if width > MOST_FEATURES:
        raise InvalidInput(f"a vector has at most {MOST_FEATURES} features, not {width}")


def as_kept(source: str) -> str:
    """A source as the journal can hold it: file names that are no text are spelled out."""
    text = source.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("\0", "\\x00")


def _valid_fact(row: Row) -> bool:
    return _kinds(row, (str, str)) and len(row[1]) <= LONGEST_FACT and _is_text(*row)


def _valid_name(row: Row) -> bool:
    if not _kinds(row, (int, str)) or row[0] < 1:
        return False
    try:
        require_name(row[1])
    except InvalidLabel:
        return False
    return True


def _valid_operation(row: Row) -> bool:
    number, kind, when, turns, dropped, name, called = row
    return (
        _kinds((number, kind, when, turns, dropped), (int, str, float, int, int))
        and number >= 1
        and kind in KINDS
        and isfinite(when)
        and turns >= 0
        and dropped in (0, 1)
        and (name is None or isinstance(name, int))
        and (called is None or isinstance(called, str))
        and (name is None or called is not None)
    )


def _valid_teaching(row: Row) -> bool:
    number, position, name, when, source, digest, content, pictures = row
    return (
        _kinds((number, name, when, source, digest, content), (int, int, float, str, bytes, bytes))
        and number >= 1
        and (position is None or isinstance(position, int))
        and isfinite(when)
        and len(source) <= LONGEST_SOURCE
        and len(digest) == SHA256_BYTES
        and len(content) == SIZE
        and isinstance(pictures, int)
        and 0 <= pictures <= sum(PICTURES.values())
        and _is_text(source)
    )


def _valid_box(row: Row) -> bool:
    teaching, x0, y0, x1, y1, found = row
    return (
        _kinds(row, (int, float, float, float, float, int))
        and teaching >= 1
        and 0.0 <= x0 < x1 <= 1.0
        and 0.0 <= y0 < y1 <= 1.0
        and found in (0, 1)
    )


def _is_text(*words: str) -> bool:
    """Whether UTF-8, and so SQLite, can hold these words."""
    try:
        for word in words:
            word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kinds(values: Row, kinds: tuple[type, ...]) -> bool:
    return tuple(map(type, values)) == kinds


VALID: dict[str, Check] = {
    "facts": _valid_fact,
    "names": _valid_name,
    "operations": _valid_operation,
    "teachings": _valid_teaching,
    "boxes": _valid_box,
}
