"""Compares NCM and SVM forests with scikit-learn's random forest and other rivals.

All classes at once, 50 trees each, by the protocol of ``everlearn reproduce forests``: features
whitened, the settings of rivals chosen on training examples held out. River's Mondrian forest
learns one example at a time, 35 ms each, so it is compared on a few classes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from everlearn_papers.forests.experiments import RETRAINED, grown, growth
from everlearn_papers.forests.protocol import ClassStream, data_set
from everlearn_papers.forests.rivals import classifiers, least_squares, metrics

from benchmarks.side_by_side import Line
from everlearn import NCMForest

# Data sets, and how many of their classes.
SIZES = {"cifar100": 100, "caltech101": 101, "omniglot": 200}
OTHERS = ("NCM", "KNN", "MC SVM")
N_MONDRIAN = 10


def lines() -> Iterator[Line]:
    yield from against_random_forest()
    yield one_class_at_a_time()
    yield mondrian()


def against_random_forest() -> Iterator[Line]:
    """Beside a random forest on every data set; on CIFAR-100 beside Table 1's other rivals too."""
    for data, size in SIZES.items():
        names = ["RF", "NCMF", "SVMF", *(OTHERS if data == "cifar100" else ())]
        found = classifiers(0, data=data, sizes=[size], n_trees=50, names=names)["accuracy"]
        reached = {name: values[0] for name, values in found.items()}
        if data == "cifar100":
            metric = metrics(0, data=data, initial=[size], checkpoints=[size], ranks=[32, 128])
            reached["MET+NCM"] = metric["all"][0]
        yield Line(f"{data}, {size} classes at once", _told(reached), "forests ahead of RF")


def one_class_at_a_time() -> Line:
    """MULTIpLE and a forest, both from 10 classes to 50, 15 images each."""
    found = least_squares(0, data="cifar100", initial=10, checkpoints=[50], per_class=15)
    reached = {name: found[name][0] for name in ("MULTIpLE", "LSSVM")}
    ways = ("RTST", "AUTO")
    forest = grown(
        0,
        data="cifar100",
        forests=["NCMF"],
        initials=[10],
        steps=[1],
        checkpoints=[50],
        n_trees=50,
        arms={way: {"update": way.lower()} for way in ways},
        per_class=15,
    )[growth("NCMF", 10, 1)]
    reached |= {f"NCMF {way}": forest[way]["accuracy"][0] for way in (*ways, RETRAINED)}
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
