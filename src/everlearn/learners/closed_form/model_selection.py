"""Choosing λ and α from examples held out of the stream (Camoriano et al. 2017, Sec. VI-C).

Every i-th example is remembered. To choose, the remembered examples are taken out of the moments,
which is exact, so what is left is a training set that never saw them. λ is chosen by accuracy on
them without recoding; α is the largest whose accuracy is not below that. Only classes with enough
held-out examples are counted, since rare classes would either not matter or dictate.

Accuracy over λ is a plateau with noise on it, and its highest point is wherever the noise is. We
take the middle candidate of the plateau, of all whose accuracy is within one standard error of the
highest, where the paper takes the highest.

One eigendecomposition A = Q diag(e) Qᵀ serves all λ:  A_λ⁻¹ x = Q diag(1 / (e + λ)) Qᵀ x.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, Slots
from everlearn.errors import DamagedModel
from everlearn.learners.closed_form.least_squares import LeastSquares
from everlearn.statistics.class_means import LARGEST
from everlearn.statistics.definite import spectrum
from everlearn.statistics.device_moments import DeviceMoments
from everlearn.statistics.moments import Moments
from everlearn.statistics.stored import stored

RECODINGS = np.linspace(0.0, 1.0, 11)
# λ by default: these times the mean scatter of a feature about the mean of all examples.
RELATIVE_CANDIDATES = np.logspace(1, -4, 20)


@dataclass(frozen=True)
class Selection:
    """λ and α."""

    regularization: float
    recoding: float


class HeldOut:
    """Every i-th example of the stream, at most ``size`` of them, balanced over the classes."""

    def __init__(self, n_features: int, *, every: int, size: int) -> None:
        self.every = every
        self.size = size
        self.seen = 0
        self._n = 0
        self._rows = np.zeros((0, n_features))
        self._slots = np.zeros(0, dtype=np.intp)
        self._weights = np.zeros(0)
        self._age = np.zeros(0, dtype=np.int64)  # how many had been seen when it was held out

    def __len__(self) -> int:
        return self._n

    @property
    def rows(self) -> Array:
        return self._rows[: self._n]

    @property
    def slots(self) -> Slots:
        return self._slots[: self._n]

    @property
    def weights(self) -> Array:
        return self._weights[: self._n]

    def offer(self, X: Array, slots: Slots, weights: Array | None = None) -> None:
        """Take note of examples that were learned; every i-th is kept."""
        first = -(self.seen + 1) % self.every
        for index in range(first, len(X), self.every):
            weight = 1.0 if weights is None else float(weights[index])
            self._keep(X[index], int(slots[index]), weight, self.seen + index)
        self.seen += len(X)

    def places_for(self, slots: Slots) -> dict[int, int]:
        """Which examples would be kept, and where, if these were offered; changes nothing.

        As :meth:`offer` decides it, in O(log K) each and without their rows.
        """
        by_age = np.argsort(self._age[: self._n], kind="stable")
        queues: dict[int, deque[int]] = {}
        for position in by_age.tolist():
            queues.setdefault(int(self._slots[position]), deque()).append(position)
        first = -(self.seen + 1) % self.every
        offered = slots[first :: self.every].tolist()
        # The size of a crowd and its slot as one number, the largest crowd and its lowest slot
        # first; what has changed since it was put there is dropped when it comes up.
        radix = max([*queues, *offered], default=0) + 1
        crowds = [slot - len(queue) * radix for slot, queue in queues.items()]
        heapify(crowds)
        found: dict[int, int] = {}
        n_kept = self._n
        for index, slot in enumerate(offered):
            queue = queues.get(slot)
            if queue is None:
                queue = queues[slot] = deque()
            if n_kept < self.size:
                position, n_kept = n_kept, n_kept + 1
            else:
                crowded = crowds[0] % radix
                while crowded - len(queues[crowded]) * radix != crowds[0]:
                    heappop(crowds)
                    crowded = crowds[0] % radix
                if crowded == slot:  # one goes, one comes
                    position = queue.popleft()
                    queue.append(position)
                    found[position] = first + index * self.every
                    continue
                position = queues[crowded].popleft()
                heapreplace(crowds, crowded - len(queues[crowded]) * radix)
            queue.append(position)
            heappush(crowds, slot - len(queue) * radix)
            found[position] = first + index * self.every
        return found

    def take(self, found: dict[int, int], rows: Array, slots: Slots, weights: Array | None) -> None:
        """Offer these examples, of which ``rows`` are those that ``places_for`` keeps."""
        while self._n < max(found, default=-1) + 1:
            self._next_row()
        for row, (position, index) in zip(rows, found.items(), strict=True):
            self._rows[position] = row
            self._slots[position] = slots[index]
            self._weights[position] = 1.0 if weights is None else weights[index]
            self._age[position] = self.seen + index
        self.seen += len(slots)

    def absorb(self, other: "HeldOut", slots: Slots) -> None:
        """Take over what another learner held out; its slot i is our slot ``slots[i]``."""
        for index in range(len(other)):
            self._keep(
                other.rows[index],
                int(slots[other.slots[index]]),
                float(other.weights[index]),
                self.seen + int(other._age[index]),
            )
        self.seen += other.seen

    def discard(self, X: Array, slots: Slots) -> None:
        """Examples were forgotten: hold them out no longer."""
        for x, slot in zip(X, slots, strict=True):
            mine = np.flatnonzero(self.slots == slot)
            same = mine[np.all(self._rows[mine] == x, axis=1)]
            if len(same):
                self._drop(int(same[0]))

    def discard_class(self, slot: int) -> None:
        for index in np.flatnonzero(self.slots == slot)[::-1]:
            self._drop(int(index))

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "held_rows": self.rows,
            "held_slots": self.slots.astype(np.int64),
            "held_weights": self.weights,
            "held_age": self._age[: self._n],
        }

    def restore(self, arrays: dict[str, NDArray[Any]], seen: int, n_slots: int) -> None:
        self.seen = seen
        width = self._rows.shape[1]
        self._slots = stored(arrays, "held_slots", None, dtype=np.intp, least=0, most=n_slots - 1)
        self._n = len(self._slots)
        self._rows = stored(arrays, "held_rows", self._n, width, least=-LARGEST, most=LARGEST)
        self._weights = stored(arrays, "held_weights", self._n, least=0.0)
        self._age = stored(arrays, "held_age", self._n, dtype=np.int64, least=0)
        if self._n > self.size:
            raise DamagedModel(f"held_slots has {self._n} examples, at most {self.size} are held")

    def _keep(self, row: Array, slot: int, weight: float, age: int) -> None:
        position = self._next_row()
        self._rows[position] = row
        self._slots[position] = slot
        self._weights[position] = weight
        self._age[position] = age

    def _next_row(self) -> int:
        """Where the next example goes: a new row, or that of the oldest of the largest class."""
        if self._n == self.size:
            mine = np.flatnonzero(self.slots == np.bincount(self.slots).argmax())
            return int(mine[self._age[mine].argmin()])
        if self._n == len(self._slots):
            more = max(8, min(self._n, self.size - self._n))
            self._rows = np.concatenate([self._rows, np.zeros((more, self._rows.shape[1]))])
            self._slots = np.concatenate([self._slots, np.zeros(more, dtype=np.intp)])
            self._weights = np.concatenate([self._weights, np.zeros(more)])
            self._age = np.concatenate([self._age, np.zeros(more, dtype=np.int64)])
        self._n += 1
        return self._n - 1

    def _drop(self, index: int) -> None:
        """The last one takes its place."""
        self._n -= 1
        for column in (self._rows, self._slots, self._weights, self._age):
            column[index] = column[self._n]


def select(
    moments: Moments,
    held_out: HeldOut,
    *,
    regularization: float | None,
    recoding: float | None,
    candidates: Array | None,
    rebalance: bool,
    intercept: bool,
) -> Selection:
    """Choose what is None of λ and α."""
    training = moments.copy()
    if len(held_out):
        training.remove(held_out.rows, held_out.slots, held_out.weights)
    if not training.total:  # everything was held out: nothing can be compared
        training = moments.copy()

    def solve_with(lam: float, alpha: float) -> LeastSquares:
        return LeastSquares(training, lam, alpha, rebalance=rebalance, intercept=intercept)

    rows, slots = well_represented(held_out, training)
    if regularization is None:
        start = solve_with(1.0, recoding if rebalance and recoding is not None else 0.0)
        system = start.system()
        if candidates is None:
            candidates = RELATIVE_CANDIDATES * _spread(start)
        candidates = np.sort(candidates)[::-1]
        lam = _plateau_candidate(start, system, candidates, rows, slots)
        scale = moments.total / training.total
    else:
        lam, scale = regularization, 1.0
    if recoding is None:
        accuracies = [
            _accuracy(solve_with(lam, a).scores(rows), training, slots) for a in RECODINGS
        ]
        recoding = float(
            max(a for a, hits in zip(RECODINGS, accuracies, strict=True) if hits >= accuracies[0])
        )
    return Selection(lam * scale, recoding)


def _spread(solution: LeastSquares) -> float:
    """The mean diagonal of A about the mean of all examples: the same wherever the origin is."""
    centred = LeastSquares(
        solution.moments,
        solution.regularization,
        solution.recoding,
        rebalance=solution.rebalance,
        intercept=True,
    )
    # Where all examples are one point there is nothing to compare, and any λ will do.
    return float(centred.system().diagonal().mean()) or 1.0


def well_represented(held_out: HeldOut, training: Moments | DeviceMoments) -> tuple[Array, Slots]:
    """Held-out examples of classes with at least half as many of them as the median class."""
    counts = np.bincount(held_out.slots, minlength=training.n_slots)
    if not counts.any():
        return held_out.rows, held_out.slots
    enough = (counts >= 0.5 * np.median(counts[counts > 0])) & (training.counts > 0)
    chosen = enough[held_out.slots]
    return held_out.rows[chosen], held_out.slots[chosen]


def _plateau_candidate(
    solution: LeastSquares, system: Array, candidates: Array, rows: Array, slots: Slots
) -> float:
    """The middle one of the λ whose accuracy is within a standard error of the highest."""
    training = solution.moments
    origin, offset = solution.origin()
    eigenvalues, Q = spectrum(system)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    examples = (rows - origin) @ Q
    means = (training.means - origin) @ Q
    counts = solution.recoded_counts()
    hits = np.array(
        [
            _accuracy(
                ((examples / (eigenvalues + lam)) @ means.T + offset) * counts, training, slots
            )
            for lam in candidates
        ]
    )
    return middle_of_plateau(hits, candidates, len(slots))


def middle_of_plateau(hits: Array, candidates: Array, n_examples: int) -> float:
    """The middle one of the candidates with a share of hits within an error of the highest."""
    best = hits.max()
    error = np.sqrt(best * (1.0 - best) / max(n_examples, 1))
    plateau = np.flatnonzero(hits >= best - error)
    return float(candidates[plateau[len(plateau) // 2]])


def _accuracy(scores: Array, training: Moments, slots: Slots) -> float:
    if not len(slots):
        return 1.0
    known = np.where(training.counts > 0, scores, -np.inf)
    return float(np.mean(known.argmax(axis=1) == slots))
