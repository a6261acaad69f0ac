"""The behaviour common to all engines; each test runs on four, three of them real clusters."""

import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from everlearn import NearestClassMean, StreamingLDA
from everlearn.cluster import fit
from everlearn.errors import BadShard
from everlearn.images.embedders import Pixels
from everlearn.persistence import dumps
from tests.cluster.conftest import InThisProcess

# Ray and Spark warn of themselves: of settings that Ray's own code makes, and of a pandas that is
# newer than the one Spark was tried with.
pytestmark = [
    pytest.mark.filterwarnings(r"ignore:.use_\w+. is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def one_stream(shards):
    return StreamingLDA().fit(shards.X, shards.y)


def assert_same_answers(ours, theirs, X, tolerance=1e-9):
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    expected = theirs.decision_function(X)
    size = np.abs(expected).max()
    np.testing.assert_allclose(
        ours.decision_function(X) / size, expected / size, rtol=0, atol=tolerance
    )


@pytest.fixture
def reference_bits(shards) -> bytes:
    """The result of the same fit without processes, one task after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "everlearn.cluster.fitting.opened", lambda *_a, **_k: nullcontext(InThisProcess())
        )
        return dumps(fit(StreamingLDA(), shards.paths))


def test_every_engine_equals_one_stream_bit_for_bit(engine, shards, reference_bits):
    reports = []
    listed_badly = [*reversed(shards.paths), shards.paths[3]]
    trained = fit(StreamingLDA(), listed_badly, engine=engine, progress=reports.append)
    assert_same_answers(trained.learner, one_stream(shards), shards.X)
    assert dumps(trained) == reference_bits
    assert trained.rows == len(shards.X)
    assert reports[-1].shards == reports[-1].of_shards == len(shards.paths)
    assert reports[-1].rows == len(shards.X)


def test_without_a_fixed_tree_results_agree_up_to_rounding(engine, shards):
    trained = fit(StreamingLDA(), shards.paths, engine=engine, deterministic=False)
    assert_same_answers(trained.learner, one_stream(shards), shards.X)


def test_a_bad_shard_raises_or_is_skipped_and_listed(engine, shards):
    bad = Path(shards.paths[4])
    bad.write_bytes(bad.read_bytes()[:300])
    with pytest.raises(BadShard, match=bad.name):
        fit(StreamingLDA(), shards.paths, engine=engine)
    trained = fit(StreamingLDA(), shards.paths, engine=engine, on_bad="skip")
    assert list(trained.bad) == [str(bad)]
    good = np.ones(len(shards.X), dtype=bool)
    good[4 * 60 : 5 * 60] = False
    rest = StreamingLDA().fit(shards.X[good], shards.y[good])
    assert_same_answers(trained.learner, rest, shards.X)


class Interrupted(Exception):
    pass


def test_an_interrupted_fit_resumes(engine, shards, reference_bits, tmp_path):
    def interrupt(progress):
        if progress.shards >= 9:
            raise Interrupted

    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(Interrupted):
        fit(StreamingLDA(), shards.paths, engine=engine, checkpoint=checkpoint, progress=interrupt)
    reports = []
    resumed = fit(
        StreamingLDA(), shards.paths, engine=engine, checkpoint=checkpoint, progress=reports.append
    )
    assert dumps(resumed) == reference_bits
    assert all(progress.known >= 8 for progress in reports)


def deadly_once(marker: Path) -> Callable[[], Pixels]:
    """Makes an embedder; the first worker that asks for it is killed."""
    driver = os.getpid()

    def make() -> Pixels:
        if os.getpid() != driver and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Pixels(size=4)

    return make


def test_a_killed_worker_does_not_change_the_result(engine, tmp_path, photos):
    marker = tmp_path / "killed"
    trained = fit(
        NearestClassMean(), str(photos.folder), engine=engine, embedder=deadly_once(marker)
    )
    assert marker.exists()
    assert trained.rows == len(photos.y)
    one = NearestClassMean().fit(Pixels(size=4).embed(photos.images), photos.y)
    assert_same_answers(trained.learner, one, Pixels(size=4).embed(photos.images))


def collection_of(engine, X, y):
    """The examples as the engine's own kind of collection."""
    package = type(engine).__module__.split(".", 1)[0]
    if package == "distributed":
        from dask import array

        return array.from_array(X, chunks=(250, 2)), array.from_array(y, chunks=250)
    if package == "pyspark":
        from pyspark.ml.linalg import Vectors

        rows = [(Vectors.dense(x), label) for x, label in zip(X, y.tolist(), strict=True)]
        return engine.createDataFrame(rows, ["X", "y"]).repartition(3)
    if engine == "local":
        return X, y
    rows = [{"X": x, "y": label} for x, label in zip(X, y.tolist(), strict=True)]
    return engine.data.from_items(rows, override_num_blocks=3)


def test_collections_of_an_engine_are_read_on_its_workers(engine, shards):
    collection = collection_of(engine, shards.X, shards.y)
    trained = fit(StreamingLDA(), collection, engine=engine, name="collection")
    assert_same_answers(trained.learner, one_stream(shards), shards.X)
    assert trained.rows == len(shards.X)
