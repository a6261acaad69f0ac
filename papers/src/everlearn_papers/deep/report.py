"""What ``benchmarks/deep.py`` found, as tables and figures.

    python -m everlearn_papers.deep.report FOLDER

reads ``results.json`` of a folder and writes ``report.md`` and the figures beside it. The file has
two parts: ``runs``, each with its date, device and command; and ``found``, what each job gave.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.evaluation import plots
from everlearn.evaluation.metrics import omega_all
from everlearn.evaluation.table import Table
from everlearn.persistence import replace_file
from everlearn_papers.deep.streams import RATES, WITH_RATE
from everlearn_papers.deep.verification import PERMUTED, SPLIT
from everlearn_papers.report import DOTS_PER_INCH

Found = dict[str, Any]
TITLE = "Deep streaming LDA and its rivals, on networks trained here"
STREAMED = ("SLDA (plastic)", "SLDA (plastic, published rule)", "SLDA (fixed)", "RLSC", "NCM")
RATED = ("ExStream", "Fine-tuning (layer)")
RIVALS = (
    "iCaRL",
    "iCaRL (softmax)",
    "End-to-End",
    "A-GEM",
    "A-GEM (one head)",
    "MAS",
    "RWALK",
    "SI",
    "EWC",
    "fine-tuning (own head)",
    "fine-tuning",
)
OFFLINE = "Offline (layer)"
ORDERINGS = ("iid", "class iid", "instance", "class instance")
IN_FIGURE = ("SLDA (plastic)", "iCaRL", "iCaRL (softmax)", "End-to-End", "ExStream", "fine-tuning")


def courses(found: Found) -> dict[str, Found]:
    """Every row of the table of CIFAR-100: learners at their best rate, rivals, offline layer."""
    rows: dict[str, Found] = {}
    for name in STREAMED:
        _put(rows, name, found.get(f"learner:{name}"))
    for name in RATED:
        _put(rows, name, best_rate(found, name))
    for name in RIVALS:
        _put(rows, name, found.get(f"rival:{name}"))
    _put(rows, OFFLINE, best_rate(found, OFFLINE))
    return rows


def best_rate(found: Found, name: str) -> Found | None:
    """A learner's course at the rate that is best on pictures held out."""
    assert name in WITH_RATE
    ran = [found.get(f"learner:{name}@{rate:g}") for rate in RATES]
    done = [course for course in ran if course and "error" not in course]
    return max(done, key=lambda course: float(course["held out"])) if done else None


def table_of_courses(found: Found) -> Table:
    """Accuracy on all classes so far, task by task; memory and time."""
    table = Table()
    for name, course in courses(found).items():
        row = {"": name} | _row(course)
        if name == OFFLINE:
            row["kept, MB"] = "all"
        choice = course.get("choice", {})
        row["rate"] = _rate(course)
        row["strength"] = f"{choice['strength']:g}" if choice.get("strength") else "–"
        row["all, s"] = f"{course['wall seconds']:.0f}"
        table.add(**row)
    return table


def _row(course: Found) -> dict[str, str]:
    values = course["accuracies"]
    row = {"base": per_cent(values[0])}
    for number, value in enumerate(values[1:], start=1):
        row[f"+{10 * number}"] = per_cent(value)
    row["top-5 at the end"] = per_cent(course["top5"][-1])
    row["task told"] = per_cent(course["told"][-1])
    row["kept, MB"] = f"{course['bytes_kept'] / 1e6:.1f}"
    row["s, tasks"] = f"{sum(course['seconds'][1:]):.0f}"
    return row


def table_of_sizes(found: Found) -> Table:
    """Fig. 3: accuracy at the end by the number of base classes."""
    table = Table()
    sizes = {int(key.removeprefix("size:")): value for key, value in found.items() if _size(key)}
    middle: Found = {name: found[f"learner:{name}"] for name in STREAMED}
    for size in sorted({*(size for size, run in sizes.items() if "error" not in run), 50}):
        row: dict[str, Any] = {"base classes": size}
        run = middle if size == 50 else sizes[size]
        base = found["base:"] if size == 50 else run["base"]
        row["base, by its output layer"] = per_cent(base["accuracy"])
        for name in ("SLDA (plastic)", "SLDA (fixed)", "RLSC", "NCM"):
            course = run[name]
            row[name] = per_cent(course["accuracies"][-1])
            row[f"{name}, top-5"] = per_cent(course["top5"][-1])
        table.add(**row)
    return table


def table_of_stages(found: Found) -> Table:
    """The same of closed-form learners, on the base network read at its last stages."""
    table = Table()
    for key, course in found.get("staged:", {}).items():
        if isinstance(course, dict):
            name, _, n = key.rpartition(", ")
            table.add(**{"": name, "last stages": n} | _row(course))
    return table


def table_of_nights(found: Found) -> Table:
    """Evenings and mornings by how many pictures of a class are kept."""
    table = Table()
    for key, run in found.items():
        if not key.startswith("nights:") or "error" in run:
            continue
        row: dict[str, Any] = {"kept of a class": run["kept"], "base": per_cent(run["base"])}
        for number, night in enumerate(run["nights"]):
            row[f"evening {number + 1}"] = per_cent(run["evenings"][number])
            row[f"morning {number + 1}"] = per_cent(run["mornings"][number])
            row[f"night {number + 1}"] = "taken" if night["taken"] else "not taken"
            row[f"s, night {number + 1}"] = f"{night['seconds']:.0f}"
        table.add(**row)
    return table


def table_of_orderings(found: Found) -> Table:
    """Table 1 on the turntable: Ω_all against the layer trained offline, and the final accuracy."""
    table = Table()
    rows = found["ordering:iid"]["runs"][0]["accuracies"]
    for name in rows:
        row: dict[str, Any] = {"": name}
        for ordering in ORDERINGS:
            runs = [run["accuracies"] for run in found[f"ordering:{ordering}"]["runs"]]
            ours = [omega_all(run[name], run["Offline (last layer)"]) for run in runs]
            row[f"Ω, {ordering}"] = f"{np.mean(ours):.3f} ± {np.std(ours):.3f}"
            row[f"end, {ordering}"] = per_cent(float(np.mean([run[name][-1] for run in runs])))
        table.add(**row)
    return table


def table_of_starts(found: Found) -> Table:
    """Table 3 on the turntable."""
    table = Table()
    for start in found["ordering:iid"]["runs"][0]["starts"]:
        row: dict[str, Any] = {"base": start}
        for ordering in ORDERINGS:
            runs = found[f"ordering:{ordering}"]["runs"]
            for kind in ("fixed", "plastic"):
                ours = [
                    omega_all(run["starts"][start][kind], run["accuracies"]["Offline (last layer)"])
                    for run in runs
                ]
                row[f"{ordering}, {kind}"] = f"{np.mean(ours):.3f}"
        table.add(**row)
    return table


def table_of_told(found: Found) -> Table:
    """Table 2 on the turntable's pictures: with and without the task."""
    table = Table()
    offline = found.get("told:offline")
    for name in ("offline", *RIVALS):
        run = found.get(f"told:{name}")
        if not run or "error" in run or not offline or "error" in offline:
            continue
        row: dict[str, Any] = {"": name, "end": per_cent(run["accuracies"][-1])}
        row["end, told"] = per_cent(run["told"][-1])
        row["Ω"] = f"{omega_all(run['accuracies'], offline['accuracies']):.3f}"
        row["Ω, told"] = f"{omega_all(run['told'], offline['told']):.3f}"
        table.add(**row)
    return table


def table_of_verification(found: Found) -> Table:
    """Rivals at settings of their own."""
    table = Table()
    for words, kind, settings in (
        ("permuted MNIST, 17 tasks, one pass", "permuted", PERMUTED),
        ("split MNIST, task told", "split", SPLIT),
    ):
        for name, setting in settings.items():
            run = found.get(f"{kind}:{name}")
            if not run or "error" in run:
                continue
            within = "–"
            if setting.figure is not None:
                short = setting.figure - run["accuracy"]
                within = "yes" if short <= setting.tolerance else "no"
            table.add(
                rival=name,
                setting=words,
                published=setting.figure,
                measured=f"{run['accuracy']:.1f}",
                **{"within": within, "tolerance": setting.tolerance or "–"},
            )
    for name in ("iCaRL", "End-to-End"):
        run = found.get(f"tens:{name}")
        if run and "error" not in run:
            mean = 100 * float(np.mean(run["accuracies"]))
            table.add(
                rival=name,
                setting="CIFAR-100 in tens, mean over ten steps; at the end",
                published=f"{TENS[name]:.1f}",
                measured=f"{mean:.1f}; {per_cent(run['accuracies'][-1])}",
                within="yes" if TENS[name] - mean <= TENS_TOLERANCE else "no",
                tolerance=TENS_TOLERANCE,
            )
    return table


# Means over ten steps of ten classes, CIFAR-100, 2,000 exemplars: Rebuffi et al. 2017 (Fig. 2 a,
# ResNet-32) and Castro et al. 2018 (Table 1, ResNet-32).
TENS = {"iCaRL": 64.1, "End-to-End": 63.6}
TENS_TOLERANCE = 2.0


def figures(found: Found) -> dict[str, Any]:
    """Fig. 1, Fig. 3, and days and nights."""
    rows = courses(found)
    shown = {name: [rows[name]["top5"]] for name in IN_FIGURE if name in rows}
    shown[OFFLINE] = [rows[OFFLINE]["top5"]]
    classes = [50 + 10 * number for number in range(6)]
    first = plots.learning_curves(classes, shown, x_label="classes seen", y_label="top-5 accuracy")
    plots.one_legend(first, first.axes, n_columns=3)
    drawn = {"fig1": first}
    sizes = table_of_sizes(found)
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
    days = {
        f"{run['kept']} kept of a class": [
            [
                run["base"],
                *(
                    moment
                    for day in zip(run["evenings"], run["mornings"], strict=True)
                    for moment in day
                ),
            ]
        ]
        for key, run in found.items()
        if key.startswith("nights:") and "error" not in run
    }
    if days:
        nights = plots.learning_curves(
            [0, 1, 1.4, 2, 2.4], days, x_label="days (nights between)", y_label="accuracy"
        )
        nights.axes[0].axhline(found["joint:"]["accuracy"], color="grey", lw=1, label="offline")
        plots.one_legend(nights, nights.axes, n_columns=3)
        drawn["nights"] = nights
    return drawn


def text(results: dict[str, Any]) -> str:
    """The report, from what was measured alone."""
    found = results["found"]
    joint, base = found["joint:"], found["base:"]
    adapt = found.get("adapt:", {})
    lines = [f"# {TITLE}", ""]
    for run in results["runs"]:
        lines += [f"* {run['date']}, {run['device']}: `{run['command']}`. {run['notes']}"]
    lines += [
        "",
        "One seed. Accuracy in per cent. CIFAR-100's pictures are a **substitute** for ImageNet, "
        "50 objects on a turntable for CORe50.",
        "",
        f"Joint training of all 100 classes: {per_cent(joint['accuracy'])} "
        f"(top-5 {per_cent(joint['top5'])}) in {joint['seconds']:.1f} s. "
        f"Base of 50: {per_cent(base['accuracy'])} in {base['seconds']:.1f} s.",
        "",
        "## Fig. 1, Table 1 and Sec. 4.5: CIFAR-100, base 50 + 5 × 10",
        "",
        "`s, tasks` is the time to learn the five tasks, `all, s` with the search, each while up "
        "to eleven jobs shared the GPU.",
        "",
        table_of_courses(found).to_markdown(),
        "",
        "![Fig. 1](fig1.png)",
        "",
        "## Fig. 3: base sizes",
        "",
        table_of_sizes(found).to_markdown(),
        "",
    ]
    if any(_size(key) and "error" not in run for key, run in found.items()):
        lines += ["![Fig. 3](fig3.png)", ""]
    stages = table_of_stages(found)
    if len(stages):
        lines += [
            "## The base network read at several depths",
            "",
            "Accuracy on all classes so far; the roots of each stage at length one, side by side "
            "(`LastStages`). Above, the last stage is read as it is. Wide: behind so many random "
            "ReLU features.",
            "",
            stages.to_markdown(),
            "",
        ]
    lines += [
        "## Days and nights",
        "",
        table_of_nights(found).to_markdown(),
        "",
        "The learner is RLSC. A night that is not taken leaves the stream as it was.",
        "",
        "![Days and nights](nights.png)",
        "",
        "## Table 1: the turntable in four orderings",
        "",
        f"{len(found['ordering:iid']['runs'])} draws of each ordering. The network of 50 "
        "CIFAR-100 classes, adapted to the first fifth of each stream where that is better on "
        f"held-out pictures of it ({found['turntable:']['changed']} of "
        f"{found['turntable:']['streams']} streams). Ω against the layer trained offline.",
        "",
        table_of_orderings(found).to_markdown(),
        "",
        "## Table 3: where network and covariance come from",
        "",
        table_of_starts(found).to_markdown(),
        "",
    ]
    told = table_of_told(found)
    if len(told):
        lines += ["## Table 2: rivals on the turntable's pictures", "", told.to_markdown(), ""]
    lines += ["## Settings of their own", "", table_of_verification(found).to_markdown(), ""]
    missing = sorted(key for key, run in found.items() if "error" in run)
    if missing:
        lines += ["Not finished: " + ", ".join(f"`{key}`" for key in missing) + ".", ""]
    lines += again(results["again"])
    if adapt and "error" not in adapt:
        table = Table()
        for how in ("as it is", "last block", "low rank"):
            row = adapt[how]
            table.add(
                network=how,
                taken="yes" if row["changed"] else "no",
                **{name: per_cent(row[name]) for name in ("SLDA (plastic)", "RLSC", "NCM")},
            )
        lines += [
            "## Adaptation to the first ten of the 50 later classes",
            "",
            "Accuracy on those 50 classes after streaming them.",
            "",
            table.to_markdown(),
            "",
        ]
    return "\n".join(lines)


def again(found: Found) -> list[str]:
    """The same jobs once more, with a base network of their own."""
    table = Table()
    for key, run in found.items():
        if "error" not in run and key in ("joint:", "base:"):
            table.add(job=key.rstrip(":"), accuracy=per_cent(run["accuracy"]), s=_s(run["seconds"]))
        elif "error" not in run and key.startswith("rival:"):
            end = per_cent(run["accuracies"][-1])
            table.add(job=key, accuracy=end, told=per_cent(run["told"][-1]), rate=_rate(run))
        elif "error" not in run and key.startswith("nights:"):
            table.add(job=key, accuracy=per_cent(run["mornings"][-1]))
        elif "error" not in run and key.startswith("permuted:"):
            table.add(job=key, accuracy=f"{run['accuracy']:.1f}")
    return ["## The same again, from a base of its own", "", table.to_markdown(), ""]


def write(folder: Path) -> None:
    """``report.md`` and the figures, from ``results.json`` in the same folder."""
    results = json.loads((folder / "results.json").read_text("utf-8"))
    for name, drawn in figures(results["found"]).items():
        drawn.savefig(folder / f"{name}.png", dpi=DOTS_PER_INCH)
    replace_file(folder / "report.md", text(results).encode())


def per_cent(share: float) -> str:
    return f"{100 * share:.1f}"


def _rate(course: Found) -> str:
    rate = course.get("choice", {}).get("learning_rate", course.get("rate"))
    return "–" if rate is None else f"{rate:.2g}"


def _s(seconds: float) -> str:
    return f"{seconds:.1f}"


def _put(rows: dict[str, Found], name: str, course: Found | None) -> None:
    if course and "error" not in course:
        rows[name] = course


def _size(key: str) -> bool:
    return key.startswith("size:")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
