"""The words of names, looked up when an answer needs them.

A model identifies names by number, because a rename changes the word alone. With many names,
reading all words after every change would take longer than computing the answer.
"""

from collections.abc import Callable, Iterator, Mapping

# Up to this many words that are needed together are looked up one by one.
FEW = 64


class NameWords(Mapping[int, str]):
    """Maps the number of a name to its word.

    Parameters
    ----------
    one : callable
        Looks up one word.
    every : callable
        Reads all words.
    """

    def __init__(self, one: Callable[[int], str], every: Callable[[], dict[int, str]]) -> None:
        self._look_up = one
        self._read_all = every
        self._known: dict[int, str] = {}
        self._has_all = False

    def expect(self, count: int) -> None:
        """Call before this many words are needed: many are read together."""
        if count > FEW and not self._has_all:
            self._known, self._has_all = self._read_all(), True

    def __getitem__(self, name: int) -> str:
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def __iter__(self) -> Iterator[int]:
        return iter(self._read_all())

    def __len__(self) -> int:
        return len(self._read_all())
