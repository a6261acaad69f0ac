"""Counts and names as a person says them; what records print is made of these."""

from collections.abc import Iterable

# So many names are spelled out.
MOST_NAMES = 5


def teachings(count: int) -> str:
    return "1 teaching" if count == 1 else f"{count} teachings"


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
