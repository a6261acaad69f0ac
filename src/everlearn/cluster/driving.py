"""The scheduling loop of all engines with futures: when tasks start, and what happens to lost ones.

Merges come before folds, and only a few tasks are under way at a time, so the parts that wait to
be merged stay few whatever the number of shards; the driver itself sees receipts and never a part,
except the last.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from everlearn.cluster.plan import Plan, Task
from everlearn.cluster.shards import Shard
from everlearn.cluster.work import FitJob, PartReceipt
from everlearn.errors import WorkersLost

# How often all tasks under way may be lost before one is finished. Workers that are killed every
# few seconds for a minute, and need as long to start, are still worth waiting for.
MOST_FRUITLESS_ROUNDS = 20

Receive = Callable[[PartReceipt], None]


@dataclass(frozen=True)
class ShardOutcome:
    """A task that has ended: with a receipt and a handle of its part, or lost for some reason."""

    name: str
    receipt: PartReceipt | None = None
    part: Any = None
    lost: str = ""


class Engine(Protocol):
    """What runs a plan on workers."""

    @property
    def workers(self) -> int:
        """How many tasks run at a time."""

    def run(self, job: FitJob, plan: Plan, receive: Receive) -> bytes:
        """Do all tasks of a plan and return the last part.

        ``receive`` is told of each finished task; what it raises ends the run, and tasks under way
        are called off.
        """

    def listed(self, collection: Any, name: str, job: FitJob) -> list[Shard]:
        """The shards of a collection of this engine's own."""


class Futures(Protocol):
    """What an engine with futures has to offer the loop."""

    window: int

    def start(self, task: Task, inputs: list[Any]) -> None:
        """Begin a task; ``inputs`` are handles of the parts it waited for."""

    def wait(self) -> list[ShardOutcome]:
        """Wait until something has ended; at least one outcome."""

    def fetch(self, part: Any) -> bytes:
        """The bytes behind a handle."""

    def release(self, part: Any) -> None:
        """A part is not needed any more."""


def drive(plan: Plan, futures: Futures, receive: Receive) -> bytes:
    """Do all tasks of a plan and return the last part."""
    tasks = {task.name: task for task in plan.tasks}
    parents = {name: task for task in plan.tasks for name in task.awaited}
    missing = {task.name: len(task.awaited) for task in plan.tasks}
    ready = deque(task for task in plan.tasks if not missing[task.name])
    parts: dict[str, Any] = {}
    under_way: set[str] = set()
    lost = 0
    while plan.root not in parts:
        while ready and len(under_way) < futures.window:
            task = ready.popleft()
            futures.start(task, [parts[name] for name in task.awaited])
            under_way.add(task.name)
        outcomes = futures.wait()
        for outcome in outcomes:
            under_way.remove(outcome.name)
            task = tasks[outcome.name]
            if outcome.receipt is None:
                ready.appendleft(task)
                lost += 1
                continue
            lost = 0
            receive(outcome.receipt)
            parts[task.name] = outcome.part
            for name in task.awaited:
                futures.release(parts.pop(name))
            parent = parents.get(task.name)
            if parent is not None:
                missing[parent.name] -= 1
                if not missing[parent.name]:
                    ready.appendleft(parent)
        if lost >= MOST_FRUITLESS_ROUNDS * futures.window:
            raise WorkersLost(
                f"workers end before they finish anything ({outcomes[-1].lost}); "
                "they may lack memory: use fewer workers, or smaller shards"
            )
    return futures.fetch(parts[plan.root])
