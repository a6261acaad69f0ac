"""Snapshots: the model at a position of the log, kept in a cache that may be lost without harm.

    snapshot-POSITION-KEY

The key is a digest of the untaught classifier and of the log up to the position (its chain), so a
snapshot belongs to what was taught and not to a number: one of another journal, of a journal that
was put back, or of another classifier is never used. It holds, after one line of JSON that
says how long each is, the classifier and the class means as model files, and the calibration.

Snapshots are made only at the end of a window, by folding the log from the snapshot before or from
a live model that leads to the same bits (model.py): so a snapshot is a function of the journal, as
is everything that starts from it. (With many names a snapshot is made less often, and a calibration
that questions led to meanwhile is kept beside it.) One that cannot be read, or that an earlier
version made with sums in another order, is passed over; the log makes up for it.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

from sklearn.base import clone

from everlearn.acceleration import COMPILED
from everlearn.errors import DamagedModel, EverlearnError
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.model.model import Model
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import WINDOW, Journal
from everlearn.memory.storage.rows import row_checksum
from everlearn.persistence import digest_of, dumps, loads

MAGIC = b"everlearn snapshot 1\n"
LONGEST_HEADER = 4096
NAME = re.compile(r"snapshot-(\d{1,18})-([0-9a-f]{32})")
# Names how sums are made: models of another version differ in their last bits.
SUMS = "snapshot 2"
# Ends the name of a calibration that was made after the snapshot.
CALIBRATION = ".calibration"
ALIGNED = 64
PARTS = ("classifier", "means", "calibration")

logger = logging.getLogger("everlearn")


class SnapshotVanished(Exception):
    """A snapshot was there and is gone: somebody taught meanwhile, and what was read is old."""


def key_of(untaught: str, chain: bytes) -> str:
    """What names the model that an untaught classifier (its digest) and a log lead to.

    Compiled loops and BLAS round differently, so each has snapshots of its own.
    """
    kind = SUMS if COMPILED else f"{SUMS} without compiled loops"
    return row_checksum(kind, untaught, chain).hex()


def latest_snapshot(caches: Caches, journal: Journal, untaught: str, through: int) -> Model | None:
    """The newest snapshot of this journal that can be read, if there is one.

    Raises ``SnapshotVanished`` if one was removed while it was looked for.
    """
    vanished = False
    for position, name in _newest_first(caches):
        chain = journal.chain_at(position) if position <= through else None
        if chain is None or name != _name(position, key_of(untaught, chain)):
            continue
        try:
            return _read(caches.view(name), name, position, chain, untaught)
        except FileNotFoundError:
            vanished = True
        except (EverlearnError, OSError) as error:
            logger.warning("a snapshot is passed over: %s", error)
    if vanished:
        raise SnapshotVanished
    return None


def write_snapshot(caches: Caches, model: Model, untaught: str) -> None:
    """Keep a model, and only this one."""
    parts = dumps(model.classifier), dumps(model.means), json.dumps(model.calibration).encode()
    body = b"".join(parts)
    header = {
        "lengths": [len(part) for part in parts],
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    name = _name(model.position, key_of(untaught, model.chain))
    line = json.dumps(header).encode()
    line += b" " * (-(len(MAGIC) + len(line) + 1) % ALIGNED)  # so that arrays can be mapped
    caches.write(name, b"".join([MAGIC, line, b"\n", body]))
    remove_snapshots(caches, keep=name)


def write_calibration(caches: Caches, journal: Journal, model: Model, untaught: str) -> None:
    """Keep a calibration that is newer than the snapshot, and only this one."""
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
    """A calibration that was kept beside the snapshot, if there is one of this journal."""
    for name in caches.names("snapshot-"):
        match = NAME.fullmatch(name.removesuffix(CALIBRATION)) if CALIBRATION in name else None
        position = int(match[1]) if match else through + 1
        chain = journal.chain_at(position) if position <= through else None
        if chain is None or name != _name(position, key_of(untaught, chain)) + CALIBRATION:
            continue
        try:
            data = caches.read(name)
            if hashlib.sha256(data[32:]).digest() == data[:32]:
                return _calibration(data[32:], name)
        except (FileNotFoundError, EverlearnError, OSError) as error:
            logger.info("a calibration is passed over: %s", error)
    return None


def remove_snapshots(caches: Caches, *, keep: str = "") -> None:
    """Remove all snapshots but one, and what killed processes left of others."""
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
    """Where the last whole window at or before a position ends."""
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
    first, second = lengths[0], lengths[0] + lengths[1]
    classifier = loads(body[:first], name, is_intact=True)
    means = loads(body[first:second], name, is_intact=True)
    if type(means) is not NearestClassMean or digest_of(clone(classifier)) != untaught:
        raise DamagedModel(f"{name} holds another kind of classifier than the journal names")
    return Model(classifier, means, position, chain, _calibration(bytes(body[second:]), name))


def _calibration(data: bytes, name: str) -> dict[str, Any]:
    try:
        calibration = json.loads(data)
    except (ValueError, RecursionError):
        calibration = None
    if not isinstance(calibration, dict):
        raise DamagedModel(f"{name} holds no calibration")
    return calibration


def _newest_first(caches: Caches) -> Iterator[tuple[int, str]]:
    found = [(NAME.fullmatch(name), name) for name in caches.names("snapshot-")]
    positions = [(int(match[1]), name) for match, name in found if match]
    yield from sorted(positions, reverse=True)


def _name(position: int, key: str) -> str:
    return f"snapshot-{position}-{key}"
