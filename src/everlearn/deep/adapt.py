"""First-session adaptation: a network that exists, fitted to the first classes it meets.

A network trained on other pictures is trained a little on the first session of the stream and then
left as it is, so that every later vector lies in one space (the first step of RanPAC, McDonnell et
al. 2023, after Panos et al. 2023). Training all of it on a few classes would spoil what it knows,
so only little of it moves:

    "last block"   the last part of the network that has weights
    "low rank"     to every filter bank and matrix W of shape (out, in) a product is added,
                   W + B A with B (out, r) and A (r, in): r (out + in) numbers learn in place of
                   out · in (LoRA, Hu et al. 2022). B begins at zero, so the network begins as it
                   was; at the end W + B A becomes the weight, and answers cost what they did

Running statistics of batch normalisation stay as they are in both. The result is another embedder,
under another name; the one given is not changed. On a held-out share of the session it is compared
with the network as it was, by the nearest class mean of their vectors, and where it is not better
the network as it was is what comes back.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from everlearn.deep.descent import (
    Recipe,
    Shown,
    classifier_over,
    memory_guard,
    on_device,
    one_epoch,
    optimiser,
    seeded,
    tuned,
)
from everlearn.deep.embedding import DeepEmbedder
from everlearn.deep.pictures import Pictures, gather, require_trainable
from everlearn.errors import InvalidParameter
from everlearn.learners.ncm import NearestClassMean

WAYS = ("last block", "low rank")
GENTLE = Recipe(epochs=20, batch_size=128, learning_rate=0.02, label_smoothing=0.0)


def adapt(
    embedder: DeepEmbedder,
    images: Any,
    labels: ArrayLike | None = None,
    *,
    how: str = "last block",
    rank: int = 8,
    block: str | None = None,
    recipe: Recipe = GENTLE,
    held_out: float = 0.1,
    progress: Callable[[int, float], None] | None = None,
) -> DeepEmbedder:
    """Fit a network to the first session of a stream.

    Parameters
    ----------
    embedder : DeepEmbedder
        Not changed.
    images, labels
        The first session; see :func:`everlearn.deep.pictures.gather`.
    how : {"last block", "low rank"}, default="last block"
    rank : int, default=8
        Of the products that are added, for ``"low rank"``.
    block : str, optional
        Name of the part to train for ``"last block"``, where it is not the last one.
    recipe : Recipe
    held_out : float, default=0.1
        Share of each class by which the result is compared with the network as it was; 0 to take
        the result whatever it is.
    progress : callable, optional
        Told the number of each epoch and its loss.

    Returns
    -------
    DeepEmbedder
        Adapted; or the one given, if adapting did not make it better.
    """
    if how not in WAYS:
        raise InvalidParameter(f"how is one of {', '.join(WAYS)}, not {how!r}")
    pictures = gather(images, labels, embedder.size, embedder.crop)
    require_trainable(pictures)
    held = pictures.held_out(held_out, recipe.seed)
    network = copy.deepcopy(embedder.network)
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    if how == "low rank":
        _add_low_rank(network, rank, recipe.seed)
    else:
        for parameter in _part(network, block).parameters():
            parameter.requires_grad_(True)
    with memory_guard(recipe):
        _train(network, embedder, pictures, ~held, recipe, progress or (lambda number, loss: None))
    _merge_low_rank(network)
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    adapted = DeepEmbedder(
        network,
        architecture=embedder.architecture,
        size=embedder.size,
        crop=embedder.crop,
        mean=embedder.mean.tolist(),
        scale=embedder.scale.tolist(),
        device=embedder.device,
    )
    if held.any() and _worth(adapted, pictures, held) <= _worth(embedder, pictures, held):
        return embedder
    return adapted


class LowRank(nn.Module):
    """W ↦ W + B A, W read as (out, everything else)."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        outputs, inputs = weight.shape[0], weight[0].numel()
        rank = min(rank, outputs, inputs)
        self.A = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
        self.B = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + (self.B @ self.A).view_as(weight)


def _add_low_rank(network: nn.Module, rank: int, seed: int) -> None:
    if rank < 1:
        raise InvalidParameter(f"rank is at least 1, not {rank}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in list(network.modules()):
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                added = LowRank(module.weight.detach().cpu(), rank).to(module.weight.device)
                parametrize.register_parametrization(module, "weight", added)


def _merge_low_rank(network: nn.Module) -> None:
    for module in list(network.modules()):
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)


def _part(network: nn.Module, name: str | None) -> nn.Module:
    """The part of a network with this name; by default the last block that has weights."""
    if name is not None:
        try:
            return network.get_submodule(name)
        except AttributeError:
            known = ", ".join(name for name, _ in network.named_children())
            raise InvalidParameter(f"the network has no part {name!r}; it has {known}") from None
    part = network
    while True:
        weighty = [child for child in part.children() if any(True for _ in child.parameters())]
        if not weighty:
            return part
        if not any(True for _ in weighty[-1].children()):
            # Single layers from here on: they are the block, unless they are the whole network.
            return weighty[-1] if part is network else part
        part = weighty[-1]
        if not isinstance(part, nn.Sequential):
            return part


def _train(
    network: nn.Module,
    embedder: DeepEmbedder,
    pictures: Pictures,
    learned: NDArray[np.bool_],
    recipe: Recipe,
    tell: Callable[[int, float], None],
) -> None:
    device = torch.device(embedder.device)
    classifier = classifier_over(network, len(pictures.classes), embedder.size, recipe.seed)
    on_device(classifier, device)
    shown = Shown(
        pictures.pixels[learned], pictures.slots[learned], device, embedder.mean, embedder.scale
    )
    optimizer = optimiser(classifier, recipe)
    # Evaluation mode keeps the running statistics of batch normalisation, and dropout out of it.
    classifier.eval()
    for number in range(recipe.epochs):
        with tuned(device), seeded(recipe.seed + number, device):
            tell(number + 1, one_epoch(classifier, shown, number, recipe, optimizer))


def _worth(embedder: DeepEmbedder, pictures: Pictures, held: NDArray[np.bool_]) -> float:
    """The share of held-out pictures whose nearest class mean is their own."""
    learner = NearestClassMean()
    learner.partial_fit(embedder.embed(pictures.pixels[~held]), pictures.labels[~held])
    answers = learner.predict(embedder.embed(pictures.pixels[held]))
    return float(np.mean(answers == pictures.labels[held]))
