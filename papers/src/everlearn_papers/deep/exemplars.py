"""Exemplars of each class: selection by herding, and their store.

Herding (Welling 2009, as iCaRL uses it, Algorithm 4) picks examples one by one so that the mean of
those picked stays as near as possible to the mean of the class:

    p_k = argmin_x ‖ μ − (φ(x) + Σ_{j<k} φ(p_j)) / k ‖

φ(x) are features normalised to unit length. Exemplars are in order of selection, so a smaller
budget drops the last ones.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from everlearn_papers.deep.rival import Materials


def herded(features: Tensor, n: int) -> Tensor:
    """Return the indices of ``n`` examples in the order in which herding selects them."""
    mean = features.mean(0)
    total = torch.zeros_like(mean)
    free = torch.ones(len(features), dtype=torch.bool, device=features.device)
    picked: list[Tensor] = []
    for k in range(1, min(n, len(features)) + 1):
        distances = (mean - (features + total) / k).square().sum(1)
        best = distances.masked_fill(~free, torch.inf).argmin()
        picked.append(best)
        free[best] = False
        total = total + features[best]
    return torch.stack(picked)


@dataclass
class Exemplars:
    """Exemplars by class, in order of selection."""

    by_class: dict[int, Tensor] = field(default_factory=dict)

    def keep(self, task: Materials, features: Tensor, n: int) -> None:
        """Select ``n`` exemplars of every class of a task and cut earlier classes to ``n``."""
        self.by_class = {slot: pixels[:n] for slot, pixels in self.by_class.items()}
        for slot in torch.unique(task.slots).tolist():
            of_class = torch.nonzero(task.slots == slot)[:, 0]
            self.by_class[slot] = task.pixels[of_class[herded(features[of_class], n)]]

    @property
    def pixels(self) -> Tensor:
        return torch.cat(list(self.by_class.values()))

    @property
    def slots(self) -> Tensor:
        parts = [
            torch.full((len(pixels),), slot, device=pixels.device)
            for slot, pixels in self.by_class.items()
        ]
        return torch.cat(parts)

    def __len__(self) -> int:
        return sum(len(pixels) for pixels in self.by_class.values())

    def n_bytes(self) -> int:
        return sum(p.numel() * p.element_size() for p in self.by_class.values())
