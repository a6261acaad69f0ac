"""``python -m benchmarks [NAME …]``: run them, print their lines, write the table.

A benchmark is a module of this package with a function ``lines()`` that yields ``Line`` objects.
"""

import importlib
import sys
import time
from pathlib import Path

BENCHMARKS: tuple[str, ...] = (
    "import_time",
    "one_at_a_time",
    "carried_rhs",
    "fixed_cost",
    "accuracy",
)
RESULTS = Path(__file__).with_name("RESULTS.md")


def main(names: list[str]) -> None:
    table = ["| claim | measured | wanted |", "|---|---|---|"]
    for name in names or BENCHMARKS:
        start = time.perf_counter()
        for line in importlib.import_module(f"benchmarks.{name}").lines():
            print(line, flush=True)
            table.append(f"| {line.claim} | {line.measured} | {line.wanted} |")
        print(f"  [{name}: {time.perf_counter() - start:.0f} s]", flush=True)
    if not names:
        RESULTS.write_text("\n".join(table) + "\n")
        print(f"written to {RESULTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
