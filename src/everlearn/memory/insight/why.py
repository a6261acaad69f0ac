"""Explains an answer: which teachings led to it, and the answer without them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, softmax
from everlearn.errors import InvalidInput
from everlearn.memory.insight.influence import Influence
from everlearn.regions.boxes import Box

# The answer is recomputed without so many of the most influential teachings.
WITHOUT = (1, 2, 5)


@dataclass(frozen=True)
class Effect:
    """The effect of one teaching on the score of an answer.

    Attributes
    ----------
    id : int
    name, source : str
    box : Box or None
        The part of the picture that was taught.
    score_with, score_without : float
        The score of the answer as it is, and without this teaching.
    effect : float
        Their difference; a negative effect counts against the answer.
    probability_without : float
        The probability of the answer without this teaching.
    """

    id: int
    name: str
    source: str
    score_with: float
    score_without: float
    effect: float
    box: Box | None = None
    probability_without: float = 0.0


@dataclass(frozen=True)
class Why:
    """The teachings that led to an answer.

    Attributes
    ----------
    name : str
        The answer, or the name that was asked about.
    score, probability : float
        Its score, and its probability as an answer gives it.
    effects : tuple of Effect
        The teachings with the largest positive effect, strongest first.
    decisive : bool
        Whether a single teaching decides the answer: without it, the answer would change.
    """

    name: str
    score: float
    effects: tuple[Effect, ...]
    decisive: bool
    _answers: dict[int, str | None]
    probability: float = 0.0

    def answer_without(self, count: int) -> str | None:
        """The answer without the 1, 2 or 5 most influential teachings; ``None`` if none is left."""
        if count not in self._answers:
            raise InvalidInput(f"count must be one of {WITHOUT}, not {count!r}")
        return self._answers[count]


def explain(
    influence: Influence,
    x: Array,
    target: int,
    names: Sequence[str],
    teachings: Sequence[tuple[int, str, Box | None]],
    top: int,
    temperature: float,
) -> Why:
    """Explain the score of class ``target`` for x.

    Parameters
    ----------
    influence : Influence
    x : ndarray of length one
    target : int
    names : sequence of str
        Words of the classes.
    teachings : sequence of (id, source, box)
        Of every row of ``influence.X``.
    top : int
        Number of effects to list.
    temperature : float
        Of the softmax that turns scores into probabilities.
    """

    def probability(scores: NDArray[np.float64], n_removed: int) -> float:
        """The target's probability without so many teachings; 0 if it has none left."""
        if not np.isfinite(scores[target]):
            return 0.0
        factor = (influence.counts.sum() - n_removed) ** influence.recoding
        left = np.isfinite(scores)
        logits = np.full(len(scores), -1e300)
        logits[left] = factor * scores[left] / temperature
        return float(softmax(logits[None])[0, target])

    scores = influence.scores(x)
    without = influence.without_each(x, target)
    effects = scores[target] - without
    order = np.argsort(-effects, kind="stable")
    strongest = tuple(
        Effect(
            teachings[i][0],
            names[influence.y[i]],
            teachings[i][1],
            float(scores[target]),
            float(without[i]),
            float(effects[i]),
            teachings[i][2],
            probability(influence.without(x, np.array([i])), 1),
        )
        for i in order[:top]
    )
    answers = {count: _answer(influence.without(x, order[:count]), names) for count in WITHOUT}
    best = names[int(scores.argmax())]
    decisive = answers[1] != best
    score, p = float(scores[target]), probability(scores, 0)
    return Why(names[target], score, strongest, decisive, answers, p)


def _answer(scores: NDArray[np.float64], names: Sequence[str]) -> str | None:
    best = int(scores.argmax())
    return names[best] if np.isfinite(scores[best]) else None
