"""The scheduling loop of all engines with futures: starts tasks, and restarts lost ones.

Merges come before folds, and only a few tasks are in progress at a time, so few parts wait to be
merged, whatever the number of shards. The driver receives receipts; the only part it receives is
the last one.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from everlearn.cluster.plan import Plan, Task
from everlearn.cluster.shards import Shard
from everlearn.cluster.work import FitJob, PartReceipt
from everlearn.errors import WorkersLost

# How often all tasks in progress may be lost before one finishes. It is enough if workers are
# killed every few seconds for a minute, and take a few seconds to start.
MAX_LOST_ROUNDS = 20

Receive = Callable[[PartReceipt], None]


@dataclass(frozen=True)
class ShardOutcome:
    """How a task ended: a receipt and a handle of its part, or the reason why it was lost."""

    name: str
    receipt: PartReceipt | None = None
    part: Any = None
    lost: str = ""


class Engine(Protocol):
    """Runs a plan on workers."""

    @property
    def workers(self) -> int:
        """Number of tasks that run at a time."""

    def run(self, job: FitJob, plan: Plan, receive: Receive) -> bytes:
        """Run all tasks of a plan and return the last part.

        ``receive`` is called for each finished task; an exception it raises ends the run and
        cancels tasks in progress.
        """

    def listed(self, collection: Any, name: str, job: FitJob) -> list[Shard]:
        """The shards of a collection of this engine, such as a dask array."""


class Futures(Protocol):
    """The operations the loop needs of an engine with futures."""

    window: int

    def start(self, task: Task, inputs: list[Any]) -> None:
        """Start a task; ``inputs`` are handles of the parts it waited for."""

    def wait(self) -> list[ShardOutcome]:
        """Wait until at least one task has ended."""

    def fetch(self, part: Any) -> bytes:
        """The bytes of a part."""

    def release(self, part: Any) -> None:
        """Discard a part that is no longer needed."""


def drive(plan: Plan, futures: Futures, receive: Receive) -> bytes:
    """Run all tasks of a plan and return the last part."""
    tasks = {task.name: task for task in plan.tasks}
    parents = {name: task for task in plan.tasks for name in task.awaited}
    missing = {task.name: len(task.awaited) for task in plan.tasks}
    ready = deque(task for task in plan.tasks if not missing[task.name])
    parts: dict[str, Any] = {}
    in_progress: set[str] = set()
    lost = 0
    while plan.root not in parts:
        while ready and len(in_progress) < futures.window:
            task = ready.popleft()
            futures.start(task, [parts[name] for name in task.awaited])
            in_progress.add(task.name)
        outcomes = futures.wait()
        for outcome in outcomes:
            in_progress.remove(outcome.name)
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
        if lost >= MAX_LOST_ROUNDS * futures.window:
            raise WorkersLost(
                f"workers repeatedly end before they finish a task ({outcomes[-1].lost}); "
                "they may lack memory: use fewer workers, or smaller shards"
            )
    return futures.fetch(parts[plan.root])
