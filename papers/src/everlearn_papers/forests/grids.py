"""The linear classifiers of Table 1: grid searches, convergence and accuracy.

Also the metrics of the first classes, and those of fewer features (Fig. 14).

These rows take minutes, the whole table most of an hour; so they are a part of their own, whose
runs the table reuses.
"""

from collections.abc import Iterator

from everlearn.evaluation.table import Table
from everlearn.learners.learned_metric import STEPS
from everlearn_papers.forests.choosing import CHOOSING_CLASSES
from everlearn_papers.forests.multiclass_svm import PASSES
from everlearn_papers.forests.rivals import (
    GRADIENT,
    SVM,
    SVM_PASSES,
    TOLERANCE,
    metrics_by_steps,
)
from everlearn_papers.forests.runs import (
    ALL_FEATURES,
    CALTECH,
    CIFAR,
    FEWER_FEATURES,
    classifier_runs,
    extent,
    mean,
    metric_runs,
    orders,
    table_sizes,
)
from everlearn_papers.repeat import Result
from everlearn_papers.report import Section, Setting

METRIC = "MET+NCM"
# Limits of the steps of a metric, beside the library's.
LIMITS = (10, 15, STEPS, 300)


def grids(setting: Setting) -> Section:
    """MC SVM and MET+NCM: held-out accuracy by setting, test accuracy and convergence."""
    table = Table()
    for data in ("cifar100",) if setting.quick else ("cifar100", "caltech101"):
        sizes = table_sizes(setting, data)
        for rival, found in _rivals(setting, data):
            row = {"data": data, "rival": rival}
            for place, n_classes in enumerate(sizes):
                row[f"measured {n_classes}"] = mean([each["test"][place] for each in found], 3)
            row["taken in each order"] = "; ".join(_taken(each) for each in found)
            endings = [each["ending"] for each in found]
            row["steps in each order"] = "; ".join(map(_steps, endings))
            row["fits not converged"] = not_converged(endings)
            row["at the end"] = at_the_end(endings)
            row["setting: held out, first order"] = ", ".join(
                _cell(found[0], value) for value in found[0]["tried"]
            )
            table.add(**row)
    _rows_by_steps(table, setting)
    return Section(
        "Table 1: the linear rivals and their grids",
        f"{CIFAR} {CALTECH}",
        "Average accuracy by the number of classes, all of them at once, as in Table 1 (a), and of "
        f"metrics of the first classes, as in (b) and (c); {orders(setting)}. *held out*: average "
        f"accuracy on training images held out of {CHOOSING_CLASSES} classes, by which the setting "
        "is taken: C of MC SVM (scikit-learn's Crammer-Singer SVM), λ of the same by gradient, "
        "rank of the metric; * where it had not converged. A grid goes on where the best is at one "
        "of its ends. *steps*, one number for each of the numbers of classes: passes of MC SVM, "
        f"of at most {SVM_PASSES}, until no condition of optimality is violated by more than "
        f"{TOLERANCE:g}; {PASSES} passes by gradient, always, and the duality gap then, the "
        "largest share by which the objective could still decrease; steps of L-BFGS of a metric, "
        f"of at most {STEPS}, its loss at the end, and by how much the last step reduced it.",
        table,
    )


def _rows_by_steps(table: Table, setting: Setting) -> None:
    """MET+NCM on fewer features, where it is farthest from convergence, with other limits."""
    size, rank = extent(setting).many[-1], FEWER_FEATURES
    run = setting.once().repeat(
        metrics_by_steps,
        "metric-steps",
        1,
        data="cifar100",
        size=size,
        rank=rank,
        limits=list(LIMITS),
        n_features=FEWER_FEATURES,
        per_class=extent(setting).per_class,
    )[0]
    for limit, accuracy, end in zip(LIMITS, run["accuracy"], run["ending"], strict=True):
        table.add(
            **{
                "data": "cifar100",
                "rival": f"{METRIC}, {FEWER_FEATURES} features, at most {limit} steps, one order",
                f"measured {size}": f"{accuracy:.3f}",
                "taken in each order": str(rank),
                "steps in each order": str(end["steps"]),
                "fits not converged": not_converged([[end]]),
                "at the end": at_the_end([[end]]),
            }
        )


def _rivals(setting: Setting, data: str) -> Iterator[tuple[str, list[Result]]]:
    """Name of each classifier, with its search, test accuracies and endings per class order."""
    runs = classifier_runs(setting, data, linear=True)
    for name in (SVM, GRADIENT):
        yield (
            name,
            [
                run["search"][name] | {"test": run["accuracy"][name], "ending": run["ending"][name]}
                for run in runs
            ],
        )
    widths = (ALL_FEATURES, FEWER_FEATURES) if data == "cifar100" else (ALL_FEATURES,)
    for n_features in widths:
        metric = metric_runs(setting, data, n_features)
        width = "" if n_features == ALL_FEATURES else f", {n_features} features"
        for learned in ("all", *map(str, extent(setting).starts)):
            name = METRIC if learned == "all" else f"MET_{learned}+NCM"
            yield (
                name + width,
                [
                    run["search"][learned]
                    | {"test": run[learned], "ending": run["ending"][learned]}
                    for run in metric
                ],
            )


def not_converged(endings: list[list[Result]]) -> str:
    """Number of fits that did not converge, of those that can; empty if none can."""
    converged = [each["converged"] for fits in endings for each in fits if "converged" in each]
    return f"{converged.count(False)} of {len(converged)}" if converged else ""


def at_the_end(endings: list[list[Result]]) -> str:
    """Largest duality gap, or largest loss and last decrease, over all fits; may be empty."""
    fits = [each for run in endings for each in run]
    if all("gap" in each for each in fits):
        return f"gap at most {100 * max(each['gap'] for each in fits):.0f} %"
    if all("loss" in each for each in fits):
        loss, change = (max(each[key] for each in fits) for key in ("loss", "change"))
        return f"loss at most {loss:.1g}, decreased by at most {change:.1g}"
    return ""


def _steps(fits: list[Result]) -> str:
    return ", ".join(str(each["steps"]) for each in fits)


def _taken(found: Result) -> str:
    return f"{found['taken']:g}" + (" (at an end)" if found["at end"] else "")


def _cell(found: Result, value: str) -> str:
    late = " *" if value in found["late"] else ""
    return f"{value}: {found['tried'][value]:.3f}{late}"
