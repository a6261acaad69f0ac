"""Formats counts, nouns and lists of names for messages; requires counts and strings."""

from collections.abc import Iterable

from everlearn.errors import InvalidInput, WrongKind

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


def require_text(name: str, value: object) -> None:
    """Require a string, or ``None``."""
    if value is not None and not isinstance(value, str):
        raise WrongKind(f"{name} is a string, not {value!r:.100}")


def require_count(name: str, value: int | None, *, least: int = 0) -> None:
    """Require an integer of at least ``least``, or ``None``."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and least <= value < 1 << 63):
        raise InvalidInput(f"{name} is a whole number of at least {least}, not {value!r}")
