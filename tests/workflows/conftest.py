"""Fixtures of the packages that a workflow puts together."""

from tests.cluster.conftest import one_task_per_shard, photos, reference, shards  # noqa: F401
