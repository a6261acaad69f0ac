"""Runs shared by several tables and figures of Ristin et al. (2015), and drawing functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from everlearn.arrays import Array
from everlearn.evaluation.metrics import relative_performance
from everlearn_papers import plots
from everlearn_papers.forests.choosing import in_words
from everlearn_papers.forests.experiments import RETRAINED, grown, growth
from everlearn_papers.forests.rivals import CLASSIFIERS, GRADIENT, SVM, classifiers, metrics
from everlearn_papers.repeat import Result
from everlearn_papers.report import Setting, published

Panels = Mapping[str, Mapping[str, ArrayLike]]

CIFAR = (
    "CIFAR-100, EfficientNet-Lite0 features of 100 + 30 images a class, is a **substitute** for "
    "ILSVRC10 (about 1,300 images a class, bags of visual words). The network was trained on "
    "similar classes, so levels cannot be compared; ratios can."
)
OMNIGLOT = (
    "Omniglot, pixels of up to 1,000 characters, 15 + 5 images each, is a **substitute** for the "
    "1,000 classes of ILSVRC10."
)
CALTECH = "Caltech-101, the same features, 21 to 534 images a class: a **substitute** as well."
PIXELS = (
    "With hundreds of characters λ of SVMF, chosen on 50 of them, decides how forests trained at "
    "once compare with those that grew. Where 0.001 or 0.01 is taken (all at once, and from 20 "
    "classes) it is too small for all of them trained at once: a forest that grew is ahead, and "
    "relative performance exceeds 100 %. Where 1 is taken (from ten classes) they are level."
)
# The four update methods of the paper, and our own.
UPDATES = {name: {"update": name.lower()} for name in ("ULS", "IGT", "RUST", "RTST", "AUTO")}
OURS = 'AUTO is our own `update="auto"`, which grows again what has been outgrown.'
EVERY_WAY = (*UPDATES, RETRAINED)
KINDS = ("NCMF", "SVMF")
SAMPLINGS = ("quality", "uniform", "size")
ALL_FEATURES = 1280
FEWER_FEATURES = ALL_FEATURES // 4
# Number of class orders, where the paper has one, and where it has ten.
ORDERS, MANY_ORDERS = 2, 10


@dataclass(frozen=True)
class Extent:
    """Size of a re-run: numbers of classes, trees and training images."""

    per_class: int | None  # training images of a class, at most
    trees: int
    offline_trees: int  # where all classes are learned at once
    few: tuple[int, ...]  # one class at a time, from the first of these
    initials: tuple[int, ...]
    fractions: tuple[float, ...]
    smallest: tuple[int, ...]
    subset_sizes: tuple[int, ...]
    many: tuple[int, ...]  # several classes at a time: those of Table 1
    starts: tuple[int, int]  # initial classes of Table 1 b and c
    step: int
    batch_start: int
    batch_sizes: tuple[int, ...]
    character_batches: tuple[int, ...]  # the same for Omniglot
    batch_points: tuple[int, ...]
    least_squares: tuple[int, ...]
    characters: tuple[int, ...]
    character_trees: int
    ranks: tuple[int, ...]  # of a learned metric, to choose from
    budgets: tuple[int, ...]  # images of a class that are kept


FULL = Extent(
    per_class=None,
    trees=10,
    offline_trees=25,
    few=(3, 10, 20, 30, 40, 50),
    initials=(3, 5, 10, 20),
    fractions=(0.02, 0.05, 0.2, 0.5),
    smallest=(1, 2, 5, 10),
    subset_sizes=(25, 50, 100),
    many=(50, 100),
    starts=(10, 20),
    step=10,
    batch_start=20,
    batch_sizes=(1, 10, 20, 40),
    character_batches=(10, 20, 40),
    batch_points=(60, 100),
    least_squares=(50, 100),
    characters=(50, 500, 1000),
    character_trees=5,
    ranks=(64, 128, 256),
    budgets=(2, 5, 10, 20, 50),
)
QUICK = Extent(
    per_class=30,
    trees=10,
    offline_trees=10,
    few=(3, 10, 20),
    initials=(3, 10),
    fractions=(0.05, 0.5),
    smallest=(1, 10),
    subset_sizes=(10, 25),
    many=(10, 25),
    starts=(5, 10),
    step=5,
    batch_start=10,
    batch_sizes=(1, 10),
    character_batches=(10,),
    batch_points=(20, 25),
    least_squares=(20,),
    characters=(20, 60),
    character_trees=4,
    ranks=(32,),
    budgets=(2, 10),
)


def extent(setting: Setting) -> Extent:
    return QUICK if setting.quick else FULL


class Runs:
    """Results of forests for several class orders; arrays of shape (orders, checkpoints)."""

    def __init__(self, results: list[Result]) -> None:
        self.results = results

    def values(self, arm: str, key: str) -> Array:
        return np.array([result[arm][key] for result in self.results], float)

    def last(self, arm: str, key: str) -> Array:
        """Values at the last checkpoint, one per order."""
        return self.values(arm, key)[:, -1]

    def relative(self, arm: str) -> Array:
        """Relative performance in per cent."""
        ours, best = self.values(arm, "accuracy"), self.values(RETRAINED, "accuracy")
        return 100 * relative_performance(ours, best)

    def chosen(self) -> str:
        """The λ chosen for an SVM forest, in words, one for each order."""
        return "; ".join(in_words(result["search"]) for result in self.results)

    def saving(self, arm: str) -> float:
        """Ratio of the retraining time to the update time at the last checkpoint."""
        return float(np.mean(self.last(RETRAINED, "training") / self.last(arm, "training")))


def grow(setting: Setting, part: str, usual: int = ORDERS, **settings: Any) -> dict[str, Runs]:
    """Updated and retrained forests, by :func:`growth`; on CIFAR-100 by default."""
    size = extent(setting)
    usually = {"data": "cifar100", "n_trees": size.trees, "arms": UPDATES}
    every = usually | {"per_class": size.per_class} | settings
    results = setting.repeat(grown, part, usual, **every)
    return {name: Runs([result[name] for result in results]) for name in results[0]}


def class_by_class(setting: Setting) -> dict[str, Runs]:
    """Both forests with all updates from three classes, one at a time."""
    few = extent(setting).few
    runs = grow(
        setting,
        "class-by-class",
        forests=list(KINDS),
        initials=[few[0]],
        steps=[1],
        checkpoints=list(few),
    )
    return {kind: runs[growth(kind, few[0], 1)] for kind in KINDS}


def from_few_or_many(setting: Setting) -> dict[int, Runs]:
    """RUST of an NCM forest, one class at a time, by the number of initial classes."""
    size = extent(setting)
    runs = grow(
        setting,
        "initial",
        MANY_ORDERS,
        forests=["NCMF"],
        initials=list(size.initials),
        steps=[1],
        checkpoints=list(size.few),
        arms={"RUST": UPDATES["RUST"]},
    )
    return {k: runs[growth("NCMF", k, 1)] for k in size.initials}


def node_sampling(setting: Setting) -> tuple[Runs, dict[str, dict[str, Any]]]:
    """RTST with three kinds of node sampling, RUST with those of the text; and their settings."""
    size = extent(setting)
    drawn = [("RTST", way, share) for way in SAMPLINGS for share in size.fractions]
    drawn += [("RUST", "quality", 0.05), ("RUST", "size", 0.5)]
    arms = {
        f"{update} {way} {share}": {
            "update": update.lower(),
            "node_sampling": way,
            "update_fraction": share,
        }
        for update, way, share in drawn
    }
    runs = grow(
        setting,
        "node-sampling",
        forests=["NCMF"],
        initials=[size.few[0]],
        steps=[1],
        checkpoints=list(size.few),
        arms=arms,
    )
    return runs[growth("NCMF", size.few[0], 1)], arms


def several_at_a_time(
    setting: Setting, data: str, start: int, n_features: int = ALL_FEATURES
) -> dict[str, Runs]:
    """Both forests with all updates from ``start`` classes, ten at a time, to the end.

    The SVM forest has all its passes at every node, and λ chosen for the data.
    """
    size = extent(setting)
    runs = grow(
        setting,
        f"several-{data}-{start}{_width(n_features)}",
        data=data,
        forests=list(KINDS),
        initials=[start],
        steps=[size.step],
        checkpoints=sorted({start, *table_sizes(setting, data)}),
        n_trees=size.character_trees if data == "omniglot" else size.trees,
        n_features=n_features if _width(n_features) else None,
        chosen=True,
    )
    return {kind: runs[growth(kind, start, size.step)] for kind in KINDS}


def to_the_end(setting: Setting) -> dict[str, dict[str, Runs]]:
    """Fig. 12 and Table 2: both forests on both substitutes."""
    start = extent(setting).starts[1]
    names = {"CIFAR-100": "cifar100", "Omniglot": "omniglot"}
    return {name: several_at_a_time(setting, data, start) for name, data in names.items()}


def metric_runs(setting: Setting, data: str, n_features: int = ALL_FEATURES) -> list[Result]:
    """MET+NCM with the metric of the first classes, or of all."""
    return setting.repeat(
        metrics,
        f"metric-{data}{_width(n_features)}",
        ORDERS,
        data=data,
        initial=list(extent(setting).starts),
        checkpoints=table_sizes(setting, data),
        ranks=list(extent(setting).ranks),
        per_class=extent(setting).per_class,
        n_features=n_features if _width(n_features) else None,
    )


def classifier_runs(setting: Setting, data: str, *, linear: bool) -> list[Result]:
    """All classes at once: linear SVMs, or the other classifiers."""
    size = extent(setting)
    names = [name for name in CLASSIFIERS if (name in (SVM, GRADIENT)) == linear]
    return setting.repeat(
        classifiers,
        f"{'linear' if linear else 'classifiers'}-{data}",
        ORDERS,
        data=data,
        sizes=table_sizes(setting, data),
        n_trees=2 * size.character_trees if data == "omniglot" else size.offline_trees,
        names=names,
        per_class=size.per_class,
    )


def table_sizes(setting: Setting, data: str) -> list[int]:
    """The numbers of classes in Table 1."""
    size = extent(setting)
    if data == "omniglot":
        return list(size.characters)
    if data == "caltech101":
        return [size.many[0], 101]
    return list(size.many)


def _width(n_features: int) -> str:
    return "" if n_features == ALL_FEATURES else f"-{n_features}"


# Words and figures.


def claim(part: str) -> str:
    return f"*Published*: {published('forests')[part]['claim']}"


def orders(setting: Setting, usual: int = ORDERS) -> str:
    n = setting.n_seeds(usual)
    return "one order of the classes" if n == 1 else f"{n} orders of the classes"


def mean(values: ArrayLike, digits: int) -> str:
    return f"{np.mean(np.asarray(values, float)):.{digits}f}"


def panels(x: Sequence[float], x_label: str, curves: Panels, *, width: float = 4.0) -> Any:
    """A figure with one panel of curves per name."""
    drawn, axes = plots.figure(len(curves), width=width)
    for panel, (name, own) in zip(axes[0], curves.items(), strict=True):
        plots.draw_curves(panel, x, own, x_label=x_label, y_label=name)
    plots.one_legend(drawn, axes)
    return drawn


def bars(names: Sequence[str], groups: Panels, *, logarithmic: str = "", width: float = 4.4) -> Any:
    """A figure with one panel of bars per name; groups differ in grey and in hatching."""
    drawn, axes = plots.figure(len(groups), width=width)
    for panel, (label, own) in zip(axes[0], groups.items(), strict=True):
        thick = 0.8 / len(own)
        styles = zip(("0.35", "0.8"), ("", "//"), strict=True)
        for place, ((name, values), (grey, hatch)) in enumerate(
            zip(own.items(), styles, strict=False)
        ):
            where = np.arange(len(names)) + (place - (len(own) - 1) / 2) * thick
            panel.bar(where, values, thick, color=grey, hatch=hatch, edgecolor="black", label=name)
        panel.set_xticks(range(len(names)), names, rotation=90 if len(names) > 5 else 30)
        panel.set(ylabel=label, yscale="log" if label == logarithmic else "linear")
        panel.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return drawn


def draw_tradeoff(panel: Any, points: Mapping[str, Mapping[str, tuple[float, float]]]) -> None:
    """Draw accuracy against time: a marker per update method, a line and fill per forest."""
    for (kind, own), dash, fill in zip(
        points.items(), ("-", "--"), ("black", "white"), strict=True
    ):
        published_ways = [own[way] for way in own if way != "AUTO"]
        panel.plot(*zip(*published_ways, strict=True), dash, color="0.6", label=kind, zorder=1)
        for (way, point), mark in zip(own.items(), ("o", "s", "^", "D", "*", "X"), strict=True):
            style = {"mfc": fill, "mec": "black", "markersize": 9 if mark == "*" else 6}
            panel.plot(*point, mark, label=way if fill == "black" else None, **style)
    panel.set(xscale="log", xlabel="training seconds per tree, all updates")
    panel.grid(alpha=0.3)
    panel.legend(fontsize="x-small")
