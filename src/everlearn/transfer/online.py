"""Online learners: a warm-up on the first examples, then one step per example.

Some quantities are estimated from the first few examples: γ of an rbf kernel, the weights of prior
models, and which of two labels these score. So a learner may begin with a warm-up: the first
examples are stored, and the model is refitted on them each time one more arrives. When the warm-up
is complete they are dropped; from then on every example costs the same and is used once. A batch
gives the same result as its rows one by one.
"""

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, State
from everlearn.statistics.kept_examples import KeptExamples
from everlearn.transfer.kernel import Kernel
from everlearn.transfer.solved_from_examples import require_column

if TYPE_CHECKING:
    from everlearn.transfer.steps import Steps

GAMMA_EXAMPLES = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepRules:
    """Step rule, kernel and budget."""

    kernel: Kernel
    C: float
    variant: str
    fit_intercept: bool
    budget: int | None
    drop: str


class PriorKnowledge(Protocol):
    """Scores examples by prior knowledge, one column per source."""

    def scores(self, X: Array) -> Array: ...
    def state(self) -> dict[str, AnyArray]: ...


class Source(Protocol):
    """Provides prior knowledge: given models, or what was learned from ``n_first`` examples."""

    @property
    def n_first(self) -> int: ...
    def learned(self, kernel: Kernel, warm_up: KeptExamples, signs: Array, /) -> PriorKnowledge: ...
    def restored(self, kernel: Kernel, arrays: dict[str, AnyArray], /) -> PriorKnowledge: ...


class Hypothesis:
    """f(x) of an online learner: prior knowledge plus its own steps."""

    def __init__(self, prior: PriorKnowledge, steps: "Steps") -> None:
        self.prior, self.steps = prior, steps

    def prior_scores(self, X: Array) -> Array:
        """The scores of each row by prior knowledge; the only step that can fail."""
        return self.prior.scores(X)

    def learn(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        """Learn one example; returns f(x) before it."""
        raise NotImplementedError

    def margins(self, X: Array, prior_scores: Array) -> Array:
        raise NotImplementedError

    def learn_warm_up(self, warm_up: KeptExamples, signs: Array, *, is_learned: bool) -> None:
        """Learn the first examples, unless the prior knowledge was learned from them."""
        if is_learned:
            self.steps.skip(len(warm_up))
            return
        prior_scores = self.prior_scores(warm_up.X)
        for row, sign in enumerate(signs):
            self.learn(warm_up.X[row], prior_scores[row], sign, warm_up.weights[row])

    def state(self) -> dict[str, AnyArray]:
        return self.steps.state() | self.prior.state()

    def restore(self, arrays: dict[str, AnyArray]) -> None:
        self.steps.restore(arrays)


class WarmStarted(Hypothesis):
    """f(x) = w_1·x plus the Passive-Aggressive updates (Eq. 2-3)."""

    def learn(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        w_1 = float(prior_scores[0]) if len(prior_scores) else 0.0
        return self.steps.learn(x, self.steps.constant, sign, w_1, weight)

    def margins(self, X: Array, prior_scores: Array) -> Array:
        return np.asarray(prior_scores.sum(axis=1) + self.steps.values(X))


class LearnedOnline:
    """The core of an online learner: a hypothesis, and the examples of an unfinished warm-up."""

    def __init__(
        self,
        n_features: int,
        rules: StepRules,
        source: Source,
        hypothesis: Callable[[PriorKnowledge, "Steps"], Hypothesis],
        *,
        both_labels: bool,
        first_weights: Sequence[float] = (),
    ) -> None:
        self.mistakes = self.n_examples = 0
        self.warm_up: KeptExamples | None = KeptExamples.none(n_features)
        self._n_features = n_features
        self.kernel = rules.kernel
        self._source, self._hypothesis_from = source, hypothesis
        self._rules = rules
        self._first_weights = first_weights
        self._n_warm_up = source.n_first or (GAMMA_EXAMPLES if rules.kernel.lacks_gamma else 0)
        self._both_labels = both_labels
        self._first_sign = 1.0
        if self._is_complete(self.warm_up):
            self._fit_warm_up(self.warm_up, np.empty(0))

    @property
    def missing(self) -> int | None:
        """Number of examples the warm-up lacks; None if it is complete.

        Zero means that it lacks only an example of the other label.
        """
        return None if self.warm_up is None else max(0, self._n_warm_up - len(self.warm_up))

    def margins(self, X: Array) -> Array:
        return self.hypothesis.margins(X, self.hypothesis.prior_scores(X))

    def learn(self, X: Array, slots: Slots, signs: Array, weights: Array) -> None:
        require_column(self._rules.kernel, self._n_features, self.n_examples, len(X))
        # On a copy: a prior model or the factorisation of a kernel matrix may fail.
        changed = copy.copy(self)
        n_warm_up = changed._learn_warm_up(X, slots, signs, weights)
        changed._learn_online(X[n_warm_up:], slots[n_warm_up:], signs, weights[n_warm_up:])
        self.__dict__.update(changed.__dict__)

    def learn_one(self, x: Array, slot: int, signs: Array) -> None:
        if self.warm_up is not None or self._rules.kernel.name == "precomputed":
            self.learn(x[None], np.array([slot], dtype=np.intp), signs, np.ones(1))
            return
        prior_scores = self.hypothesis.prior_scores(x[None])[0]
        self._count(self.hypothesis.learn(x, prior_scores, signs[slot], 1.0), signs[slot])

    def state(self) -> State:
        arrays = self.hypothesis.state() if self.warm_up is None else self.warm_up.state()
        return arrays, {
            "gamma": self.kernel.gamma,
            "mistakes": self.mistakes,
            "n_examples": self.n_examples,
            "opening": self.warm_up is not None,
        }

    def restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any], signs: Array) -> None:
        self.mistakes, self.n_examples = int(notes["mistakes"]), int(notes["n_examples"])
        self._first_sign = signs[0]
        if notes["opening"]:
            self._fit_warm_up(KeptExamples.from_state(arrays, self._n_features, len(signs)), signs)
            return
        self.warm_up = None
        self.kernel = Kernel.checked(self._rules.kernel.name, notes["gamma"])
        self.hypothesis = self._new_hypothesis(self._source.restored(self.kernel, arrays))
        self.hypothesis.restore(arrays)

    def _learn_warm_up(self, X: Array, slots: Slots, signs: Array, weights: Array) -> int:
        """Add rows to the warm-up until it is complete; returns how many it took."""
        room = max(self._n_warm_up, GAMMA_EXAMPLES)
        for row in range(len(X)):
            if self.warm_up is None:
                return row
            part, lacked = slice(row, row + 1), self.missing
            margin = float(self.margins(X[part])[0]) if len(self.warm_up) else 0.0
            kept = self.warm_up.followed_by(X[part], slots[part], weights[part])
            if len(kept) > room and self._rules.kernel.name != "precomputed":
                kept = kept.only(slice(-room, None))
            self._fit_warm_up(kept, signs)
            self._count(margin, signs[slots[row]])
            if lacked == 1 and self.missing == 0:
                log.warning("%d examples, all of one label: waiting for the other one", len(kept))
        return len(X)

    def _fit_warm_up(self, kept: KeptExamples, signs: Array) -> None:
        """Fit the hypothesis to the warm-up, and drop its examples when it is complete."""
        self.kernel = self._rules.kernel.for_examples(kept.X)
        y = signs[kept.slots]
        self.hypothesis = self._new_hypothesis(self._source.learned(self.kernel, kept, y))
        self.hypothesis.learn_warm_up(kept, y, is_learned=self._source.n_first > 0)
        self.warm_up = None if self._is_complete(kept) else kept
        self._first_sign = signs[0] if len(signs) else 1.0

    def _new_hypothesis(self, prior: PriorKnowledge) -> Hypothesis:
        # Imported lazily: only learning needs numba.
        from everlearn.transfer.steps import Steps

        steps = Steps(self._n_features, self.kernel, self._rules, self._first_weights)
        return self._hypothesis_from(prior, steps)

    def _is_complete(self, kept: KeptExamples) -> bool:
        one_sided = self._both_labels and len(np.unique(kept.slots)) < 2
        return len(kept) >= self._n_warm_up and not one_sided

    def _learn_online(self, X: Array, slots: Slots, signs: Array, weights: Array) -> None:
        if not len(X):
            return
        prior_scores = self.hypothesis.prior_scores(X)
        if self.n_examples and signs[0] != self._first_sign:
            # The only label so far was taken as +1, but now that the second one is known it is −1.
            # With prior knowledge the warm-up waits for both labels, so this cannot happen.
            self.hypothesis.steps.flip()
        self._first_sign = signs[0]
        for row, sign in enumerate(signs[slots]):
            self._count(self.hypothesis.learn(X[row], prior_scores[row], sign, weights[row]), sign)

    def _count(self, margin: float, sign: float) -> None:
        self.n_examples += 1
        self.mistakes += not margin * sign > 0
