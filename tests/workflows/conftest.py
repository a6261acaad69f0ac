"""Fixtures of the cluster, which workflows use."""

from tests.cluster.conftest import one_task_per_shard, photos, reference, shards  # noqa: F401
