"""Hayes and Kanan 2020: streaming linear discriminant analysis on deep features.

Table 1's rows that train the output layer, in four orderings; Table 2's rows of SLDA; Table 3,
initial covariances; Fig. 1; time and memory. Ω_all is relative to the last layer trained offline on
all examples seen so far.
"""

from typing import Any

import numpy as np

from everlearn.evaluation.metrics import omega_all
from everlearn.evaluation.table import Table
from everlearn_papers import plots
from everlearn_papers.repeat import Result
from everlearn_papers.report import Section, Setting, published
from everlearn_papers.slda.experiments import (
    EXSTREAM,
    FINE,
    FIXED,
    OFFLINE,
    PLASTIC,
    ROWS,
    STARTS,
    STEPS,
    cost,
    starts,
    stream,
    video_data,
)
from everlearn_papers.slda.last_layer import (
    BASE_RATES,
    CHOOSING_CLASSES,
    EPOCHS,
    HOLD_OUT_EVERY,
    INVERSE_DECAYS,
    LARGEST_BASE_RATE,
    RATES,
    STREAM_RATES,
)

TITLE = (
    "SLDA: Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis "
    "(Hayes and Kanan, CVPR Workshops 2020)"
)
ORDERINGS = ("iid", "class iid", "instance", "class instance")
TURNTABLE = (
    "icub_camera50 (50 objects on a turntable, EfficientNet-Lite0 features; the first three fifths "
    "of the turn are learned, as three videos, and the rest, views never learned, are the test) is "
    "a **substitute** for CORe50, whose tests are other sessions."
)
CORE50 = (
    "CORe50 (the paper's own images, one frame a second), EfficientNet-Lite0 features for those of "
    "ResNet-18."
)
CIFAR = (
    "CIFAR-100, EfficientNet-Lite0 features of 100 + 30 images a class, is a **substitute** for "
    "ImageNet; the network has seen similar classes, so levels cannot be compared, ratios can."
)
PERMUTATIONS = 3  # the paper has ten


def table1(setting: Setting) -> Section:
    """Table 1: Ω_all of all rows that train the output layer."""
    theirs = published("slda")["table1"]
    table = Table()
    for ordering in ORDERINGS:
        runs = _turntable_runs(setting, ordering)
        _add_rows(table, f"{_stream_name()}, {ordering}", theirs[f"CORe50, {ordering}"], runs)
    runs = _cifar_runs(setting)
    _add_rows(table, "CIFAR-100, class iid", theirs["ImageNet, class iid"], runs)
    return Section(
        "Table 1: Ω_all in five streams",
        f"{_video_words()} {CIFAR} Permutations: {setting.n_seeds(PERMUTATIONS)} of the "
        "videos, one of CIFAR.",
        "*published / last layer* divides the published value by the published row of the last "
        "layer, so that it can be read beside *measured*, whose reference is the last layer "
        "trained offline. The plastic row is the exact pooled covariance (`PlasticLDA`); the "
        "row below it is Eq. 4-5 as printed (`PublishedLDA`). Learning rates are chosen by Ω on "
        "held-out training examples of the same stream, every "
        f"{HOLD_OUT_EVERY}th: Fine-Tuning has one for the {EPOCHS} epochs over its base, of "
        f"{_listed(BASE_RATES)}, and one for the single steps of the stream, of "
        f"{_listed(STREAM_RATES)}; ExStream, on the first {CHOOSING_CLASSES} classes, one of "
        f"{_listed(RATES)}. The offline layer is trained to convergence by L-BFGS, 1 / its weight "
        f"decay of {_listed(INVERSE_DECAYS)} chosen on held-out training examples at every "
        "checkpoint. Where the best is at an end of its grid, the grid goes on by tens until it "
        f"is not (*tried*), for the base up to {LARGEST_BASE_RATE:g}. Top-1 on the turntable, "
        "top-5 on CIFAR-100, where rates and weight decay are chosen by top-5 too.",
        table,
    )


def table2(setting: Setting) -> Section:
    """Table 2: task given, predictions restricted to its classes."""
    theirs = published("slda")["table2"]
    table = Table()
    for ordering in ("class iid", "class instance"):
        runs = _turntable_runs(setting, ordering)
        for name in (FIXED, PLASTIC):
            row = theirs[f"CORe50, {ordering}"][name]
            for column, key in (("with task labels", "masked"), ("without", "accuracies")):
                ours = [omega_all(run[key][name], run[key][OFFLINE]) for run in runs]
                table.add(
                    stream=f"{_stream_name()}, {ordering}",
                    row=name,
                    labels=column,
                    published=row[column],
                    measured=_mean_and_spread(ours),
                )
    return Section(
        "Table 2: with and without task labels",
        _video_words(),
        "A task is one checkpoint's worth of classes. The published column is relative to a whole "
        "network trained offline, the measured one to the last layer trained offline. Beside the "
        "rivals, and by a whole network trained offline, it is in the report on networks trained "
        "here.",
        table,
    )


def fig1(setting: Setting) -> Section:
    """Fig. 1: top-5 accuracy on the classes seen so far, as classes arrive."""
    runs = _cifar_runs(setting)
    curves = {name: [run["accuracies"][name] for run in runs] for name in ROWS}
    table = Table(
        {
            "row": name,
            "final top-5": f"{np.mean([run['accuracies'][name][-1] for run in runs]):.3f}",
        }
        for name in ROWS
    )
    drawn = plots.learning_curves(
        runs[0]["classes seen"], curves, x_label="classes seen", y_label="top-5 accuracy"
    )
    plots.one_legend(drawn, drawn.axes, n_columns=3)
    return Section(
        "Fig. 1: learning curve, class by class",
        CIFAR,
        "The paper prints no numbers.",
        table,
        {"": drawn},
    )


def compute(setting: Setting) -> Section:
    """Sec. 4.5: time per example and memory."""
    theirs = published("slda")["compute"]
    runs = setting.once().repeat(cost, "cost", 1, quick=setting.quick)
    table = Table()
    for name in (FINE, EXSTREAM, FIXED, PLASTIC):
        table.add(
            row=name,
            **{
                "published minutes, ImageNet": theirs["minutes"].get(name),
                "published GB": theirs["gigabytes"].get(name),
                "measured ms per example": f"{np.mean([r['ms'][name] for r in runs]):.3g}",
                "measured MB": f"{np.mean([r['MB'][name] for r in runs]):.3g}",
                "measured: times SLDA's time": f"{_times(runs, 'ms', name):.2g}",
                "measured: times SLDA's memory": f"{_times(runs, 'MB', name):.2g}",
            },
        )
    times = {
        name: (runs[0]["ms"][name], runs[0]["accuracy"][name])
        for name in (FINE, EXSTREAM, FIXED, PLASTIC)
    }
    drawn = plots.accuracy_against_time(times, x_label="milliseconds per example learned")
    return Section(
        "Sec. 4.5: compute and memory",
        _video_words(),
        "One example at a time, processor time of one thread, class iid ordering; memory is "
        "everything the learner holds, in float64 for SLDA (its covariance alone is 1280² numbers) "
        "and float32 for the others. The published numbers are for ImageNet, 512 features, on a "
        "GPU machine.",
        table,
        {"": drawn},
    )


def _times(runs: list[Result], key: str, name: str) -> float:
    return float(np.mean([run[key][name] / run[key][PLASTIC] for run in runs]))


def table3(setting: Setting) -> Section:
    """Table 3: SLDA by source of its initial covariance."""
    theirs = published("slda")["table3"]
    table = Table()
    for place, ordering in enumerate(ORDERINGS):
        references = _turntable_runs(setting, ordering)
        n_classes, step = _turntable_size(setting)
        runs = setting.repeat(
            starts,
            f"starts-{ordering.replace(' ', '-')}",
            PERMUTATIONS,
            ordering=ordering,
            n_classes=n_classes,
            step=step,
        )
        for start in STARTS:
            row: dict[str, Any] = {"stream": f"{_stream_name()}, {ordering}", "Σ from": start}
            row["published as"] = theirs[start]["init"]
            for kind in ("fixed", "plastic"):
                ours = [
                    omega_all(run[start][kind], reference["accuracies"][OFFLINE])
                    for run, reference in zip(runs, references, strict=True)
                ]
                row[f"published, {kind}"] = theirs[start][kind][place]
                row[f"measured, {kind}"] = _mean_and_spread(ours)
                row[f"final, {kind}"] = f"{np.mean([run[start][kind][-1] for run in runs]):.3f}"
            table.add(**row)
    return Section(
        "Table 3: where the covariance comes from",
        f"{_video_words()} The network is the same in all rows; *another data set* is CIFAR-100, "
        "features of the same network.",
        f"Ω_all, {len(runs)} permutation{'s' * (len(runs) > 1)}. A matrix of ones that is plastic "
        "is forgotten with the first example (t = 0); another data set counts as its 10,000 "
        "examples; *base* is the OAS estimate of the first checkpoint's worth, with its count, as "
        "in Table 1. CORe50 (G), a network tuned on the first examples, is not run: no network is "
        "trained here.",
        table,
    )


PARTS = {"table1": table1, "table2": table2, "table3": table3, "fig1": fig1, "compute": compute}


def _add_rows(table: Table, stream: str, theirs: dict[str, float], runs: list[Result]) -> None:
    for name in ROWS:
        ours = [omega_all(r["accuracies"][name], r["accuracies"][OFFLINE]) for r in runs]
        value = theirs.get(name)
        table.add(
            stream=stream,
            row=name,
            published=value,
            **{"published / last layer": f"{value / theirs[OFFLINE]:.3f}" if value else None},
            measured=_mean_and_spread(ours),
            final=f"{np.mean([r['accuracies'][name][-1] for r in runs]):.3f}",
            **{"rates chosen": _chosen(name, runs), "tried": _tried(name, runs)},
        )


def _chosen(name: str, runs: list[Result]) -> str | None:
    """Format the learning rates (base, stream) chosen, or the offline layer's 1 / weight decay."""
    if name == OFFLINE:
        each = [", ".join(f"{C:g}" for C, _ in run["offline"]) for run in runs]
        late = sum(not converged for run in runs for _, converged in run["offline"])
        return "; ".join(each) + (f" ({late} not converged)" if late else "")
    rates = [run["rates"].get(name) for run in runs]
    if rates[0] is None:
        return None
    return "; ".join(", ".join(f"{rate:g}" for rate in own) for own in rates)


def _tried(name: str, runs: list[Result]) -> str | None:
    """Format the range of each grid searched; for fine-tuning base rates, then stream rates."""
    if name == FINE:
        return f"{_ends_of(FINE, runs)}; {_ends_of(STEPS, runs)}"
    return _ends_of(name, runs) if name in runs[0]["tried"] else None


def _ends_of(name: str, runs: list[Result]) -> str:
    ends = [run["tried"][name] for run in runs]
    least, most, stopped = zip(*ends, strict=True)
    beyond = f" ({sum(map(bool, stopped))} at an end)" if any(stopped) else ""
    return f"{min(least):g} to {max(most):g}{beyond}"


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _mean_and_spread(values: list[float]) -> str:
    deviation = f" ± {np.std(values):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{deviation}"


def _stream_name() -> str:
    return "CORe50" if video_data() == "core50" else "icub_camera50"


def _turntable_size(setting: Setting) -> tuple[int, int]:
    """Return the number of classes and of classes per checkpoint, a fifth as in the paper."""
    if video_data() == "core50":
        return (10, 2)
    return (10, 5) if setting.quick else (50, 10)


def _turntable_runs(setting: Setting, ordering: str) -> list[Result]:
    n_classes, step = _turntable_size(setting)
    return setting.repeat(
        stream,
        ordering.replace(" ", "-"),
        PERMUTATIONS,
        data=video_data(),
        ordering=ordering,
        n_classes=n_classes,
        step=step,
    )


def _cifar_runs(setting: Setting) -> list[Result]:
    """Run CIFAR-100 once, as the paper runs ImageNet, whatever the number of permutations."""
    n_classes, step = (10, 5) if setting.quick else (100, 10)
    return setting.once().repeat(
        stream, "cifar", 1, data="cifar", ordering="class iid", n_classes=n_classes, step=step
    )


def _video_words() -> str:
    return CORE50 if video_data() == "core50" else TURNTABLE
