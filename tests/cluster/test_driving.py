import pytest

from everlearn.cluster.driving import MAX_LOST_ROUNDS, ShardOutcome, drive
from everlearn.cluster.plan import planned
from everlearn.cluster.shards import Kind, Shard
from everlearn.cluster.work import PartReceipt
from everlearn.errors import WorkersLost


class LosesRounds:
    """Loses all tasks in progress a number of times, then finishes them."""

    window = 3

    def __init__(self, rounds: int, at_a_time: int) -> None:
        self.left, self.at_a_time, self.in_progress = rounds * self.window, at_a_time, []

    def start(self, task, inputs):
        self.in_progress.append(task)

    def wait(self):
        ended, self.in_progress = (
            self.in_progress[: self.at_a_time],
            self.in_progress[self.at_a_time :],
        )
        lost = self.left > 0
        self.left -= len(ended)
        return [
            ShardOutcome(task.name, lost="killed")
            if lost
            else ShardOutcome(task.name, PartReceipt(task.name), b"part")
            for task in ended
        ]

    def fetch(self, part):
        return part

    def release(self, part):
        pass


PLAN = planned("job", [(Shard(f"{index}.npz", 1, "", Kind.NPZ),) for index in range(9)])


@pytest.mark.parametrize("at_a_time", [1, 3])
def test_repeatedly_killed_workers_are_waited_for(at_a_time):
    receipts = []
    futures = LosesRounds(MAX_LOST_ROUNDS - 1, at_a_time)
    assert drive(PLAN, futures, receipts.append) == b"part"
    assert sorted(receipt.name for receipt in receipts) == sorted(task.name for task in PLAN.tasks)


@pytest.mark.parametrize("at_a_time", [1, 3])
def test_a_fit_ends_if_workers_never_finish_a_task(at_a_time):
    with pytest.raises(WorkersLost, match="killed"):
        drive(PLAN, LosesRounds(10**6, at_a_time), lambda _: None)
