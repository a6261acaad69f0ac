"""Snapshots of the model at a position of the log, kept in a cache that can be rebuilt.

    snapshot-POSITION-KEY

The key is a digest of the untrained classifier and of the log up to the position (its chain), so a
snapshot of another journal, of another classifier or from before a restore is never used. The
content is a line of JSON with the lengths of the parts, then the classifier and the class means as
model files, the calibration and, with many names, the triangular factor that questions need: it is
a cache that would take as long to compute as everything else that opening does.

Snapshots are made only at the end of a window, by folding the log from the previous snapshot or
from a live model that leads to the same bits (model.py). So a snapshot depends on the journal
alone, and so does every model that starts from it. With many names snapshots are made less often,
and a newer calibration is stored beside the snapshot. A snapshot that cannot be read, or that an
earlier version made with another order of summation, is skipped; the log is replayed instead.
"""

import hashlib
import itertools
import json
import logging
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.acceleration import COMPILED
from everlearn.arrays import Array
from everlearn.errors import DamagedModel, EverlearnError
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.model.live import computed_factor, take_factor
from everlearn.memory.model.model import Model
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import WINDOW
from everlearn.memory.storage.rows import row_checksum
from everlearn.persistence import digest_of, dumps, loads

MAGIC = b"everlearn snapshot 1\n"
LONGEST_HEADER = 4096
NAME = re.compile(r"snapshot-(\d{1,18})-([0-9a-f]{32})")
# Version of the order of summation: models of another version differ in their last bits.
SUMMATION = "snapshot 3"
# Suffix of a calibration that was made after the snapshot.
CALIBRATION = ".calibration"
# The parts begin at a multiple of this many bytes, so that arrays can be memory-mapped.
ALIGNED = 64
PARTS = ("classifier", "means", "calibration", "factor")

logger = logging.getLogger("everlearn")


class SnapshotVanished(Exception):
    """A snapshot was removed while it was read, because a writer made a newer one."""


def key_of(untaught: str, chain: bytes) -> str:
    """Key of a model, from the digest of its untrained classifier and the chain of its log.

    Compiled loops and BLAS round differently, so each has its own snapshots.
    """
    kind = SUMMATION if COMPILED else f"{SUMMATION} without compiled loops"
    return row_checksum(kind, untaught, chain).hex()


def latest_snapshot(caches: Caches, journal: Journal, untaught: str, through: int) -> Model | None:
    """The newest readable snapshot of this journal, or ``None``.

    Raises ``SnapshotVanished`` if one was removed during the search.
    """
    vanished = False
    for position, name in _newest_first(caches):
        chain = journal.chain_at(position) if position <= through else None
        if chain is None or name != _name(position, key_of(untaught, chain)):
            continue
        try:
            model = _read(caches.view(name), name, position, chain, untaught)
            _require_names(model, journal.n_names, name)
            return model
        except FileNotFoundError:
            vanished = True
        except (EverlearnError, OSError) as error:
            logger.warning("a snapshot is skipped: %s", error)
    if vanished:
        raise SnapshotVanished
    return None


def write_snapshot(caches: Caches, model: Model, untaught: str) -> None:
    """Store a model and remove older snapshots."""
    factor = computed_factor(model)
    parts = (
        dumps(model.classifier),
        dumps(model.means),
        json.dumps(model.calibration).encode(),
        b"" if factor is None else factor.astype("<f8").tobytes(),
    )
    body = b"".join(parts)
    header = {
        "lengths": [len(part) for part in parts],
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    name = _name(model.position, key_of(untaught, model.chain))
    line = json.dumps(header).encode()
    line += b" " * (-(len(MAGIC) + len(line) + 1) % ALIGNED)
    caches.write(name, b"".join([MAGIC, line, b"\n", body]))
    remove_snapshots(caches, keep=name)


def write_calibration(caches: Caches, journal: Journal, model: Model, untaught: str) -> None:
    """Store a calibration newer than the snapshot, and remove older ones."""
    position = int(model.calibration["position"])
    chain = journal.chain_at(position)
    if chain is None:
        return
    name = _name(position, key_of(untaught, chain)) + CALIBRATION
    data = json.dumps(model.calibration).encode()
    caches.write(name, hashlib.sha256(data).digest() + data)
    for other in caches.names("snapshot-"):
        if other.endswith(CALIBRATION) and other != name:
            caches.remove(other)


def latest_calibration(
    caches: Caches, journal: Journal, untaught: str, through: int
) -> dict[str, Any] | None:
    """A calibration stored beside the snapshot, if there is one of this journal."""
    for name in caches.names("snapshot-"):
        is_calibration = name.endswith(CALIBRATION)
        match = NAME.fullmatch(name.removesuffix(CALIBRATION)) if is_calibration else None
        position = int(match[1]) if match else through + 1
        chain = journal.chain_at(position) if position <= through else None
        if chain is None or name != _name(position, key_of(untaught, chain)) + CALIBRATION:
            continue
        try:
            data = caches.read(name)
            if hashlib.sha256(data[32:]).digest() == data[:32]:
                return _calibration(data[32:], name)
        except (FileNotFoundError, EverlearnError, OSError) as error:
            logger.info("a calibration is skipped: %s", error)
    return None


def remove_snapshots(caches: Caches, *, keep: str = "") -> None:
    """Remove all snapshots but one, and partial writes of killed processes."""
    caches.tidy()
    for name in caches.names("snapshot-"):
        if name != keep:
            caches.remove(name)


def snapshot_position(caches: Caches, journal: Journal, untaught: str) -> int:
    """The position of the newest snapshot of this journal, readable or not."""
    for position, name in _newest_first(caches):
        chain = journal.chain_at(position)
        if chain is not None and name == _name(position, key_of(untaught, chain)):
            return position
    return 0


def last_window(position: int) -> int:
    """The end of the last complete window at or before a position."""
    return position // WINDOW * WINDOW


def _read(data: memoryview, name: str, position: int, chain: bytes, untaught: str) -> Model:
    head = bytes(data[: len(MAGIC) + LONGEST_HEADER])
    start = head.find(b"\n", len(MAGIC)) + 1
    body = data[start:]
    try:
        header = json.loads(head[len(MAGIC) : start])
        lengths = [int(length) for length in header["lengths"]]
        intact = (
            head.startswith(MAGIC)
            and len(lengths) == len(PARTS)
            and min(lengths) >= 0
            and sum(lengths) == len(body)
            and header["sha256"] == hashlib.sha256(body).hexdigest()
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise DamagedModel(f"{name} is damaged: its contents do not match its digest")
    first, second, third, _ = itertools.accumulate(lengths)
    classifier = loads(body[:first], name, is_intact=True)
    means = loads(body[first:second], name, is_intact=True)
    if type(means) is not NearestClassMean or digest_of(clone(classifier)) != untaught:
        raise DamagedModel(f"{name} holds another classifier than the journal")
    calibration = _calibration(bytes(body[second:third]), name)
    model = Model(classifier, means, position, chain, calibration)
    take_factor(model, _square(bytes(body[third:]), name))
    return model


def _require_names(model: Model, n_names: int, name: str) -> None:
    """Require both learners to have the same classes, which are ids of names of the journal."""
    known, means = (
        np.asarray(getattr(learner, "classes_", ())) for learner in (model.classifier, model.means)
    )
    if not np.array_equal(known, means):
        raise DamagedModel(f"{name} holds a classifier and class means of different names")
    if len(known) and (known.dtype.kind != "i" or known.min() < 1 or known.max() > n_names):
        raise DamagedModel(f"{name} has ids of names that the journal does not have")


def _calibration(data: bytes, name: str) -> dict[str, Any]:
    try:
        calibration = json.loads(data)
    except (ValueError, RecursionError):
        calibration = None
    if not isinstance(calibration, dict):
        raise DamagedModel(f"{name} is damaged: it holds no calibration")
    return calibration


def _square(data: bytes, name: str) -> Array | None:
    """A triangular factor; ``None`` if there is none."""
    if not data:
        return None
    width = math.isqrt(len(data) // 8)
    if len(data) != 8 * width**2:
        raise DamagedModel(f"{name} is damaged: the factor is not square")
    return np.frombuffer(data, dtype="<f8").reshape(width, width).astype(np.float64)


def _newest_first(caches: Caches) -> Iterator[tuple[int, str]]:
    found = [(NAME.fullmatch(name), name) for name in caches.names("snapshot-")]
    positions = [(int(match[1]), name) for match, name in found if match]
    yield from sorted(positions, reverse=True)


def _name(position: int, key: str) -> str:
    return f"snapshot-{position}-{key}"
