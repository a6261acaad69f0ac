"""``verify`` with missing and with forged caches."""

import hashlib

import numpy as np
import pytest
import safetensors.numpy

from everlearn import Memory
from everlearn.memory.model.serving import MAGIC


@pytest.fixture
def without_snapshot(tmp_path, clusters):
    """A folder whose snapshot was removed; its prepared answers are still there."""
    X, names = clusters(n_classes=4, each=75)
    with Memory(tmp_path / "m") as memory:
        memory.teach_many(zip(X, names, strict=True))
    for path in (tmp_path / "m").glob("snapshot-*"):
        path.unlink()
    return tmp_path / "m"


def test_a_removed_snapshot_is_no_problem(without_snapshot):
    assert list(without_snapshot.glob("prepared-*"))
    with Memory(without_snapshot, read_only=True) as memory:
        assert memory.verify().problems == ()


@pytest.mark.parametrize(("key", "share"), [("temperature", 1.5), ("scores", 0.5), ("blend", 2.0)])
def test_a_forged_head_is_found_without_a_snapshot(without_snapshot, key, share):
    (path,) = without_snapshot.glob("prepared-*")
    arrays = safetensors.numpy.load(path.read_bytes()[len(MAGIC) + 32 :])
    arrays[key] = arrays[key] * share
    body = safetensors.numpy.save(arrays)
    path.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
    with Memory(without_snapshot, read_only=True) as memory:
        assert "prepared-*" in " ".join(memory.verify().problems)


def test_a_head_with_a_false_calibration_position_is_found(without_snapshot):
    (path,) = without_snapshot.glob("prepared-*")
    arrays = safetensors.numpy.load(path.read_bytes()[len(MAGIC) + 32 :])
    arrays["calibrated_at"] = np.array([10])
    body = safetensors.numpy.save(arrays)
    path.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
    with Memory(without_snapshot, read_only=True) as memory:
        assert "prepared-*" in " ".join(memory.verify().problems)
