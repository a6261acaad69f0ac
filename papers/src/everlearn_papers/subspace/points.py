"""The example in the plane of Skočaj and Leonardis (2002), Fig. 1.

41 points near a line arrive from left to right; the second coordinate of five of them is changed.
The paper shows its points in a figure without coordinates: these points are generated.

Points more than four standard deviations off the line are outliers. The standard deviation is the
true one, which only an oracle knows, or is estimated from the first points, which are unchanged.

With two coordinates and one component, only the earlier points can tell which coordinate is wrong:
the one whose replacement makes the point less unusual is replaced.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.subspace.robust import RobustStreamingPCA
from everlearn.subspace.seeding import batch_pca
from everlearn.subspace.streaming import StreamingPCA
from everlearn_papers.repeat import Result

N_POINTS = 41
N_CHANGED = 5
# Number of unchanged points that the robust method starts from.
N_FIRST = 6
SHOWN_EVERY = 6
NOISE = 0.35
DEVIATIONS = 4
CHANGE = (4.0, 6.0)
SETTINGS = {
    "points": N_POINTS,
    "changed": N_CHANGED,
    "first": N_FIRST,
    "noise": NOISE,
    "threshold in deviations": DEVIATIONS,
}
ESTIMATED = "robust incremental, points changed, noise estimated"


def points_in_the_plane(seed: int) -> Result:
    """Deviation of each axis from that of batch PCA on the unchanged points.

    ``angles`` in degrees and ``distances`` of the origins; for the figure, ``steps`` of the
    incremental axis and ``repaired`` points.
    """
    clean, seen, changed = _points(np.random.default_rng(seed))
    best = batch_pca(clean, 1)
    batch = batch_pca(seen, 1)
    incremental, steps = _learned(clean)
    misled, _ = _learned(seen)
    robust, repaired = _robust(seen, DEVIATIONS * NOISE)
    estimating, completed = _robust(seen, DEVIATIONS * estimated_noise(seen[:N_FIRST]))
    axes = {
        "incremental": (incremental.mean_, incremental.components_[0]),
        "batch, points changed": (batch.mean, batch.components[0]),
        "incremental, points changed": (misled.mean_, misled.components_[0]),
        "robust incremental, points changed": (robust.mean_, robust.components_[0]),
        ESTIMATED: (estimating.mean_, estimating.components_[0]),
    }
    replaced, guessed = (
        np.flatnonzero((points != seen).any(axis=1)) for points in (repaired, completed)
    )
    found = np.intersect1d(replaced, changed)
    return {
        "angles": {name: angle(axis, best.components[0]) for name, (_, axis) in axes.items()},
        "distances": {
            name: float(np.linalg.norm(mean - best.mean)) for name, (mean, _) in axes.items()
        },
        "best": [best.mean.tolist(), best.components[0].tolist()],
        "axes": {name: [mean.tolist(), axis.tolist()] for name, (mean, axis) in axes.items()},
        "steps": steps,
        "clean": clean.tolist(),
        "seen": seen.tolist(),
        "repaired": repaired.tolist(),
        "changed": changed.tolist(),
        "found": len(found),
        "second replaced": int((repaired != seen)[found, 1].sum()),
        "wrongly found": len(np.setdiff1d(replaced, changed)),
        "found, estimated": len(np.intersect1d(guessed, changed)),
        "wrongly found, estimated": len(np.setdiff1d(guessed, changed)),
    }


def estimated_noise(points: Array) -> float:
    """Standard deviation of points from their own axis; two degrees of freedom are fitted."""
    axis = batch_pca(points, 1)
    centred = points - axis.mean
    off = centred - np.outer(centred @ axis.components[0], axis.components[0])
    return float(np.sqrt((off**2).sum() / (len(points) - 2)))


def angle(first: Array, second: Array) -> float:
    """Angle between two axes in degrees, regardless of sign."""
    return float(np.degrees(np.arccos(min(1.0, abs(float(first @ second))))))


def _points(rng: np.random.Generator) -> tuple[Array, Array, NDArray[np.intp]]:
    """True points, observed points, and indices of the changed ones."""
    x = np.linspace(0.0, 10.0, N_POINTS)
    clean = np.column_stack([x, 1.0 + 0.6 * x + NOISE * rng.normal(size=N_POINTS)])
    changed = np.sort(rng.choice(np.arange(N_FIRST, N_POINTS), N_CHANGED, replace=False))
    seen = clean.copy()
    seen[changed, 1] += rng.choice([-1.0, 1.0], N_CHANGED) * rng.uniform(*CHANGE, N_CHANGED)
    return clean, seen, changed


def _robust(seen: Array, threshold: float) -> tuple[RobustStreamingPCA, Array]:
    """Robust method started from the first points, and the points as it repaired them."""
    robust = RobustStreamingPCA(n_components=1, guard=0, threshold=threshold).start(seen[:N_FIRST])
    repaired = seen.copy()
    for i in range(N_FIRST, N_POINTS):
        repaired[i] = robust.restore(seen[i : i + 1])[0]
        robust.learn_one(seen[i])
    return robust, repaired


def _learned(points: Array) -> tuple[StreamingPCA, list[list[list[float]]]]:
    """Published algorithm from left to right; point, origin and axis at every sixth step."""
    pca = StreamingPCA(n_components=1, guard=0)
    steps = []
    for i, point in enumerate(points):
        pca.learn_one(point)
        if i and i % SHOWN_EVERY == 0:
            steps.append([point.tolist(), pca.mean_.tolist(), pca.components_[0].tolist()])
    return pca, steps
