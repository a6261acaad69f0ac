"""Ristin et al. (2015), Sec. 5.1: the parameters of a forest, with few classes (Fig. 4-10).

The paper's 50 classes are replaced by 50 of CIFAR-100, the same ones in every order.
"""

from typing import Any

import numpy as np

from everlearn.arrays import Array
from everlearn.evaluation.table import Table
from everlearn_papers import plots
from everlearn_papers.forests.experiments import trained
from everlearn_papers.forests.runs import (
    CIFAR,
    EVERY_WAY,
    KINDS,
    MANY_ORDERS,
    ORDERS,
    OURS,
    Runs,
    bars,
    claim,
    class_by_class,
    extent,
    from_few_or_many,
    mean,
    node_sampling,
    orders,
    panels,
)
from everlearn_papers.report import Section, Setting, published, spread

SUBSETS: dict[str, Any] = {"log2 K": "log2", "sqrt K": "sqrt", "0.2 K": 0.2}
RELATIVE, ASKING, TRAINING = (
    "relative performance (%)",
    "µs per image and tree",
    "training seconds per tree",
)


def fig4(setting: Setting) -> Section:
    """Fig. 4: number of centroids per node of an NCM forest."""
    size = extent(setting)
    runs = setting.repeat(
        trained,
        "centroids",
        ORDERS,
        data="cifar100",
        forests=["NCMF"],
        sizes=list(size.subset_sizes),
        n_trees=size.offline_trees,
        per_class=size.per_class,
        variants={name: {"class_subset": subset} for name, subset in SUBSETS.items()},
    )
    found = Runs([run["NCMF"] for run in runs])
    table = Table()
    for name in SUBSETS:
        for place, n_classes in enumerate(size.subset_sizes):
            table.add(
                **{
                    "centroids per node": name,
                    "classes": n_classes,
                    "measured accuracy": mean(found.values(name, "accuracy")[:, place], 3),
                    "measured µs to ask": mean(found.values(name, "asking")[:, place], 1),
                    "measured s to train": mean(found.values(name, "training")[:, place], 3),
                }
            )
    curves = {
        "accuracy": {name: found.values(name, "accuracy") for name in SUBSETS},
        ASKING: {name: found.values(name, "asking") for name in SUBSETS},
    }
    return Section(
        "Fig. 4: centroids per node of an NCM forest",
        CIFAR,
        f"{claim('fig4')} *Measured*: {size.offline_trees} trees, all classes at once, "
        f"{orders(setting)}.",
        table,
        {"": panels(size.subset_sizes, "classes", curves)},
    )


def fig5(setting: Setting) -> Section:
    """Fig. 5: the smallest leaf."""
    theirs = published("forests")["fig5"]
    size = extent(setting)
    runs = setting.repeat(
        trained,
        "smallest",
        ORDERS,
        data="cifar100",
        forests=list(KINDS),
        sizes=[size.few[-1]],
        n_trees=size.trees,
        per_class=size.per_class,
        variants={str(mu): {"min_samples": mu} for mu in size.smallest},
    )
    found = {kind: Runs([run[kind] for run in runs]) for kind in KINDS}
    measures = {"accuracy": ("accuracy", 3), ASKING: ("asking", 1), TRAINING: ("training", 3)}
    table = Table()
    for kind in KINDS:
        for mu in size.smallest:
            row: dict[str, Any] = {"forest": kind, "μ": mu}
            for name, (key, digits) in measures.items():
                row[f"published {name}"] = theirs[name][kind] if mu == 10 else None
                row[f"measured {name}"] = mean(found[kind].last(str(mu), key), digits)
            table.add(**row)
    curves = {
        name: {
            kind: np.column_stack([found[kind].last(str(mu), key) for mu in size.smallest])
            for kind in KINDS
        }
        for name, (key, _) in measures.items()
    }
    return Section(
        f"Fig. 5: the smallest leaf, {size.few[-1]} classes",
        CIFAR,
        f"{claim('fig5')} *Measured*: {size.trees} trees, all classes at once, {orders(setting)}. "
        "A class has 100 images here and about 1,300 there, so trees are smaller, and cheaper to "
        "train and to ask, at the same μ.",
        table,
        {"": panels(size.smallest, "μ", curves)},
        "For SVMF a smaller μ is not more accurate here.",
    )


def fig6(setting: Setting) -> Section:
    """Fig. 6: number of initial classes of an NCM forest."""
    theirs = published("forests")["fig6"]["relative"]
    size, runs = extent(setting), from_few_or_many(setting)
    measured_at = [known for known in size.few if known > max(size.initials)]
    table = Table()
    curves: dict[str, dict[str, Array]] = {RELATIVE: {}, ASKING: {}}
    for back, n_classes in enumerate(reversed(measured_at), start=1):
        relative = {k: found.relative("RUST")[:, -back] for k, found in runs.items()}
        asking = {k: found.values("RUST", "asking")[:, -back] for k, found in runs.items()}
        for k in runs:
            table.add(
                **{
                    "initial classes": k,
                    "classes": n_classes,
                    "published relative %": theirs.get(str(k)) if n_classes == 50 else None,
                    "measured relative %": spread(relative[k]),
                    "measured µs to ask": mean(asking[k], 1),
                }
            )
        curves[RELATIVE][f"at {n_classes} classes"] = np.column_stack(list(relative.values()))
        curves[ASKING][f"at {n_classes} classes"] = np.column_stack(list(asking.values()))
    return Section(
        "Fig. 6: initial classes, RUST of NCMF",
        CIFAR,
        f"{claim('fig6')} *Measured*: one class at a time, {size.trees} trees, "
        f"{orders(setting, MANY_ORDERS)} (the paper: one).",
        table,
        {"": panels(list(runs), "initial classes", curves)},
    )


def fig7(setting: Setting) -> Section:
    """Fig. 7: which nodes are updated, and how many."""
    theirs = published("forests")["fig7"]
    size = extent(setting)
    found, arms = node_sampling(setting)
    table = Table()
    for name, arm in arms.items():
        table.add(
            **{
                "update": arm["update"].upper(),
                "nodes drawn by": arm["node_sampling"],
                "π": arm["update_fraction"],
                "published relative %": theirs["relative"].get(name),
                "measured relative %": spread(found.relative(name)[:, -1]),
                "published s to train": theirs[TRAINING].get(name),
                "measured s to train": mean(found.last(name, "training"), 3),
                "measured times faster than retraining": f"{found.saving(name):.1f}",
            }
        )
    ways = list(dict.fromkeys(arm["node_sampling"] for arm in arms.values()))

    def curve(value: Any, way: str) -> Array:
        return np.column_stack([value(f"RTST {way} {share}") for share in size.fractions])

    curves = {
        RELATIVE: {way: curve(lambda arm: found.relative(arm)[:, -1], way) for way in ways},
        TRAINING: {way: curve(lambda arm: found.last(arm, "training"), way) for way in ways},
    }
    return Section(
        f"Fig. 7: drawing the nodes to update, {size.few[0]} to {size.few[-1]} classes",
        CIFAR,
        f"{claim('fig7')} *Measured*: {size.trees} trees, {orders(setting)}; the figure shows "
        "RTST.",
        table,
        {"": panels(size.fractions, "π", curves)},
    )


def fig8(setting: Setting) -> Section:
    """Fig. 8: the four updates of an NCM forest, class by class."""
    theirs = published("forests")["fig8"]
    size, found = extent(setting), class_by_class(setting)["NCMF"]
    faster = theirs["times faster to train than retraining"]
    table = Table()
    for way in EVERY_WAY:
        table.add(
            **{
                "update": way,
                "published relative %": theirs["relative"].get(way),
                "measured relative %": spread(found.relative(way)[:, -1]),
                "published times faster than retraining": faster.get(way),
                "measured times faster than retraining": f"{found.saving(way):.1f}",
                "measured s to train": mean(found.last(way, "training"), 3),
                "measured µs to ask": mean(found.last(way, "asking"), 1),
            }
        )
    curves = {
        RELATIVE: {way: found.relative(way) for way in EVERY_WAY},
        ASKING: {way: found.values(way, "asking") for way in EVERY_WAY},
        TRAINING: {way: found.values(way, "training") for way in EVERY_WAY},
    }
    return Section(
        f"Fig. 8: four ways to update an NCM forest, {size.few[0]} to {size.few[-1]} classes",
        CIFAR,
        f"{claim('fig8')} *Measured*: one class at a time, {size.trees} trees, {orders(setting)}. "
        "Retraining is timed at the numbers of classes of the figure and interpolated between "
        "them. A class has a thirteenth of the paper's images, so what an update costs however "
        f"little it does weighs more. {OURS}",
        table,
        {"": panels(size.few, "classes", curves)},
    )


def fig9(setting: Setting) -> Section:
    """Fig. 9: the four updates in both forests."""
    theirs = published("forests")["fig9"]["accuracy"]
    size = extent(setting)
    found = class_by_class(setting)
    table = Table()
    for kind, runs in found.items():
        whole = theirs[kind]["retrained"]
        for way in EVERY_WAY:
            reached = theirs[kind].get(way)
            table.add(
                **{
                    "forest": kind,
                    "update": way,
                    "published accuracy": reached,
                    "published relative %": reached and f"{100 * reached / whole:.1f}",
                    "measured accuracy": mean(runs.last(way, "accuracy"), 3),
                    "measured relative %": spread(runs.relative(way)[:, -1]),
                    "measured s to train": mean(runs.last(way, "training"), 3),
                    "measured µs to ask": mean(runs.last(way, "asking"), 1),
                }
            )
    measures = {"accuracy": "accuracy", ASKING: "asking", TRAINING: "training"}
    groups = {
        name: {
            kind: [runs.last(way, key).mean() for way in EVERY_WAY] for kind, runs in found.items()
        }
        for name, key in measures.items()
    }
    return Section(
        f"Fig. 9: both forests, {size.few[0]} to {size.few[-1]} classes",
        CIFAR,
        f"{claim('fig9')} *Measured*: one class at a time, {size.trees} trees, {orders(setting)}. "
        f"{OURS}",
        table,
        {"": bars(EVERY_WAY, groups, logarithmic=TRAINING)},
    )


def fig10(setting: Setting) -> Section:
    """Fig. 10: ten orders of the classes."""
    limit = published("forests")["fig10"]["largest deviation over mean"]
    size, runs = extent(setting), from_few_or_many(setting)
    table = Table()
    for k, found in runs.items():
        measures = {
            RELATIVE: found.relative("RUST")[:, -1],
            ASKING: found.last("RUST", "asking"),
            TRAINING: found.last("RUST", "training"),
        }
        for name, values in measures.items():
            table.add(
                **{
                    "initial classes": k,
                    "what": name,
                    "measured": f"{values.mean():.3g} ± {values.std():.2g}",
                    "published deviation / mean": f"≤ {limit}",
                    "measured deviation / mean": f"{values.std() / values.mean():.3f}",
                }
            )
    drawn, axes = plots.figure(3, width=3.6)
    by_start = {
        RELATIVE: [found.relative("RUST")[:, -1] for found in runs.values()],
        ASKING: [found.last("RUST", "asking") for found in runs.values()],
    }
    for panel, (name, columns) in zip(axes[0], by_start.items(), strict=False):
        plots.draw_curves(
            panel,
            list(runs),
            {"RUST": np.column_stack(columns)},
            x_label="initial classes",
            y_label=name,
        )
    k, found = next(iter(runs.items()))
    plots.draw_curves(
        axes[0, 2],
        size.few,
        {f"RUST from {k} classes": found.values("RUST", "training")},
        x_label="classes",
        y_label=TRAINING,
    )
    return Section(
        "Fig. 10: the order of the classes, RUST of NCMF",
        CIFAR,
        f"{claim('fig10')} *Measured*: {orders(setting, MANY_ORDERS)}, the same {size.few[-1]} "
        "classes in each; bands are one standard deviation. Of times, part of it is the machine's.",
        table,
        {"": drawn},
    )
