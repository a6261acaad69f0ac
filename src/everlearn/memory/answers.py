"""Records returned by a Memory: answers, and outcomes of teaching."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from everlearn.errors import EverlearnError
from everlearn.regions.boxes import Box


@dataclass(frozen=True)
class Answer:
    """One name and its probability among the known names."""

    name: str
    probability: float


@dataclass(frozen=True)
class Steady:
    """The combined answer of the latest frames of a stream.

    Attributes
    ----------
    name : str or None
        ``None`` for unknown.
    probability : float
        Of the name, among all names and unknown.
    settled : bool
        Whether a name has led clearly at least once.
    changed : bool
        Whether it differs from the answer after the previous frame.
    """

    name: str | None
    probability: float
    settled: bool
    changed: bool


class Answers(Sequence[Answer]):
    """Answers to one example, best first.

    Attributes
    ----------
    unknown : bool
        Whether the example resembles nothing that was taught. The answers then list the nearest
        names.
    familiarity : float
        How well it fits what was taught; below ``threshold`` it is unknown.
    threshold : float
    probably : bool
        Whether it is known, but would be unknown at twice the share of refused examples.
    ignored : bool
        Whether it is unknown and resembles a group of unknowns that is set to be ignored.
    p_value : float
        Share of taught examples that are at most as familiar. The example is unknown if this is
        at most 1 − accept.
    box : Box or None
        The part of the picture the answers are about; ``None`` for the whole picture.
    steady : Steady or None
        Within a session, the combined answer of the latest frames.
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
    """Result of teaching one example."""

    source: str
    name: str
    taught: bool
    error: EverlearnError | None = None


@dataclass(frozen=True)
class Summary:
    """Counts over many examples: taught, already known, unreadable."""

    taught: int
    repeated: int
    unreadable: int
