"""Answers single questions of AutoClassifier with a recently chosen head, and prepares the next.

A head is updated with every example. When a tenth more was learned than when it was chosen, the
next question starts a new choice, for the examples known at that point. The work proceeds by a
slice with every example and every question, and the current head answers until the next one is
ready and has caught up with the examples that arrived in the meantime. So no call waits for a
choice, and which head answers is a function of the calls, not of time.

Without a head (before the first question, after a large batch, a merge or forgetting), everything
is done at once.
"""

import math
from collections import deque

from everlearn.arrays import Array
from everlearn.errors import LostDefiniteness
from everlearn.learners.auto.heads import QUESTION_COST, LearnedExample, SingleHead, made
from everlearn.learners.auto.selection import (
    Frozen,
    HeadChoice,
    LearnedState,
    Selected,
    choose,
    room_for,
)
from everlearn.statistics.slices import Slices, Work, finished

# A choice is kept until this share more was learned.
CHOOSE_AGAIN = 0.1
# A slice costs as much as this many questions, and at least this many multiplications.
QUESTIONS = 2.0
LEAST_SLICE = 1e6
# Larger batches are learned faster without a head, which is then computed anew.
MOST_FOLLOWED = 64
# Number of pieces per slice.
PIECES = 4.0


class FollowedHead:
    """The head that answers single questions.

    Attributes
    ----------
    choice : HeadChoice or None
        The current choice; ``None`` before the first question.
    chosen_at : float
        The total weight learned when it was chosen.
    """

    def __init__(self) -> None:
        self.choice: HeadChoice | None = None
        self.chosen_at = 0.0
        self._head: SingleHead | None = None
        self._next: Slices[tuple[HeadChoice, SingleHead]] | None = None
        self._next_at = 0.0
        self._came: deque[LearnedExample] = deque()

    def invalidate(self) -> None:
        """Call when everything that was learned may have changed."""
        self._head = self._next = None
        self._came.clear()

    def follow(self, row: Array, x: Array, slot: int) -> None:
        """Call after one example was learned and S grew by the outer product of this row."""
        example = LearnedExample(x, slot, row)
        if self._next is not None:
            self._came.append(LearnedExample(x.copy(), slot, row.copy()))
        if self._head is not None:
            self._head.follow(example)

    def can_follow(self, n_examples: int) -> bool:
        """Whether that is cheaper than another head, for so many examples learned together."""
        return self._head is not None and n_examples <= MOST_FOLLOWED

    def scores_one(self, x: Array, learned: LearnedState) -> Array:
        """Scores of one vector, one column per slot."""
        total = learned.moments.total
        is_recent = self.chosen_at <= total <= self.chosen_at * (1.0 + CHOOSE_AGAIN)
        waits = is_recent or self._next is not None or learned.features.is_behind
        if self._head is not None and not waits:
            self._choose_again(self._head, learned)
        self.advance()
        if self._head is None:
            self._head = self._at_once(learned, is_recent)
        return self._head.scores_one(x)

    def _at_once(self, learned: LearnedState, is_recent: bool) -> SingleHead:
        """The recently chosen head, or one chosen now."""
        frozen = Frozen(learned)
        if self.choice is not None and is_recent:
            selected = Selected(self.choice)
        else:
            selected = finished(choose(frozen))
            self.choice, self.chosen_at = selected.choice, learned.moments.total
        return finished(made(selected, frozen, learned, self._came))

    def _choose_again(self, head: SingleHead, learned: LearnedState) -> None:
        moments = learned.moments
        question = QUESTION_COST * (2.0 * moments.n_features**2 + moments.means.size)
        budget = max(LEAST_SLICE, QUESTIONS * max(question, head.cost))
        self._came.clear()
        self._next = Slices(self._chosen(learned, budget / PIECES), budget)

    def _chosen(self, learned: LearnedState, piece: float) -> Work[tuple[HeadChoice, SingleHead]]:
        room = yield from room_for(learned, piece)
        while learned.features.is_behind:  # random features began meanwhile
            yield math.inf
        frozen = Frozen(learned, piece, room)
        self._next_at = learned.moments.total
        self._came.clear()
        yield from frozen.complete()
        selected = yield from choose(frozen)
        head = yield from made(selected, frozen, learned, self._came)
        return selected.choice, head

    def advance(self) -> None:
        """Do a slice of the work for the next head."""
        if self._next is None:
            return
        try:
            ready = self._next.advance()
        except LostDefiniteness:
            self.invalidate()  # the next question tries at once, and reports the error
            return
        if ready is not None:
            self.choice, self._head = ready
            self.chosen_at, self._next = self._next_at, None

    def __getstate__(self) -> dict[str, object]:
        return FollowedHead().__dict__  # a copy chooses when it is asked
