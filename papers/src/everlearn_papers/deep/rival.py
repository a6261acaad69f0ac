"""Training loop shared by the class-incremental methods that streaming learning is compared with.

A rival starts from a network trained on the base classes, learns one task after the other (pictures
of new classes, for the epochs of its recipe) and can be tested after each. Methods override at most
five hooks:

    loss               the loss of a batch
    change_gradients   changes of the gradient before a step           (penalties, projections)
    after_step         statistics recorded after a step                (path integrals)
    materials          the examples a task's batches are drawn from    (replay)
    end_task           what is stored at the end of a task             (importances, exemplars)

Outputs are in the order in which classes arrive. With ``outputs="task"`` the loss compares only the
classes of the current task (one head per task, as the regularization methods are published); with
``"seen"`` all classes so far.
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
    """Labelled vectors in place of pictures: MNIST for a network without convolutions."""

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
    """Fine-tuning: the training loop without any measure against forgetting.

    Parameters
    ----------
    base : Classifier
        The base network; copied.
    recipe : Recipe
        How each task is trained.
    regularization : float
        Weight of the term against forgetting: a penalty or a distillation loss.
    kept : int
        Number of examples stored per class, for rivals that store any.
    outputs : {"task", "seen"}
        Which classes the loss compares.
    optimiser : callable, optional
        Factory of each task's optimiser; by default SGD with momentum.
    """

    keeps_examples = False

    def __init__(
        self,
        base: Classifier,
        recipe: Recipe,
        *,
        regularization: float = 0.0,
        kept: int = 20,
        outputs: str = "seen",
        optimiser: Callable[..., torch.optim.Optimizer] | None = None,
    ) -> None:
        self.classifier = copy.deepcopy(base)
        self.recipe = recipe
        self.regularization = regularization
        self.kept = kept
        self.outputs = outputs
        self.tasks: list[Tensor] = []
        # Half-open range of each task's classes, on the host to avoid device synchronisation.
        self.spans: list[tuple[int, int]] = []
        self._optimiser = optimiser
        self.generator = torch.Generator().manual_seed(recipe.seed)

    # Training loop.

    def start(self, base: Materials, classes: Sequence[int]) -> None:
        """Register the base task, on which the network is already trained."""
        self._open_task(base, classes)
        self.end_task(base)

    def learn(self, task: Materials, classes: Sequence[int]) -> None:
        """Train on a task's examples of these classes, as set by the recipe."""
        self._open_task(task, classes)
        self.begin_task(task)
        optimizer = self.make_optimizer()
        materials = self.materials(task)
        self.descend(materials, optimizer, self.recipe)
        self.end_task(task)

    def descend(
        self, materials: Materials, optimizer: torch.optim.Optimizer, recipe: Recipe
    ) -> None:
        """Train for all epochs of a recipe; raise NotFinite if the loss diverges."""
        for number in range(recipe.epochs):
            with tuned(materials.device):
                loss = self._one_epoch(number, materials, optimizer, recipe)
            if not torch.isfinite(loss):
                raise NotFinite(
                    f"{type(self).__name__} diverged at learning rate {recipe.learning_rate:g} and "
                    f"regularization weight {self.regularization:g}; reduce one of them"
                )

    def _one_epoch(
        self, number: int, materials: Materials, optimizer: torch.optim.Optimizer, recipe: Recipe
    ) -> Tensor:
        """Train for one pass over the examples and return the last loss."""
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

    # Hooks that subclasses override.

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

    # Prediction.

    def scores(self, asked: Materials) -> Tensor:
        """Return one row per example, one column per class in order of arrival."""
        return outputs(self.classifier, asked)  # type: ignore[arg-type]

    # Memory.

    def bytes_kept(self) -> int:
        """Return the bytes stored in addition to the network."""
        held = [value for value in vars(self).values() if isinstance(value, (Tensor, dict))]
        tensors = [t for value in held for t in _tensors_in(value)]
        return sum(t.numel() * t.element_size() for t in tensors)

    # Internal.

    @property
    def all_seen(self) -> bool:
        return self.outputs == "seen"

    def masked(self, scores: Tensor, classes: Tensor) -> Tensor:
        """Return scores with −inf for classes other than ``classes``, unless all are compared."""
        if self.all_seen:
            return scores
        excluded = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
        excluded[classes] = False
        return scores.float().masked_fill(excluded, -torch.inf)

    def _open_task(self, task: Materials, classes: Sequence[int]) -> None:
        self.tasks.append(torch.as_tensor(list(classes), device=task.device))
        self.spans.append((min(classes), max(classes) + 1))
        grow(self.classifier, max(classes) + 1, self.recipe.seed)


def grow(classifier: Classifier, n_classes: int, seed: int) -> None:
    """Add rows for new classes to the output layer; existing rows are unchanged."""
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
    """Return a copy of all parameters by name."""
    names, values = zip(*((n, p.detach()) for n, p in module.named_parameters()), strict=True)
    return dict(zip(names, torch._foreach_add(values, 0.0), strict=True))


def gradients_of(module: nn.Module) -> Weights:
    """Return a copy of all existing gradients by parameter name."""
    named = [(n, p.grad) for n, p in module.named_parameters() if p.grad is not None]
    names, values = zip(*named, strict=True)
    return dict(zip(names, torch._foreach_add(values, 0.0), strict=True))


def steps_made(module: nn.Module, before: Weights) -> Weights:
    """Return the change of each parameter since ``before``."""
    now = [p.detach() for name, p in module.named_parameters() if name in before]
    return dict(zip(before, torch._foreach_sub(now, list(before.values())), strict=True))


def add_product(total: Weights, a: Weights, b: Weights, factor: float = 1.0) -> None:
    """Add factor · a · b elementwise to ``total``, in place, for the names in ``a``."""
    torch._foreach_addcmul_(
        [total[name] for name in a], list(a.values()), [b[name] for name in a], value=factor
    )


def fitted(kept: Tensor, like: Tensor) -> Tensor:
    """Return values stored for a parameter, padded with zeros for rows added since."""
    if kept.shape == like.shape:
        return kept
    wider = torch.zeros_like(like)
    wider[: len(kept)] = kept
    return wider


def joined(task: Materials, pixels: Tensor, slots: Tensor) -> Materials:
    """Return a task's examples together with others of the same kind."""
    both = torch.cat([task.pixels, pixels.to(task.device)])
    labels = torch.cat([task.slots, slots.to(task.device)])
    if isinstance(task, Shown):
        return Shown(both, labels, task.device, task.mean.cpu().numpy(), task.scale.cpu().numpy())
    return Rows(both, labels)


def as_inputs(task: Materials, pixels: Tensor) -> Tensor:
    """Return stored examples as network inputs, normalised if they are pictures."""
    if isinstance(task, Shown):
        return normalised(pixels, task.mean, task.scale)
    return pixels


def _tensors_in(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for t in value.values() if isinstance(t, Tensor)]
    return []
