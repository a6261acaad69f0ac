"""Kills workers with -9 every five seconds for a minute, and the driver once.

    python -m attacks.cluster_faults --engine dask

Claim: the result equals that of an undisturbed fit in every bit, and nothing is counted twice. The
driver is a separate process that is killed together with its children; the second one resumes from
the checkpoint of the first.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.cluster_shards import opened_engine, removed, write_shards
from everlearn import StreamingLDA, load, save
from everlearn.cluster import ShardedModel, fit, plan
from everlearn.persistence import dumps

# Words in the command lines of worker processes, by engine.
WORKERS = {
    "local": "popen_loky",
    "dask": "spawn_main",
    "ray": "ray::",
    "spark": "pyspark.daemon",
}
# Ray's node ends with its agents, which are not workers.
AGENT = "Agent"


def drive(engine_name: str, folder: Path) -> None:
    """The driver: one fit, with a checkpoint, written to a file."""
    plan.TASK_BYTES = 1
    paths = sorted(str(path) for path in folder.glob("*.npz"))
    with opened_engine(engine_name) as engine:
        (folder / "fitting").touch()
        trained = fit(StreamingLDA(), paths, engine=engine, checkpoint=str(folder / "checkpoint"))
    save(trained, folder / "result")


def undisturbed(paths: list[str], known: Path) -> ShardedModel:
    """The same fit without faults; stored in a file for the next run."""
    if not known.exists():
        plan.TASK_BYTES = 1
        save(fit(StreamingLDA(), paths, workers=2), known)
    trained: ShardedModel = load(known)
    return trained


def started_driver(options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """A driver whose cluster is up: earlier kills do not concern the fit."""
    fitting = options.folder / "fitting"
    fitting.unlink(missing_ok=True)
    command = [sys.executable, "-m", "attacks.cluster_faults", "--drive"]
    command += ["--engine", options.engine, "--folder", str(options.folder)]
    with open(options.folder / "driver.log", "ab") as log:
        driver = subprocess.Popen(command, start_new_session=True, stderr=log)
    while not fitting.exists() and driver.poll() is None:
        time.sleep(0.2)
    return driver


def workers_of(driver: subprocess.Popen[bytes], engine: str) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(driver.pid).children(recursive=True):
        try:
            command = " ".join(child.cmdline())
            if WORKERS[engine] in command and AGENT not in command:
                found.append(child)
        except psutil.Error:
            continue
    return found


def kill_all(driver: subprocess.Popen[bytes]) -> None:
    family = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    driver.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="dask")
    parser.add_argument("--rows", type=int, default=10_000, help="rows of a shard")
    parser.add_argument("--shards", type=int, default=1200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=5)
    parser.add_argument("--folder", type=Path, default=Path("out/cluster-faults"))
    parser.add_argument("--keep", action="store_true", help="leave the shards for the next run")
    parser.add_argument("--drive", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(options.engine, options.folder)
        return
    paths = write_shards(
        options.folder,
        n_rows=options.rows * options.shards,
        n_shards=options.shards,
        d=256,
        n_classes=1000,
        distinct=50,
    )
    removed(options.folder / "checkpoint")
    driver = started_driver(options)
    start, killed, drivers = time.monotonic(), 0, 0
    while driver.poll() is None:
        time.sleep(options.every)
        elapsed = time.monotonic() - start
        if driver.poll() is not None or elapsed > options.seconds:
            break
        if not drivers and elapsed > options.seconds / 2:
            kill_all(driver)
            drivers += 1
            driver = started_driver(options)
            continue
        workers = workers_of(driver, options.engine)
        if workers:
            os.kill(random.choice(workers).pid, signal.SIGKILL)
            killed += 1
    lasted = min(options.seconds, time.monotonic() - start)
    code = driver.wait()
    if code:
        log = (options.folder / "driver.log").read_text(errors="replace")
        sys.exit(f"{options.engine}: the driver ended with {code}:\n{log[-3000:]}")
    disturbed = load(options.folder / "result")
    calm = undisturbed(paths, options.folder / "undisturbed")
    print(
        f"{options.engine}: {killed} workers and {drivers} driver killed in "
        f"{lasted:.0f} s; "
        f"{disturbed.rows} rows of {calm.rows}, {len(disturbed.ledger)} shards; "
        f"same bits as an undisturbed fit: {dumps(disturbed) == dumps(calm)}"
    )
    if not options.keep:
        removed(options.folder)


if __name__ == "__main__":
    main()
