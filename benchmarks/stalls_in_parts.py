"""The longest call in a million steps of AutoClassifier: parts of one stream, on several cores.

    python -m benchmarks.stalls_in_parts --steps 1000000 --workers 16 --out results
    python -m benchmarks.stalls_in_parts --steps 3000 --part 1000 --out results    # to see it run

With 1,280 features a step takes 20 ms, so a million in one process take five hours. What was
learned does not depend on how (batch = loop), so one process learns the stream in batches and forks
a worker at the beginning of every part, which learns and asks one example at a time to its end. A
choice that a part would inherit from the one before it is inherited: the first process asks
wherever the stream would have begun to choose again. So all steps are made, and all choices but the
first of the second part are made in slices, as in one process.

Processor time of one thread for every call, in one pass. The first two questions of a part, which
compute a head and get memory for it, are asked before its first step and are not counted, except in
the first part, which begins with nothing learned.
"""

import argparse
import json
import math
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.stalls import FIRST, N_CLASSES, WIDTH, compile_for
from everlearn import AutoClassifier
from everlearn.learners.auto.following import CHOOSE_AGAIN

# Examples drawn from one generator, so that a part can begin at any multiple of it.
BLOCK = 500


def block(number: int) -> tuple[np.ndarray, np.ndarray]:
    centres = np.random.default_rng(0).normal(size=(N_CLASSES, WIDTH))
    rng = np.random.default_rng([1, number])
    y = rng.integers(N_CLASSES, size=BLOCK)
    return centres[y] + rng.normal(size=(BLOCK, WIDTH)), y


def examples(start: int, stop: int) -> Iterator[tuple[np.ndarray, int]]:
    for number in range(start // BLOCK, stop // BLOCK):
        yield from zip(*block(number), strict=True)


def part(learner: AutoClassifier, start: int, stop: int, out: Path) -> None:
    """Learn and ask one at a time, and write what every call took."""
    spent = np.empty((2, stop - start))
    latest, chosen = None, 0
    with threadpool_limits(limits=1):
        if start:
            for _ in range(FIRST):
                learner.predict_one(np.zeros(WIDTH))
        for step, (x, label) in enumerate(examples(start, stop)):
            clock = time.thread_time()
            learner.learn_one(x, int(label))
            spent[1, step] = time.thread_time() - clock
            clock = time.thread_time()
            learner.predict_one(x)
            spent[0, step] = time.thread_time() - clock
            choice = learner._running.choice
            chosen += bool(step) and choice is not latest
            latest = choice
    np.save(out / f"part-{start:07}.npy", spent.astype(np.float32))
    about = {"start": start, "stop": stop, "choices": chosen, "head": latest and latest.head}
    with (out / "parts.jsonl").open("a") as log:
        log.write(json.dumps(about) + "\n")


def run(begin: int, steps: int, size: int, workers: int, threads: int, out: Path) -> None:
    compile_for(AutoClassifier())
    fork = multiprocessing.get_context("fork")
    learner, known, asked_at = AutoClassifier(), 0, begin or size
    running: list[multiprocessing.process.BaseProcess] = []
    with threadpool_limits(limits=threads):
        for start in range(begin, steps, size):
            while asked_at < start:
                # As in the stream: the first question at which a tenth more was learned.
                learn_until(learner, known, asked_at)
                learner.predict_one(np.zeros(WIDTH))
                known = asked_at
                asked_at = BLOCK * math.ceil(asked_at * (1.0 + CHOOSE_AGAIN) / BLOCK)
            learn_until(learner, known, start)
            known = start
            while len(running) >= workers:
                time.sleep(0.2)
                running = [worker for worker in running if worker.is_alive()]
            begun = fork.Process(target=part, args=(learner, start, min(start + size, steps), out))
            begun.start()
            running.append(begun)
            print(f"{time.strftime('%X')} part at {start:,} begun", flush=True)
        for worker in running:
            worker.join()


def learn_until(learner: AutoClassifier, known: int, stop: int) -> None:
    for first in range(known, stop, 8 * BLOCK):
        numbers = range(first // BLOCK, min(first + 8 * BLOCK, stop) // BLOCK)
        blocks = [block(number) for number in numbers]
        learner.partial_fit(*(np.concatenate(each) for each in zip(*blocks, strict=True)))


def report(out: Path) -> None:
    parts = [json.loads(line) for line in (out / "parts.jsonl").read_text().splitlines()]
    spent = [np.load(out / f"part-{about['start']:07}.npy") for about in parts]
    spent = [
        each if about["start"] else each[:, FIRST:]
        for each, about in zip(spent, parts, strict=True)
    ]
    chosen = sum(about["choices"] for about in parts)
    print(f"AutoClassifier, {chosen} choices in slices")
    for name, times in zip(
        ("predict_one", "learn_one"), 1e3 * np.concatenate(spent, axis=1), strict=True
    ):
        middle, rare, longest = np.percentile(times, [50, 99.9, 100])
        print(
            f"{name}: median {middle:.3g} ms, p99.9 {rare:.3g} ms, longest {longest:.3g} ms: "
            f"{longest / middle:.1f} times; {len(times):,} calls"
        )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--steps", type=int, default=1_000_000)
    options.add_argument("--begin", type=int, default=0, help="leave out what is before")
    options.add_argument("--part", type=int, default=12_500)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--threads", type=int, default=2, help="of the process that forks them")
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--report", action="store_true", help="of what is there, without a run")
    chosen = options.parse_args()
    if any(number % BLOCK for number in (chosen.begin, chosen.steps, chosen.part)):
        options.error(f"steps and the size of a part must be multiples of {BLOCK}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    if not chosen.report:
        run(chosen.begin, chosen.steps, chosen.part, chosen.workers, chosen.threads, chosen.out)
    report(chosen.out)


if __name__ == "__main__":
    main()
