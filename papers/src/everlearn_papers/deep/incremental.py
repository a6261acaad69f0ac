"""The protocol: base classes, then new classes a few at a time, with a test after each task.

The test covers all classes so far, with and without the task given (Table 2 of Hayes and Kanan
masks the classes of other tasks). Classes arrive in an order drawn from the seed; outputs are in
that order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from everlearn.deep.descent import Shown
from everlearn_papers.deep.rival import Materials, Rival


@dataclass(frozen=True)
class Pictured:
    """Pictures and their classes, numbered in order of arrival."""

    pixels: NDArray[np.uint8]
    slots: NDArray[np.int64]

    def of(self, classes: Sequence[int]) -> "Pictured":
        return self.at(np.isin(self.slots, classes))

    def at(self, chosen: NDArray[Any]) -> "Pictured":
        """Return the pictures at some indices or under a mask."""
        return Pictured(self.pixels[chosen], self.slots[chosen])

    def divided(self, every: int) -> tuple["Pictured", "Pictured"]:
        """Split into the rest and every ``every``-th picture of each class."""
        held = np.zeros(len(self.slots), dtype=bool)
        for slot in np.unique(self.slots):
            held[np.flatnonzero(self.slots == slot)[::every]] = True
        return self.at(~held), self.at(held)

    def shown(self, device: torch.device) -> Shown:
        return Shown(self.pixels, self.slots, device)


def in_order(train: Any, test: Any, seed: int) -> tuple[Pictured, Pictured, NDArray[np.int64]]:
    """Renumber classes in an order drawn from the seed; return train, test and that order."""
    classes = np.unique(train.y)
    arrival = np.random.default_rng(seed).permutation(classes)
    place = np.empty(int(classes.max()) + 1, dtype=np.int64)
    place[arrival] = np.arange(len(arrival))
    return Pictured(train.X, place[train.y]), Pictured(test.X, place[test.y]), arrival


def tasks_of(n_classes: int, base: int, step: int) -> list[list[int]]:
    """Return the classes of each task: the base classes, then ``step`` at a time."""
    starts = range(base, n_classes, step)
    return [list(range(base)), *(list(range(s, min(s + step, n_classes))) for s in starts)]


@dataclass
class Course:
    """Results of a rival or learner, task by task.

    Attributes
    ----------
    accuracies, top5, told : lists of float
        After each task, on all classes so far: top-1, top-5, and top-1 among the classes of the
        example's task.
    by_task : list of lists
        Accuracy on each task's classes, with the task not given.
    held_out : list of float
        Accuracy on held-out training pictures of all classes so far; empty if none are held out.
    seconds : list of float
    """

    accuracies: list[float] = field(default_factory=list)
    top5: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    by_task: list[list[float]] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    bytes_kept: int = 0

    def ask(self, scores: Tensor, slots: Tensor, tasks: list[list[int]]) -> None:
        """Append the accuracies of scores over all classes so far."""
        right = scores.argmax(1) == slots
        self.accuracies.append(float(right.float().mean()))
        best = scores.topk(min(5, scores.shape[1]), 1).indices
        self.top5.append(float((best == slots[:, None]).any(1).float().mean()))
        told, each = [], []
        for classes in tasks:
            own = torch.as_tensor(classes, device=slots.device)
            of_task = torch.isin(slots, own)
            among = own[scores[of_task][:, own].argmax(1)]
            told.append((among == slots[of_task]).float())
            each.append(float(right[of_task].float().mean()))
        self.told.append(float(torch.cat(told).mean()))
        self.by_task.append(each)


def run(
    rival: Rival,
    tasks: list[list[int]],
    materials: Callable[[list[int]], Materials],
    asked: Callable[[list[int]], Materials],
    *,
    begun: bool = True,
) -> Course:
    """Run a rival through all tasks and return its results.

    Parameters
    ----------
    rival : Rival
    tasks : list of lists of classes
    materials, asked : callables
        Return training and test examples of the given classes.
    begun : bool
        Whether the rival's network is already trained on the first task.
    """
    course = Course()
    for number, classes in enumerate(tasks):
        begin = perf_counter()
        task = materials(classes)
        if number == 0 and begun:
            rival.start(task, classes)
        else:
            rival.learn(task, classes)
        if task.device.type == "cuda":
            torch.cuda.synchronize()
        course.seconds.append(perf_counter() - begin)
        so_far = asked([c for part in tasks[: number + 1] for c in part])
        course.ask(rival.scores(so_far), so_far.slots, tasks[: number + 1])
    course.bytes_kept = rival.bytes_kept()
    return course
