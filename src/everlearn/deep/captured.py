"""A training step recorded once as a CUDA graph, and replayed for batches of the same shape.

A step of a small network is hundreds of short kernels, and launching them one by one takes the host
longer than the GPU needs to compute them. A CUDA graph holds forward pass, loss and backward pass
as a whole: one launch for all of them. It reads its batch from fixed memory and writes the
gradients to fixed memory, which is the parameters' ``grad`` from then on.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from everlearn.deep.descent import Recipe

WARM_UPS = 3


class CapturedStep:
    """Forward pass, loss and backward pass for one batch shape, as a CUDA graph.

    While it is in use, the ``grad`` tensors of the parameters must not be replaced: set them to
    zero (``zero_grad(set_to_none=False)``), never to None.

    Parameters
    ----------
    classifier : nn.Module
        On the GPU and in training mode. Its weights and buffers are not changed, its gradients
        are.
    recipe : Recipe
    pictures, slots : Tensor
        A batch with the shape, type and memory layout of later ones.
    """

    def __init__(
        self, classifier: nn.Module, recipe: "Recipe", pictures: Tensor, slots: Tensor
    ) -> None:
        self.classifier = classifier
        self.label_smoothing = recipe.label_smoothing
        self.pictures = torch.empty_like(pictures).copy_(pictures)
        self.slots = torch.empty_like(slots).copy_(slots)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(pictures.device):
            side = torch.cuda.Stream()
            self._warm_up(side)
            for parameter in classifier.parameters():
                parameter.grad = None
            with torch.cuda.graph(self.graph, stream=side):
                self.loss = self._step()

    def __call__(self, pictures: Tensor, slots: Tensor) -> Tensor:
        """The loss of a batch; its gradients replace the previous ones."""
        self.pictures.copy_(pictures)
        self.slots.copy_(slots)
        self.graph.replay()
        return self.loss.clone()

    def fits(self, pictures: Tensor) -> bool:
        """Whether a batch has the recorded shape."""
        return pictures.shape == self.pictures.shape

    def _step(self) -> Tensor:
        # Weights that autocast converted and cached outside of the graph would be outdated.
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = nn.functional.cross_entropy(
                self.classifier(self.pictures), self.slots, label_smoothing=self.label_smoothing
            )
        loss.backward()
        return loss.detach()

    def _warm_up(self, side: torch.cuda.Stream) -> None:
        """Run steps in which libraries choose their kernels; they cannot while recording."""
        before = [buffer.clone() for buffer in self.classifier.buffers()]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.no_grad():
            for buffer, saved in zip(self.classifier.buffers(), before, strict=True):
                buffer.copy_(saved)
