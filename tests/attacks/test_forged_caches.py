"""Forged caches never change answers unnoticed, and answers are always finite."""

import hashlib
import json
from itertools import pairwise

import numpy as np
import pytest
import safetensors.numpy
from sklearn.base import clone

from attacks import forged_side_files
from attacks.plain_memory import Network, example
from everlearn import Memory
from everlearn.errors import InvalidParameter
from everlearn.images.by_name import bundled_embedder, embedder_for
from everlearn.memory.model.serving import MAGIC, prepared_answers
from everlearn.memory.storage import snapshot
from everlearn.memory.storage.snapshot import MAGIC as SNAPSHOT
from everlearn.persistence import dumps, loads


@pytest.fixture
def closed(tmp_path, clusters):
    X, names = clusters(n_classes=4, each=80)
    with Memory(tmp_path / "m") as memory:
        memory.teach_many(zip(X, names, strict=True))
    return tmp_path / "m", X


def forge_calibration(folder, change):
    (path,) = folder.glob("snapshot-*")
    data = path.read_bytes()
    start = data.find(b"\n", len(snapshot.MAGIC)) + 1
    header, body = json.loads(data[len(snapshot.MAGIC) : start]), data[start:]
    end = sum(header["lengths"][:2])
    calibration = json.loads(body[end:])
    change(calibration)
    forged = json.dumps(calibration).encode()
    header["lengths"][2] = len(forged)
    body = body[:end] + forged
    header["sha256"] = hashlib.sha256(body).hexdigest()
    path.write_bytes(snapshot.MAGIC + json.dumps(header).encode() + b"\n" + body)
    for prepared in folder.glob("prepared-*"):
        prepared.unlink()


@pytest.mark.parametrize("labels", [[99, 98], [2**63, 2**64], [0, 1], ["cup", "pen"]])
def test_a_snapshot_with_names_missing_from_the_journal_is_skipped(closed, labels):
    folder, X = closed
    with Memory(folder, read_only=True) as memory:
        expected = memory.ask(X[0])[0]
    (path,) = folder.glob("snapshot-*")
    data = path.read_bytes()
    start = data.find(b"\n", len(snapshot.MAGIC)) + 1
    header, body = json.loads(data[len(snapshot.MAGIC) : start]), data[start:]
    first, second, *_ = np.cumsum(header["lengths"])
    parts = [loads(body[a:b], "part") for a, b in ((0, first), (first, second))]
    taught = [dumps(clone(part).partial_fit(X[[0, -1]], labels)) for part in parts]
    body = b"".join([*taught, body[second:]])
    header |= {"lengths": [*map(len, taught), *header["lengths"][2:]]}
    header |= {"sha256": hashlib.sha256(body).hexdigest()}
    path.write_bytes(snapshot.MAGIC + json.dumps(header).encode() + b"\n" + body)
    for prepared in folder.glob("prepared-*"):
        prepared.unlink()
    with Memory(folder, read_only=True) as memory:
        assert memory.ask(X[0])[0] == expected


def test_an_unaltered_calibration_passes_verify(closed):
    folder, _ = closed
    with Memory(folder, read_only=True) as memory:
        assert memory.verify().ok


@pytest.mark.parametrize(
    "forge",
    [
        lambda c: c.update(scores=[-1.0] * len(c["scores"])),
        lambda c: c.update(temperature=c["temperature"] * 50),
        lambda c: c.update(nearest=[c["nearest"][0]] * len(c["nearest"])),
        lambda c: c.update(position=1),
        lambda c: c.update(blend=[-x for x in c["blend"]]),
        lambda c: c.update(strangers=[-1.0] * len(c["strangers"])),
        lambda c: c.update(strangers_nearest=[c["nearest"][0]] * len(c["strangers_nearest"])),
    ],
)
def test_a_forged_calibration_fails_verify(closed, forge):
    folder, _ = closed
    forge_calibration(folder, forge)
    with Memory(folder, read_only=True) as memory:
        assert "the calibration of a snapshot" in " ".join(memory.verify().problems)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0, "much", None])
def test_an_invalid_calibration_is_recomputed(closed, value):
    folder, X = closed
    with Memory(folder, read_only=True) as memory:
        expected = memory.ask(X[0])[0].probability
    forge_calibration(folder, lambda c: c.update(temperature=value))
    with Memory(folder, read_only=True) as memory:
        assert memory.ask(X[0])[0].probability == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("key", ["scores", "nearest", "strangers", "blend"])
def test_a_calibration_of_another_shape_is_recomputed(closed, key):
    folder, X = closed
    with Memory(folder, read_only=True) as memory:
        expected = memory.ask(X[0])[0].probability
    forge_calibration(folder, lambda c: c.update({key: [[1.0]] * len(c[key])}))
    with Memory(folder, read_only=True) as memory:
        assert memory.ask(X[0])[0].probability == pytest.approx(expected, rel=1e-3)
    forge_calibration(folder, lambda c: c.update({key: [*c[key][1:], [[]]]}))
    with Memory(folder, read_only=True) as memory:
        assert memory.ask(X[0])[0].probability == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("key", "value"), [("temperature", 1e-300), ("rows", 3e38), ("bias", 1e308), ("power", 1e-300)]
)
def test_a_forged_head_gives_finite_answers_or_is_skipped(closed, key, value):
    folder, X = closed
    (path,) = folder.glob("prepared-*")
    arrays = safetensors.numpy.load(path.read_bytes()[len(MAGIC) + 32 :])
    arrays[key] = np.full_like(arrays[key], value)
    body = safetensors.numpy.save(arrays)
    path.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
    ready = prepared_answers(folder)
    if ready is not None:
        (answers,) = ready.ask_many([X[0]])
        assert all(np.isfinite(answer.probability) for answer in answers)


@pytest.mark.parametrize(
    "name", ["pixels 60000 grey", "pixels 0 grey", "pixels 99999999999 colour"]
)
def test_a_forged_embedder_name_allocates_no_memory(name):
    assert bundled_embedder(name) is None


def test_an_absurd_image_side_is_refused():
    with pytest.raises(InvalidParameter, match="side of 1 to 512"):
        embedder_for("pixels-60000")


@pytest.mark.parametrize("part", [0, 1])
def test_a_snapshot_whose_parts_know_different_names_is_skipped(tmp_path, part):
    folder = tmp_path / "memory"
    forged_side_files.build(folder)
    path = next(folder.glob("snapshot-*"))
    data = path.read_bytes()
    start = data.find(b"\n", len(SNAPSHOT)) + 1
    header, body = json.loads(data[len(SNAPSHOT) : start]), data[start:]
    ends = np.cumsum([0, *header["lengths"]])
    parts = [body[a:b] for a, b in pairwise(ends)]
    parts[part] = dumps(clone(loads(parts[part])))  # knows nothing
    header["lengths"] = [len(one) for one in parts]
    header["sha256"] = hashlib.sha256(b"".join(parts)).hexdigest()
    path.write_bytes(SNAPSHOT + json.dumps(header).encode() + b"\n" + b"".join(parts))
    for other in folder.glob("prepared-*"):
        other.unlink()
    with Memory(folder, embedder=Network(1)) as memory:
        memory.teach(example(500, 1), "another")
        answers = memory.ask(example(3, 1))
        memory.undo()
    assert answers[0].name == "name 3"
