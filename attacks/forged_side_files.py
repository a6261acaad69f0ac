"""Forged files beside a journal: every digest is correct, and nothing else has to be.

    python -m attacks.forged_side_files [FILES OF EACH KIND] [SEED] [KIND …]

    snapshot     the model at a position of the log, with its calibration
    prepared     the arrays ``ask`` on the command line loads instead of a model
    collected    vectors of an interrupted change of network
    before       the journal from before such a change, for an undo
    vectors      the vectors of a shard of images, in the store of a cluster
    part         the statistics of shards, in the same store

Each file is forged (values, shapes and types of its arrays and notes; bytes), its digest is
recomputed, and it is used. Allowed outcomes are finite answers and named errors, within ten seconds
of processor time each.
"""

import contextlib
import hashlib
import io
import json
import logging
import shutil
import signal
import sqlite3
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from attacks import forged_models
from attacks.plain_memory import Network, example, picture, vector
from everlearn import Memory, NearestClassMean
from everlearn.cluster.fitting import fit
from everlearn.cluster.pictures import EmbeddedExample
from everlearn.cluster.store import CheckpointStore
from everlearn.cluster.vectors import VECTORS, read_vectors, write_vectors
from everlearn.cluster.vectors import _checksum as checksum_of_vectors
from everlearn.errors import EverlearnError
from everlearn.memory.edits.reembed import _key as key_of_embedder
from everlearn.memory.model.serving import MAGIC as PREPARED
from everlearn.memory.model.serving import prepared_answers
from everlearn.memory.storage.snapshot import MAGIC as SNAPSHOT
from everlearn.memory.storage.sqlite.folder import FolderStorage
from everlearn.persistence import dumps, loads

SECONDS = 10
# Progress is reported after so many files.
REPORTED = 500
# Enough for a snapshot, and for anything else.
TAUGHT, FEW = 260, 24
HOSTILE: tuple[Any, ...] = (b"", b"\xff" * 40, bytes(1 << 16), bytes(96), bytes(100), b"\x00" * 7)


def build(folder: Path, taught: int = TAUGHT) -> None:
    """A Memory with a snapshot, a prepared head, and the journal from before a reembed."""
    with Memory(folder, embedder=Network(0), keep_images="image") as memory:
        memory.teach_many((example(n), f"name {n % 5}") for n in range(1, taught))
        memory.reembed(Network(1))
        memory.classifier  # noqa: B018  (follows the log to its end)


def snapshot(folder: Path, rng: np.random.Generator) -> None:
    """Replace the calibration, the classifier, the means or the factor of a snapshot."""
    path = next(folder.glob("snapshot-*"))
    data = path.read_bytes()
    start = data.find(b"\n", len(SNAPSHOT)) + 1
    header, body = json.loads(data[len(SNAPSHOT) : start]), data[start:]
    ends = np.cumsum([0, *header["lengths"]])
    parts = [body[a:b] for a, b in pairwise(ends)]
    which = int(rng.integers(len(parts)))
    if which == 2:
        calibration, _ = forged_models.forge(rng, json.loads(parts[2]), {})
        parts[2] = _as_json(calibration)
    elif which == 3:
        n_numbers = int(rng.integers(1, 64)) ** 2 + int(rng.integers(2))
        parts[3] = rng.choice([-1.0, 1.0, 1e300, np.nan], n_numbers).tobytes()
    else:
        parts[which] = _forged_model(parts[which], rng)
    header["lengths"] = [len(part) for part in parts]
    header["sha256"] = hashlib.sha256(b"".join(parts)).hexdigest()
    path.write_bytes(SNAPSHOT + json.dumps(header).encode() + b"\n" + b"".join(parts))
    for other in folder.glob("prepared-*"):
        other.unlink()
    with Memory(folder, read_only=True, embedder=Network(1)) as memory:
        _ask(memory)
    with Memory(folder, embedder=Network(1)) as memory:
        memory.teach(example(TAUGHT + 1, 1), "another")
        _ask(memory)
        memory.undo()


def prepared(folder: Path, rng: np.random.Generator) -> None:
    """Replace arrays of the prepared head."""
    path = next(folder.glob("prepared-*"))
    arrays = safetensors.numpy.load(path.read_bytes()[len(PREPARED) + 32 :])
    for _ in range(int(rng.integers(1, 4))):
        if arrays:
            forged_models._forge_array(rng, arrays)
    body = safetensors.numpy.save(arrays)
    path.write_bytes(PREPARED + hashlib.sha256(body).digest() + body)
    ready = prepared_answers(folder, None)
    if ready is not None:
        for answers in ready.ask_many([example(3, 1)]):
            if isinstance(answers, Exception):
                raise answers
            _require_numbers(answers)


def collected(folder: Path, rng: np.random.Generator) -> None:
    """Replace collected vectors: with valid checksums, any length and content."""
    network = Network(0)
    path = folder / f"reembed-{key_of_embedder(network, 'whole')}"
    with contextlib.closing(FolderStorage(folder).caches.collected(path.name[8:])) as side:
        for number in rng.integers(1, FEW, 3):
            digest = hashlib.sha256(picture(int(number))).digest()
            values = vector(int(number)).copy()
            values[int(rng.integers(len(values)))] = rng.choice(forged_models.EXTREMES)
            lengths = np.array([4 * len(values), 0, 0], dtype="<u8")
            if rng.random() < 0.5:
                lengths[int(rng.integers(3))] = rng.choice([0, 1, 95, 2**40, 2**63])
            honest = lengths.tobytes() + values.tobytes()
            side.add(digest, honest if rng.random() < 0.7 else HOSTILE[rng.integers(len(HOSTILE))])
    if rng.random() < 0.3:
        _alter(path, rng)
    with Memory(folder, embedder=Network(1)) as memory:
        memory.reembed(network, drop=True)
        _ask(memory)


def before(folder: Path, rng: np.random.Generator) -> None:
    """Replace the earlier journal by another file, an altered one, or another journal."""
    path = next(folder.glob("before-reembed-*"))
    way = int(rng.integers(4))
    if way == 0:
        _alter(path, rng)
    elif way == 1:
        path.write_bytes(path.read_bytes()[: int(rng.integers(0, path.stat().st_size))])
    elif way == 2:
        path.write_bytes(HOSTILE[rng.integers(len(HOSTILE))])
    else:
        from attacks.forged_folders import FORGERIES

        db = sqlite3.connect(path, isolation_level=None)
        with contextlib.closing(db), contextlib.suppress(sqlite3.Error, OverflowError):
            FORGERIES[int(rng.integers(len(FORGERIES)))](db, rng)
    with Memory(folder, embedder=Network(1)) as memory:
        held = memory.position
        try:
            memory.undo()
        except EverlearnError:
            if memory.position != held:
                raise AssertionError("a refused undo changed the Memory") from None
            raise
        finally:
            _ask(memory)


def vectors(folder: Path, rng: np.random.Generator) -> None:
    """Replace the vectors of a shard."""
    store, name = CheckpointStore(str(folder / "store")), "a.npz"
    write_vectors(
        store,
        name,
        [
            EmbeddedExample(f"{n}.png", n % 3, vector(n), bytes(32), b"jpeg" * n, f"name {n}")
            for n in range(5)
        ],
        ["one was not read"],
        "shard",
    )
    data = store.read_bytes(name, VECTORS)
    assert data is not None
    with np.load(io.BytesIO(data)) as file:
        arrays = {key: file[key] for key in file.files if key != "checksum"}
    for _ in range(int(rng.integers(1, 4))):
        _forge_numbers_or_words(rng, arrays)
    out = io.BytesIO()
    np.savez(out, checksum=np.array(checksum_of_vectors(name, arrays)), **arrays)
    whole = out.getvalue()
    if rng.random() < 0.2:
        whole = _altered(whole, rng)
    store.write(name, whole, VECTORS)
    kept = read_vectors(store, name)
    if kept is None:
        return
    for one in kept.examples:
        if not (isinstance(one.name, str) and isinstance(one.word, str)):
            raise AssertionError("a name that is no word")
        if one.vector.shape != (len(kept.examples[0].vector),) or len(one.digest) != 32:
            raise AssertionError("a vector or a digest of another length")


def part(folder: Path, rng: np.random.Generator) -> None:
    """Replace the statistics of shards."""
    store = CheckpointStore(str(folder / "store"))
    store.write("a", _forged_model(_a_part(0), rng))
    found = store.read("a")
    if found is None:
        return
    X = np.stack([vector(n) for n in range(3)])
    whole = loads(_a_part(30)).merge(found)
    whole.learner.predict(X)
    whole.learner.partial_fit(X, [0, 1, 2])


@lru_cache
def _a_part(first: int) -> bytes:
    """The part of a shard that begins with this vector."""
    X = np.stack([vector(n) for n in range(first, first + 30)])
    return dumps(fit(NearestClassMean(), [(X, np.arange(30) % 3)]))


Kind = Callable[[Path, np.random.Generator], None]
KINDS: dict[str, Kind] = {
    "snapshot": snapshot,
    "prepared": prepared,
    "collected": collected,
    "before": before,
    "vectors": vectors,
    "part": part,
}
SMALL = ("collected", "vectors", "part")


def attack(files: int, seed: int = 0, *kinds: str) -> dict[str, Counter[str]]:
    """Counts of outcomes by kind of file; "RAW …" marks forbidden ones."""
    logging.disable(logging.WARNING)
    signal.signal(signal.SIGPROF, _too_long)
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as place:
        large, small, folder = Path(place, "large"), Path(place, "small"), Path(place, "forged")
        build(large)
        build(small, FEW)
        for first in (0, 30):
            _a_part(first)  # starts processes, which may take longer than a file is allowed to
        for kind in kinds or KINDS:
            original = small if kind in SMALL else large
            rng, found[kind] = np.random.default_rng(seed), Counter()
            for number in range(1, files + 1):
                shutil.copytree(original, folder)
                found[kind][_verdict(KINDS[kind], folder, rng)] += 1
                shutil.rmtree(folder)
                if number % REPORTED == 0 or number == files:
                    print(_line(kind, found[kind]), file=sys.stderr, flush=True)
    return found


def _verdict(kind: Kind, folder: Path, rng: np.random.Generator) -> str:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind(folder, rng)
    except EverlearnError as error:
        return type(error).__name__
    except Exception as error:
        return f"RAW {type(error).__name__}: {str(error)[:100]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "used"


def _line(kind: str, verdicts: Counter[str]) -> str:
    wrong = sum(count for verdict, count in verdicts.items() if verdict.startswith("RAW"))
    return f"{verdicts.total():,} forged files of the kind {kind}: {wrong} errors without a name"


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s of processor time")


def _ask(memory: Memory) -> None:
    _require_numbers(memory.ask(example(3, 1 if memory.info()["embedder"] == "network 1" else 0)))


def _require_numbers(answers: Any) -> None:
    if not all(np.isfinite(answer.probability) for answer in answers):
        raise AssertionError("a probability that is no number")


def _forged_model(data: bytes, rng: np.random.Generator) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        path = Path(file.name)
        path.write_bytes(data)
        with safetensors.safe_open(path, "numpy") as opened:
            description = json.loads(opened.metadata()["description"])
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        forged_models.write(path, *forged_models.forge(rng, description, arrays))
        return path.read_bytes()


def _forge_numbers_or_words(rng: np.random.Generator, arrays: dict[str, np.ndarray]) -> None:
    name = list(arrays)[rng.integers(len(arrays))]
    if arrays[name].dtype.kind != "U":
        one = {name: arrays.pop(name)}
        forged_models._forge_array(rng, one)
        arrays |= one
        return
    ways = [np.arange(5.0), np.array("word"), np.array(["x" * 9999] * 5), np.array([["a"]] * 5)]
    arrays[name] = ways[rng.integers(len(ways))]


def _as_json(value: Any) -> bytes:
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        return json.dumps(value).encode()
    finally:
        sys.setrecursionlimit(usual)


def _altered(data: bytes, rng: np.random.Generator) -> bytes:
    copy = bytearray(data)
    for at in rng.integers(0, len(copy), int(rng.integers(1, 5))):
        copy[at] ^= int(rng.integers(1, 256))
    return bytes(copy)


def _alter(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(_altered(path.read_bytes(), rng))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    words = [word for word in sys.argv[1:] if not word.isdigit()]
    print(json.dumps(attack(*(numbers or [5000]), *words), indent=2))  # type: ignore[arg-type]
