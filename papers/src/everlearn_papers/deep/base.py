"""Training of the base network, from which every rival starts.

Synaptic intelligence and the Riemannian walk accumulate statistics of the weights' path, also while
the base classes are learned. They can therefore watch the base training: their hooks are called
for each gradient and each step, as in their own loop, and the statistics are reused in their runs.
"""

from collections.abc import Sequence
from typing import TypeVar

from torch import nn

from everlearn.deep.descent import (
    Classifier,
    Recipe,
    Shown,
    classifier_over,
    on_device,
    optimiser,
    precision,
    set_rate,
    tuned,
)
from everlearn.deep.networks import named_network
from everlearn_papers.deep.rival import Rival

Watcher = TypeVar("Watcher", bound=Rival)


def trained_base(
    network: str | nn.Module,
    shown: Shown,
    n_classes: int,
    recipe: Recipe,
    watchers: Sequence[Rival] = (),
) -> Classifier:
    """Train a network and its output layer on the base classes with cross-entropy."""
    if isinstance(network, str):
        network = named_network(network, recipe.seed)
    size = int(shown.pixels.shape[1])
    classifier = classifier_over(network, n_classes, size, recipe.seed)
    on_device(classifier, shown.device)
    for watcher in watchers:
        watcher.classifier = classifier
        watcher.begin_task(shown)
    with tuned(shown.device):
        _descend(classifier, shown, recipe, watchers)
    return classifier


def _descend(
    classifier: Classifier, shown: Shown, recipe: Recipe, watchers: Sequence[Rival]
) -> None:
    optimizer = optimiser(classifier, recipe)
    steps = shown.steps(recipe)
    for number in range(recipe.epochs):
        classifier.train()
        for step, (pictures, slots) in enumerate(shown.epoch(number, recipe)):
            set_rate(optimizer, recipe.rate((number * steps + step) / (recipe.epochs * steps)))
            with precision(shown.device):
                loss = nn.functional.cross_entropy(
                    classifier(pictures), slots, label_smoothing=recipe.label_smoothing
                )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            for watcher in watchers:
                watcher.change_gradients()
            optimizer.step()
            for watcher in watchers:
                watcher.after_step()
