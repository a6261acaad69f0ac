"""Selects the teachings to forget: by example, number, name or source."""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from everlearn.errors import InvalidInput, NeverLearned, UnknownLabel
from everlearn.images.decode import read_bytes
from everlearn.memory.edits.intake import Intake
from everlearn.memory.edits.writing import Spelling
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.receipts import Receipt
from everlearn.memory.words import counted, listed, require_text, teachings


@dataclass(frozen=True)
class Forgotten:
    """What was forgotten, or would be.

    Attributes
    ----------
    count : int
        Number of teachings.
    names : dict of str to int
        Number of teachings per name.
    receipt : Receipt or None
        Of an erase.
    """

    count: int
    names: dict[str, int]
    receipt: Receipt | None = None

    def __str__(self) -> str:
        of = f" of {counted(len(self.names), 'name')} ({listed(self.names)})" if self.names else ""
        return f"{teachings(self.count)}{of}"


@dataclass(frozen=True)
class TeachingSelection:
    """What to forget: an example or word, the number of a teaching, or a name, a source or both."""

    what: Any = None
    id: int | None = None
    name: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        require_text("name", self.name)
        if not isinstance(self.source, os.PathLike):
            require_text("source", self.source)
        for word in (self.what, self.name, self.source):
            if isinstance(word, (str, os.PathLike)):
                _require_word(os.fspath(word))
        ways = [
            self.what is not None,
            self.id is not None,
            (self.name, self.source) != (None, None),
        ]
        if not any(ways):
            raise InvalidInput("say what to forget: an example, id=, name= or source=")
        if sum(ways) > 1:
            raise InvalidInput("give only one thing to forget: an example, id=, name= or source=")

    def found(self, journal: Journal, intake: Intake, *, forgotten: bool) -> list[int]:
        """Ids of the selected teachings; with ``forgotten`` also those that no longer count."""
        if self.id is not None:
            found = journal.find(id=_number(self.id), forgotten=forgotten)
            if not found:
                raise NeverLearned(f"there is no teaching with the number {self.id}")
            return found
        if self.name is not None or self.source is not None:
            name = None if self.name is None else _spelled(journal, self.name, forgotten)
            found = journal.find(name=name, source=self.source, forgotten=forgotten)
            if not found:
                given = {"name": self.name, "source": self.source}
                words = [f"{key} {value!r}" for key, value in given.items() if value]
                raise UnknownLabel(f"nothing was taught with the {' and the '.join(words)}")
            return found
        if isinstance(self.what, (str, os.PathLike)):
            return _by_word(journal, os.fspath(self.what), intake, forgotten)
        found = journal.find(digest=intake.one(self.what).digest, forgotten=forgotten)
        if not found:
            raise NeverLearned("this example was never taught, or is forgotten already")
        return found


def _by_word(journal: Journal, word: str, intake: Intake, forgotten: bool) -> list[int]:
    """Teachings selected by a string that may be a name, a source or an image file."""
    meanings = {
        "a name": journal.find(name=_spelled(journal, word, forgotten), forgotten=forgotten),
        "a source": journal.find(source=os.path.abspath(word), forgotten=forgotten)
        or journal.find(source=word, forgotten=forgotten),
    }
    if not any(meanings.values()) and os.path.isfile(word):
        digest = hashlib.sha256(read_bytes(word, intake.limits)).digest()
        meanings["an image"] = journal.find(digest=digest, forgotten=forgotten)
    found = [teachings for teachings in meanings.values() if teachings]
    if not found:
        raise UnknownLabel(f"{word!r} is not a name, source or image that was taught")
    if len(found) > 1:
        raise InvalidInput(
            f"{word!r} is both a name and a source; say which: --name or --source on the command "
            "line, in Python name= or source="
        )
    return found[0]


def _spelled(journal: Journal, name: str, forgotten: bool) -> str:
    """The known spelling of a name; the name itself if it is known, or there is none."""
    if journal.find(name=name, forgotten=forgotten):
        return name
    return Spelling(journal).of_known(name)


def _require_word(word: str | bytes) -> None:
    if not word.strip():
        raise InvalidInput("an empty word selects nothing; give a name, a file or a folder")


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 63:
        raise InvalidInput(f"a teaching's id is a whole number of at least 1, not {value!r}")
    return value
