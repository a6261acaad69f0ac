"""Additional experiments: Fig. 2 and 3 on the turntable, and update time."""

from typing import Any

from everlearn.evaluation.table import Table
from everlearn_papers import plots
from everlearn_papers.repeat import Result
from everlearn_papers.report import Section, Setting, published, spread
from everlearn_papers.rlsc.protocol import RECODINGS, imbalance
from everlearn_papers.rlsc.update_time import BATCHES, REPEATS, update_times

# The turntable has 73 frames per object: as many as possible to train, a fifth of it to validate.
TURNTABLE_SIZES = [1, 5, 10, 20, 35]
TURNTABLE_BALANCED = 35
# Objects that take the role of the rare class, and trials per object.
RARE_OBJECTS, TRIALS = (5, 16, 27, 38, 49), 2
UPDATE_SIZES = [100, 300, 1000, 3000, 10_000, 30_000]


def turntable_trials(setting: Setting, data: str) -> list[Result]:
    """Run the trials of Sec. VI-A on the turntable, each rare object in turn."""
    objects = RARE_OBJECTS[:1] if setting.quick else RARE_OBJECTS
    return [
        trial
        for rare in objects
        for trial in setting.repeat(
            imbalance,
            f"turntable-{data}-{rare}",
            TRIALS,
            data=data,
            rare=rare,
            n_balanced=TURNTABLE_BALANCED,
            n_test=20,
            sizes=TURNTABLE_SIZES,
            rebalance=True,
        )
    ]


def turntable_figures(setting: Setting) -> Section:
    """Fig. 2 and 3 on the turntable: the trade-off of α; naive against recoded accuracy."""
    trials = turntable_trials(setting, "frames")
    alpha = published("rlsc")["table1"]["alpha"]["iCubWorld28"]
    drawn, axes = plots.figure(2, 2)
    table = table_over_recodings(trials, TURNTABLE_SIZES)
    draw_over_recodings(axes[0], trials, TURNTABLE_SIZES)
    for panel, kind in zip(axes[1], ("rare", "total"), strict=True):
        curves = {
            f"α = {a:g}": [trial["sweep"][str(a)][kind] for trial in trials]
            for a in (0.0, alpha, 1.0)
        }
        plots.draw_curves(
            panel,
            TURNTABLE_SIZES,
            curves,
            x_label="n_imb",
            y_label="accuracy (%)",
            title=f"Fig. 3, {kind}",
        )
        panel.legend(fontsize="small")
    plots.one_legend(drawn, axes[:1])
    return Section(
        "Fig. 2 and 3 on the turntable",
        "The turntable (50 objects, every third frame held out), a **substitute** for iCubWorld28.",
        "*Published* (no numbers are printed): with growing α the rare class gains, and the others "
        f"lose. *Measured*: {len(trials)} trials over the objects "
        f"{', '.join(map(str, RARE_OBJECTS))}; α = 0 is naive, {alpha:g} the published one of "
        "iCubWorld28.",
        table,
        {"": drawn},
    )


def draw_over_recodings(panels: Any, trials: list[Result], sizes: list[int]) -> None:
    """Plot Fig. 2: accuracy on the rare class and on the others as α grows."""
    for panel, kind in zip(panels, ("rare", "balanced"), strict=True):
        curves = {
            f"{size} example{'s' * (size > 1)}": [
                [trial["sweep"][str(a)][kind][i] for a in RECODINGS] for trial in trials
            ]
            for i, size in enumerate(sizes)
        }
        title = "Fig. 2, rare class" if kind == "rare" else "Fig. 2, balanced classes"
        plots.draw_curves(
            panel, RECODINGS, curves, x_label="α", y_label="accuracy (%)", title=title
        )


def table_over_recodings(trials: list[Result], sizes: list[int]) -> Table:
    """Return the values of Fig. 2 as a table, one row per α."""
    table = Table()
    for alpha in RECODINGS:
        row: dict[str, Any] = {"α": alpha}
        for i, size in enumerate(sizes):
            for kind in ("rare", "balanced"):
                values = [trial["sweep"][str(alpha)][kind][i] for trial in trials]
                row[f"{kind}, n={size}"] = spread(values)
        table.add(**row)
    return table


def update_time(setting: Setting) -> Section:
    """Time of an update and of retraining from scratch, against the number of examples."""
    sizes = UPDATE_SIZES[:3] if setting.quick else UPDATE_SIZES
    run = setting.once().repeat(update_times, "update-time", 1, sizes=sizes)[0]
    table = Table()
    for size, update, batch in zip(sizes, run["update"], run["batch"], strict=True):
        table.add(
            **{
                "examples before": size,
                "update, ms": f"{update:.2f}",
                "training anew, ms": f"{batch:.1f}",
                "times": f"{batch / update:.0f}",
            }
        )
    drawn, axes = plots.figure()
    curves = {"update": [run["update"]], "training anew": [run["batch"]]}
    plots.draw_curves(
        axes[0, 0], sizes, curves, x_label="examples learned before", y_label="milliseconds"
    )
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_yscale("log")
    plots.one_legend(drawn, axes)
    return Section(
        "Fixed update time: an example and a question after n examples",
        "MNIST, 784 features (the paper's own)",
        "*Published*: the time of an update does not depend on the number of examples. *Measured*: "
        "one example learned and one question answered after n others, median of "
        f"{REPEATS}; training on the n examples from nothing, best of {BATCHES}; "
        "processor time of one thread, α = 0.7.",
        table,
        {"": drawn},
    )
