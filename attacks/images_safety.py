"""Decodes hostile images and measures time and memory."""

import multiprocessing
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator

from attacks.hostile_images import hand_made, mutated, sandbox_seeds
from benchmarks.side_by_side import Line
from everlearn.errors import EverlearnError
from everlearn.images.decode import decode

MUTATED = 1_000_000
MUTATED_IN_SANDBOX = 400
AT_A_TIME = 5000
AT_LEAST = 512


def judged(data: bytes) -> tuple[str, float]:
    """The outcome of decoding, and its processor time.

    Processor time, because other programs share the machine.
    """
    start = time.process_time()
    try:
        decode(data, at_least=AT_LEAST)
        verdict = "decoded"
    except EverlearnError as error:
        verdict = type(error).__name__
    except BaseException as error:
        verdict = f"NOT NAMED: {type(error).__name__}"
    return verdict, time.process_time() - start


def judged_many(seed: int) -> tuple[Counter[str], float, float]:
    verdicts: Counter[str] = Counter()
    slowest = 0.0
    for data in mutated(AT_A_TIME, seed):
        verdict, seconds = judged(data)
        verdicts[verdict] += 1
        slowest = max(slowest, seconds)
    return verdicts, slowest, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_hand_made(folder: str) -> list[str]:
    paths = []
    for index, data in enumerate(hand_made().values()):
        path = os.path.join(folder, str(index))
        with open(path, "wb") as file:
            file.write(data)
        paths.append(path)
    return paths


def judged_file(path: str) -> tuple[str, float, float]:
    with open(path, "rb") as file:
        data = file.read()
    verdict, seconds = judged(data)
    return verdict, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def hostile() -> Iterator[Line]:
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        # Generated in another process, so that their memory does not count for decoding.
        with spawn.Pool(1) as maker:
            paths = maker.apply(write_hand_made, (folder,))
        with spawn.Pool(1, maxtasksperchild=1) as pool:
            results = pool.map(judged_file, paths, chunksize=1)
    unnamed = sum(verdict.startswith("NOT") for verdict, _, _ in results)
    yield Line(
        f"{len(results)} hand-made hostile images, each in a fresh process",
        f"{unnamed} unnamed errors, slowest {max(r[1] for r in results):.2f} s of processor time, "
        f"most memory {max(r[2] for r in results):.0f} MB",
        "0, < 2 s, < 512 MB",
    )
    verdicts: Counter[str] = Counter()
    slowest = memory = 0.0
    with spawn.Pool(2) as pool:
        for counts, seconds, megabytes in pool.imap(judged_many, range(MUTATED // AT_A_TIME)):
            verdicts += counts
            slowest, memory = max(slowest, seconds), max(memory, megabytes)
    unnamed = sum(count for verdict, count in verdicts.items() if verdict.startswith("NOT"))
    words = ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.most_common())
    yield Line(
        f"{verdicts.total():,} mutated images",
        f"{unnamed} unnamed errors, slowest {slowest:.2f} s of processor time, "
        f"most memory {memory:.0f} MB ({words})",
        "0, < 2 s, < 512 MB",
    )
    yield from hostile_in_sandbox()


def hostile_in_sandbox() -> Iterator[Line]:
    """Mutated AVIF files, each decoded in a sandbox whose time and memory count."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1) as pool:
        verdicts, slowest, memory = pool.apply(judged_in_sandbox)
    unnamed = sum(count for verdict, count in verdicts.items() if verdict.startswith("NOT"))
    words = ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.most_common())
    yield Line(
        f"{verdicts.total():,} mutated AVIF images",
        f"{unnamed} unnamed errors, slowest {slowest:.2f} s of processor time, "
        f"most memory {memory:.0f} MB ({words})",
        "0, < 2.1 s, < 512 MB",
    )


def judged_in_sandbox() -> tuple[Counter[str], float, float]:
    verdicts: Counter[str] = Counter()
    slowest = 0.0
    for data in mutated(MUTATED_IN_SANDBOX, files=sandbox_seeds()):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        verdict, _ = judged(data)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        verdicts[verdict] += 1
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        slowest = max(slowest, used)
    return verdicts, slowest, after.ru_maxrss / 1024


def lines() -> Iterator[Line]:
    yield from hostile()
