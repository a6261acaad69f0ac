"""NCM and SVM forests beside scikit-learn's random forest, and other rivals, on the same features.

All classes at once, 50 trees each, everything else at its defaults; scikit-learn's forest grows
its trees to the end, as it does by default.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.forest_packs import Data, caltech101, cifar100, omniglot
from benchmarks.side_by_side import Line
from everlearn import NCMForest, NearestClassMean, SVMForest
from everlearn.learners.forest.conventional import ConventionalForest

N_OMNIGLOT = 200


def lines() -> Iterator[Line]:
    cifar, caltech = cifar100(), caltech101()
    yield from against_random_forest("CIFAR-100 features", cifar, "≥ 10 points")
    yield from against_random_forest("Caltech-101 features", caltech, "ahead")
    yield from against_random_forest(f"Omniglot pixels, {N_OMNIGLOT} characters", few(), "ahead")
    yield others(cifar.whitened_by(np.unique(cifar.y)))


def few() -> Data:
    """The first characters of Omniglot."""
    data = omniglot()
    chosen = np.unique(data.y)[:N_OMNIGLOT]
    test = np.isin(data.y_test, chosen)
    return Data(*data.of(chosen), data.X_test[test], data.y_test[test])


def against_random_forest(name: str, data: Data, wanted: str) -> Iterator[Line]:
    rival = RandomForestClassifier(n_estimators=50, random_state=0, n_jobs=-1).fit(data.X, data.y)
    theirs = data.accuracy(rival)
    for learner in (NCMForest, SVMForest):
        ours = data.accuracy(
            learner(n_estimators=50, random_state=0, n_jobs=-1).fit(data.X, data.y)
        )
        yield Line(
            f"{learner.__name__} against scikit-learn's random forest, {name}",
            f"{100 * (ours - theirs):+.1f} points ({ours:.3f} against {theirs:.3f})",
            wanted,
        )


def others(data: Data) -> Line:
    """Baselines of the paper's Table 1 that need no iteration."""
    learners = {
        "NCM": NearestClassMean(),
        "10-NN": KNeighborsClassifier(10),
        "axis splits": ConventionalForest(n_estimators=50, random_state=0, n_jobs=-1),
        "NCM forest": NCMForest(n_estimators=50, random_state=0, n_jobs=-1),
    }
    found = {name: data.accuracy(learner.fit(data.X, data.y)) for name, learner in learners.items()}
    measured = ", ".join(f"{name} {accuracy:.3f}" for name, accuracy in found.items())
    return Line(
        "CIFAR-100 features, whitened, all classes at once", measured, "forest ahead of all"
    )
