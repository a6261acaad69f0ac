"""The protocol: base classes, then new classes a few at a time; asked after each task.

Asked are all classes so far, with and without being told the task (Table 2 of Hayes and Kanan
masks what does not belong to it). Classes arrive in an order drawn from the seed; outputs are in
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
    """Pictures, and their classes as places in the order of arrival."""

    pixels: NDArray[np.uint8]
    slots: NDArray[np.int64]

    def of(self, classes: Sequence[int]) -> "Pictured":
        return self.at(np.isin(self.slots, classes))

    def at(self, chosen: NDArray[Any]) -> "Pictured":
        """Those at some places, or of a mask."""
        return Pictured(self.pixels[chosen], self.slots[chosen])

    def divided(self, every: int) -> tuple["Pictured", "Pictured"]:
        """Without every so-manieth picture of each class, and these."""
        held = np.zeros(len(self.slots), dtype=bool)
        for slot in np.unique(self.slots):
            held[np.flatnonzero(self.slots == slot)[::every]] = True
        return self.at(~held), self.at(held)

    def shown(self, device: torch.device) -> Shown:
        return Shown(self.pixels, self.slots, device)


def in_order(train: Any, test: Any, seed: int) -> tuple[Pictured, Pictured, NDArray[np.int64]]:
    """Examples with their classes renumbered in an order of arrival drawn from the seed."""
    classes = np.unique(train.y)
    arrival = np.random.default_rng(seed).permutation(classes)
    place = np.empty(int(classes.max()) + 1, dtype=np.int64)
    place[arrival] = np.arange(len(arrival))
    return Pictured(train.X, place[train.y]), Pictured(test.X, place[test.y]), arrival


def tasks_of(n_classes: int, base: int, step: int) -> list[list[int]]:
    """The base classes, then ``step`` at a time."""
    starts = range(base, n_classes, step)
    return [list(range(base)), *(list(range(s, min(s + step, n_classes))) for s in starts)]


@dataclass
class Course:
    """What a rival came to, task by task.

    Attributes
    ----------
    accuracies, top5, told : lists of float
        On all classes so far, after each task: the first answer, the first five, and the first
        answer among the classes of the task when it is told.
    by_task : list of lists
        Accuracy on each task's classes, without being told.
    held_out : list of float
        On training pictures held out, of all classes so far, where any were.
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
        """Count right answers among scores of all classes so far."""
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
    """Take a rival through all tasks.

    Parameters
    ----------
    rival : Rival
    tasks : list of lists of classes
    materials, asked : callables
        Examples of some classes, to learn and to be asked.
    begun : bool
        Whether the rival's network is trained on the first task already.
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
