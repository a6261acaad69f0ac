from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn.cluster import plan as planning
from everlearn.cluster.plan import dealt_runs, fixed_runs, planned
from everlearn.cluster.shards import Kind, Shard


def shards_of(sizes):
    return [Shard(f"{i:04d}.npz", size, "", Kind.NPZ) for i, size in enumerate(sizes)]


sizes = st.lists(st.integers(0, 300), min_size=1, max_size=200)


def made(plan, stored=()):
    """The shards of each part of a plan; every input must exist when it is used."""
    parts = dict(stored)
    for task in plan.tasks:
        assert set(task.awaited) <= parts.keys()
        below = [shard for name in task.inputs for shard in parts[name]]
        parts[task.name] = [shard.address for shard in task.shards] + below
    return parts


@given(sizes)
@settings(max_examples=50, deadline=None)
def test_a_plan_covers_every_shard_once_in_order(sizes):
    shards = shards_of(sizes)
    for runs in (fixed_runs(shards), dealt_runs(shards, 3)):
        plan = planned("job", runs)
        assert made(plan)[plan.root] == [shard.address for shard in shards]
        assert plan.tasks[-1].name == plan.root


@given(sizes, st.randoms())
@settings(max_examples=50, deadline=None)
def test_stored_parts_do_not_change_the_result(sizes, random):
    runs = fixed_runs(shards_of(sizes))
    plan = planned("job", runs)
    everything = made(plan)
    stored = {name: everything[name] for name in everything if random.random() < 0.4}
    rest = planned("job", runs, stored)
    assert rest.root == plan.root
    assert made(rest, stored)[plan.root] == everything[plan.root]
    if plan.root in stored:
        assert not rest.tasks


def test_small_shards_share_a_task_and_large_ones_do_not(monkeypatch):
    monkeypatch.setattr(planning, "TASK_BYTES", 100)
    runs = fixed_runs(shards_of([30, 30, 30, 30, 500, 10, 200, 1]))
    assert [[shard.size for shard in run] for run in runs] == [
        [30, 30, 30, 30],
        [500],
        [10, 200],
        [1],
    ]


def test_another_shard_or_job_gives_another_tree():
    names = {
        planned(job, fixed_runs(shards_of(sizes))).root
        for job, sizes in [("a", [1, 2]), ("b", [1, 2]), ("a", [1, 3]), ("a", [1])]
    }
    assert len(names) == 4
