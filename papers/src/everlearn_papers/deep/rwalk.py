"""Riemannian walk, and the EWC++ inside it (Chaudhry et al., ECCV 2018).

EWC++ is EWC with one anchor and a Fisher information that is averaged while learning (their Eq. 4);
the Riemannian walk adds a score: the decrease of the loss due to each weight per distance moved,
measured in the Fisher metric (their Eq. 7-9):

    F ← (1 − α) F + α F_batch                                           every so many steps
    s_i ← s_i + max(0, − Σ g_i Δθ_i) / (F_i Δθ_i² + ξ)                  likewise
    L(θ) = L_now(θ) + λ Σ_i (F_i + s_i) (θ_i − θ*_i)²

F and s are scaled to [0, 1] over the whole network when a task ends. ``regularization`` is λ.
Memory: seven numbers per weight.

The exemplars that the paper adds to RWALK are left out, as Hayes and Kanan leave them out.

Where implementations differ: where the authors' code, which produced the published figures,
deviates from the paper, this follows the code. There α = 0.9 and ξ = 0.001, distances have
no factor ½, and F_batch is the mean of squared gradients of ten batches, not of examples; in the
Riemannian walk squared gradients are summed over the whole task, so that F grows with it. Scores
of a new task are not averaged with those of the past, but half their sum is added to them:
s ← 1.5 s + 0.5 s_new. With ξ = 1e-8 and plain averages, permuted MNIST ends six points lower.
Avalanche does not normalise.
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

SHARE, STEPS, DAMPING, TINY = 0.9, 10, 1e-3, 1e-32


class OnlineEWC(Anchored):
    """EWC++: a quadratic penalty weighted by a running average of the Fisher information."""

    sums_over_task = False

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)
        self.fisher: Weights = {}
        self._squares: Weights = {}
        self._gradients: Weights = {}
        self._steps = 0

    def begin_task(self, task: Materials) -> None:
        now = weights_of(self.classifier)
        self.fisher = {
            name: fitted(self.fisher[name], p).clone() if self.fisher else torch.zeros_like(p)
            for name, p in now.items()
        }
        self._squares, self._steps = _zeros(now), 0

    def change_gradients(self) -> None:
        self._gradients = gradients_of(self.classifier)
        super().change_gradients()

    @torch.no_grad()
    def after_step(self) -> None:
        self._steps += 1
        add_product(self._squares, self._gradients, self._gradients)
        if self._steps % STEPS == 0:
            self.take_stock()

    def take_stock(self) -> None:
        """Update the running Fisher information."""
        fisher, squares = list(self.fisher.values()), list(self._squares.values())
        torch._foreach_mul_(fisher, 1.0 - SHARE)
        torch._foreach_add_(fisher, squares, alpha=SHARE / STEPS)
        if not self.sums_over_task:
            torch._foreach_zero_(squares)

    @torch.no_grad()
    def end_task(self, task: Materials) -> None:
        if not self.fisher:
            self.begin_task(task)
        self.anchor(self.importance(), instead=True)

    def importance(self) -> Weights:
        fisher = _to_unit_range(self.fisher)
        # The loss has λ, not λ/2, in front of its sum.
        return {
            name: 2.0 * fitted(fisher[name], p) for name, p in self.classifier.named_parameters()
        }


class RiemannianWalk(OnlineEWC):
    """Rival with a quadratic penalty weighted by Fisher information and path score."""

    sums_over_task = True

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)
        self.score: Weights = {}
        self.past_score: Weights = {}
        self._gain: Weights = {}
        self._at: Weights = {}
        self._before: Weights = {}

    def begin_task(self, task: Materials) -> None:
        super().begin_task(task)
        self._at = weights_of(self.classifier)
        self.score, self._gain = _zeros(self._at), _zeros(self._at)

    def change_gradients(self) -> None:
        self._before = weights_of(self.classifier)
        super().change_gradients()

    @torch.no_grad()
    def after_step(self) -> None:
        add_product(self._gain, self._gradients, steps_made(self.classifier, self._before), -1.0)
        super().after_step()

    def take_stock(self) -> None:
        """Add the score of the path since the last update, then update the Fisher information."""
        walked = list(steps_made(self.classifier, self._at).values())
        distance = torch._foreach_mul(walked, walked)
        torch._foreach_mul_(distance, list(self.fisher.values()))
        torch._foreach_add_(distance, DAMPING)
        gain = list(self._gain.values())
        torch._foreach_clamp_min_(gain, 0.0)
        torch._foreach_div_(gain, list(distance))
        torch._foreach_add_(list(self.score.values()), gain)
        torch._foreach_zero_(gain)
        super().take_stock()
        self._at = weights_of(self.classifier)

    def importance(self) -> Weights:
        merged = {}
        for name, score in self.score.items():
            past = self.past_score.get(name)
            merged[name] = score if past is None else 1.5 * fitted(past, score) + 0.5 * score
        self.past_score = merged
        scores = _to_unit_range(merged)
        fisher = super().importance()
        return {
            name: fisher[name] + 2.0 * fitted(scores[name], p)
            for name, p in self.classifier.named_parameters()
        }


def _zeros(like: Weights) -> Weights:
    return {name: torch.zeros_like(value) for name, value in like.items()}


def _to_unit_range(values: Weights) -> Weights:
    """Scale values to [0, 1] by the minimum and maximum over the whole network."""
    low = torch.stack([v.min() for v in values.values()]).min()
    high = torch.stack([v.max() for v in values.values()]).max()
    return {name: (v - low) / (high - low + TINY) for name, v in values.items()}
