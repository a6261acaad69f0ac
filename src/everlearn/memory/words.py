"""Formats counts, nouns, lists of names and untrusted text for messages and records."""

from collections.abc import Iterable

from everlearn.errors import InvalidInput

# At most this many names are listed in full.
MOST_NAMES = 5


def counted(count: int, noun: str) -> str:
    """A count with its noun in singular or plural: 1 picture, 3 pictures."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def teachings(count: int) -> str:
    return counted(count, "teaching")


def listed(names: Iterable[str]) -> str:
    """The first few names, and the number of the rest."""
    names = list(names)
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def spelled_out(words: str) -> str:
    """Text on one line with unprintable characters escaped."""
    if words.isprintable():
        return words
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in words
    )


def require_count(name: str, value: int | None, *, least: int = 0) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and least <= value < 1 << 63):
        raise InvalidInput(f"{name} is a whole number of at least {least}, not {value!r}")
