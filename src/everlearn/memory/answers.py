"""What a Memory answers, and what it reports of teaching."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from everlearn.errors import EverlearnError
from everlearn.regions.boxes import Box


@dataclass(frozen=True)
class Answer:
    """One name, and how likely it is among the names known."""

    name: str
    probability: float


@dataclass(frozen=True)
class Steady:
    """What the latest frames of a stream say together.

    Attributes
    ----------
    name : str or None
        ``None`` for unknown.
    probability : float
        Of the name, among all names and unknown.
    settled : bool
        Whether it led clearly at least once.
    changed : bool
        Whether it is another one than after the frame before.
    """

    name: str | None
    probability: float
    settled: bool
    changed: bool


class Answers(Sequence[Answer]):
    """Answers, best first.

    Attributes
    ----------
    unknown : bool
        Whether the example resembles nothing that was taught. The answers then say what it comes
        closest to.
    familiarity : float
        How well it fits what was taught; below ``threshold`` it is unknown.
    threshold : float
    probably : bool
        Whether it is known, but only just: were twice as much refused, it would be unknown.
    ignored : bool
        Whether it is unknown and resembles strangers that are to be ignored.
    p_value : float
        The share of taught things that look no more familiar; unknown is what has at most
        1 − accept.
    box : Box or None
        The part of the picture that the answers are about; ``None`` for all of it.
    steady : Steady or None
        In a session, what the latest frames say together.
    """

    def __init__(
        self,
        answers: Sequence[Answer],
        *,
        unknown: bool,
        familiarity: float,
        threshold: float,
        p_value: float = 0.0,
        ignored: bool = False,
        box: Box | None = None,
        probably: bool = False,
        steady: Steady | None = None,
    ) -> None:
        self._answers = tuple(answers)
        self.unknown = unknown
        self.familiarity = familiarity
        self.threshold = threshold
        self.p_value = p_value
        self.ignored = ignored
        self.box = box
        self.probably = probably
        self.steady = steady

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
