"""Kill a process that teaches, again and again, at random moments; count what is lost.

    python -m benchmarks.crash [ROUNDS] [SEED]

Each round forks a process that opens the Learner and teaches examples one at a time and in batches,
telling through a pipe every one that was acknowledged. It is killed (SIGKILL) at a random moment:
while opening, between two teachings, inside a transaction, while a snapshot is written. Then the
folder is opened again and compared with what was acknowledged, and the model with one folded anew
from the whole journal, bit for bit. The next process begins with examples that were acknowledged
before, so that anything counted twice would show.
"""

import json
import os
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.base import clone

from everlearn import Learner, RecursiveRLSC
from everlearn.errors import NotALearner
from everlearn.memory import learner as learner_module
from everlearn.memory.model import Model, latest_snapshot

WIDTH = 32
ROUNDS_PER_FOLDER = 50
REPEATED = 40
LONGEST_LIFE = 400
MOMENT = 0.005
# Snapshots often, so that many kills fall into the writing of one.
SNAPSHOT_EVERY = 512


@dataclass
class Tally:
    """What was found over all rounds."""

    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    counted_twice: int = 0
    models_that_differ: int = 0
    killed_before_the_first: int = 0
    opened_from_a_snapshot: int = 0


def example(index: int) -> tuple[np.ndarray, str]:
    """The same vector and name for the same number, in every process."""
    vector = np.random.default_rng(index).normal(size=WIDTH).astype(np.float32)
    return vector, f"name {index % 7}"


def teach_until_killed(folder: Path, first: int, pipe: int) -> None:
    """Teach numbers from ``first`` on, telling each one that is safe."""
    learner_module.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    with Learner(folder) as learner:
        index = first
        while True:
            for _ in range(20):
                learner.teach(*example(index))
                os.write(pipe, struct.pack("<q", index))
                index += 1
            batch = range(index, index + 100)
            learner.teach_many(example(i) for i in batch)
            os.write(pipe, b"".join(struct.pack("<q", i) for i in batch))
            index += 100
            learner.ask(example(index)[0])


def one_life(folder: Path, first: int, rng: np.random.Generator) -> set[int]:
    """Start a process, kill it, and return the numbers it acknowledged.

    It lives until it has acknowledged a random number of examples and a moment longer; one life in
    ten ends while the folder is being opened.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            teach_until_killed(folder, first, writing)
        finally:
            os._exit(1)
    os.close(writing)
    told = b""
    if rng.random() > 0.1:
        enough = 8 * int(rng.integers(1, LONGEST_LIFE))
        while len(told) < enough and (part := os.read(reading, 1 << 16)):
            told += part
    time.sleep(rng.exponential(MOMENT))
    os.kill(child, signal.SIGKILL)
    while part := os.read(reading, 1 << 16):
        told += part
    os.close(reading)
    os.waitpid(child, 0)
    whole = len(told) // 8 * 8
    return set(struct.unpack(f"<{whole // 8}q", told[:whole]))


def bits(classifier: RecursiveRLSC) -> list[bytes]:
    if not hasattr(classifier, "labels_"):
        return []
    arrays, notes = classifier._state()
    return [json.dumps(notes, sort_keys=True).encode()] + [
        np.ascontiguousarray(arrays[key]).tobytes() for key in sorted(arrays)
    ]


def check(folder: Path, acknowledged: set[int], tally: Tally) -> int:
    """Compare the folder with what was acknowledged; returns the next number to teach."""
    try:
        # Read only, so that the next process finds the folder as the kill left it.
        learner = Learner(folder, read_only=True)
    except NotALearner:
        tally.lost += len(acknowledged)
        return 0
    with learner:
        journal = learner._journal
        digest_of = {example(i)[0].tobytes(): i for i in range(max(acknowledged, default=0) + 400)}
        counted = Counter(digest_of[e.vector.tobytes()] for _, e in journal.examples())
        tally.lost += len(acknowledged - counted.keys())
        tally.counted_twice += sum(count - 1 for count in counted.values())
        snapshot = latest_snapshot(folder, journal.epoch, journal.last_position)
        tally.opened_from_a_snapshot += snapshot.position > 0
        anew = Model(clone(snapshot.classifier))
        anew.follow(journal, journal.last_position)
        tally.models_that_differ += bits(learner.classifier) != bits(anew.classifier)
        return max(counted, default=-1) + 1


def survive(rounds: int, seed: int = 0) -> Tally:
    tally = Tally()
    rng = np.random.default_rng(seed)
    while tally.rounds < rounds:
        with tempfile.TemporaryDirectory() as place:
            folder, acknowledged, following = Path(place, "learner"), set[int](), 0
            for _ in range(min(ROUNDS_PER_FOLDER, rounds - tally.rounds)):
                first = max(0, following - REPEATED)
                told = one_life(folder, first, rng)
                acknowledged |= told
                tally.killed_before_the_first += not told
                tally.rounds += 1
                following = check(folder, acknowledged, tally)
            tally.acknowledged += len(acknowledged)
    return tally


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    print(json.dumps(asdict(survive(*(arguments or [1000])))))
