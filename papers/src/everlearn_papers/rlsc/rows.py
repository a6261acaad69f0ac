"""Rows of Table I: the methods, their accuracies, and the published ones beside them."""

from typing import Any

import numpy as np

from everlearn.arrays import Array
from everlearn.evaluation.table import Table
from everlearn_papers import plots
from everlearn_papers.repeat import Result
from everlearn_papers.report import published, spread
from everlearn_papers.rlsc.protocol import REGULARIZATIONS, by_the_rule

NAIVE, AS_PUBLISHED = "Naive", "Recoding, published α"
# Rows of Table I, and the published column each is compared with.
METHODS = {NAIVE: "N", "Rebalancing": "RB", AS_PUBLISHED: "RC", "Recoding": "RC"}


def rows_in_words() -> str:
    """What the rows are."""
    alphas = published("rlsc")["table1"]["alpha"]
    printed = ", ".join(f"{name} {alpha}" for name, alpha in alphas.items())
    return (
        "Accuracy in per cent, mean ± standard deviation over seeds. *Recoding* has α by the rule "
        "of Sec. VI-C, the largest that is as good as none on validation examples of the balanced "
        "classes, chosen at each number of examples. The paper has one α for each data set "
        f"({printed}); *{AS_PUBLISHED}* has that."
    )


def add_rows(
    table: Table,
    trials: list[Result],
    sizes: list[int],
    data: str,
    paper: str,
    *,
    judged: bool,
    kinds: tuple[str, ...] = ("total", "rare"),
) -> str:
    """Add the rows of one data set; return α chosen by Sec. VI-C and the λ chosen, as text."""
    numbers = published("rlsc")["table1"]
    rows = {row["n_imb"]: row for row in numbers[paper]}
    alpha = numbers["alpha"][paper]
    for i, size in enumerate(sizes):
        for kind in kinds:
            for name, code in METHODS.items():
                theirs = rows.get(size, {}).get(kind, {}).get(code)
                ours = accuracies(trials, name, kind, alpha)[:, i]
                table.add(
                    data=data,
                    n_imb=size,
                    accuracy=kind,
                    method=name,
                    published=_printed(theirs),
                    measured=spread(ours),
                    within=within(kind, theirs, float(ours.mean())) if theirs and judged else "–",
                )
    chosen = [by_the_rule(trial, place) for trial in trials for place in range(len(sizes))]
    shares = {
        "naive": [share for trial in trials for share in trial["sweep"]["0.0"]["λ / n"]],
        "rebalancing": [share for trial in trials for share in trial["RB"]["λ / n"]],
    }
    ends = REGULARIZATIONS[[0, -1]]
    taken = ", ".join(
        f"{name} {np.median(each):.2g}, {np.isin(each, ends).sum()} of {len(each)} at an end"
        for name, each in shares.items()
    )
    alphas = f"{np.median(chosen):g} ({min(chosen):g} to {max(chosen):g}"
    return f"{alphas}; λ / n, of {ends[1]:g} to {ends[0]:g}: {taken})"


def accuracies(trials: list[Result], method: str, kind: str, alpha: float = 0.0) -> Array:
    """Return accuracies of shape (trials, sizes); ``alpha`` is that of the published recoding."""
    if method == "Rebalancing":
        return np.array([trial["RB"][kind] for trial in trials])
    if method == "Recoding":
        return np.array(
            [
                [
                    trial["sweep"][str(by_the_rule(trial, place))][kind][place]
                    for place in range(len(trial["sweep"]["0.0"][kind]))
                ]
                for trial in trials
            ]
        )
    own = alpha if method == AS_PUBLISHED else 0.0
    return np.array([trial["sweep"][str(own)][kind] for trial in trials])


def draw_over_sizes(
    trials: list[Result], sizes: list[int], methods: tuple[str, ...], alpha: float
) -> Any:
    """Fig. 3: accuracy on the rare class, the others and all, as examples arrive."""
    drawn, axes = plots.figure(3, width=3.6)
    for panel, kind in zip(axes[0], ("rare", "balanced", "total"), strict=True):
        curves = {name: accuracies(trials, name, kind, alpha) for name in methods}
        plots.draw_curves(
            panel, sizes, curves, x_label="n_imb", y_label="accuracy (%)", title=f"{kind}"
        )
        panel.set_xscale("log")
    plots.one_legend(drawn, axes)
    return drawn


def within(kind: str, theirs: list[float], ours: float) -> str:
    """Whether an accuracy is as published: "yes", or by how much it differs."""
    tolerance = 1.0 if kind == "total" else 2 * theirs[1] + 3.0
    difference = ours - theirs[0]
    return "yes" if abs(difference) <= tolerance else f"no ({difference:+.1f})"


def _printed(value: list[float] | None) -> str | None:
    return None if value is None else f"{value[0]:.1f} ± {value[1]:.1f}"
