"""Synaptic intelligence (Zenke, Poole and Ganguli, ICML 2017).

While a task is learned, each weight accumulates the decrease of the loss due to its movement (their
Eq. 3). At the end of the task this gives an importance (Eq. 5), for a penalty around the last
weights (Eq. 4):

    ω_i = − Σ_steps g_i Δθ_i          Ω_i ← Ω_i + ω_i / (Δ_i² + ξ)
    L(θ) = L_now(θ) + c Σ_i Ω_i (θ_i − θ*_i)²

g is the gradient of the loss without the penalty, Δθ the step made, Δ the movement over the task.
``regularization`` is c; ξ = 0.1 (split MNIST in the paper: c = 1, ξ = 0.1 in
their code). Cost: three operations per weight and step. Memory: five numbers per weight.

Where implementations differ: a weight whose movement raised the loss has ω < 0; here and in the
authors' code its importance is clipped at zero; others keep it, so that the penalty pushes weights
away. With momentum the step is not a multiple of the gradient; the actual step is used. The base
task is treated like any other if its path is given (:meth:`follow`).
"""

import torch

from everlearn_papers.deep.importance import Anchored
from everlearn_papers.deep.rival import (
    Materials,
    Weights,
    add_product,
    fitted,
    gradients_of,
    steps_made,
    weights_of,
)

DAMPING = 0.1


class SynapticIntelligence(Anchored):
    """Rival with a quadratic penalty weighted by each weight's contribution to the loss."""

    def __init__(self, *arguments: object, damping: float = DAMPING, **settings: object) -> None:
        super().__init__(*arguments, **settings)
        self.damping = damping
        self.path: Weights = {}
        self.began_at: Weights = {}
        self._gradients: Weights = {}
        self._before: Weights = {}

    def begin_task(self, task: Materials) -> None:
        self.began_at = weights_of(self.classifier)
        self.path = {name: torch.zeros_like(p) for name, p in self.began_at.items()}

    def change_gradients(self) -> None:
        self._gradients = gradients_of(self.classifier)
        self._before = weights_of(self.classifier)
        super().change_gradients()

    @torch.no_grad()
    def after_step(self) -> None:
        made = steps_made(self.classifier, self._before)
        add_product(self.path, self._gradients, made, -1.0)

    @torch.no_grad()
    def end_task(self, task: Materials) -> None:
        importance = {}
        for name, parameter in self.classifier.named_parameters():
            if name not in self.path:
                importance[name] = torch.zeros_like(parameter)
                continue
            path = fitted(self.path[name], parameter)
            moved = parameter - fitted(self.began_at[name], parameter)
            # The loss has c, not c/2, in front of its sum.
            importance[name] = 2.0 * path.clamp(min=0.0) / (moved.square() + self.damping)
        self.anchor(importance)

    def follow(self, path: Weights, began_at: Weights) -> None:
        """Set the path recorded during base training; call before :meth:`start`."""
        self.path, self.began_at = path, began_at
