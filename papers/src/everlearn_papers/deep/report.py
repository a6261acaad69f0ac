"""Report, with figures, of the results of ``benchmarks/deep.py``.

    python -m everlearn_papers.deep.report FOLDER

reads ``results.json`` of a folder and writes ``report.md`` and the figures beside it. Its main
parts are ``runs``, each with its date, device and command, and ``found``, each job's results.
"""

import json
import sys
from pathlib import Path
from typing import Any

from everlearn.persistence import replace_file
from everlearn_papers import plots
from everlearn_papers.deep import tables, turntable_tables
from everlearn_papers.deep.tables import OFFLINE, Found, courses, per_cent
from everlearn_papers.report import DOTS_PER_INCH
from everlearn_papers.slda.last_layer import (
    BASE_RATES,
    EPOCHS,
    HOLD_OUT_EVERY,
    RATES,
    STREAM_RATES,
)

TITLE = "Deep streaming LDA and its rivals, on networks trained here"
IN_FIGURE = ("SLDA (plastic)", "iCaRL", "End-to-End", "ExStream", "Fine-tuning (layer)")


def figures(found: Found) -> dict[str, Any]:
    """Return the plots of Fig. 1, Fig. 3 and consolidation by file name."""
    rows = courses(found)
    shown = {name: [rows[name]["top5"]] for name in IN_FIGURE if name in rows}
    shown[OFFLINE] = [rows[OFFLINE]["top5"]]
    classes = [50 + 10 * number for number in range(6)]
    first = plots.learning_curves(classes, shown, x_label="classes seen", y_label="top-5 accuracy")
    plots.one_legend(first, first.axes, n_columns=3)
    drawn = {"fig1": first}
    sizes = tables.table_of_sizes(found)
    if len(sizes) > 1:
        records = json.loads(sizes.to_json())
        lines = {
            name: [[float(record[f"{name}, top-5"]) / 100 for record in records]]
            for name in ("SLDA (plastic)", "SLDA (fixed)", "RLSC", "NCM")
        }
        third = plots.learning_curves(
            [record["base classes"] for record in records],
            lines,
            x_label="base classes",
            y_label="top-5 accuracy at the end",
        )
        plots.one_legend(third, third.axes, n_columns=4)
        drawn["fig3"] = third
    sessions = {
        f"{run['kept']} kept of a class": [
            [
                run["base"],
                *(
                    accuracy
                    for session in zip(run["before"], run["after"], strict=True)
                    for accuracy in session
                ),
            ]
        ]
        for key, run in found.items()
        if key.startswith("consolidation:") and "error" not in run
    }
    if sessions:
        consolidation = plots.learning_curves(
            [0, 1, 1.4, 2, 2.4],
            sessions,
            x_label="sessions, each followed by a consolidation",
            y_label="accuracy",
        )
        consolidation.axes[0].axhline(
            found["joint:"]["accuracy"], color="grey", lw=1, label="offline"
        )
        plots.one_legend(consolidation, consolidation.axes, n_columns=3)
        drawn["consolidation"] = consolidation
    return drawn


def text(results: dict[str, Any]) -> str:
    """Return the report as Markdown, computed from the results only."""
    found, scale = results["found"], results["scale"]
    joint, base = found["joint:"], found["base:"]
    lines = [f"# {TITLE}", ""]
    for run in results["runs"]:
        lines += [f"* {run['date']}, {run['device']}: `{run['command']}`. {run['notes']}"]
    n_draws = len(turntable_tables.runs_of(found, "iid"))
    at_end, n_fine = turntable_tables.stream_rates_at_the_end(found)
    lines += [
        "",
        "One seed. Accuracy in per cent. CIFAR-100's pictures are a **substitute** for ImageNet, "
        "50 objects on a turntable for CORe50.",
        "",
        f"Joint training of all 100 classes: {per_cent(joint['accuracy'])} "
        f"(top-5 {per_cent(joint['top5'])}) in {joint['seconds']:.1f} s. "
        f"Base of 50: {per_cent(base['accuracy'])} after {scale['base_epochs']} epochs.",
        "",
        "## Fig. 1, Table 1 and Sec. 4.5: CIFAR-100, base 50 + 5 × 10",
        "",
        "`s, tasks` is the time to learn the five tasks while other jobs shared the GPU. Learning "
        "rates and regularization weights are chosen on training pictures held out, every "
        "twentieth of a class: the "
        f"rivals' from {tables.searched_rates()} on, over the first {scale['searched_tasks']} "
        "tasks; fine-tuning's two rates (base, stream), ExStream's and the offline layer's by the "
        "mean over all tasks, and these three learn from the other 19 of 20 pictures. A rate of 0 "
        "leaves what the base made. End-to-End's *60 + 30* epochs: of a task, and of balanced "
        "fine-tuning after it, at a tenth of the rate. *network*: the one trained in this run, one "
        "of the same settings of an earlier run (77.2 on its base, too), or of a later one "
        f"({per_cent(found['base:later']['accuracy'])}), that of Tables 1 and 3 of the turntable.",
        "",
        tables.table_of_courses(found).to_markdown(),
        "",
        "![Fig. 1](fig1.png)",
        "",
        "### Sec. 4.5: time and memory",
        "",
        "To learn the five tasks from pictures in memory, a pass of the network over each task's "
        "pictures included, and to answer one question after each. Published: SLDA more than 100 "
        "times faster than iCaRL and End-to-End, and 1,000 times less memory; pictures there have "
        "224 × 224 pixels, here 32 × 32. SLDA takes a task as one batch or its vectors one at a "
        "time; the network embeds a task's pictures at once either way, in "
        f"{found['cost:SLDA (plastic)']['embedding seconds']:.2f} s of it. "
        "iCaRL's steps are not recorded as a CUDA graph. Methods timed *beside other jobs* are "
        "those of the table above.",
        "",
        tables.table_of_costs(found).to_markdown(),
        "",
        "### What was tried",
        "",
        "Accuracy on held-out pictures, by learning rate and regularization, or by the rate alone; "
        "0.0 where training diverged.",
        "",
        tables.table_of_trials(found).to_markdown(),
        "",
        "## Fig. 3: base sizes",
        "",
        tables.table_of_sizes(found).to_markdown(),
        "",
        "![Fig. 3](fig3.png)",
        "",
        "## Fig. 3: is it ε?",
        "",
        "Plastic SLDA at the end, first answer / first five, by ε of Eq. 6 (published: 0.0001). "
        "*mean variance* is that of a feature within its class, the scale that ε is to be compared "
        "with; *oas* chooses the share of the mean variance from the statistics.",
        "",
        tables.table_of_shrinkage(found).to_markdown(),
        "",
        "## The base network read at several depths",
        "",
        "Accuracy on all classes so far; the roots of each stage at length one, side by side "
        "(`LastStages`). Above, the last stage is read as it is. *Random features* are "
        "ReLU features. The network is that of iCaRL and End-to-End above.",
        "",
        tables.table_of_stages(found).to_markdown(),
        "",
        "## Consolidation after each of two sessions",
        "",
        tables.table_of_consolidation(found).to_markdown(),
        "",
        "The learner is RLSC. After each session the network is trained further on what is kept; "
        "where pictures held out are not answered better by more than chance, it stays as it was.",
        "",
        "![Consolidation](consolidation.png)",
        "",
        "## Table 1: the turntable in four orderings",
        "",
        f"{n_draws} draws of each ordering. The network of 50 CIFAR-100 classes, adapted to the "
        "first fifth of each stream where that is better on held-out pictures of it "
        f"({found['turntable:']['changed']} of {found['turntable:']['streams']} streams). Ω "
        "against the layer trained offline. Fine-tuning and ExStream: "
        f"{EPOCHS} epochs over the first fifth and single steps, at rates chosen in each draw on "
        f"every {HOLD_OUT_EVERY}th training example, of {_listed(STREAM_RATES)} (stream) and, "
        f"going on by tens until the best was inside, {_listed(BASE_RATES)} (base) and, "
        f"ExStream's, {_listed(RATES)}. In {at_end} of {n_fine} draws fine-tuning took the largest "
        "rate of the stream, so that a larger one may be better there. The whole network is "
        f"trained on the first fifth ({found['whole:iid']['epochs of the base']} epochs at a rate "
        f"of {found['whole:iid']['rate of the base']:g}), then makes one step per picture; a rate "
        "of 0 makes none.",
        "",
        turntable_tables.table_of_orderings(found).to_markdown(),
        "",
        "Learning rates chosen by Ω on training examples held out (base, stream), and in how many "
        "draws:",
        "",
        turntable_tables.table_of_rates(found).to_markdown(),
        "",
        "The whole network's rates of the stream, by the mean over the checkpoints of the accuracy "
        "on views held out of the first draw:",
        "",
        turntable_tables.table_of_whole_rates(found).to_markdown(),
        "",
        "## Table 3: where network and covariance come from",
        "",
        "*(G, Σ)* of the turntable is the OAS estimate of the first fifth with its count, what "
        "Table 1 starts from; *(G)* a matrix of ones with a count of none.",
        "",
        turntable_tables.table_of_starts(found).to_markdown(),
        "",
        "## Table 2: with and without the task, on the turntable",
        "",
        "The base network is another one of the same settings "
        f"({per_cent(found['base:told']['accuracy'])} on its base), here for SLDA too. "
        "Ω of every row by the whole network trained offline in the same draws. Learning rates "
        "and regularization weights are chosen on the first draw, by the last sixth of the views "
        "learned from, once without the task and once for the told columns. Rivals learn tasks in "
        "shuffled epochs, and the classes of a draw come in the same order in both class "
        "orderings, so that both are the same for them.",
        "",
        turntable_tables.table_of_told(found).to_markdown(),
        "",
        "What was tried on the first draw, by accuracy on the views held out; by the offline "
        "network in each draw:",
        "",
        turntable_tables.table_of_choices(found).to_markdown(),
        "",
        "## Settings of their own",
        "",
        tables.table_of_verification(found).to_markdown(),
        "",
    ]
    missing = sorted(key for key, run in found.items() if "error" in run)
    if missing:
        lines += ["Not finished: " + ", ".join(f"`{key}`" for key in missing) + ".", ""]
    lines += [
        "## The same again, from a base of its own",
        "",
        tables.table_again(results["again"]).to_markdown(),
        "",
        "## Adaptation to the first ten of the 50 later classes",
        "",
        "Accuracy on those 50 classes after streaming them.",
        "",
        tables.table_of_adaptation(found).to_markdown(),
        "",
    ]
    return "\n".join(lines)


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def write(folder: Path) -> None:
    """Write ``report.md`` and the figures from ``results.json`` in the same folder."""
    results = json.loads((folder / "results.json").read_text("utf-8"))
    for name, drawn in figures(results["found"]).items():
        drawn.savefig(folder / f"{name}.png", dpi=DOTS_PER_INCH)
    replace_file(folder / "report.md", text(results).encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
