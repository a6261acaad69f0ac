"""The words of names, looked up when an answer needs them.

A model knows names by number, and their words may change without it. With many names, reading all
words after every change would take longer than the answer.
"""

from collections.abc import Callable, Iterator, Mapping

# Up to this many missing words are looked up one by one; for more, all are read.
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
        self._one = one
        self._every = every
        self._known: dict[int, str] = {}
        self._n_looked_up = 0

    def __getitem__(self, name: int) -> str:
        if name not in self._known:
            self._n_looked_up += 1
            if self._n_looked_up == FEW:
                self._known = self._every()
            else:
                self._known[name] = self._one(name)
        return self._known[name]

    def __iter__(self) -> Iterator[int]:
        return iter(self._every())

    def __len__(self) -> int:
        return len(self._every())
