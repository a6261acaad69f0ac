"""``python -m benchmarks [NAME … | all]``: run them, print their lines, write the table.

A benchmark is a module of this package with a function ``lines()`` that yields ``Line`` objects.
A full run writes the first table of RESULTS.md, which is a page of the documentation.
"""

import importlib
import os
import sys
import time
from datetime import date
from pathlib import Path

from everlearn.errors import MissingData

# Run by `make bench`, in under ten minutes on two idle cores.
BENCHMARKS: tuple[str, ...] = (
    "import_time",
    "one_at_a_time",
    "carried_rhs",
    "fixed_cost",
    "accuracy",
)
# Run by name only: most need data packs, some take long.
BY_NAME: tuple[str, ...] = (
    "transfer_speed",
    "transfer_open_ended",
    "transfer_priors",
    "subspace_coil",
    "subspace_scenes",
    "subspace_faces",
    "subspace_speed",
    "forest_speed",
    "forest_rivals",
    "forest_incremental",
    "forest_many_classes",
    "ten_thousand_classes",
    "images_accuracy",
    "images_speed",
    "regions_find",
    "regions_weight",
    "regions_main",
    "memory_classifier",
    "memory_questions",
    "memory_many_names",
    "many_classes",
    "stalls",
    "unknown",
    "networks",
    "postgres_writers",
    "postgres_speed",
    "postgres_replicas",
    "service_speed",
    "service_page",
    "service_stream",
    "service_load",
    "service_hours",
    "prequential_overhead",
    "quality",
    "ridge_choice",
    "held_out_classes",
    "drift",
    "full_cifar",
    "first_use",
    "without_numba",
    "large_data",
)
HERE = Path(__file__).parent
HEADER = ["| claim | measured | wanted |", "|---|---|---|"]


def main(names: list[str]) -> None:
    rows: dict[str, list[str]] = {}
    for name in chosen(names):
        start = time.perf_counter()
        rows[name] = []
        try:
            for line in importlib.import_module(f"benchmarks.{name}").lines():
                print(line, flush=True)
                rows[name].append(f"| {line.claim} | {line.measured} | {line.wanted} |")
        except MissingData as missing:
            print(f"  left out: {missing}")
        print(f"  [{name}: {time.perf_counter() - start:.0f} s]", flush=True)
    if not names:
        write(rows)


def chosen(names: list[str]) -> tuple[str, ...]:
    if names == ["all"]:
        return BENCHMARKS + BY_NAME
    unknown = set(names) - {*BENCHMARKS, *BY_NAME}
    if unknown:
        raise SystemExit(
            f"no benchmark is called {', '.join(sorted(unknown))}; there are "
            f"{', '.join(BENCHMARKS + BY_NAME)}"
        )
    return tuple(names) or BENCHMARKS


def write(rows: dict[str, list[str]]) -> None:
    """Rewrite the first table of the page; the sections below it are written by hand."""
    page = HERE / "RESULTS.md"
    _, heading, by_hand = page.read_text("utf-8").partition("\n## ")
    when = f"`python -m benchmarks`, {os.cpu_count()} cores, {date.today():%d %B %Y}."
    every = [row for name in rows for row in rows[name]]
    table = "\n".join(["# Results", "", when, "", *HEADER, *every])
    page.write_text(f"{table}\n{heading}{by_hand}", "utf-8")
    print("written to benchmarks/RESULTS.md")


if __name__ == "__main__":
    main(sys.argv[1:])
