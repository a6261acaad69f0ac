"""Trains a network on base classes: the base initialisation of Hayes and Kanan (2020), Sec. 4.3.

The network G and an output layer F are trained together with cross-entropy on the base pictures. F
is used for training only: the result is G as an embedder, in front of a learner that learns the
stream. A share of every class is held out, and the weights with the best accuracy on it are kept;
with ``patience``, training stops after that many epochs without improvement.

With ``checkpoint``, an interrupted run resumes from its last checkpoint, and on a CPU ends with the
same weights as an uninterrupted one (a GPU has no fixed order of additions).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from everlearn.deep.captured import CapturedStep
from everlearn.deep.checkpoint import Checkpoint, TrainingProgress, copied
from everlearn.deep.descent import (
    Classifier,
    Recipe,
    Shown,
    chosen_device,
    classifier_over,
    hit_rate,
    memory_guard,
    on_device,
    one_epoch,
    optimiser,
    outputs,
    seeded,
    tuned,
)
from everlearn.deep.embedding import DeepEmbedder
from everlearn.deep.networks import named_network
from everlearn.deep.pictures import Pictures, gather, require_trainable
from everlearn.errors import InvalidParameter


@dataclass(frozen=True)
class Epoch:
    """The result of an epoch, passed to ``progress``."""

    number: int
    of: int
    loss: float
    held_out: float
    seconds: float


@dataclass
class Trained:
    """A trained network.

    Attributes
    ----------
    embedder : DeepEmbedder
        The network without its output layer.
    classes : ndarray
        The classes of the output layer.
    classifier : Classifier
        Network and output layer.
    history : list of Epoch
    held_out : float
        Accuracy on the held-out pictures; NaN if none were held out.
    unreadable : list of (path, error)
        Files that were left out.
    """

    embedder: DeepEmbedder
    classes: NDArray[Any]
    classifier: Classifier
    history: list[Epoch]
    held_out: float
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def scores(self, images: Any) -> NDArray[np.float32]:
        """The scores of the output layer, one column per class."""
        device = next(self.classifier.parameters()).device
        embedder = self.embedder
        pictures = gather(images, np.zeros(len(images), int), embedder.size, embedder.crop)
        shown = Shown(pictures.pixels, pictures.slots, device, embedder.mean, embedder.scale)
        scores: NDArray[np.float32] = outputs(self.classifier, shown).cpu().numpy()
        return scores

    def predict(self, images: Any) -> NDArray[Any]:
        """The base class predicted for each picture."""
        answers: NDArray[Any] = self.classes[self.scores(images).argmax(1)]
        return answers


class BaseTrainer:
    """Trains a network on base classes.

    Parameters
    ----------
    network : str or torch.nn.Module, default="resnet18"
        A name (see ``everlearn.deep.networks``), or any module that takes (n, 3, size, size) and
        returns vectors or feature maps. It is trained in place.
    size : int, default=32
        Side of the pictures it is trained on, in pixels.
    crop : float, default=1.0
        Share of the shorter side that the centre crop of a picture keeps.
    recipe : Recipe, optional
    held_out : float, default=0.05
        Share of every class used for testing and not for training; 0 for none.
    patience : int, optional
        Stop after this many epochs without a better result on the held-out pictures.
    device : str, optional
        Defaults to the GPU if there is one.
    checkpoint : path-like, optional
        File to resume from, and to write in case the run is interrupted.
    checkpoint_every : int, default=5
        Epochs between two checkpoints.
    progress : callable, optional
        Called with each :class:`Epoch` as it ends.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn.deep.descent import Recipe
    >>> from everlearn.deep.networks import ResNet18
    >>> from everlearn.deep.trainer import BaseTrainer
    >>> rng = np.random.default_rng(0)
    >>> pictures = rng.integers(0, 90, (24, 8, 8, 3), dtype=np.uint8)
    >>> pictures[12:, :, :, 0] += 120
    >>> trainer = BaseTrainer(
    ...     ResNet18(width=4), size=8, recipe=Recipe(epochs=8, batch_size=8), device="cpu"
    ... )
    >>> trained = trainer.train(pictures, ["grey"] * 12 + ["red"] * 12)
    >>> trained.embedder.embed(pictures).shape
    (24, 32)
    """

    def __init__(
        self,
        network: str | nn.Module = "resnet18",
        *,
        size: int = 32,
        crop: float = 1.0,
        recipe: Recipe | None = None,
        held_out: float = 0.05,
        patience: int | None = None,
        device: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 5,
        progress: Callable[[Epoch], None] | None = None,
    ) -> None:
        if not 0.0 <= held_out < 1.0:
            raise InvalidParameter(f"held_out must be a share below 1, not {held_out}")
        if patience is not None and (patience < 1 or not held_out):
            raise InvalidParameter(
                f"patience={patience} needs held_out above 0 and at least one epoch"
            )
        if checkpoint_every < 1:
            raise InvalidParameter(f"checkpoint_every must be at least 1, not {checkpoint_every}")
        self.network = network
        self.size = size
        self.crop = crop
        self.recipe = recipe or Recipe()
        self.held_out = held_out
        self.patience = patience
        self.device = chosen_device(device)
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.progress = progress or (lambda epoch: None)

    def train(self, images: Any, labels: ArrayLike | None = None) -> Trained:
        """Train on pictures; :func:`everlearn.deep.pictures.gather` describes their formats.

        Raises
        ------
        TooFewClasses, TooFewExamples
            If there is only one class, or a class with one picture.
        OutOfMemory
            If batches do not fit on the device.
        NotFinite
            If the training diverges; use a smaller learning rate.
        OtherNetwork
            If the checkpoint is of another network, other pictures or another recipe.
        """
        pictures = gather(images, labels, self.size, self.crop)
        require_trainable(pictures)
        architecture = self.network if isinstance(self.network, str) else None
        network = (
            named_network(self.network, self.recipe.seed)
            if isinstance(self.network, str)
            else self.network
        )
        classifier = classifier_over(network, len(pictures.classes), self.size, self.recipe.seed)
        on_device(classifier, self.device)
        with memory_guard(self.recipe), tuned(self.device):
            progress = self._descend(classifier, pictures)
        embedder = DeepEmbedder(
            network,
            architecture=architecture,
            size=self.size,
            crop=self.crop,
            device=str(self.device),
        )
        history = [Epoch(**record) for record in progress.history]  # type: ignore[arg-type]
        best = progress.best if self.held_out else float("nan")
        return Trained(embedder, pictures.classes, classifier, history, best, pictures.unreadable)

    def _descend(self, classifier: Classifier, pictures: Pictures) -> TrainingProgress:
        slots, held = pictures.slots, pictures.held_out(self.held_out, self.recipe.seed)
        shown = Shown(pictures.pixels[~held], slots[~held], self.device)
        test_pictures = (
            Shown(pictures.pixels[held], slots[held], self.device) if held.any() else None
        )
        optimizer = optimiser(classifier, self.recipe)
        checkpoint = None
        progress = TrainingProgress()
        if self.checkpoint is not None:
            checkpoint = Checkpoint(self.checkpoint, classifier, self.recipe, pictures)
            progress = checkpoint.load(classifier, optimizer)
        captured = self._captured(classifier, shown)
        while progress.epochs_done < self.recipe.epochs and not self._out_of_patience(progress):
            self._epoch(classifier, shown, test_pictures, optimizer, progress, captured)
            done = progress.epochs_done
            last = done == self.recipe.epochs or self._out_of_patience(progress)
            if checkpoint is not None and (last or done % self.checkpoint_every == 0):
                checkpoint.save(classifier, optimizer, progress)
        if progress.best_weights:
            classifier.load_state_dict(progress.best_weights)
        return progress

    def _captured(self, classifier: Classifier, shown: Shown) -> CapturedStep | None:
        """The step as a CUDA graph, for our own networks; other modules may not support it."""
        full = 1 < self.recipe.batch_size <= len(shown)
        if self.device.type != "cuda" or not isinstance(self.network, str) or not full:
            return None
        classifier.train()
        return CapturedStep(classifier, self.recipe, *next(shown.epoch(0, self.recipe)))

    def _epoch(
        self,
        classifier: Classifier,
        shown: Shown,
        test_pictures: Shown | None,
        optimizer: torch.optim.Optimizer,
        progress: TrainingProgress,
        captured: CapturedStep | None,
    ) -> None:
        begin = perf_counter()
        number = progress.epochs_done
        classifier.train()
        with seeded(self.recipe.seed + number, self.device):
            loss = one_epoch(classifier, shown, number, self.recipe, optimizer, captured=captured)
        score = hit_rate(classifier, test_pictures) if test_pictures is not None else float("nan")
        if test_pictures is not None and score >= progress.best:
            progress.best, progress.best_epoch = score, number
            progress.best_weights = copied(classifier.state_dict())
        epoch = Epoch(number + 1, self.recipe.epochs, loss, score, perf_counter() - begin)
        progress.history.append(vars(epoch).copy())
        progress.epochs_done += 1
        self.progress(epoch)

    def _out_of_patience(self, progress: TrainingProgress) -> bool:
        if self.patience is None or progress.best_epoch < 0:
            return False
        return progress.epochs_done - 1 - progress.best_epoch >= self.patience


def train_base(images: Any, labels: ArrayLike | None = None, **settings: Any) -> DeepEmbedder:
    """Train a network on base classes and return it as an embedder.

    Parameters
    ----------
    images, labels
        A folder of folders; arrays; or batches. See :func:`everlearn.deep.pictures.gather`.
    **settings
        Those of :class:`BaseTrainer`.

    Returns
    -------
    DeepEmbedder
        For a :class:`~everlearn.Memory`, for :class:`~everlearn.deep.streaming.StreamingNetwork`,
        and for export to ONNX.
    """
    return BaseTrainer(**settings).train(images, labels).embedder
