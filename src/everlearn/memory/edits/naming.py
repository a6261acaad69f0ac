"""How a name is spelled: without stray spaces, and as it was spelled the first time.

``purple finch`` and `` Purple Finch`` are the name ``Purple Finch`` if that was taught before.
Words that an answer uses itself cannot be names.
"""

import difflib
from collections.abc import Iterable

from everlearn.errors import InvalidLabel
from everlearn.images.folders import require_name
from everlearn.memory.storage.journal import Journal

# An answer that is no name, and what is learned about pictures that is none.
RESERVED = frozenset({"unknown", "ignored", "background"})
# How alike two names are, from 0 to 1, of which one may be a misspelling of the other.
ALIKE = 0.8


class Spelling:
    """The spelling of names in one journal; reads all names once, when a new one comes.

    Parameters
    ----------
    journal : Journal
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, str] | None = None
        # Asked once for each: teaching a thousand pictures of a name is one look at it.
        self._there: set[str] = set()

    def __call__(self, name: str) -> str:
        """The name as it is kept."""
        require_name(name)
        tidy = " ".join(name.split())
        if tidy.casefold() in RESERVED:
            raise InvalidLabel(
                f"{tidy!r} is a word that answers use themselves; choose another name"
            )
        if tidy in self._there or self._journal.find_name(tidy) is not None:
            self._there.add(tidy)
            return tidy
        if self._known is None:
            self._known = {known.casefold(): known for known in self._journal.names()}
        return self._known.setdefault(tidy.casefold(), tidy)


def misspelled(name: str, known: Iterable[str]) -> str | None:
    """The known name that a new one looks like a misspelling of, if there is one."""
    tidy = " ".join(name.split()).casefold()
    by_casefold = {other.casefold(): other for other in known}
    if tidy in by_casefold:
        return None
    found = difflib.get_close_matches(tidy, by_casefold, n=1, cutoff=ALIKE)
    return by_casefold[found[0]] if found else None
