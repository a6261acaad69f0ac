"""Table 1 and Fig. 3b of Skočaj and Leonardis (2002) on ten synthesised scenes.

The experiment is that of ``everlearn reproduce subspace --only table1``; the scenes are substitutes
for the paper's images, which are not available.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from everlearn_papers.subspace.scenes import METHODS, SCENES, SHAPE, behind_occluders

from benchmarks.side_by_side import Line


def lines() -> Iterator[Line]:
    outcomes = [behind_occluders(number, shape=list(SHAPE)) for number in range(len(SCENES))]
    errors = [outcome["errors"] for outcome in outcomes]
    ratios = {name: np.array([e[name] / e["batchOnGT"] for e in errors]) for name in METHODS}
    print("error over that of batch PCA on the truth, per scene:")
    for name in METHODS:
        print(f"  {name:17s}" + " ".join(f"{value:7.2f}" for value in ratios[name]))
    yield Line(
        "scenes, outliers known: error over batch PCA on the truth, worst of 10",
        f"{ratios['robIncKnownOL'].max():.3f}",
        "≤ 1.2",
    )
    yield Line(
        "scenes, good seed: error over batch PCA on the truth, median (worst) of 10",
        f"{np.median(ratios['robIncGoodSeed']):.3f} ({ratios['robIncGoodSeed'].max():.2f})",
        "median ≤ 1.5",
    )
    yield Line(
        "scenes, seed found in the stream: error over batch PCA on the truth, median (worst)",
        f"{np.median(ratios['robIncDefault']):.3f} ({ratios['robIncDefault'].max():.2f})",
        "median ≤ 2.0",
    )
    order = ("batchOnGT", "robIncKnownOL", "robIncGoodSeed", "batchRob", "batchStd")
    ordered = sum(all(e[a] < e[b] for a, b in itertools.pairwise(order)) for e in errors)
    yield Line(
        "scenes in which truth < known < good seed < robust batch < batch", f"{ordered} of 10", "10"
    )
    worse = sum(e["robIncNonDispSeed"] > e["batchStd"] for e in errors)
    yield Line("scenes in which a seed from one part is worse than batch", f"{worse} of 10", "10")
    precision, recall = (min(outcome["found"][i] for outcome in outcomes) for i in (0, 1))
    yield Line(
        "outlier pixels, good seed: precision and recall, worst of 10 scenes",
        f"{precision:.3f}, {recall:.3f}",
        "≥ 0.95, ≥ 0.95",
    )
