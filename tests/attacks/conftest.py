"""Fixtures for the attacked packages."""

from tests.cluster.conftest import one_task_per_shard, photos, reference, shards  # noqa: F401
from tests.memory.conftest import clusters  # noqa: F401
