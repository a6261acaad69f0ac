"""NCM and SVM forests beside scikit-learn's random forest, and other rivals, on the same features.

All classes at once, 50 trees each, everything else at its defaults; scikit-learn's forest grows
its trees to the end, as it does by default. The settings of the other rivals are chosen on training
examples held out. River's Mondrian forest learns one example at a time, 35 ms each, so it is
compared on a few classes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.forest_packs import Data, caltech101, cifar100, omniglot
from benchmarks.side_by_side import Line
from everlearn import NCMForest, SVMForest
from everlearn.papers.forests.experiments import grown, growth
from everlearn.papers.forests.protocol import ClassStream, data_set
from everlearn.papers.forests.rivals import classifiers, least_squares, metrics

N_OMNIGLOT = 200
N_MONDRIAN = 10


def lines() -> Iterator[Line]:
    cifar, caltech = cifar100(), caltech101()
    yield from against_random_forest("CIFAR-100 features", cifar, "≥ 10 points")
    yield from against_random_forest("Caltech-101 features", caltech, "ahead")
    yield from against_random_forest(f"Omniglot pixels, {N_OMNIGLOT} characters", few(), "ahead")
    yield all_classes()
    yield one_class_at_a_time()
    yield mondrian()


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


def all_classes() -> Line:
    """The rivals of the paper's Table 1 that learn all classes at once."""
    names = ("NCM", "KNN", "MC SVM", "NCMF", "SVMF")
    found = classifiers(
        0, data="cifar100", sizes=[100], n_trees=50, most=dict.fromkeys(names, 100)
    )["accuracy"]
    reached = {name: found[name][0] for name in names}
    reached["MET+NCM"] = metrics(
        0, data="cifar100", initial=[100], checkpoints=[100], ranks=[32, 128]
    )["all"][0]
    return Line("CIFAR-100 features, 100 classes at once", _told(reached), "forests ahead")


def one_class_at_a_time() -> Line:
    """MULTIpLE and a forest, both from 10 classes to 50, 15 images each."""
    found = least_squares(0, data="cifar100", initial=10, checkpoints=[50], per_class=15)
    reached = {name: found[name][0] for name in ("MULTIpLE", "LSSVM")}
    forest = grown(
        0,
        data="cifar100",
        forests=["NCMF"],
        initials=[10],
        steps=[1],
        checkpoints=[50],
        n_trees=50,
        arms={"RTST": {"update": "rtst"}, "AUTO": {"update": "auto"}},
        per_class=15,
    )[growth("NCMF", 10, 1)]
    reached |= {f"NCMF {name}": found["accuracy"][0] for name, found in forest.items()}
    return Line(
        "CIFAR-100 features, 15 images of each of 50 classes, one class at a time",
        _told(reached),
        "a forest keeps more of its own than MULTIpLE",
    )


def mondrian() -> Line:
    """River's aggregated Mondrian forest, in an order of its liking: examples shuffled."""
    from river.forest import AMFClassifier

    stream = ClassStream.of(data_set("cifar100"), N_MONDRIAN, 0).whitened(N_MONDRIAN)
    learned, asked = stream.between(0, N_MONDRIAN), stream.asked(N_MONDRIAN)
    rival = AMFClassifier(n_estimators=10, seed=0)
    for row in np.random.default_rng(0).permutation(len(learned)):
        rival.learn_one(_by_name(learned.X[row]), learned.y[row])
    hits = [rival.predict_one(_by_name(x)) == y for x, y in zip(asked.X, asked.y, strict=True)]
    ours = NCMForest(n_estimators=10, whiten=False, random_state=0).fit(learned.X, learned.y)
    return Line(
        f"CIFAR-100 features, {N_MONDRIAN} classes, ten trees",
        _told(
            {"River's Mondrian": float(np.mean(hits)), "NCMF": stream.accuracy(ours, N_MONDRIAN)}
        ),
        "NCM forest ahead",
    )


def _by_name(x: Any) -> dict[int, float]:
    return dict(enumerate(x.tolist()))


def _told(reached: dict[str, float]) -> str:
    return ", ".join(f"{name} {accuracy:.3f}" for name, accuracy in reached.items())
