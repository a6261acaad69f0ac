"""Tables of the results of ``benchmarks/deep.py``, one function each."""

from typing import Any

import numpy as np

from everlearn.evaluation.table import Table
from everlearn_papers.deep.race import RATES as SEARCHED
from everlearn_papers.deep.streams import RATES
from everlearn_papers.deep.verification import PERMUTED, SPLIT
from everlearn_papers.slda.last_layer import EPOCHS

Found = dict[str, Any]
STREAMED = ("SLDA (plastic)", "SLDA (plastic, published rule)", "SLDA (fixed)", "RLSC", "NCM")
RATED = ("ExStream", "Fine-tuning (layer)")
WHOLE = "Fine-tuning (whole network)"
RIVALS = (
    "iCaRL",
    "End-to-End",
    "iCaRL@10",
    "iCaRL (softmax)@10",
    "End-to-End@10",
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
ONE_BY_ONE = ", one at a time"
TIMED = (
    "SLDA (plastic)",
    f"SLDA (plastic){ONE_BY_ONE}",
    "SLDA (fixed)",
    "iCaRL",
    "End-to-End",
    "ExStream",
)
LATER = 25_000  # training pictures of the five tasks


def courses(found: Found) -> dict[str, Found]:
    """Return the rows of the CIFAR-100 table: learners at their best rate, rivals, offline."""
    rows: dict[str, Found] = {}
    for name in STREAMED:
        _put(rows, name, found.get(f"learner:{name}"))
    for name in RATED:
        _put(rows, name, best_rate(found, name))
    _put(rows, WHOLE, best_whole(found))
    for name in RIVALS:
        _put(rows, name, found.get(f"rival:{name}"))
    _put(rows, OFFLINE, best_rate(found, OFFLINE))
    return rows


def best_rate(found: Found, name: str) -> Found | None:
    """Return a learner's results at the rates with the best Ω on held-out pictures."""
    ran = [found.get(f"learner:{name}@{joined(rates)}") for rates in RATES[name]]
    return _best_held_out(ran)


def best_whole(found: Found) -> Found | None:
    """Return the whole network's results on CIFAR-100 at the rate best on held-out pictures."""
    return _best_held_out(list(whole_runs(found)))


def whole_runs(found: Found) -> list[Found]:
    """Return the results of fine-tuning the whole network on CIFAR-100, at every rate."""
    runs = [run for key, run in found.items() if key.startswith("whole:") and "held_out" in run]
    return sorted(runs, key=lambda run: float(run["rate"]))


def table_of_courses(found: Found) -> Table:
    """Accuracy on all classes so far, task by task; memory, time, and the settings."""
    table = Table()
    for name, course in courses(found).items():
        label, _, _ = name.partition("@")
        row = {"": label} | _row(course)
        if name == OFFLINE:
            row["kept, MB"] = "all"
        choice = course.get("choice", {})
        row["epochs a task"] = _epochs(name, course)
        row["rate"] = _rate(course)
        row["regularization"] = (
            f"{choice['regularization']:g}" if choice.get("regularization") else "–"
        )
        row["network"] = course.get("network", "this")
        table.add(**row)
    return table


def table_of_costs(found: Found) -> Table:
    """Sec. 4.5: time for the five tasks, with the pass of the network, and memory.

    Methods that were not timed alone have their times beside other jobs.
    """
    rows = courses(found)
    stream = found["stream:"]
    embedding = stream["embedding seconds"] * LATER / stream["examples"]
    batches, singly = (
        sum(found[f"cost:{name}"]["seconds"]) for name in (TIMED[0], f"{TIMED[0]}{ONE_BY_ONE}")
    )
    kept = found[f"cost:{TIMED[0]}"]["bytes_kept"]
    table = Table()
    for name in TIMED:
        run = found.get(f"cost:{name}", {})
        alone = "seconds" in run
        if alone:
            seconds = sum(run["seconds"])
        else:
            run = rows[name]
            seconds = sum(run["seconds"][1:]) + (embedding if name in RATED else 0.0)
        table.add(
            **{
                "": name,
                "epochs a task": epochs_in_words(rows[name]) if name in RIVALS else "1",
                "s": f"{seconds:.2f}",
                "times SLDA's, in batches": f"{seconds / batches:.3g}",
                "times SLDA's, one at a time": f"{seconds / singly:.3g}",
                "timed": "alone" if alone else "beside other jobs",
                "at the end": per_cent(run["accuracy"] if alone else run["accuracies"][-1]),
                "kept, MB": f"{run['bytes_kept'] / 1e6:.1f}",
                "times SLDA's kept": f"{run['bytes_kept'] / kept:.1f}",
            }
        )
    return table


def table_of_trials(found: Found) -> Table:
    """Held-out accuracy at every rate and regularization weight tried."""
    table = Table()
    for name in RIVALS:
        run = found.get(f"rival:{name}")
        if not run or "error" in run:
            continue
        table.add(
            rival=name.partition("@")[0],
            **{"epochs a task": epochs_in_words(run)},
            **tried(run["choice"]),
        )
    for key, run in found.items():
        kind, _, name = key.partition(":")
        if kind == "trials":
            columns = {"epochs a task": epochs_in_words(run), **tried(run["choice"])}
            table.add(rival=f"{name}, network: {run['network']}", **columns)
    for name in (*RATED, OFFLINE):
        words = ", ".join(
            f"{joined(rates)}: {per_cent(float(np.mean(run['held_out'])))}"
            for rates in RATES[name]
            if (run := found.get(f"learner:{name}@{joined(rates)}")) and "error" not in run
        )
        at_end = _ends_of_rates(found, name)
        table.add(
            rival=name,
            **{"rate / regularization: held out": words, "best at an end": at_end or "–"},
        )
    words = ", ".join(
        f"{run['rate']:g}: {per_cent(float(np.mean(run['held_out'])))}" for run in whole_runs(found)
    )
    table.add(rival=WHOLE, **{"rate / regularization: held out": words})
    return table


def table_of_shrinkage(found: Found) -> Table:
    """Streaming LDA at several ε, by number of base classes: top-1 / top-5."""
    table = Table()
    for size in _sizes(found):
        run = found["shrinkage:"] if size == 50 else found[f"size:{size}"]["shrinkage"]
        row: dict[str, Any] = {"base classes": size, "mean variance": f"{run['mean variance']:.3f}"}
        for share, course in run.items():
            if isinstance(course, dict):
                name = share if share == "oas" else f"ε = {float(share):g}"
                row[name] = f"{per_cent(course['accuracies'][-1])} / {per_cent(course['top5'][-1])}"
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
    row["s, tasks"] = f"{sum(course['seconds'][1:]):.0f}" if course["seconds"] else "–"
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
    """Accuracy of closed-form learners on features of the base network's last stages."""
    table = Table()
    for key, course in found.get("staged:", {}).items():
        if isinstance(course, dict):
            name, _, n = key.replace(" wide", " random features").rpartition(", ")
            table.add(**{"": name, "last stages": n} | _row(course))
    return table


def table_of_consolidation(found: Found) -> Table:
    """Accuracy before and after each consolidation, by number of pictures kept per class."""
    table = Table()
    for key, run in found.items():
        if not key.startswith("consolidation:") or "error" in run:
            continue
        row: dict[str, Any] = {"kept of a class": run["kept"], "base": per_cent(run["base"])}
        for number, training in enumerate(run["trainings"]):
            row[f"before {number + 1}"] = per_cent(run["before"][number])
            row[f"after {number + 1}"] = per_cent(run["after"][number])
            row[f"network {number + 1}"] = "replaced" if training["taken"] else "kept"
            row[f"s, training {number + 1}"] = f"{training['seconds']:.0f}"
        table.add(**row)
    return table


def table_of_verification(found: Found) -> Table:
    """Rivals in their published settings, compared with the published figures."""
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


def table_of_adaptation(found: Found) -> Table:
    """Accuracy on the later classes, by adaptation of the network to the first of them."""
    table = Table()
    for how in ("as it is", "last block", "low rank"):
        row = found["adapt:"][how]
        table.add(
            network=how,
            taken="yes" if row["changed"] else "no",
            **{name: per_cent(row[name]) for name in ("SLDA (plastic)", "RLSC", "NCM")},
        )
    return table


def table_again(found: Found) -> Table:
    """Results of repeated jobs, each set with its own base network."""
    table = Table()
    for key, run in found.items():
        if "error" not in run and key in ("joint:", "base:"):
            table.add(job=key.rstrip(":"), accuracy=per_cent(run["accuracy"]), s=_s(run["seconds"]))
        elif "error" not in run and key.startswith("rival:"):
            end = per_cent(run["accuracies"][-1])
            table.add(job=key, accuracy=end, told=per_cent(run["told"][-1]), rate=_rate(run))
        elif "error" not in run and key.startswith("consolidation:"):
            table.add(job=key, accuracy=per_cent(run["after"][-1]))
        elif "error" not in run and key.startswith("permuted:"):
            table.add(job=key, accuracy=f"{run['accuracy']:.1f}")
    return table


def per_cent(share: float) -> str:
    return f"{100 * share:.1f}"


def searched_rates() -> str:
    """Format the learning rates with which the rivals' searches begin."""
    return ", ".join(f"{rate:g}" for rate in SEARCHED)


def epochs_in_words(run: Found) -> str:
    """Epochs of a task; "60 + 30" where balanced fine-tuning follows."""
    balancing = run.get("balancing epochs")
    return f"{run['epochs']} + {balancing}" if balancing else str(run["epochs"])


def _epochs(name: str, course: Found) -> str:
    if name == OFFLINE:
        return str(EPOCHS)
    return epochs_in_words(course) if "epochs" in course else "1"


def _rate(course: Found) -> str:
    if "choice" in course:
        return f"{course['choice']['learning_rate']:.2g}"
    rates = course.get("rates") or ([course["rate"]] if "rate" in course else [])
    return ", ".join(f"{rate:.2g}" for rate in rates) or "–"


def tried(choice: Found) -> dict[str, str]:
    """Return table columns: candidates tried, and which best values are at an end."""
    values = {
        (float(rate), float(regularization)): value
        for key, value in choice["tried"].items()
        for rate, regularization in [key.split()]
    }
    words = ", ".join(
        f"{key.replace(' ', ' / ')}: {per_cent(value)}" for key, value in choice["tried"].items()
    )
    best = (choice["learning_rate"], choice["regularization"])
    best = min(values, key=lambda pair: max(abs(a - b) for a, b in zip(pair, best, strict=True)))
    ends = [
        name
        for place, name in enumerate(("rate", "regularization"))
        if _is_end(
            {
                pair[place]: value
                for pair, value in values.items()
                if pair[1 - place] == best[1 - place]
            },
            best[place],
        )
    ]
    return {"rate / regularization: held out": words, "best at an end": " and ".join(ends) or "–"}


def _ends_of_rates(found: Found, name: str) -> str:
    """Name those of a learner's best rates that are at an end of its grid, base first."""
    values = {
        rates: float(np.mean(run["held_out"]))
        for rates in RATES[name]
        if (run := found.get(f"learner:{name}@{joined(rates)}")) and "error" not in run
    }
    best = max(values, key=values.__getitem__)
    ends = []
    for place, rate in enumerate(best):
        others = {
            rates[place]: value
            for rates, value in values.items()
            if rates[:place] + rates[place + 1 :] == best[:place] + best[place + 1 :]
        }
        if rate and _is_end(others, rate):  # 0 is the lower bound, not an open end
            ends.append("rate" if len(best) == 1 else ("base", "stream")[place])
    return " and ".join(ends)


def _is_end(values: dict[float, float], best: float) -> bool:
    """Whether the best is the first or last candidate and better than its neighbour."""
    known = sorted(values)
    if len(known) == 1 or best not in (known[0], known[-1]):
        return False
    beside = known[1] if best == known[0] else known[-2]
    return values[best] > values[beside]


def _best_held_out(runs: list[Found | None]) -> Found | None:
    done = [run for run in runs if run and "error" not in run]
    return max(done, key=lambda run: float(np.mean(run["held_out"]))) if done else None


def _sizes(found: Found) -> list[int]:
    sizes = [int(key.removeprefix("size:")) for key in found if key.startswith("size:")]
    return sorted({*sizes, 50})


def joined(numbers: Any) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _s(seconds: float) -> str:
    return f"{seconds:.1f}"


def _put(rows: dict[str, Found], name: str, course: Found | None) -> None:
    if course and "error" not in course:
        rows[name] = course


def _size(key: str) -> bool:
    return key.startswith("size:")
