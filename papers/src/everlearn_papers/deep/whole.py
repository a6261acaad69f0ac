"""Fine-tuning the whole network from a stream (θ_F and θ_G): one step per example, each seen once.

Hayes and Kanan (2020), Table 1 and Fig. 1. The network is trained on the base batch in epochs, then
makes one step of momentum descent per example in the order of the stream, with a learning rate of
its own. A batch of one has no statistics, so batch normalisation keeps those of the base. The
stream's rate is chosen by Ω on held-out training pictures: the mean over the checkpoints of the
accuracy on those of the classes so far.

On a GPU a step, which is hundreds of short kernels, is captured once as a graph and replayed.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from everlearn.deep.augment import normalised
from everlearn.deep.captured import CapturedStep
from everlearn.deep.descent import (
    Classifier,
    Recipe,
    Shown,
    classifier_over,
    on_device,
    optimiser,
    outputs,
    precision,
)
from everlearn.streams.examples import Indices
from everlearn_papers.data import packs
from everlearn_papers.deep.cifar import Scale, loaded_base, pictures
from everlearn_papers.deep.domains import CHECKPOINTS, stream_of, turntable_pictures
from everlearn_papers.deep.incremental import Course, Pictured, tasks_of
from everlearn_papers.deep.race import by_number
from everlearn_papers.deep.rival import Rival, grow
from everlearn_papers.deep.told import BATCH, last_views

# Learning rates of the stream; 0, the lower bound, leaves the base network unchanged.
RATES = (0.0, 0.0000003, 0.000003, 0.00003, 0.0003, 0.003)
BASE_RATE = 0.01


class SingleSteps:
    """Trains a network by one step per example; on a GPU the first step is captured."""

    def __init__(self, base: Classifier, rate: float, recipe: Recipe) -> None:
        self.classifier = copy.deepcopy(base).eval()
        self.rate = rate
        if rate:
            self.recipe = replace(recipe, learning_rate=rate, label_smoothing=0.0)
            self.optimizer = optimiser(self.classifier, self.recipe)
        self._captured: CapturedStep | None = None

    def learn(self, shown: Shown, order: Indices) -> None:
        """Learn the examples one by one in this order; does nothing at a rate of 0."""
        if not self.rate:
            return
        self.classifier.eval()
        for place in torch.as_tensor(np.asarray(order), device=shown.device).split(1):
            picture = normalised(shown.pixels[place], shown.mean, shown.scale)
            if shown.device.type == "cuda":
                self._play(picture, shown.slots[place])
            else:
                self.optimizer.zero_grad(set_to_none=True)
                with precision(shown.device):
                    scores = self.classifier(picture)
                nn.functional.cross_entropy(scores, shown.slots[place]).backward()
            self.optimizer.step()

    def _play(self, picture: torch.Tensor, slot: torch.Tensor) -> None:
        if self._captured is None:
            self._captured = CapturedStep(self.classifier, self.recipe, picture, slot)
        self._captured(picture, slot)


def cifar(scale: Scale, folder: Path, rate: float) -> dict[str, Any]:
    """Fine-tune class by class at a rate; return test results and held-out accuracies."""
    train, test = pictures(scale)
    device = torch.device(scale.device)
    classifier, _ = loaded_base(scale, folder)
    grow(classifier, scale.n_classes, scale.seed)
    tasks = tasks_of(scale.n_classes, scale.base, scale.step)
    learned, held = by_number(train)
    rng = np.random.default_rng(scale.seed)
    stops = [
        np.concatenate([rng.permutation(np.flatnonzero(learned.slots == c)) for c in task])
        for task in tasks
    ]
    both = Pictured(
        np.concatenate([test.pixels, held.pixels]), np.concatenate([test.slots, held.slots])
    )
    asked = both.shown(device)
    is_test = torch.arange(len(both.slots), device=device) < len(test.slots)
    steps = SingleSteps(classifier, rate, scale.task_recipe)
    courses = {"test": Course(), "held": Course()}
    shown = learned.shown(device)
    for number, stop in enumerate(stops):
        if number:
            steps.learn(shown, stop)
        scores = outputs(steps.classifier, asked)
        n_seen = max(tasks[number]) + 1
        for name, mask in (("test", is_test), ("held", ~is_test)):
            known = mask & (asked.slots < n_seen)
            courses[name].ask(scores[known][:, :n_seen], asked.slots[known], tasks[: number + 1])
    return {"rate": rate} | vars(courses["test"]) | {"held_out": courses["held"].accuracies}


def turntable(scale: Scale, folder: Path, ordering: str, draws: int) -> dict[str, Any]:
    """Run all draws of an ordering of the turntable; the rate is chosen on the first."""
    stream = TurntableStream(scale, folder, ordering)
    tried = {f"{rate:g}": float(np.mean(stream.held_out(0, rate))) for rate in RATES}
    rate = float(max(tried, key=tried.__getitem__))
    return {
        "tried": tried,
        "rate": rate,
        "epochs of the base": stream.recipe.epochs,
        "rate of the base": BASE_RATE,
        "runs": [stream.accuracies(draw, rate) for draw in range(draws)],
    }


class TurntableStream:
    """Fine-tuning of the whole network on the turntable's pictures in one ordering."""

    def __init__(self, scale: Scale, folder: Path, ordering: str) -> None:
        pixels, _ = turntable_pictures(32)
        self.where = packs.turntable("arc", np.arange(len(pixels))[:, None])
        self.train, self.test = (
            Pictured(pixels[part.X[:, 0].astype(np.intp)], part.y.astype(np.int64))
            for part in (self.where.train, self.where.test)
        )
        self.ordering = ordering
        self.device = torch.device(scale.device)
        self.recipe = replace(
            scale.task_recipe,
            epochs=2 * scale.turn_epochs,
            batch_size=BATCH,
            learning_rate=BASE_RATE,
        )
        self.network = loaded_base(scale, folder)[0].network
        self.n_classes = int(self.train.slots.max()) + 1

    def accuracies(self, draw: int, rate: float) -> list[float]:
        """Return the accuracy on all test pictures at every checkpoint."""
        order, _ = stream_of(self.where, self.ordering, draw)
        asked = self.test.shown(self.device)
        return [float(right.mean()) for right, _ in self._checkpoints(order, rate, asked)]

    def held_out(self, draw: int, rate: float) -> list[float]:
        """Return accuracies on the objects so far, with their last views held out of training."""
        order, _ = stream_of(self.where, self.ordering, draw)
        learned, held = last_views(self.train)
        asked = self.train.at(held).shown(self.device)
        found = []
        for right, seen in self._checkpoints(order[learned[order]], rate, asked):
            known = torch.isin(asked.slots, torch.as_tensor(seen, device=self.device))
            found.append(float(right[known].mean()))
        return found

    def _checkpoints(
        self, order: Indices, rate: float, asked: Shown
    ) -> Iterator[tuple[torch.Tensor, NDArray[np.int64]]]:
        """Yield, after each fifth of a stream, the hits (0 or 1) and the classes so far."""
        every = -(-len(order) // CHECKPOINTS)
        stops = [order[place : place + every] for place in range(0, len(order), every)]
        blank = classifier_over(copy.deepcopy(self.network), self.n_classes, 32, self.recipe.seed)
        on_device(blank, self.device)
        base = Rival(blank, self.recipe)
        base.learn(self.train.at(stops[0]).shown(self.device), range(self.n_classes))
        steps = SingleSteps(base.classifier, rate, self.recipe)
        shown = self.train.shown(self.device)
        for number, stop in enumerate(stops):
            if number:
                steps.learn(shown, stop)
            scores = outputs(steps.classifier, asked)
            seen = np.unique(self.train.slots[order[: (number + 1) * every]])
            yield (scores.argmax(1) == asked.slots).float(), seen
