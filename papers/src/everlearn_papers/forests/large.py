"""Ristin et al. (2015), Sec. 5.2-5.3: many classes, other classifiers, more features.

Fig. 11-14 and Table 2.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everlearn.arrays import Array
from everlearn.evaluation.table import Table
from everlearn_papers import plots
from everlearn_papers.forests.choosing import in_words
from everlearn_papers.forests.experiments import RETRAINED, growth
from everlearn_papers.forests.rivals import least_squares
from everlearn_papers.forests.runs import (
    ALL_FEATURES,
    CIFAR,
    EVERY_WAY,
    FEWER_FEATURES,
    KINDS,
    OMNIGLOT,
    ORDERS,
    OURS,
    PIXELS,
    UPDATES,
    Runs,
    bars,
    claim,
    draw_tradeoff,
    extent,
    grow,
    mean,
    metric_runs,
    orders,
    several_at_a_time,
    to_the_end,
)
from everlearn_papers.report import Section, Setting, published, spread

# Images per class in Fig. 13: the time of MULTIpLE is cubic in the number of images.
FEW_IMAGES = 15


def fig11(setting: Setting) -> Section:
    """Fig. 11: number of classes per update."""
    size = extent(setting)
    table = Table()
    usual: dict[str, Any] = {"forests": list(KINDS), "initials": [size.batch_start]}
    usual |= {"arms": {"RUST": UPDATES["RUST"]}, "chosen": True}
    features = grow(
        setting,
        "batches",
        steps=list(size.batch_sizes),
        checkpoints=list(size.batch_points),
        **usual,
    )
    points = [n for n in (100, *size.characters) if n > size.batch_start]
    points = sorted(set(points) - {50}) if not setting.quick else [size.characters[-1]]
    pixels = grow(
        setting.once(),
        "batches-omniglot",
        data="omniglot",
        n_trees=size.character_trees,
        steps=list(size.character_batches),
        checkpoints=points,
        **usual,
    )
    figures = {
        "": _batch_rows(table, "CIFAR-100", features, size.batch_sizes, size.batch_points),
        "omniglot": _batch_rows(table, "Omniglot", pixels, size.character_batches, points),
    }
    return Section(
        f"Fig. 11: several classes at a time, RUST from {size.batch_start} classes",
        f"{CIFAR} {OMNIGLOT}",
        f"{claim('fig11')} *Measured*: {size.trees} trees, {orders(setting)} of CIFAR-100; "
        f"{size.character_trees} trees, one order of Omniglot. One character at a time would be "
        "980 updates, and is left out. λ of SVMF, chosen on held-out training images, of each "
        f"order: {features[growth('SVMF', size.batch_start, size.batch_sizes[0])].chosen()} on "
        f"CIFAR-100, {pixels[growth('SVMF', size.batch_start, size.character_batches[0])].chosen()}"
        " on Omniglot.",
        table,
        figures,
    )


def _batch_rows(
    table: Table,
    data: str,
    runs: dict[str, Any],
    batches: Sequence[int],
    points: Sequence[int],
) -> Any:
    """Add the rows of one data set to the table; return its figure, a row per forest."""
    size_of_start = next(iter(runs)).split()[1].split("+")[0]
    measures: dict[str, Callable[[Runs], Array]] = {
        "relative performance (%)": lambda found: found.relative("RUST"),
        "µs per image and tree": lambda found: found.values("RUST", "asking"),
        "training seconds per tree": lambda found: found.values("RUST", "training"),
    }
    drawn, axes = plots.figure(len(measures), len(KINDS), width=3.6, height=2.8)
    for row, kind in zip(axes, KINDS, strict=True):
        found = {batch: runs[growth(kind, int(size_of_start), batch)] for batch in batches}
        for panel, (label, measure) in zip(row, measures.items(), strict=True):
            curves = {f"s = {batch}": measure(found[batch]) for batch in batches}
            plots.draw_curves(panel, points, curves, x_label="classes", y_label=label, title=kind)
            panel.set_xticks(points)
        for batch in batches:
            for place, n_classes in enumerate(points):
                own = {name: measure(found[batch])[:, place] for name, measure in measures.items()}
                relative, asking, training = own.values()
                table.add(
                    **{
                        "data": data,
                        "forest": kind,
                        "classes at a time": batch,
                        "classes": n_classes,
                        "measured relative %": spread(relative),
                        "measured s to train": mean(training, 3),
                        "measured µs to ask": mean(asking, 1),
                    }
                )
    plots.one_legend(drawn, axes)
    return drawn


def fig12(setting: Setting) -> Section:
    """Fig. 12: accuracy against training time."""
    table = Table()
    drawn, axes = plots.figure(2, 2, width=4.6)
    both = to_the_end(setting)
    for row, (data, found) in zip(axes, both.items(), strict=True):
        reached: dict[str, dict[str, tuple[float, float]]] = {kind: {} for kind in KINDS}
        kept: dict[str, dict[str, tuple[float, float]]] = {kind: {} for kind in KINDS}
        for kind, runs in found.items():
            for way in EVERY_WAY:
                seconds = float(runs.last(way, "training").mean())
                reached[kind][way] = seconds, float(runs.last(way, "accuracy").mean())
                kept[kind][way] = seconds, float(runs.relative(way)[:, -1].mean())
                table.add(
                    **{
                        "data": data,
                        "forest": kind,
                        "update": way,
                        "measured accuracy": f"{reached[kind][way][1]:.3f}",
                        "measured relative %": spread(runs.relative(way)[:, -1]),
                        "measured s to train": f"{seconds:.3g}",
                    }
                )
        draw_tradeoff(row[0], reached)
        draw_tradeoff(row[1], kept)
        row[0].set(ylabel=f"{data}: accuracy")
        row[1].set(ylabel=f"{data}: relative performance (%)")
    return Section(
        "Fig. 12: accuracy against training time",
        f"{CIFAR} {OMNIGLOT}",
        f"{claim('fig12')} *Measured*: {_to_the_end_in_words(setting, both)} {OURS}",
        table,
        {"": drawn},
        PIXELS,
    )


def fig13(setting: Setting) -> Section:
    """Fig. 13: least-squares SVMs that learn one class after another."""
    theirs = published("forests")["fig13"]
    size = extent(setting)
    start, points = size.starts[0], list(size.least_squares)
    rival = setting.repeat(
        least_squares,
        "least-squares",
        ORDERS,
        data="cifar100",
        initial=start,
        checkpoints=points,
        per_class=FEW_IMAGES,
    )
    runs = grow(
        setting,
        "few-images",
        forests=list(KINDS),
        initials=[start],
        steps=[1],
        checkpoints=points,
        n_trees=size.offline_trees,
        arms={"RTST": UPDATES["RTST"]},
        per_class=FEW_IMAGES,
    )
    accuracies = {name: np.array([run[name] for run in rival]) for name in ("LSSVM", "MULTIpLE")}
    relative = {"MULTIpLE": 100 * accuracies["MULTIpLE"] / accuracies["LSSVM"]}
    for kind in KINDS:
        found = runs[growth(kind, start, 1)]
        accuracies[kind] = found.values(RETRAINED, "accuracy")
        accuracies[f"{kind}+RTST"] = found.values("RTST", "accuracy")
        relative[f"{kind}+RTST"] = found.relative("RTST")
    table = Table()
    for place, n_classes in enumerate(points):
        printed = theirs if n_classes == 100 else {"accuracy at 100 classes": {}, "relative": {}}
        for name, values in accuracies.items():
            table.add(
                **{
                    "classes": n_classes,
                    "method": name,
                    "published accuracy": printed["accuracy at 100 classes"].get(name),
                    "measured accuracy": mean(values[:, place], 3),
                    "published relative %": printed["relative"].get(name),
                    "measured relative %": spread(relative[name][:, place])
                    if name in relative
                    else None,
                }
            )
    groups = {
        "accuracy": {
            f"{n_classes} classes": [values[:, place].mean() for values in accuracies.values()]
            for place, n_classes in enumerate(points)
        }
    }
    return Section(
        f"Fig. 13: MULTIpLE, from {start} classes, one at a time",
        CIFAR,
        f"{claim('fig13')} *Measured*: {size.offline_trees} trees, {orders(setting)}. MULTIpLE's "
        "update takes time in the cube of the number of images, so all methods learn from the same "
        f"{FEW_IMAGES} images a class (the paper: 100 for MULTIpLE, all for the forests). C is "
        "chosen on held-out training images, in each order: "
        f"{'; '.join(in_words(run['C']) for run in rival)}.",
        table,
        {"": bars(list(accuracies), groups, width=6.0)},
        "A linear classifier separates these features well from few images, so LS-SVM trained at "
        "once is not behind the forests, other than published; class by class MULTIpLE is, in "
        "accuracy and in relative performance.",
    )


def fig14(setting: Setting) -> Section:
    """Fig. 14: four times as many features."""
    theirs = published("forests")["fig14"]["accuracy"]
    size = extent(setting)
    start = size.starts[0]
    chosen: dict[int, str] = {}
    narrow, wide = (
        _with_features(setting, start, n, chosen) for n in (FEWER_FEATURES, ALL_FEATURES)
    )
    table = Table()
    for name, (accuracy, relative, seconds) in wide.items():
        before = narrow[name]
        table.add(
            **{
                "method": name,
                "published accuracy, Fisher vectors": theirs.get(name),
                f"measured accuracy, {FEWER_FEATURES}": f"{before[0]:.3f}",
                f"measured accuracy, {ALL_FEATURES}": f"{accuracy:.3f}",
                f"measured relative %, {FEWER_FEATURES}": f"{before[1]:.1f}",
                f"measured relative %, {ALL_FEATURES}": f"{relative:.1f}",
                "measured times as long to train": f"{seconds / before[2]:.1f}"
                if seconds
                else None,
            }
        )
    both = {f"{FEWER_FEATURES} features": narrow, f"{ALL_FEATURES} features": wide}
    groups = {
        label: {name: [value[place] for value in found.values()] for name, found in both.items()}
        for place, label in enumerate(("accuracy", "relative performance (%)"))
    }
    return Section(
        f"Fig. 14: four times as many features, {start} to {size.many[-1]} classes",
        f"{CIFAR} Every fourth feature stands for the bag of 1,000 words, all of them for the "
        "Fisher vectors of 4,000 (which are of a richer kind, as ours are not).",
        f"{claim('fig14')} *Measured*: {size.step} classes at a time, {size.trees} trees, "
        f"{orders(setting)}. Rank of the metric of all classes, of the first {start}, and λ of "
        f"SVMF, chosen on held-out training images, of each order: {'; '.join(chosen.values())}. "
        f"{OURS}",
        table,
        {"": bars(list(wide), groups, width=6.0)},
    )


def table2(setting: Setting) -> Section:
    """Table 2: training and test times."""
    theirs = published("forests")["table2"]
    table = Table()
    both = to_the_end(setting)
    for data, found in both.items():
        for kind, runs in found.items():
            seconds = theirs["training seconds per tree"][kind]
            for way in (RETRAINED, *UPDATES):
                table.add(
                    **{
                        "data": data,
                        "forest": kind,
                        "update": way,
                        "published s to train": seconds.get(way),
                        "measured s to train": f"{runs.last(way, 'training').mean():.3g}",
                        "published times faster": _times(seconds[RETRAINED] / seconds[way])
                        if way in seconds
                        else None,
                        "measured times faster": _times(runs.saving(way)),
                        "published µs to ask": theirs["µs per image and tree"][kind].get(way),
                        "measured µs to ask": mean(runs.last(way, "asking"), 1),
                    }
                )
    return Section(
        "Table 2: training and test times",
        f"{CIFAR} {OMNIGLOT}",
        f"Per tree, and per image and tree: {_to_the_end_in_words(setting, both)} Retraining is "
        "timed at the checkpoints, interpolated between them, and added up as if done at every "
        "update. The published run has 98 updates and 1.2 million images; Omniglot has as many "
        f"updates and 15,000 images, CIFAR-100 8 updates and 10,000 images. {OURS}",
        table,
    )


def _to_the_end_in_words(setting: Setting, both: dict[str, dict[str, Runs]]) -> str:
    size = extent(setting)
    chosen = ", ".join(f"{found['SVMF'].chosen()} on {data}" for data, found in both.items())
    return (
        f"from {size.starts[1]} classes, {size.step} at a time, to {size.many[-1]} of CIFAR-100 "
        f"({size.trees} trees) and to {size.characters[-1]} of Omniglot ({size.character_trees} "
        f"trees), {orders(setting)}, CPU seconds of one thread. λ of SVMF, chosen on held-out "
        f"training images, of each order: {chosen}."
    )


def _with_features(
    setting: Setting, start: int, n_features: int, chosen: dict[int, str]
) -> dict[str, tuple[float, float, float]]:
    """Accuracy, relative performance in per cent and training seconds (0: not timed), by method.

    The chosen settings are added in words to ``chosen``, by the number of features.
    """
    metric = metric_runs(setting, "cifar100", n_features)
    whole = np.array([run["all"][-1] for run in metric])
    first = np.array([run[str(start)][-1] for run in metric])
    reached = {
        "MET+NCM": (float(whole.mean()), 100.0, 0.0),
        f"MET_{start}+NCM": (float(first.mean()), 100 * float((first / whole).mean()), 0.0),
    }
    forests = several_at_a_time(setting, "cifar100", start, n_features)
    ranks = " and ".join(
        ", ".join(f"{run['search'][learned]['taken']:g}" for run in metric)
        for learned in ("all", str(start))
    )
    chosen[n_features] = f"with {n_features} features {ranks} and {forests['SVMF'].chosen()}"
    for kind, runs in forests.items():
        for way in (RETRAINED, *UPDATES):
            reached[kind if way == RETRAINED else f"{kind}+{way}"] = (
                float(runs.last(way, "accuracy").mean()),
                float(runs.relative(way)[:, -1].mean()),
                float(runs.last(way, "training").mean()),
            )
    return reached


def _times(ratio: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"
