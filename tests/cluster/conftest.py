"""Shards on disk, an engine without processes as a reference, and local clusters.

Each cluster is started once; a test of an engine that is not installed is skipped and says so.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.cluster_ray import DidNotStart, started_ray
from everlearn.cluster.driving import ShardOutcome, drive
from everlearn.cluster.work import work


@dataclass(frozen=True)
class Shards:
    """Files with examples, and the same examples as one array."""

    paths: list[str]
    X: np.ndarray
    y: np.ndarray


def write_shards(folder: Path, n_shards: int, *, rows=60, width=6, seed=0) -> Shards:
    rng = np.random.default_rng(seed)
    names = np.array(["cup", "chair", "lamp", "book", "shoe"])
    centres = 3 * rng.normal(size=(5, width))
    paths, X, y = [], [], []
    for index in range(n_shards):
        slots = rng.integers(0, 1 + (index % 5), rows)
        X.append(centres[slots] + rng.normal(size=(rows, width)))
        y.append(names[slots])
        paths.append(str(folder / f"{index:03d}.npz"))
        np.savez(paths[-1], X=X[-1], y=y[-1])
    return Shards(paths, np.concatenate(X), np.concatenate(y))


@pytest.fixture
def shards(tmp_path) -> Shards:
    return write_shards(tmp_path, 11)


@dataclass(frozen=True)
class Photos:
    """A folder of folders of images, and the same images as arrays."""

    folder: Path
    images: list[np.ndarray]
    y: np.ndarray


@pytest.fixture
def photos(tmp_path) -> Photos:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    rng = np.random.default_rng(1)
    images, y = [], []
    for label in ("cup", "lamp"):
        folder = tmp_path / "photos" / label
        folder.mkdir(parents=True)
        for index in range(3):
            images.append(rng.integers(0, 255, (9, 12, 3), dtype=np.uint8))
            y.append(label)
            image.fromarray(images[-1]).save(folder / f"{index}.png")
    return Photos(tmp_path / "photos", images, np.array(y))


@pytest.fixture(autouse=True)
def one_task_per_shard(monkeypatch):
    """Trees of several levels from shards of a few kilobytes."""
    monkeypatch.setattr("everlearn.cluster.plan.TASK_BYTES", 1)


class InThisProcess:
    """A reference engine: one task after the other, in reverse order, in this process."""

    window = 3
    workers = 2

    def run(self, job, plan, receive):
        self.job, self.waiting, self.done = job, [], []
        return drive(plan, self, receive)

    def start(self, task, inputs):
        self.waiting.append((task, inputs))

    def wait(self):
        task, inputs = self.waiting.pop()
        self.done.append(task)
        receipt, part = work(self.job, task, inputs)
        return [ShardOutcome(task.name, receipt, part)]

    def fetch(self, part):
        return part

    def release(self, part):
        pass


@pytest.fixture
def reference(monkeypatch) -> InThisProcess:
    """Replace ``engine="local"`` by the reference engine."""
    engine = InThisProcess()
    monkeypatch.setattr(
        "everlearn.cluster.fitting.opened", lambda *_args, **_kwargs: nullcontext(engine)
    )
    return engine


@pytest.fixture(scope="session")
def dask_client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", protocol="tcp"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    pytest.importorskip("ray", reason="ray is not installed")
    try:
        context = started_ray(workers=2)
        ray = context.__enter__()
    except DidNotStart as error:
        pytest.skip(f"{error}; this machine is too busy for Ray")
    yield ray
    context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """A driver and two executors, each a process of its own, as on a cluster."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        pyspark.sql.SparkSession.builder.master("local-cluster[2,1,512]")
        .config("spark.executor.memory", "512m")
        .config("spark.driver.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(params=["local", "dask", "ray", "spark"])
def engine(request) -> Any:
    """Each engine, by its name or as a client."""
    fixture = {"dask": "dask_client", "ray": "ray_cluster", "spark": "spark_session"}
    if request.param == "local":
        return "local"
    return request.getfixturevalue(fixture[request.param])
