"""What a Learner answers, and what it reports of teaching."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from everlearn.errors import EverlearnError


@dataclass(frozen=True)
class Answer:
    """One name, and how likely it is among the names known."""

    name: str
    probability: float


class Answers(Sequence[Answer]):
    """Answers, best first.

    Attributes
    ----------
    unknown : bool
        Whether the example resembles nothing that was taught. The answers then say what it comes
        closest to.
    familiarity : float
        How much it resembles the nearest class; below ``threshold`` it is unknown.
    threshold : float
    """

    def __init__(
        self, answers: Sequence[Answer], *, unknown: bool, familiarity: float, threshold: float
    ) -> None:
        self._answers = tuple(answers)
        self.unknown = unknown
        self.familiarity = familiarity
        self.threshold = threshold

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Answer]: ...
    def __getitem__(self, index: int | slice) -> Answer | Sequence[Answer]:
        return self._answers[index]

    def __len__(self) -> int:
        return len(self._answers)

    def __repr__(self) -> str:
        words = ", ".join(f"{answer.name} {answer.probability:.0%}" for answer in self._answers)
        return f"<Answers: {'unknown; nearest: ' if self.unknown else ''}{words or 'nothing'}>"


@dataclass(frozen=True)
class Outcome:
    """What became of one example that should be taught."""

    source: str
    name: str
    taught: bool
    error: EverlearnError | None = None


@dataclass(frozen=True)
class Summary:
    """What became of many: how many were taught, were known already, could not be read."""

    taught: int
    repeated: int
    unreadable: int
