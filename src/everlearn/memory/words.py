"""Formats counts, nouns, lists and untrusted text for messages; requires counts and strings."""

from collections.abc import Iterable

from everlearn.errors import InvalidInput, WrongKind
from everlearn.images.names import is_visible

# At most this many names are listed in full.
MOST_NAMES = 5


def counted(count: int, noun: str) -> str:
    """A count with its noun in singular or plural: 1 picture, 3 pictures."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def teachings(count: int) -> str:
    return counted(count, "teaching")


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def escaped(words: str) -> str:
    """Text on one line with unprintable and invisible characters escaped."""
    if words.isascii() and words.isprintable():
        return words
    return "".join(
        letter if is_visible(words, index) else letter.encode("unicode_escape").decode("ascii")
        for index, letter in enumerate(words)
    )


def require_text(name: str, value: object) -> None:
    """Require a string, or ``None``."""
    if value is not None and not isinstance(value, str):
        raise WrongKind(f"{name} is a string, not {value!r:.100}")


def require_count(name: str, value: object, *, least: int = 0) -> None:
    """Require an integer of at least ``least`` that a database can store."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63:
        raise InvalidInput(f"{name} is a whole number of at least {least}, not {value!r}")


def require_count_or_none(name: str, value: object, *, least: int = 0) -> None:
    """As :func:`require_count`; ``None`` stands for no limit."""
    if value is not None:
        require_count(name, value, least=least)
