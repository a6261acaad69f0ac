"""*Unknown*: unknown things noticed, known things accepted, and how many were predicted.

Of each pack some names are taught, the others are unknown; many random choices, because one
differs from the next by ten points. ``images_accuracy`` asks a Memory about the same choices and
gets the same verdicts. Which scores familiarity is made of is decided from what was taught alone
(leave one class out), and so is the share of unknown things that is predicted. The photographs,
CIFAR-100 and the turntable go through the networks once (features.py); of Caltech-101 there are
features of EfficientNet-Lite0 alone.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.features import seen
from benchmarks.side_by_side import Line
from everlearn import RecursiveRLSC
from everlearn.errors import MissingData, MissingPackage
from everlearn.memory.insight.influence import Ridge
from everlearn.memory.model.conformal import Acceptance, tie_of
from everlearn.memory.model.familiar import choose
from everlearn.memory.model.head import mapped_features, unit
from everlearn.memory.model.unknown import Familiarity

CHOICES = 20
SPLITS = 30
LEVELS = (0.90, 0.95, 0.99)
FILES = ("caltech101_effnetlite0.npz", "cifar100_small_effnetlite0.npz", "icub_camera50.npz")
Labelled = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Model:
    """A default Memory's model of some vectors, and its sense of the unknown."""

    familiarity: Familiarity
    weights: np.ndarray
    known: Acceptance
    unknowns: float
    blend: np.ndarray
    by_cosine: Acceptance  # the cosine to the nearest name alone

    def judged(self, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Familiarity of each row, and the name it is nearest to."""
        near = U @ self.familiarity.directions.T
        scores = (mapped_features(0.5, U) @ self.weights).max(axis=1)
        a, b, c, d = self.blend
        return a * near.max(axis=1) + b * near.mean(axis=1) + c * scores + d, near.argmax(axis=1)


def model_of(U: np.ndarray, y: np.ndarray, accept: float) -> Model:
    """Taught these rows of length one."""
    counts = np.bincount(y).astype(float)
    means = np.array([U[y == k].mean(axis=0) for k in range(len(counts))])
    familiarity, seen = Familiarity(counts, means), mapped_features(0.5, U)
    learner = RecursiveRLSC(regularization=0.3, recoding=0.5).fit(seen, y)
    chosen = choose(familiarity, U, seen, y, Ridge(learner))
    known = Acceptance(chosen.known, chosen.known_nearest)
    noticed = known.refused(chosen.unknowns, chosen.unknowns_nearest, accept)
    blend = chosen.blend.coefficients * [1.0, 1.0, len(y) ** -0.5, 1.0]
    near = familiarity.near(U)
    near[np.arange(len(U)), y] = familiarity.near_own_loo(near, U, y)
    by_cosine = Acceptance(near.max(axis=1), near.argmax(axis=1))
    return Model(familiarity, learner.coef_.T, known, noticed, blend, by_cosine)


def choice(
    y: np.ndarray, each: int, n_known: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some names, some examples of each to teach, and all other examples to ask about."""
    rng = np.random.default_rng(seed)
    known = np.sort(rng.choice(np.unique(y), n_known, replace=False))
    taught = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:each] for k in known])
    return known, taught, np.setdiff1d(np.arange(len(y)), taught)


def unknowns(
    U: np.ndarray, y: np.ndarray, each: int, n_known: int
) -> tuple[float, float, float, float]:
    """Shares: unknown things noticed, known ones accepted, noticed as predicted, by cosine."""
    rows = []
    for seed in range(CHOICES):
        known, taught, asked = choice(y, each, n_known, seed)
        model = model_of(U[taught], np.searchsorted(known, y[taught]), 0.95)
        scores, nearest = model.judged(U[asked])
        ours = np.isin(y[asked], known)
        refused = [model.known.refused(scores[q], nearest[q], 0.95) for q in (~ours, ours)]
        likeness = model.familiarity.near(U[asked][~ours]).max(axis=1)
        by_cosine = model.by_cosine.refused(likeness, nearest[~ours], 0.95)
        rows.append((refused[0], 1.0 - refused[1], model.unknowns, by_cosine))
    noticed, accepted, predicted, by_cosine = np.mean(rows, axis=0)
    return float(noticed), float(accepted), float(predicted), float(by_cosine)


def coverage(U: np.ndarray, y: np.ndarray) -> dict[float, tuple[float, float]]:
    """The share of new examples accepted, and with randomised p-values; many random splits."""
    rng = np.random.default_rng(2)
    accepted: dict[float, list[tuple[float, float]]] = {level: [] for level in LEVELS}
    rows_of = {k: np.flatnonzero(y == k) for k in np.unique(y)}
    for _ in range(SPLITS):
        chosen = np.sort(rng.choice(list(rows_of), min(20, len(rows_of)), replace=False))
        taught: list[int] = []
        asked: list[int] = []
        for k in chosen:
            rows = rng.permutation(rows_of[k]).tolist()
            count = int(rng.integers(3, min(40, len(rows) // 2 + 4)))
            # New pictures come as the taught ones came: as many of each name, in proportion.
            taught += rows[:count]
            asked += rows[count : count + max(1, count // 2)]
        model = model_of(U[taught], np.searchsorted(chosen, y[taught]), 0.95)
        scores, nearest = model.judged(U[asked])
        ties = [tie_of(U[row].astype(np.float32)) for row in asked]
        drawn = [
            model.known.p_value(score, int(name), tie)
            for score, name, tie in zip(scores, nearest, ties, strict=True)
        ]
        for level in LEVELS:
            refused = model.known.refused(scores, nearest, level)
            exactly = float(np.mean(np.array(drawn) > 1.0 - level))
            accepted[level].append((1.0 - refused, exactly))
    means = {level: np.mean(shares, axis=0) for level, shares in accepted.items()}
    return {level: (float(plain), float(drawn)) for level, (plain, drawn) in means.items()}


def flicker(U: np.ndarray, y: np.ndarray) -> tuple[int, int, int]:
    """Examples whose verdict changes under a little noise: by threshold, by draw; of how many."""
    rng = np.random.default_rng(4)
    known, taught, asked = choice(y, 10, 20, seed=4)
    model = model_of(U[taught], np.searchsorted(known, y[taught]), 0.95)
    asked = rng.permutation(asked)[:300]
    changed = [0, 0]
    for row in asked:
        noise = rng.normal(size=(15, U.shape[1])) * 0.02 / np.sqrt(U.shape[1])
        frames = unit(U[row] + noise)
        scores, nearest = model.judged(frames)
        limits = [model.known.threshold(0.95, int(name)) for name in nearest]
        low = scores < limits
        drawn = [
            model.known.p_value(s, int(k), tie_of(f.astype(np.float32))) <= 0.05
            for s, k, f in zip(scores, nearest, frames, strict=True)
        ]
        changed[0] += bool(low.any() and not low.all())
        changed[1] += bool(any(drawn) and not all(drawn))
    return changed[0], changed[1], len(asked)


def pack_of(name: str) -> Labelled:
    with np.load(Path(os.environ["EVERLEARN_DATA"], name)) as pack:
        end = "" if "features" in pack else "_train"
        return unit(pack[f"features{end}"]), np.asarray(pack[f"labels{end}"])


# Examples taught of each name, names taught, and what is wanted.
PICTURED = {
    "photographs": (5, 8, "report"),
    "turntable": (5, 30, ">= 50 %"),
    "CIFAR-100": (5, 60, ">= 20 %"),
}


def one_line(name: str, U: np.ndarray, y: np.ndarray, each: int, n: int, wanted: str) -> Line:
    noticed, accepted, predicted, by_cosine = unknowns(U, y, each, n)
    return Line(
        f"{name}, {n} names taught {each} each: unknown things noticed",
        f"{noticed:.1%} (cosine alone {by_cosine:.1%}), predicted {predicted:.1%}, "
        f"{accepted:.1%} of known things accepted",
        wanted,
    )


def lines() -> Iterator[Line]:
    if "EVERLEARN_DATA" not in os.environ:
        raise MissingData("the packs are looked for in the folder named by EVERLEARN_DATA")
    for name in FILES:
        found = coverage(*pack_of(name))
        yield Line(
            f"share of new pictures of taught things accepted, {SPLITS} splits of {name}",
            ", ".join(f"{p:.3f} ({d:.3f} drawn) at {level}" for level, (p, d) in found.items()),
            "at least, within 0.02",
        )
    U, y = pack_of(FILES[0])
    yield one_line("Caltech-101, EfficientNet-Lite0", U, y, 5, 50, "report")
    plain, drawn, count = flicker(U, y)
    yield Line(
        "verdicts that change within 15 noisy frames of one picture",
        f"{plain} of {count}; with randomised p-values {drawn}",
        "only at the threshold",
    )
    for word in ("basic", "balanced", "best"):
        for name, (each, n, wanted) in PICTURED.items():
            try:
                vectors = seen(name, word)
            except MissingPackage as missing:
                yield Line(f"{name}, {word}", str(missing), wanted)
                continue
            # Of CIFAR-100 the test pictures: thirty of each class.
            rows = vectors.asked if vectors.asked.any() else ~vectors.asked
            yield one_line(f"{name}, {word}", vectors.X[rows], vectors.y[rows], each, n, wanted)
