"""A paper of two tables and a figure that costs nothing, to test how papers are re-run.

``python -m papers.tests.tiny_paper OUT JOBS [SEEDS]`` re-runs it; where the file ``OUT.block`` is,
seed 2 never ends, and those after seed 3 take a second.
"""

import sys
import time
from pathlib import Path

from everlearn_papers import plots
from everlearn_papers.report import Section
from everlearn_papers.reproduce import PAPERS, reproduce

from everlearn.errors import MissingData
from everlearn.evaluation.table import Table

TITLE = "Tiny: a paper that costs nothing"
NAME = "tiny"


def times(seed, *, factor, block=None, log=None):
    if log:
        with open(log, "a") as file:
            file.write(f"{seed}\n")
    if block and seed == 2 and Path(block).exists():
        Path(f"{block}.reached").touch()
        time.sleep(600)
    if block and seed > 3 and Path(block).exists():
        time.sleep(1)
    return {"value": factor * (seed + 1)}


def table1(setting):
    beside = str(setting.folder)
    runs = setting.repeat(
        times,
        "first",
        4,
        factor=2 if setting.quick else 10,
        block=f"{beside}.block",
        log=f"{beside}.log",
    )
    rows = [{"seed": i, "measured": run["value"]} for i, run in enumerate(runs)]
    return Section("Table 1: values", "none", "First.", Table(rows), conclusions="It grows.")


def fig1(setting):
    runs = setting.repeat(times, "second", 3, factor=1)
    drawn, axes = plots.figure()
    axes[0, 0].plot([run["value"] for run in runs])
    return Section("Fig. 1: a line", "none", "Second.", Table(), {"": drawn, "b": drawn})


def table2(setting):
    if not (setting.folder.parent / "data").exists():
        raise MissingData("data is missing: put it beside the folder")
    return Section("Table 2: data", "data", "Third.", Table([{"x": 1.5, "y": float("nan")}]))


def use_the_processor(seconds=0.25):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def busy(seed):
    use_the_processor()
    return {"value": seed}


def busy_part(setting):
    setting.repeat(busy, "busy", 2)
    return Section("Busy", "none", "Two experiments of a quarter of a second.")


PARTS = {"table1": table1, "fig1": fig1, "table2": table2}


if __name__ == "__main__":
    PAPERS[NAME] = "papers.tests.tiny_paper"
    seeds = int(sys.argv[3]) if len(sys.argv) > 3 else None
    reproduce(NAME, only="table1", seeds=seeds, out=sys.argv[1], jobs=int(sys.argv[2]))
