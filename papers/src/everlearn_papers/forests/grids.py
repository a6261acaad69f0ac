"""Wider grids for the linear rivals of Table 1, and whether they came to an end.

Table 1 chooses C, λ and the rank of a metric among few values. Here each is run over many on
training examples held out, as the choice itself is, with the number of passes it took.
"""

from typing import Any

import numpy as np

from everlearn.evaluation.table import Table
from everlearn.learners.learned_metric import STEPS
from everlearn.learners.ncm import NearestClassMean
from everlearn_papers.forests.choosing import CHOOSING_CLASSES, held_out_accuracies
from everlearn_papers.forests.large import CALTECH
from everlearn_papers.forests.multiclass_svm import PASSES, MulticlassSVM
from everlearn_papers.forests.protocol import ClassStream, data_set
from everlearn_papers.forests.rivals import CLASSIFIERS, SVM_PASSES
from everlearn_papers.forests.runs import CIFAR, extent
from everlearn_papers.repeat import Result
from everlearn_papers.report import Section, Setting

COSTS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
RANKS = (8, 16, 32, 64, 128, 256)
SVM, GRADIENT, METRIC = "MC SVM", "MC SVM, by gradient", "MET+NCM"


def grids(setting: Setting) -> Section:
    """Accuracy held out by setting, for MC SVM and MET+NCM."""
    table = Table()
    names = ("cifar100",) if setting.quick else ("cifar100", "caltech101")
    for data in names:
        (found,) = setting.once().repeat(
            over_grids, f"grids-{data}", 1, data=data, n_classes=10 if setting.quick else 50
        )
        for rival, chosen_from in (
            (SVM, CLASSIFIERS[SVM][1]),
            (GRADIENT, CLASSIFIERS[GRADIENT][1]),
            (METRIC, extent(setting).ranks),
        ):
            run = found[rival]
            highest = max(each["accuracy"] for each in run.values())
            best = next(value for value in run if run[value]["accuracy"] == highest)
            table.add(
                data=data,
                rival=rival,
                **{
                    "setting: held out": ", ".join(_cell(run, value) for value in run),
                    "best": best,
                    "Table 1 chooses from": ", ".join(f"{value:g}" for value in chosen_from),
                },
            )
    return Section(
        "Table 1: wider grids for the linear rivals",
        f"{CIFAR} {CALTECH}",
        f"Average accuracy on training images held out of {CHOOSING_CLASSES} classes, as for the "
        "choice of Table 1; one order of the classes. C of MC SVM (scikit-learn's "
        f"Crammer-Singer SVM, at most {SVM_PASSES} passes; * where it had not converged by then), "
        f"λ of the same by gradient ({PASSES} passes), rank of the metric (at most {STEPS} steps "
        "of L-BFGS).",
        table,
    )


def over_grids(seed: int, *, data: str, n_classes: int) -> Result:
    """By rival and setting: accuracy held out, and whether it converged."""
    stream = ClassStream.of(data_set(data), n_classes, seed)
    whitened = stream.whitened(n_classes)

    def metric(rank: int) -> NearestClassMean:
        return NearestClassMean(metric="learned", rank=rank)

    def svm(C: float) -> Any:
        return CLASSIFIERS[SVM][0](C, seed=seed, trees=0)

    def gradient(share: float) -> MulticlassSVM:
        return MulticlassSVM(share, seed=seed)

    return {
        SVM: _plain(held_out_accuracies(svm, COSTS, whitened, n_classes)),
        GRADIENT: _plain(held_out_accuracies(gradient, COSTS, whitened, n_classes)),
        METRIC: _plain(held_out_accuracies(metric, RANKS, stream, n_classes)),
    }


def _plain(found: dict[Any, tuple[float, bool]]) -> Result:
    return {
        f"{value:g}": {"accuracy": float(np.round(accuracy, 6)), "converged": converged}
        for value, (accuracy, converged) in found.items()
    }


def _cell(run: Result, value: str) -> str:
    late = "" if run[value]["converged"] else " *"
    return f"{value}: {run[value]['accuracy']:.3f}{late}"
