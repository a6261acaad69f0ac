"""Memory aware synapses (Aljundi et al., ECCV 2018).

The importance of a weight is the sensitivity of the network's output to it (their Eq. 2-4):

    Ω_i = 1/N Σ_n | ∂ ‖F(x_n; θ)‖² / ∂θ_i |          L(θ) = L_now(θ) + λ Σ_i Ω_i (θ_i − θ*_i)²

No labels are needed. Importances of tasks are summed; the anchor is the last set of weights.
``regularization`` is λ. Cost and memory are those of EWC.

Where implementations differ: the mean of absolute values over examples is taken here, as printed;
public code takes the absolute value of a batch's gradient, in which examples cancel each other
(``together=10``). The norm is over the outputs of all classes so far; the code of A-GEM takes those
of the task, and keeps the importance of the last task alone (``last_only=True``).
"""

import torch
from torch import Tensor

from everlearn_papers.deep.importance import Anchored, averaged_per_example
from everlearn_papers.deep.rival import Materials, Weights


class MAS(Anchored):
    """Rival with a quadratic penalty weighted by the sensitivity of the output."""

    def __init__(
        self,
        *arguments: object,
        together: int = 1,
        last_only: bool = False,
        **settings: object,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.together = together
        self.last_only = last_only

    def end_task(self, task: Materials) -> None:
        # The loss has λ, not λ/2, in front of its sum.
        found = {name: 2.0 * value for name, value in self.sensitivity(task).items()}
        self.anchor(found, instead=self.last_only)

    def sensitivity(self, task: Materials) -> Weights:
        """Return the mean absolute gradient of the squared norm of the output."""
        total = averaged_per_example(
            self.classifier, task, _squared_norm, torch.abs, self.generator, together=self.together
        )
        return {name: value / self.together for name, value in total.items()}


def _squared_norm(scores: Tensor, slot: Tensor) -> Tensor:
    return scores.square().sum()
