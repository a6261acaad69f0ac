"""What the rivals of streaming learning share: one network, one loop over tasks, one budget.

A rival starts from a network that was trained on base classes, is shown one task after the other
(the pictures of some new classes, as often as its recipe says) and can be asked after each. What a
rival does differently is at most five things, each a method of its own:

    loss               what is minimised over a batch
    change_gradients   what happens to the gradient before a step      (penalties, projections)
    after_step         what is noted after a step                      (path integrals)
    materials          what a task's batches are drawn from            (replay)
    end_task           what is kept when a task is over                (importances, exemplars)

Outputs are in the order in which classes arrive. With ``outputs="task"`` the loss compares the
classes of the current task alone (one head per task, as the regularising rivals are published);
with ``"seen"`` all classes so far.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from everlearn.deep.augment import normalised
from everlearn.deep.descent import (
    Classifier,
    Recipe,
    Shown,
    optimiser,
    outputs,
    precision,
    set_rate,
    tuned,
)
from everlearn.errors import NotFinite

Weights = dict[str, Tensor]


class Materials(Protocol):
    """Labelled examples on a device: pictures (:class:`Shown`) or rows (:class:`Rows`)."""

    pixels: Tensor
    slots: Tensor

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def epoch(self, number: int, recipe: Recipe) -> Iterator[tuple[Tensor, Tensor]]: ...

    def steps(self, recipe: Recipe) -> int: ...

    def plain(self) -> Iterator[Tensor]: ...


class Rows:
    """Vectors where pictures are expected: MNIST for a network without convolutions."""

    def __init__(self, pixels: Tensor, slots: Tensor) -> None:
        self.pixels, self.slots = pixels, slots

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def device(self) -> torch.device:
        return self.pixels.device

    def epoch(self, number: int, recipe: Recipe) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator(self.device).manual_seed(recipe.seed * 1_000_003 + number)
        order = torch.randperm(len(self), device=self.device, generator=generator)
        for chosen in order.split(recipe.batch_size):
            yield self.pixels[chosen], self.slots[chosen]

    def steps(self, recipe: Recipe) -> int:
        return -(-len(self) // recipe.batch_size)

    def plain(self) -> Iterator[Tensor]:
        yield from self.pixels.split(4096)


class Rival:
    """Fine-tuning: the loop with nothing done against forgetting.

    Parameters
    ----------
    base : Classifier
        The network every rival starts from; copied.
    recipe : Recipe
        How each task is trained.
    strength : float
        Of whatever a rival does against forgetting.
    kept : int
        Examples kept of each class, for rivals that keep any.
    outputs : {"task", "seen"}
        Which classes the loss compares.
    optimiser : callable, optional
        Makes the optimiser of a task, where the published one is not SGD with momentum.
    """

    keeps_examples = False

    def __init__(
        self,
        base: Classifier,
        recipe: Recipe,
        *,
        strength: float = 0.0,
        kept: int = 20,
        outputs: str = "seen",
        optimiser: Callable[..., torch.optim.Optimizer] | None = None,
    ) -> None:
        self.classifier = copy.deepcopy(base)
        self.recipe = recipe
        self.strength = strength
        self.kept = kept
        self.outputs = outputs
        self.tasks: list[Tensor] = []
        # First class and the one after the last, of each task: known without asking the device.
        self.spans: list[tuple[int, int]] = []
        self._optimiser = optimiser
        self.generator = torch.Generator().manual_seed(recipe.seed)

    # The loop.

    def start(self, base: Materials, classes: Sequence[int]) -> None:
        """Take note of the base task, on which the network is trained already."""
        self._open_task(base, classes)
        self.end_task(base)

    def learn(self, task: Materials, classes: Sequence[int]) -> None:
        """Learn a task: examples of these classes, as often as the recipe says."""
        self._open_task(task, classes)
        self.begin_task(task)
        optimizer = self.make_optimizer()
        materials = self.materials(task)
        self.descend(materials, optimizer, self.recipe)
        self.end_task(task)

    def descend(
        self, materials: Materials, optimizer: torch.optim.Optimizer, recipe: Recipe
    ) -> None:
        """All epochs of a recipe over some examples."""
        for number in range(recipe.epochs):
            with tuned(materials.device):
                loss = self._one_epoch(number, materials, optimizer, recipe)
            if not torch.isfinite(loss):
                raise NotFinite(
                    f"{type(self).__name__} ran away at learning rate {recipe.learning_rate:g} and "
                    f"strength {self.strength:g}; try a smaller one of either"
                )

    def _one_epoch(
        self, number: int, materials: Materials, optimizer: torch.optim.Optimizer, recipe: Recipe
    ) -> Tensor:
        """One pass over the examples; the last loss."""
        steps = materials.steps(recipe)
        loss = torch.zeros(())
        self.classifier.train()
        for step, (pictures, slots) in enumerate(materials.epoch(number, recipe)):
            if self._optimiser is None:
                set_rate(optimizer, recipe.rate((number * steps + step) / (recipe.epochs * steps)))
            with precision(materials.device):
                loss = self.loss(pictures, slots)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.change_gradients()
            optimizer.step()
            self.after_step()
        return loss.detach()

    def make_optimizer(self) -> torch.optim.Optimizer:
        if self._optimiser is not None:
            return self._optimiser(self.classifier.parameters(), lr=self.recipe.learning_rate)
        return optimiser(self.classifier, self.recipe)

    # What a rival may do differently.

    def loss(self, pictures: Tensor, slots: Tensor) -> Tensor:
        scores = self.masked(self.classifier(pictures), self.tasks[-1])
        return nn.functional.cross_entropy(
            scores, slots, label_smoothing=self.recipe.label_smoothing if self.all_seen else 0.0
        )

    def begin_task(self, task: Materials) -> None:
        pass

    def change_gradients(self) -> None:
        pass

    def after_step(self) -> None:
        pass

    def materials(self, task: Materials) -> Materials:
        return task

    def end_task(self, task: Materials) -> None:
        pass

    # Asking.

    def scores(self, asked: Materials) -> Tensor:
        """One row per example, one column per class in the order of arrival."""
        return outputs(self.classifier, asked)  # type: ignore[arg-type]

    # Memory.

    def bytes_kept(self) -> int:
        """What is held beside the network itself."""
        held = [value for value in vars(self).values() if isinstance(value, (Tensor, dict))]
        tensors = [t for value in held for t in _tensors_in(value)]
        return sum(t.numel() * t.element_size() for t in tensors)

    # Inside.

    @property
    def all_seen(self) -> bool:
        return self.outputs == "seen"

    def masked(self, scores: Tensor, classes: Tensor) -> Tensor:
        """Scores with those of other tasks' classes out of the running."""
        if self.all_seen:
            return scores
        shut = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
        shut[classes] = False
        return scores.float().masked_fill(shut, -torch.inf)

    def _open_task(self, task: Materials, classes: Sequence[int]) -> None:
        self.tasks.append(torch.as_tensor(list(classes), device=task.device))
        self.spans.append((min(classes), max(classes) + 1))
        grow(self.classifier, max(classes) + 1, self.recipe.seed)


def grow(classifier: Classifier, n_classes: int, seed: int) -> None:
    """Give the output layer rows for new classes; old rows stay as they are."""
    old = classifier.output
    if n_classes <= old.out_features:
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + n_classes)
        wider = nn.Linear(old.in_features, n_classes)
    wider.to(old.weight.device)
    with torch.no_grad():
        wider.weight[: old.out_features] = old.weight
        wider.bias[: old.out_features] = old.bias
    classifier.output = wider


def weights_of(module: nn.Module) -> Weights:
    """A copy of all parameters by name."""
    names, values = zip(*((n, p.detach()) for n, p in module.named_parameters()), strict=True)
    return dict(zip(names, torch._foreach_add(values, 0.0), strict=True))


def gradients_of(module: nn.Module) -> Weights:
    """A copy of the gradients of all parameters that have one, by name."""
    named = [(n, p.grad) for n, p in module.named_parameters() if p.grad is not None]
    names, values = zip(*named, strict=True)
    return dict(zip(names, torch._foreach_add(values, 0.0), strict=True))


def steps_made(module: nn.Module, before: Weights) -> Weights:
    """How far each parameter is from where it was."""
    now = [p.detach() for name, p in module.named_parameters() if name in before]
    return dict(zip(before, torch._foreach_sub(now, list(before.values())), strict=True))


def add_product(total: Weights, a: Weights, b: Weights, factor: float = 1.0) -> None:
    """Total ← total + factor · a · b, weight by weight, for those that ``a`` has."""
    torch._foreach_addcmul_(
        [total[name] for name in a], list(a.values()), [b[name] for name in a], value=factor
    )


def fitted(kept: Tensor, like: Tensor) -> Tensor:
    """Numbers kept for a parameter that has grown since, with zeros for what is new."""
    if kept.shape == like.shape:
        return kept
    wider = torch.zeros_like(like)
    wider[: len(kept)] = kept
    return wider


def joined(task: Materials, pixels: Tensor, slots: Tensor) -> Materials:
    """A task's examples and others together, of the same kind."""
    both = torch.cat([task.pixels, pixels.to(task.device)])
    labels = torch.cat([task.slots, slots.to(task.device)])
    if isinstance(task, Shown):
        return Shown(both, labels, task.device, task.mean.cpu().numpy(), task.scale.cpu().numpy())
    return Rows(both, labels)


def as_inputs(task: Materials, pixels: Tensor) -> Tensor:
    """Examples kept as they are stored, as the network takes them."""
    if isinstance(task, Shown):
        return normalised(pixels, task.mean, task.scale)
    return pixels


def _tensors_in(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for t in value.values() if isinstance(t, Tensor)]
    return []
