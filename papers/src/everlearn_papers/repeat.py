"""Run an experiment for many seeds in parallel processes; finished seeds are kept on disk.

The result of each seed is written to its own JSON file when it is finished, with the settings, the
version of everlearn and the processor time. An interrupted run continues with the missing seeds. A
result with other settings, or of another version, is computed again.
"""

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

import everlearn
from everlearn.persistence import replace_file

Result = dict[str, Any]
VERSION = everlearn.__version__


class Outcome(NamedTuple):
    """Result of an experiment, and its processor seconds."""

    result: Result
    seconds: float


def repeat(
    experiment: Callable[..., Result],
    seeds: Iterable[int],
    *,
    settings: dict[str, Any] | None = None,
    folder: str | Path | None = None,
    jobs: int = 1,
    progress: Callable[[], None] | None = None,
    resumed: Callable[[float], None] | None = None,
) -> list[Result]:
    """Run ``experiment(seed, **settings)`` for every seed; return the results in seed order.

    Parameters
    ----------
    experiment : a module-level function (importable by other processes); returns JSON values
    seeds : integers
    settings : JSON values; a stored result is reused only if they are equal
    folder : folder of the stored results; None: nothing is written or reused
    jobs : number of processes, each with one thread
    progress : called once per finished seed
    resumed : called for every seed loaded from disk, with its processor seconds (nan: not
        measured)

    If a seed fails, the others are still finished and stored; then its error is raised.
    """
    settings = settings or {}
    seeds = list(seeds)
    results: dict[int, Result] = {}
    for seed in seeds:
        kept = _kept(folder, experiment, seed, settings)
        if kept is not None:
            results[seed] = kept.result
            if resumed:
                resumed(kept.seconds)
            _tell(progress)
    missing = [seed for seed in seeds if seed not in results]
    failures: list[Exception] = []
    for seed, outcome in _outcomes(experiment, missing, settings, jobs):
        if isinstance(outcome, Exception):
            failures.append(outcome)
            continue
        results[seed] = outcome.result
        _keep(folder, experiment, seed, settings, outcome)
        _tell(progress)
    if failures:
        raise failures[0]
    return [results[seed] for seed in seeds]


def processor_seconds() -> float:
    """Processor seconds used so far by this process and its finished child processes."""
    return sum(os.times()[:4])


def _outcomes(
    experiment: Callable[..., Result], seeds: list[int], settings: dict[str, Any], jobs: int
) -> Iterable[tuple[int, Outcome | Exception]]:
    if jobs == 1 or len(seeds) == 1:
        for seed in seeds:
            yield seed, _run(experiment, seed, settings)
        return
    # Spawned, not forked: forking a process that has threads (BLAS, OpenMP) may deadlock.
    with ProcessPoolExecutor(
        jobs,
        mp_context=get_context("spawn"),
        initializer=_end_with_parent,
        initargs=(_interruptible(),),
    ) as pool:
        with _interrupts_held_back():  # submitting starts the workers, which inherit it
            waiting = {pool.submit(_run, experiment, seed, settings): seed for seed in seeds}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # otherwise exit waits for all
            raise


def _interruptible() -> bool:
    """Whether Ctrl-C reaches this process."""
    blocked = sys.platform != "win32" and signal.SIGINT in signal.pthread_sigmask(
        signal.SIG_BLOCK, ()
    )
    return not blocked and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Block SIGINT; processes started meanwhile inherit the mask until they unblock it.

    A worker interrupted during the start of Python would print its own traceback.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # started later, it would unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent(interruptible: bool) -> None:
    """Initialise a worker: it exits when its parent process ends, instead of waiting forever.

    If the parent ignores Ctrl-C (for example a background job of a script), so do its workers.
    """
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _run(
    experiment: Callable[..., Result], seed: int, settings: dict[str, Any]
) -> Outcome | Exception:
    # Always one thread: the order of summation must not depend on the number of processes.
    start = processor_seconds()
    try:
        with threadpool_limits(1):
            result = experiment(seed, **settings)
        return Outcome(result, processor_seconds() - start)
    except Exception as error:
        return error


def _path(folder: str | Path, experiment: Callable[..., Result], seed: int) -> Path:
    return Path(folder) / f"{experiment.__name__}-{seed}.json"


def _kept(
    folder: str | Path | None,
    experiment: Callable[..., Result],
    seed: int,
    settings: dict[str, Any],
) -> Outcome | None:
    if folder is None:
        return None
    # If the file is missing, damaged or has other settings, the seed is run.
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(_path(folder, experiment, seed).read_text("utf-8"))
        same_version = kept["version"] == VERSION
        if same_version and kept["settings"] == json.loads(json.dumps(settings)):
            return Outcome(dict(kept["result"]), float(kept.get("seconds", math.nan)))
    return None


def _keep(
    folder: str | Path | None,
    experiment: Callable[..., Result],
    seed: int,
    settings: dict[str, Any],
    outcome: Outcome,
) -> None:
    if folder is None:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    kept = {"version": VERSION, "settings": settings, "seconds": round(outcome.seconds, 1)}
    text = json.dumps(kept | {"result": outcome.result}, indent=1)
    replace_file(_path(folder, experiment, seed), text.encode())


def _tell(progress: Callable[[], None] | None) -> None:
    if progress:
        progress()
