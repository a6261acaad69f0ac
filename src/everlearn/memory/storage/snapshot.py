"""Snapshots: the model at a position of the log, as a file that may be lost without harm.

    snapshot-POSITION-KEY

The key is a digest of the untaught classifier and of the log up to the position (its chain), so a
snapshot belongs to what was taught and not to a number: one of another journal, of a journal that
was put back, or of another classifier is never used. The file holds, after one line of JSON that
says how long each is, the classifier and the class means as model files, and the calibration.

Snapshots are made by folding the log from the snapshot before, never from the live model, and only
at the end of a window: so a snapshot is a function of the journal, as is everything that starts
from it. One that cannot be read is passed over; the log makes up for it.
"""

import contextlib
import hashlib
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn.base import clone

from everlearn.errors import DamagedModel, EverlearnError
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.model.model import Model
from everlearn.memory.storage.checksums import row_checksum
from everlearn.memory.storage.journal import WINDOW, Journal
from everlearn.persistence import digest_of, dumps, loads, replace_file

MAGIC = b"everlearn snapshot 1\n"
LONGEST_HEADER = 4096
NAME = re.compile(r"snapshot-(\d{1,18})-([0-9a-f]{32})")
PARTS = ("classifier", "means", "calibration")

logger = logging.getLogger("everlearn")


class SnapshotVanished(Exception):
    """A snapshot was there and is gone: somebody taught meanwhile, and what was read is old."""


def key_of(untaught: str, chain: bytes) -> str:
    """What names the model that an untaught classifier (its digest) and a log lead to."""
    return row_checksum("snapshot", untaught, chain).hex()


def latest_snapshot(folder: Path, journal: Journal, untaught: str, through: int) -> Model | None:
    """The newest snapshot of this journal that can be read, if there is one.

    Raises ``SnapshotVanished`` if one was removed while it was looked for.
    """
    vanished = False
    for position, path in _newest_first(folder):
        chain = journal.chain_at(position) if position <= through else None
        if chain is None or path.name != _name(position, key_of(untaught, chain)):
            continue
        try:
            return _read(path, position, chain, untaught)
        except FileNotFoundError:
            vanished = True
        except (EverlearnError, OSError) as error:
            logger.warning("a snapshot is passed over: %s", error)
    if vanished:
        raise SnapshotVanished
    return None


def write_snapshot(folder: Path, model: Model, untaught: str) -> None:
    """Keep a model, and only this one."""
    parts = dumps(model.classifier), dumps(model.means), json.dumps(model.calibration).encode()
    body = b"".join(parts)
    header = {
        "lengths": [len(part) for part in parts],
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    name = _name(model.position, key_of(untaught, model.chain))
    replace_file(folder / name, MAGIC + json.dumps(header).encode() + b"\n" + body)
    remove_snapshots(folder, keep=name)


def remove_snapshots(folder: Path, *, keep: str = "") -> None:
    """Remove all snapshots but one, and what killed processes left of others."""
    remove_leftovers(folder)
    for path in folder.glob("snapshot-*"):
        if path.name != keep:
            with contextlib.suppress(OSError):
                path.unlink()


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left of caches they were writing."""
    for pattern in (".snapshot-*", ".prepared-*"):
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                path.unlink()


def snapshot_position(folder: Path, journal: Journal, untaught: str) -> int:
    """The position of the newest snapshot of this journal, readable or not."""
    for position, path in _newest_first(folder):
        chain = journal.chain_at(position)
        if chain is not None and path.name == _name(position, key_of(untaught, chain)):
            return position
    return 0


def last_window(position: int) -> int:
    """Where the last whole window at or before a position ends."""
    return position // WINDOW * WINDOW


def _read(path: Path, position: int, chain: bytes, untaught: str) -> Model:
    data = path.read_bytes()
    start = data.find(b"\n", len(MAGIC), len(MAGIC) + LONGEST_HEADER) + 1
    body = memoryview(data)[start:]
    try:
        header = json.loads(data[len(MAGIC) : start])
        lengths = [int(length) for length in header["lengths"]]
        intact = (
            data.startswith(MAGIC)
            and len(lengths) == len(PARTS)
            and min(lengths) >= 0
            and sum(lengths) == len(body)
            and header["sha256"] == hashlib.sha256(body).hexdigest()
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise DamagedModel(f"{path} is damaged: its contents do not match its digest")
    first, second = lengths[0], lengths[0] + lengths[1]
    classifier = loads(bytes(body[:first]), path)
    means = loads(bytes(body[first:second]), path)
    if type(means) is not NearestClassMean or digest_of(clone(classifier)) != untaught:
        raise DamagedModel(f"{path} holds another kind of classifier than the journal names")
    return Model(classifier, means, position, chain, _calibration(bytes(body[second:]), path))


def _calibration(data: bytes, path: Path) -> dict[str, Any]:
    try:
        calibration = json.loads(data)
    except (ValueError, RecursionError):
        calibration = None
    if not isinstance(calibration, dict):
        raise DamagedModel(f"{path} holds no calibration")
    return calibration


def _newest_first(folder: Path) -> Iterator[tuple[int, Path]]:
    found = [(NAME.fullmatch(path.name), path) for path in folder.glob("snapshot-*")]
    positions = [(int(match[1]), path) for match, path in found if match]
    yield from sorted(positions, reverse=True)


def _name(position: int, key: str) -> str:
    return f"snapshot-{position}-{key}"
