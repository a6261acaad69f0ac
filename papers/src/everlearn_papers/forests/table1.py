"""Ristin et al. (2015), Table 1: other classifiers, and ways to learn new classes.

(a) all classes at once, every classifier; (b), (c) from 10 or 20 classes, ten at a time.
"""

from typing import Any

import numpy as np

from everlearn.evaluation.table import Table
from everlearn_papers.forests.choosing import in_words
from everlearn_papers.forests.grids import not_converged
from everlearn_papers.forests.rivals import CLASSIFIERS, MONDRIAN_TREES
from everlearn_papers.forests.row_a import with_shares_of_row_a
from everlearn_papers.forests.runs import (
    CALTECH,
    CIFAR,
    OMNIGLOT,
    OURS,
    PIXELS,
    UPDATES,
    classifier_runs,
    extent,
    mean,
    metric_runs,
    orders,
    several_at_a_time,
    table_sizes,
)
from everlearn_papers.report import Section, Setting, published

OTHERWISE = (
    "Other than published: a linear SVM is level with SVMF, as a network's features are made to be "
    "separated linearly; on Caltech-101 NCM is level with NCMF; a metric of the first classes "
    "carries over to the others, and at the end is ahead of all forests that grew on Omniglot and "
    "Caltech-101, on CIFAR-100 of NCM forests, and there level with SVMF+RTST; on pixels linear "
    "SVMs and NCM without whitening are ahead of the forests."
)
NAMES = {"cifar100": "CIFAR-100", "caltech101": "Caltech-101", "omniglot": "Omniglot"}


def table1(setting: Setting) -> Section:
    """Table 1: all classes at once, and from 10 or 20 classes ten at a time."""
    size = extent(setting)
    table = Table()
    for data in ("cifar100",) if setting.quick else NAMES:
        _offline_rows(table, setting, data)
    for block, start in zip("bc", size.starts, strict=True):
        for data in ("cifar100",) if setting.quick else NAMES:
            _growing_rows(table, setting, block, data, start)
    table = Table(with_shares_of_row_a(table.rows))
    return Section(
        "Table 1: other classifiers, and ways to learn new classes",
        f"{CIFAR} {CALTECH} {OMNIGLOT}",
        "Average accuracy and, in brackets, relative performance in per cent, by the number of "
        "classes: by a forest retrained with as many trees; and by row (a) of this table. What was "
        "published stands where the paper has that number of classes. (a) All classes "
        f"at once, {size.offline_trees} trees ({2 * size.character_trees} on Omniglot). From "
        f"{size.starts[0]} (b) and {size.starts[1]} classes (c), {size.step} at a time, "
        f"{size.trees} trees ({size.character_trees} on Omniglot); {orders(setting)}. Rivals have "
        "the forests' whitening (MET+NCM none, as in the paper) and settings chosen on held-out "
        "training images of at most 50 classes, of MET_k+NCM too, though its metric is learned on "
        "k; so is λ of SVMF, with five passes over every node. "
        "MC SVM is scikit-learn's Crammer-Singer SVM; *by gradient* is the same loss by "
        "stochastic gradient; how far each got is in *the linear rivals and their grids* below. "
        "RF is scikit-learn's random forest; a "
        f"Mondrian forest (MF) has at most {MONDRIAN_TREES} trees. {OURS}",
        table,
        conclusions=f"{OTHERWISE} {PIXELS}",
    )


def _offline_rows(table: Table, setting: Setting, data: str) -> None:
    sizes = table_sizes(setting, data)
    halves = [classifier_runs(setting, data, linear=linear) for linear in (True, False)]
    runs_of = {name: half for half in halves for name in half[0]["accuracy"]}
    reached = {
        name: np.array([run["accuracy"][name] for run in runs_of[name]]) for name in CLASSIFIERS
    }
    metric = metric_runs(setting, data)
    reached["MET+NCM"] = np.array([run["all"] for run in metric])
    theirs = published("forests")["table1"]
    for name, values in reached.items():
        row: dict[str, Any] = {"": "a", "data": NAMES[data], "method": name}
        printed = dict(zip(theirs["classes"], theirs["a"].get(name, ()), strict=False))
        for place, n_classes in enumerate(sizes):
            if n_classes in theirs["classes"]:
                row[f"published {n_classes}"] = printed.get(n_classes)
            row[f"measured {n_classes}"] = mean(values[:, place], 3)
        searches = [run["search"].get(name) for run in runs_of.get(name, ())]
        if name == "MET+NCM":
            searches = [run["search"]["all"] for run in metric]
        if searches[0] and searches[0]["tried"]:
            row["setting of each order"] = "; ".join(map(in_words, searches))
        endings = [run["ending"].get(name, []) for run in runs_of.get(name, ())]
        if name == "MET+NCM":
            endings = [run["ending"]["all"] for run in metric]
        row["fits not converged"] = not_converged(endings)
        table.add(**row)


def _growing_rows(table: Table, setting: Setting, block: str, data: str, start: int) -> None:
    theirs = published("forests")["table1"]
    metric = metric_runs(setting, data)
    first, whole = (np.array([run[key] for run in metric]) for key in (str(start), "all"))
    reached = {f"MET_{start}+NCM": (first, 100 * first / whole)}
    chosen = {f"MET_{start}+NCM": "; ".join(in_words(run["search"][str(start)]) for run in metric)}
    endings = {f"MET_{start}+NCM": [run["ending"][str(start)] for run in metric]}
    sizes = table_sizes(setting, data)
    for kind, runs in several_at_a_time(setting, data, start).items():
        for way in UPDATES:
            accuracies, relative = runs.values(way, "accuracy"), runs.relative(way)
            if kind == "SVMF":
                chosen[f"{kind}+{way}"] = runs.chosen()
            # The initial classes are a checkpoint too, if they are none of the table's.
            reached[f"{kind}+{way}"] = accuracies[:, -len(sizes) :], relative[:, -len(sizes) :]
    for name, (accuracies, relative) in reached.items():
        row: dict[str, Any] = {"": block, "data": NAMES[data], "method": name}
        printed = dict(zip(theirs["classes"], theirs[block].get(name, ()), strict=False))
        for place, n_classes in enumerate(sizes):
            if n_classes in printed:
                row[f"published {n_classes}"] = "{} ({})".format(*printed[n_classes])
            share = mean(relative[:, place], 1)
            row[f"measured {n_classes}"] = f"{mean(accuracies[:, place], 3)} ({share})"
        if name in chosen:
            row["setting of each order"] = chosen[name]
        row["fits not converged"] = not_converged(endings.get(name, []))
        table.add(**row)
