"""The linear classifiers of Table 1: grid searches, convergence and accuracy.

These rows take minutes, the whole table most of an hour; so they are a part of their own, whose
runs the table reuses.
"""

from collections.abc import Iterator

from everlearn.evaluation.table import Table
from everlearn.learners.learned_metric import STEPS
from everlearn_papers.forests.choosing import CHOOSING_CLASSES
from everlearn_papers.forests.multiclass_svm import PASSES
from everlearn_papers.forests.rivals import GRADIENT, SVM, SVM_PASSES
from everlearn_papers.forests.runs import (
    CALTECH,
    CIFAR,
    classifier_runs,
    mean,
    metric_runs,
    orders,
    table_sizes,
)
from everlearn_papers.repeat import Result
from everlearn_papers.report import Section, Setting

METRIC = "MET+NCM"


def grids(setting: Setting) -> Section:
    """MC SVM and MET+NCM: held-out accuracy by setting, and test accuracy."""
    table = Table()
    for data in ("cifar100",) if setting.quick else ("cifar100", "caltech101"):
        sizes = table_sizes(setting, data)
        for rival, found in _rivals(setting, data):
            row = {"data": data, "rival": rival}
            for place, n_classes in enumerate(sizes):
                row[f"measured {n_classes}"] = mean([each["test"][place] for each in found], 3)
            row["taken in each order"] = "; ".join(_taken(each) for each in found)
            row["setting: held out, first order"] = ", ".join(
                _cell(found[0], value) for value in found[0]["tried"]
            )
            table.add(**row)
    return Section(
        "Table 1: the linear rivals and their grids",
        f"{CIFAR} {CALTECH}",
        "Average accuracy by the number of classes, all of them at once, as in Table 1 (a); "
        f"{orders(setting)}. *held out*: average accuracy on training images held out of "
        f"{CHOOSING_CLASSES} classes, by which the setting is taken: C of MC SVM (scikit-learn's "
        f"Crammer-Singer SVM, at most {SVM_PASSES} passes; * where it had not converged by then), "
        f"λ of the same by gradient ({PASSES} passes), rank of the metric (at most {STEPS} steps "
        "of L-BFGS). A grid goes on where the best is at one of its ends.",
        table,
    )


def _rivals(setting: Setting, data: str) -> Iterator[tuple[str, list[Result]]]:
    """Name of each classifier, with its search and test accuracies per class order."""
    runs = classifier_runs(setting, data, linear=True)
    for name in (SVM, GRADIENT):
        yield (
            name,
            [
                run["search"][name]
                | {"test": run["accuracy"][name], "not converged": run["not converged"][name]}
                for run in runs
            ],
        )
    metric = metric_runs(setting, data)
    yield METRIC, [run["search"]["all"] | {"test": run["all"]} for run in metric]


def _taken(found: Result) -> str:
    late = found.get("not converged", 0)
    return (
        f"{found['taken']:g}"
        + (" (at an end)" if found["at end"] else "")
        + (f" ({late} of {len(found['test'])} fits not converged)" if late else "")
    )


def _cell(found: Result, value: str) -> str:
    late = " *" if value in found["late"] else ""
    return f"{value}: {found['tried'][value]:.3f}{late}"
