"""First-session adaptation: an existing network is adapted to the first classes of a stream.

A network trained on other pictures is trained a little on the first session of the stream and then
frozen, so that all later vectors are comparable (the first step of RanPAC, McDonnell et al. 2023,
after Panos et al. 2023). Training all of it on a few classes would destroy what it has learned, so
only a small part is trained:

    "last block"   the last part of the network that has weights
    "low rank"     a product is added to every filter bank and matrix W of shape (out, in),
                   W + B A with B (out, r) and A (r, in): r (out + in) numbers are trained instead
                   of out · in (LoRA, Hu et al. 2022). B starts at zero, so the network starts
                   unchanged; at the end W + B A becomes the weight, at no extra cost

Running statistics of batch normalisation are kept in both cases. The result is a different
embedder, under another name; the given one is not changed. On a held-out share of the session the
two are compared by the nearest class mean of their vectors; unless the adapted network is better,
the original is returned.
"""

import copy
from collections.abc import Callable
from typing import Any, Literal, get_args

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

How = Literal["last block", "low rank"]
ADAPTATION = Recipe(epochs=20, batch_size=128, learning_rate=0.02, label_smoothing=0.0)


def adapt(
    embedder: DeepEmbedder,
    images: Any,
    labels: ArrayLike | None = None,
    *,
    how: How = "last block",
    rank: int = 8,
    block: str | None = None,
    recipe: Recipe = ADAPTATION,
    held_out: float = 0.1,
    progress: Callable[[int, float], None] | None = None,
) -> DeepEmbedder:
    """Adapt a network to the first session of a stream.

    Parameters
    ----------
    embedder : DeepEmbedder
        Not changed.
    images, labels
        The first session; see :func:`everlearn.deep.pictures.gather`.
    how : {"last block", "low rank"}, default="last block"
    rank : int, default=8
        Of the added products, for ``"low rank"``.
    block : str, optional
        Name of the part to train for ``"last block"``, if it is not the last one.
    recipe : Recipe
    held_out : float, default=0.1
        Share of each class used to compare the result with the original network; 0 to skip the
        comparison.
    progress : callable, optional
        Called with the number of each epoch and its loss.

    Returns
    -------
    DeepEmbedder
        Adapted; or the original, if adapting did not improve it.
    """
    if how not in get_args(How):
        raise InvalidParameter(f"how must be one of {', '.join(get_args(How))}, not {how!r}")
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
    if held.any() and _nearest_mean_accuracy(adapted, pictures, held) <= _nearest_mean_accuracy(
        embedder, pictures, held
    ):
        return embedder
    return adapted


class LowRank(nn.Module):
    """W ↦ W + B A, with W reshaped to (out, everything else)."""

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
        raise InvalidParameter(f"rank must be at least 1, not {rank}")
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
    """The part of a network with this name; defaults to the last block with weights."""
    if name is not None:
        try:
            return network.get_submodule(name)
        except AttributeError:
            known = ", ".join(name for name, _ in network.named_children())
            raise InvalidParameter(f"the network has no part {name!r}; it has {known}") from None
    part = network
    while True:
        with_weights = [c for c in part.children() if any(True for _ in c.parameters())]
        if not with_weights:
            return part
        if not any(True for _ in with_weights[-1].children()):
            # The last child is a single layer: its parent is the block, or, if the parent is the
            # whole network, the layer itself.
            return with_weights[-1] if part is network else part
        part = with_weights[-1]
        if not isinstance(part, nn.Sequential):
            return part


def _train(
    network: nn.Module,
    embedder: DeepEmbedder,
    pictures: Pictures,
    training: NDArray[np.bool_],
    recipe: Recipe,
    progress: Callable[[int, float], None],
) -> None:
    device = torch.device(embedder.device)
    classifier = classifier_over(network, len(pictures.classes), embedder.size, recipe.seed)
    on_device(classifier, device)
    shown = Shown(
        pictures.pixels[training], pictures.slots[training], device, embedder.mean, embedder.scale
    )
    optimizer = optimiser(classifier, recipe)
    # Evaluation mode keeps batch normalisation's running statistics and disables dropout.
    classifier.eval()
    for number in range(recipe.epochs):
        with tuned(device), seeded(recipe.seed + number, device):
            progress(number + 1, one_epoch(classifier, shown, number, recipe, optimizer))


def _nearest_mean_accuracy(
    embedder: DeepEmbedder, pictures: Pictures, held: NDArray[np.bool_]
) -> float:
    """The share of held-out pictures whose nearest class mean is that of their class."""
    learner = NearestClassMean()
    learner.partial_fit(embedder.embed(pictures.pixels[~held]), pictures.labels[~held])
    answers = learner.predict(embedder.embed(pictures.pixels[held]))
    return float(np.mean(answers == pictures.labels[held]))
