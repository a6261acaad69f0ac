"""Untrusted shards and stores: small files that expand, parts of other tasks."""

import io
import tarfile

import numpy as np
import pytest

from everlearn import NearestClassMean, save
from everlearn.cluster import ShardedModel, fit, unlearn
from everlearn.cluster.listing import listed
from everlearn.cluster.pictures import examples_of
from everlearn.cluster.store import PARTS, SHARDS, CheckpointStore
from everlearn.cluster.vectors import VECTORS
from everlearn.errors import BadShard
from everlearn.images.embedders import Pixels

image = pytest.importorskip("PIL.Image", reason="pillow is not installed")


def tar_of(path, members, **options):
    with tarfile.open(path, "w:gz", **options) as tar:
        for name, data, headers in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.pax_headers = headers
            tar.addfile(info, io.BytesIO(data))
    return str(path)


def read(path):
    for _ in examples_of(listed([path])[0]):
        pass


def test_files_that_share_a_name_have_a_common_size_limit(tmp_path):
    big = bytes(20 << 20)
    members = [(f"a/x.{place}.png", big, {}) for place in range(6)]
    with pytest.raises(BadShard, match="an example consists of an image"):
        read(tar_of(tmp_path / "a.tar.gz", members))
    many = [(f"a/x.{place}.png", b"", {}) for place in range(100)]
    with pytest.raises(BadShard, match="an example consists of an image"):
        read(tar_of(tmp_path / "b.tar.gz", many))


def test_the_size_of_a_header_is_limited(tmp_path):
    members = [("a/x.png", b"", {"comment": "x" * (2 << 20)})]
    path = tar_of(tmp_path / "a.tar.gz", members, format=tarfile.PAX_FORMAT)
    with pytest.raises(BadShard, match="a header has"):
        read(path)
    long = tar_of(
        tmp_path / "b.tar.gz", [("a/" + "x" * (2 << 20), b"", {})], format=tarfile.GNU_FORMAT
    )
    with pytest.raises(BadShard, match="a header has"):
        read(long)


def learned(path):
    return fit(NearestClassMean(), [str(path)], workers=1)


def test_the_size_of_a_row_and_of_a_label_is_limited(tmp_path, reference):
    np.savez_compressed(tmp_path / "wide.npz", X=np.zeros((4, 1 << 16)), y=np.arange(4))
    with pytest.raises(BadShard, match="a row of X has"):
        learned(tmp_path / "wide.npz")
    labels = np.array(["x" * 50_000] * 4)
    np.savez_compressed(tmp_path / "long.npz", X=np.zeros((4, 2)), y=labels)
    with pytest.raises(BadShard, match="a row of y has"):
        learned(tmp_path / "long.npz")


def test_the_size_of_table_rows_is_limited(tmp_path, reference):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    wide = pyarrow.table({"X": [[0.0] * 100_000] * 3, "y": [1, 2, 3]})
    parquet.write_table(wide, tmp_path / "wide.parquet")
    with pytest.raises(BadShard, match="per row"):
        learned(tmp_path / "wide.parquet")
    long = pyarrow.table({"X": [[0.0, 1.0]] * 3, "y": ["x" * 100_000] * 3})
    parquet.write_table(long, tmp_path / "long.parquet")
    with pytest.raises(BadShard, match="a label in column"):
        learned(tmp_path / "long.parquet")
    plain = pyarrow.table({"X": [[0.0, 1.0], [1.0, 0.0]], "y": ["cup", "pen"]})
    parquet.write_table(plain, tmp_path / "plain.parquet")
    assert learned(tmp_path / "plain.parquet").learner.classes_.tolist() == ["cup", "pen"]


@pytest.fixture
def stored(shards, tmp_path, reference):
    """A fit, and the one part that its store holds."""
    place = str(tmp_path / "store")

    def fitted():
        return fit(NearestClassMean(), shards.paths, checkpoint=place, workers=1)

    fitted()
    (part,) = (tmp_path / "store" / PARTS).iterdir()
    return fitted, part


def other_job(part):
    return ShardedModel(part.learner, part.ledger, "0" * 64)


def other_ledger(part):
    first, *rest = part.ledger
    ledger = {f"elsewhere{first}": part.ledger[first]} | {one: part.ledger[one] for one in rest}
    return ShardedModel(part.learner, ledger, part.job)


def other_rows(part):
    learner = NearestClassMean().fit(np.zeros((3, 6)), ["cup", "pen", "book"])
    return ShardedModel(learner, part.ledger, part.job)


@pytest.mark.parametrize("forge", [other_job, other_ledger, other_rows])
def test_a_stored_part_of_another_task_is_recomputed(stored, forge):
    fitted, path = stored
    before = fitted()
    save(forge(before), path)
    again = fitted()
    assert again.job == before.job
    assert again.ledger == before.ledger
    X = np.random.default_rng(0).normal(size=(9, 6))
    assert np.array_equal(again.learner.decision_function(X), before.learner.decision_function(X))


def test_an_unlearned_shard_leaves_nothing_in_the_store(photos, tmp_path, reference):
    place = str(tmp_path / "store")
    trained = fit(
        NearestClassMean(),
        str(photos.folder),
        embedder=lambda: Pixels(size=4),
        checkpoint=place,
        keep_shards=True,
        keep_vectors=True,
        workers=1,
    )
    store = CheckpointStore(place)
    assert len(store.names(VECTORS)) == 2
    (gone,) = unlearn(trained, f"*{photos.folder.name}/cup*", place)
    assert "cup" in gone
    assert len(store.names(VECTORS)) == len(store.names(SHARDS)) == 1
    assert store.names(PARTS) == set()
