"""Tables of the results of ``benchmarks/deep.py`` on the turntable."""

from typing import Any

import numpy as np

from everlearn.evaluation.metrics import omega_all
from everlearn.evaluation.table import Table
from everlearn_papers.deep.race import CONTENDERS
from everlearn_papers.deep.tables import WHOLE, Found, epochs_in_words, joined, per_cent, tried
from everlearn_papers.report import published
from everlearn_papers.slda.last_layer import STREAM_RATES

ORDERINGS = ("iid", "class iid", "instance", "class instance")
LAYER = "Offline (last layer)"


def runs_of(found: Found, ordering: str, kind: str = "ordering") -> list[Found]:
    """Return all draws of an ordering; kind ``beside`` is on the network of Table 2's rivals."""
    jobs = [run for key, run in found.items() if key.startswith(f"{kind}:{ordering}@")]
    return sorted((run for job in jobs for run in job["runs"]), key=lambda run: int(run["draw"]))


def table_of_orderings(found: Found) -> Table:
    """Table 1 on the turntable: Ω_all against the layer trained offline, and the final accuracy."""
    table = Table()
    for name in (WHOLE, *runs_of(found, "iid")[0]["accuracies"]):
        row: dict[str, Any] = {"": name}
        for ordering in ORDERINGS:
            runs = runs_of(found, ordering)
            ours = [run["accuracies"].get(name) for run in runs]
            if name == WHOLE:
                ours = found[f"whole:{ordering}"]["runs"]
            shares = [
                omega_all(our, run["accuracies"][LAYER])
                for our, run in zip(ours, runs, strict=True)
            ]
            row[f"Ω, {ordering}"] = _spread(shares)
            row[f"end, {ordering}"] = per_cent(float(np.mean([our[-1] for our in ours])))
        table.add(**row)
    return table


def table_of_rates(found: Found) -> Table:
    """The learning rates chosen in each ordering, and in how many draws."""
    table = Table()
    for name in ("Fine-Tuning", "ExStream"):
        row: dict[str, Any] = {"": name}
        for ordering in ORDERINGS:
            chosen = [joined(run["rates"][name]) for run in runs_of(found, ordering)]
            row[ordering] = "; ".join(
                f"{rates} ({chosen.count(rates)})" for rates in dict.fromkeys(sorted(chosen))
            )
        table.add(**row)
    row = {"": WHOLE}
    for ordering in ORDERINGS:
        run = found[f"whole:{ordering}"]
        row[ordering] = f"{run['rate of the base']:g},{run['rate']:g} ({len(run['runs'])})"
    table.add(**row)
    return table


def stream_rates_at_the_end(found: Found) -> tuple[int, int]:
    """Return in how many draws fine-tuning chose the largest stream rate, and all draws."""
    rates = [run["rates"]["Fine-Tuning"][1] for name in ORDERINGS for run in runs_of(found, name)]
    return sum(rate == max(STREAM_RATES) for rate in rates), len(rates)


def table_of_starts(found: Found) -> Table:
    """Table 3 on the turntable."""
    table = Table()
    for start in runs_of(found, "iid")[0]["starts"]:
        row: dict[str, Any] = {"base": start}
        for ordering in ORDERINGS:
            runs = runs_of(found, ordering)
            for kind in ("fixed", "plastic"):
                ours = [
                    omega_all(run["starts"][start][kind], run["accuracies"][LAYER]) for run in runs
                ]
                row[f"{ordering}, {kind}"] = _spread(ours)
        table.add(**row)
    return table


def table_of_told(found: Found) -> Table:
    """Table 2: SLDA and the rivals, Ω relative to the whole network trained offline."""
    table = Table()
    references = {run["draw"]: run for run in _offline(found)}
    epochs = next(iter(references.values()))["epochs"] if references else None
    _told_row(table, "offline, whole network", list(references.values()), references, epochs)
    for ordering in ("class iid", "class instance"):
        for name in ("SLDA (fixed)", "SLDA (plastic)", LAYER):
            runs = [
                {
                    "draw": run["draw"],
                    "accuracies": _of_seen(run["accuracies"][name]),
                    "told": run["masked"][name],
                }
                for run in runs_of(found, ordering, "beside")
            ]
            _told_row(table, f"{name}, {ordering}", runs, references, "–")
    for name in (*CONTENDERS,):
        jobs = [run for key, run in found.items() if key.startswith(f"told:{name}@")]
        runs = [run for job in jobs if "error" not in job for run in job["runs"]]
        if runs:
            choices = found[f"choice:{name}"]["choices"]
            rates = " | ".join(
                f"{choices[kind]['learning_rate']:.2g} / {choices[kind]['regularization']:g}"
                for kind in ("untold", "told")
            ).replace(" | ", "; ")
            epochs = epochs_in_words(found[f"choice:{name}"])
            _told_row(table, name, runs, references, epochs, rates)
    return table


def table_of_choices(found: Found) -> Table:
    """Table 2: results of the searches on the first draw, without and with the task given."""
    table = Table()
    for name in CONTENDERS:
        choice = found[f"choice:{name}"]
        for kind in ("untold", "told"):
            row = {"rival": name, "questions": kind, "epochs a task": epochs_in_words(choice)}
            row |= {"pictures a step": choice["batch"]}
            table.add(**row, **tried(choice["choices"][kind]))
    runs = sorted(_offline(found), key=lambda run: int(run["draw"]))
    for run in runs:
        row = {"rival": f"offline, draw {run['draw']}", "questions": "untold"}
        row |= {"epochs a task": run["epochs"], "pictures a step": run["batch"]}
        table.add(**row, **tried(run["choice"]))
    return table


def _offline(found: Found) -> list[Found]:
    return [run for key, run in found.items() if key.startswith("offline:")]


def _told_row(
    table: Table,
    name: str,
    runs: list[Found],
    references: dict[int, Found],
    epochs: Any,
    rates: str = "–",
) -> None:
    row: dict[str, Any] = {"": name, "draws": len(runs), "epochs a task": epochs}
    for column, key in (("", "accuracies"), (", told", "told")):
        shares = [omega_all(run[key], references[run["draw"]][key]) for run in runs]
        row[f"end{column}"] = per_cent(float(np.mean([run[key][-1] for run in runs])))
        row[f"Ω{column}"] = _spread(shares)
    theirs = published("slda")["table2 rivals"].get(name, {}).get("class iid")
    if name == "iCaRL":
        theirs = ["–", published("slda")["representation"]["CORe50, class iid"]["iCaRL"]]
    row |= {"published Ω": theirs[1], "published Ω, told": theirs[0]} if theirs else {}
    table.add(**row, **{"rate / regularization; told": rates})


def _spread(shares: list[float]) -> str:
    """Mean ± standard deviation over draws."""
    return f"{np.mean(shares):.3f} ± {np.std(shares):.3f}"


def _of_seen(accuracies: list[float]) -> list[float]:
    """Rescale accuracies on all test pictures to the classes so far, a fifth per checkpoint."""
    n = len(accuracies)
    return [value * n / number for number, value in enumerate(accuracies, start=1)]


def table_of_whole_rates(found: Found) -> Table:
    """The whole network's rates of the stream on the turntable, by Ω held out on the first draw."""
    table = Table()
    for ordering in ORDERINGS:
        rates = found[f"whole:{ordering}"]["tried"]
        table.add(ordering=ordering, **{rate: per_cent(value) for rate, value in rates.items()})
    return table
