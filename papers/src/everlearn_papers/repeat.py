"""The same experiment for many seeds, in parallel processes, resumed from what is on disk.

Every seed's result is written to a JSON file of its own as soon as it is there, together with the
settings and the version of everlearn it was made with, and the processor time it took. A run that
is interrupted goes on with the seeds that are missing; a result of other settings, or of another
version, is made anew.
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
    """What an experiment gave, and the processor seconds it took."""

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
    """Run ``experiment(seed, **settings)`` for every seed; the results in the order of the seeds.

    Parameters
    ----------
    experiment : a function of a module (so that other processes find it) giving plain values
    seeds : whole numbers
    settings : plain values, part of what identifies a result
    folder : where results are kept; without it nothing is written and nothing resumed
    jobs : processes; each computes with one thread
    progress : called once for every seed done
    resumed : called for every seed that was found on disk, with the processor seconds it took when
        it was made (not a number: it was not measured)

    A seed that fails does not lose the others: they are finished and kept, then its error is
    raised.
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
    """What this process, and those it started that have ended, have used up to now."""
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
            pool.shutdown(wait=False, cancel_futures=True)  # or leaving would run all the rest
            raise


def _interruptible() -> bool:
    """Whether Ctrl-C reaches this process."""
    blocked = sys.platform != "win32" and signal.SIGINT in signal.pthread_sigmask(
        signal.SIG_BLOCK, ()
    )
    return not blocked and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C reaches this process afterwards, and the ones started meanwhile when they let it in.

    A worker interrupted while Python itself starts would print a traceback of its own.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # started later, it would let interrupts in
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent(interruptible: bool) -> None:
    """An interrupted or killed run takes its workers along, which else would wait for ever.

    A run that Ctrl-C does not reach, as one put into the background by a script, has workers that
    it does not reach either.
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
    # One thread however many processes there are: the same sums in the same order.
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
    # A file that is missing, damaged or of other settings means the seed is to be run.
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
