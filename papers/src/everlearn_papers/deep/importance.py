"""Quadratic penalties weighted by parameter importance: the base of EWC, SI, MAS and RWALK.

All four add to the loss a quadratic penalty around weights of the past,

    c/2 · Σ_i Σ_k Ω_ki (θ_i − θ*_ki)²

and differ in the importance Ω_k they assign to the weights after task k, and in whether each task
keeps its own anchor θ*_k (EWC) or only the last one is kept (SI, MAS, RWALK). The gradient is
c (A θ − b) with A = Σ_k Ω_k and b = Σ_k Ω_k θ*_k, so two numbers per weight hold any number of
tasks exactly; public implementations of EWC often keep a copy of the network per task instead.

The gradient of the penalty is added to the gradient of the loss after backpropagation, where SI and
RWALK can still see the latter alone. Only weights have a penalty; running statistics of batch
normalisation follow the current task, as in the published code.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from everlearn.deep.descent import Classifier
from everlearn_papers.deep.rival import Materials, Rival, Weights, as_inputs, fitted

# Importances are averages over at most EXAMPLES examples of a task, AT_ONCE per batch.
EXAMPLES, AT_ONCE = 512, 32


class Anchored(Rival):
    """Rival with a quadratic penalty around past weights; subclasses define the importance."""

    own_anchors = False

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self.stiffness: Weights = {}
        self.pull: Weights = {}

    def change_gradients(self) -> None:
        if not self.stiffness or not self.regularization:
            return
        named = [(name, p) for name, p in self.classifier.named_parameters() if p.grad is not None]
        weights = [p.detach() for _, p in named]
        A = [fitted(self.stiffness[name], p) for name, p in named]
        b = [fitted(self.pull[name], p) for name, p in named]
        # One fused launch for all weights: steps are short and a network has dozens of tensors.
        force = torch._foreach_mul(A, weights)
        torch._foreach_sub_(force, b)
        torch._foreach_mul_(force, self.regularization)
        gradients = [p.grad for _, p in named if p.grad is not None]
        torch._foreach_add_(gradients, list(force))

    @torch.no_grad()
    def anchor(self, importance: Weights, *, instead: bool = False) -> None:
        """Anchor the current weights, in addition to or ``instead`` of earlier anchors."""
        for name, parameter in self.classifier.named_parameters():
            omega = importance[name]
            before = self.stiffness.get(name)
            if before is not None and not instead:
                total = fitted(before, parameter) + omega
            else:
                total = omega
            if self.own_anchors and before is not None and not instead:
                self.pull[name] = fitted(self.pull[name], parameter) + omega * parameter
            else:
                self.pull[name] = total * parameter
            self.stiffness[name] = total


def averaged_per_example(
    classifier: Classifier,
    task: Materials,
    objective: Callable[[Tensor, Tensor], Tensor],
    measure: Callable[[Tensor], Tensor],
    generator: torch.Generator,
    *,
    together: int = 1,
) -> Weights:
    """Return the mean over examples of ``measure`` of the gradient of each one's objective.

    The network is in evaluation mode, so that gradients of examples are independent. Public
    implementations often use the squared gradient of a batch, which is not the mean of squared
    gradients; ``together`` > 1 measures that many examples at once, to compare with those.
    """
    classifier.eval()
    parameters = {name: p.detach() for name, p in classifier.named_parameters()}
    buffers = dict(classifier.named_buffers())

    def of_one(weights: Weights, example: Tensor, slot: Tensor) -> Tensor:
        scores = functional_call(classifier, {**weights, **buffers}, (example,))
        return objective(scores, slot)

    gradients = vmap(grad(of_one), in_dims=(None, 0, 0))
    n_groups = min(EXAMPLES, len(task) // together)
    chosen = torch.randperm(len(task), generator=generator)[: n_groups * together].to(task.device)
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for part in chosen.reshape(-1, together).split(AT_ONCE):
        examples = as_inputs(task, task.pixels[part.flatten()])
        examples = examples.unflatten(0, (-1, together))
        found = gradients(parameters, examples, task.slots[part])
        for name, value in found.items():
            total[name] += measure(value).sum(0)
    return {name: value / n_groups for name, value in total.items()}


def log_likelihood(allowed: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the objective log p(slot | x), with the softmax over the allowed classes."""

    def value(scores: Tensor, slots: Tensor) -> Tensor:
        return nn.functional.log_softmax(scores + allowed, 1).gather(1, slots[:, None]).sum()

    return value
