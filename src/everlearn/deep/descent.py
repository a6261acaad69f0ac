"""Gradient descent on augmented pictures, used by all kinds of training.

The pictures are stored on the device as 8-bit integers and augmented there. One epoch is one pass
over a permutation of them. The learning rate follows one cycle (Smith 2018): it rises linearly over
the first part of the training, then falls to zero along half a cosine,

    p ≤ w:   rate · p / w            p > w:   rate · (1 + cos(π (p − w) / (1 − w))) / 2

where p is the share of steps done and w is ``warm_up``. All random numbers are derived from the
seed and the number of the epoch, and the rate is a function of the step. So to resume, a training
needs only its weights, momentum and number of epochs.

On a GPU, products are computed in bfloat16 and weights kept in float32.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from everlearn.deep.augment import Augmentation, augmented, normalised
from everlearn.deep.captured import CapturedStep
from everlearn.deep.networks import as_vectors, width_of
from everlearn.errors import InvalidParameter, NotFinite, OutOfMemory

BATCH_ROWS = 1024
# Mean and scale of the channels, from 0 to 255: those of ImageNet networks.
MEAN = (123.675, 116.28, 103.53)
SCALE = (58.395, 57.12, 57.375)
STANDARD = Augmentation(padding=4, mirror=True, cut_out=8)


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of a training.

    Parameters
    ----------
    epochs : int
    batch_size : int
    learning_rate : float
        The highest, reached after ``warm_up`` of all steps.
    momentum, weight_decay : float
        Nesterov's momentum; the decay applies to weights only, not to biases and scales.
    label_smoothing : float
    warm_up : float
        Share of all steps in which the rate rises.
    augmentation : Augmentation
    seed : int
    """

    epochs: int = 60
    batch_size: int = 512
    learning_rate: float = 0.4
    momentum: float = 0.9
    weight_decay: float = 5e-4
    label_smoothing: float = 0.1
    warm_up: float = 0.2
    augmentation: Augmentation = field(default=STANDARD)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise InvalidParameter(
                f"epochs and batch_size must be at least 1, not {self.epochs} and {self.batch_size}"
            )
        if not self.learning_rate > 0:
            raise InvalidParameter(f"learning_rate must be above 0, not {self.learning_rate}")
        if not 0.0 <= self.warm_up < 1.0:
            raise InvalidParameter(f"warm_up must be a share below 1, not {self.warm_up}")

    def rate(self, share: float) -> float:
        """The learning rate after this share of all steps."""
        if share < self.warm_up:
            return self.learning_rate * share / self.warm_up
        done = (share - self.warm_up) / (1.0 - self.warm_up)
        return self.learning_rate * (1.0 + math.cos(math.pi * done)) / 2.0


class Classifier(nn.Module):
    """F(G(x)): a network G and a linear output layer F."""

    def __init__(self, network: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.network = network
        self.output = nn.Linear(n_features, n_classes)

    def features(self, pictures: Tensor) -> Tensor:
        return as_vectors(self.network(pictures))

    def forward(self, pictures: Tensor) -> Tensor:
        scores: Tensor = self.output(self.features(pictures))
        return scores


def classifier_over(network: nn.Module, n_classes: int, size: int, seed: int) -> Classifier:
    """A network with a new output layer, which depends only on the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Classifier(network, width_of(network, size), n_classes)


class Shown:
    """Labelled training pictures on a device."""

    def __init__(
        self,
        pixels: NDArray[np.uint8] | Tensor,
        slots: NDArray[np.int64] | Tensor,
        device: torch.device,
        mean: Any = MEAN,
        scale: Any = SCALE,
    ) -> None:
        self.pixels = torch.as_tensor(pixels).to(device)
        self.slots = torch.as_tensor(slots).to(device)
        self.mean = torch.as_tensor(np.array(mean, dtype=np.float32), device=device)
        self.scale = torch.as_tensor(np.array(scale, dtype=np.float32), device=device)

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def device(self) -> torch.device:
        return self.pixels.device

    def epoch(self, number: int, recipe: Recipe) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of augmented pictures and their slots, each picture once.

        A last batch of a single picture is left out, because batch normalisation needs at least
        two.
        """
        generator = torch.Generator(self.device).manual_seed(recipe.seed * 1_000_003 + number)
        order = torch.randperm(len(self), device=self.device, generator=generator)
        for chosen in order.split(recipe.batch_size):
            if len(chosen) == 1 and len(self) > 1:
                continue
            pictures = augmented(
                self.pixels[chosen], recipe.augmentation, self.mean, self.scale, generator
            )
            yield pictures, self.slots[chosen]

    def steps(self, recipe: Recipe) -> int:
        """Number of batches per epoch."""
        whole, rest = divmod(len(self), recipe.batch_size)
        return whole + (rest > 1 or len(self) == 1)

    def plain(self, at_once: int = BATCH_ROWS) -> Iterator[Tensor]:
        """The pictures without augmentation, normalised, in order."""
        for part in self.pixels.split(at_once):
            yield normalised(part, self.mean, self.scale)


def optimiser(module: nn.Module, recipe: Recipe) -> torch.optim.SGD:
    """Stochastic gradient descent on trainable parameters; decay on matrices and filters only."""
    trainable = [p for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        nesterov=recipe.momentum > 0,
        fused=bool(trainable) and all(p.is_cuda for p in trainable),
    )


def one_epoch(
    classifier: nn.Module,
    shown: Shown,
    number: int,
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    *,
    captured: CapturedStep | None = None,
) -> float:
    """One epoch of gradient descent on the cross-entropy; returns the mean loss.

    Raises ``NotFinite`` if the loss is not finite.

    Batches of the shape recorded by ``captured`` are replayed by it.
    """
    steps = shown.steps(recipe)
    losses = []
    for step, (pictures, slots) in enumerate(shown.epoch(number, recipe)):
        set_rate(optimizer, recipe.rate((number * steps + step) / (recipe.epochs * steps)))
        if captured is not None and captured.fits(pictures):
            loss = captured(pictures, slots)
        else:
            with precision(shown.device):
                loss = nn.functional.cross_entropy(
                    classifier(pictures), slots, label_smoothing=recipe.label_smoothing
                )
            optimizer.zero_grad(set_to_none=captured is None)
            loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    mean = float(torch.stack(losses).mean())
    if not math.isfinite(mean):
        raise NotFinite(
            f"the loss is {mean} in epoch {number + 1}; try a learning_rate below "
            f"{recipe.learning_rate}"
        )
    return mean


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


@torch.no_grad()
def outputs(module: nn.Module, shown: Shown) -> Tensor:
    """The output of a module in evaluation mode for every picture, in float32."""
    module.eval()
    rows = []
    for pictures in shown.plain():
        with precision(shown.device):
            rows.append(module(pictures))
    return torch.cat(rows).float()


def hit_rate(classifier: nn.Module, shown: Shown) -> float:
    """The accuracy on the given pictures."""
    return float((outputs(classifier, shown).argmax(1) == shown.slots).float().mean())


def precision(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Products in bfloat16 on a GPU, in float32 otherwise."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return contextlib.nullcontext()


@contextlib.contextmanager
def tuned(device: torch.device) -> Iterator[None]:
    """On a GPU, benchmark the algorithms of every convolution and keep the fastest.

    Useful if the same shapes are repeated. The previous setting is restored afterwards.
    """
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def on_device(module: nn.Module, device: torch.device) -> nn.Module:
    """The module on a device, in the memory layout that is fastest for convolutions there."""
    if device.type == "cuda":
        return module.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module.to(device)


def chosen_device(device: str | None) -> torch.device:
    """The given device, or by default the GPU if there is one."""
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


@contextlib.contextmanager
def memory_guard(recipe: Recipe) -> Iterator[None]:
    """Translate out-of-memory errors, with the advice to use smaller batches."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(
            f"batches of {recipe.batch_size} do not fit on the device: {error}; "
            f"try batch_size={max(1, recipe.batch_size // 2)}, or smaller pictures"
        ) from None


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's own generators, used by dropout; their states are restored afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
