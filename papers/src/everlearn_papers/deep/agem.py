"""Averaged gradient episodic memory (Chaudhry et al., ICLR 2019).

The gradient g of a batch may not raise the loss on examples kept of past tasks: with g_ref the
gradient of a batch drawn from them (their Eq. 10-11),

    g̃ = g                                     if gᵀ g_ref ≥ 0
    g̃ = g − (gᵀ g_ref / g_refᵀ g_ref) g_ref    otherwise

``kept`` examples of each class are kept, drawn at random when their task ends. Cost: a second
forward and backward pass for each step. Memory: the examples, and two gradients.

Where implementations differ: here the projection is over all weights as one vector, as printed;
some project layer by layer. Each kept example is compared among its own task's classes
(``outputs="task"``), as in the authors' code.
"""

import torch
from torch import Tensor, nn

from everlearn.deep.descent import precision
from everlearn_papers.deep.rival import Materials, Rival, as_inputs

DRAWN = 256


class AGEM(Rival):
    """Rival that projects gradients which would raise the loss on kept examples."""

    keeps_examples = True

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self.pixels = torch.empty(0)
        self.slots = torch.empty(0, dtype=torch.int64)
        self.of_task = torch.empty(0, dtype=torch.int64)
        self._task: Materials | None = None
        self._allowed = torch.zeros(0, 0, dtype=torch.bool)

    def begin_task(self, task: Materials) -> None:
        self._task = task

    def change_gradients(self) -> None:
        if not len(self.pixels):
            return
        parameters = [p for p in self.classifier.parameters() if p.grad is not None]
        gradients = [p.grad for p in parameters if p.grad is not None]
        # Kept examples must not update the running statistics of batch normalisation.
        running = [b for b in self.classifier.buffers() if b.is_floating_point()]
        before = torch._foreach_add(running, 0.0) if running else []
        references = torch.autograd.grad(self.loss_on_kept(), parameters)
        if running:
            torch._foreach_copy_(running, list(before))
        for parameter, new in zip(parameters, projected(gradients, references), strict=True):
            parameter.grad = new

    def loss_on_kept(self) -> Tensor:
        assert self._task is not None
        chosen = torch.randperm(len(self.pixels), generator=self.generator)[:DRAWN]
        chosen = chosen.to(self.pixels.device)
        with precision(self.pixels.device):
            scores = self.classifier(as_inputs(self._task, self.pixels[chosen]))
        return nn.functional.cross_entropy(self._among_own(scores, chosen), self.slots[chosen])

    def end_task(self, task: Materials) -> None:
        kept = [self.pixels.to(task.device, task.pixels.dtype).reshape(-1, *task.pixels.shape[1:])]
        slots = [self.slots.to(task.device)]
        for slot in torch.unique(task.slots).tolist():
            of_class = torch.nonzero(task.slots == slot)[:, 0].cpu()
            order = torch.randperm(len(of_class), generator=self.generator)[: self.kept]
            chosen = of_class[order].to(task.device)
            kept.append(task.pixels[chosen])
            slots.append(task.slots[chosen])
        n_new = sum(len(part) for part in kept[1:])
        number = torch.full((n_new,), len(self.tasks) - 1, device=task.device)
        self.pixels, self.slots = torch.cat(kept), torch.cat(slots)
        self.of_task = torch.cat([self.of_task.to(task.device), number])

    def _among_own(self, scores: Tensor, chosen: Tensor) -> Tensor:
        if self.all_seen:
            return scores.float()
        if self._allowed.shape != (len(self.tasks), scores.shape[1]):
            allowed = torch.zeros(len(self.tasks), scores.shape[1], dtype=torch.bool)
            for number, classes in enumerate(self.tasks):
                allowed[number, classes.cpu()] = True
            self._allowed = allowed.to(scores.device)
        return scores.float().masked_fill(~self._allowed[self.of_task[chosen]], -torch.inf)


def projected(gradients: list[Tensor], references: tuple[Tensor, ...]) -> list[Tensor]:
    """Return g̃: g with any component against g_ref removed, over all weights as one vector."""
    pairs = list(zip(gradients, references, strict=True))
    along = sum((g * r).sum() for g, r in pairs)
    length = sum(r.square().sum() for r in references)
    assert isinstance(along, Tensor)
    assert isinstance(length, Tensor)
    factor = torch.where(along < 0, along / length.clamp(min=1e-20), torch.zeros_like(along))
    return [g - factor * r for g, r in pairs]
