"""Riemannian walk (Chaudhry et al., ECCV 2018).

The penalty of EWC with a Fisher information that is averaged while learning (EWC++, their Eq. 4),
plus a score of what each weight did for the loss per distance walked, the distance being measured
by the Fisher information (their Eq. 7-9):

    F ← α F_batch + (1 − α) F
    s_i ← s_i + max(0, − Σ g_i Δθ_i) / (½ F_i Δθ_i² + ε)              every so many steps
    L(θ) = L_now(θ) + λ Σ_i (F_i + s_i) (θ_i − θ*_i)²

At the end of a task s is averaged with that of the tasks before, and F and s are brought to [0, 1]
over the whole network, as in the authors' code. ``strength`` is λ; α = 0.1 and ten steps between
two updates, as there. Memory: seven numbers per weight.

The exemplars that the paper adds to RWALK are left out, as Hayes and Kanan leave them out.

Where implementations differ: F_batch is the mean of squared gradients of ten batches, not of ten
examples, as in the authors' code; nothing else is affordable at every step. Avalanche does not
normalise.
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

SHARE, STEPS, TINY = 0.1, 10, 1e-8


class RiemannianWalk(Anchored):
    """Weights are tied by Fisher information and by what they did on the way; see the module."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)
        self.fisher: Weights = {}
        self.score: Weights = {}
        self.past_score: Weights = {}
        self._squares: Weights = {}
        self._gain: Weights = {}
        self._at: Weights = {}
        self._gradients: Weights = {}
        self._before: Weights = {}
        self._steps = 0

    def begin_task(self, task: Materials) -> None:
        self._at = weights_of(self.classifier)
        self.fisher = {
            name: fitted(self.fisher[name], p).clone() if self.fisher else torch.zeros_like(p)
            for name, p in self._at.items()
        }
        self.score = _zeros(self._at)
        self._squares, self._gain, self._steps = _zeros(self._at), _zeros(self._at), 0

    def change_gradients(self) -> None:
        self._gradients = gradients_of(self.classifier)
        self._before = weights_of(self.classifier)
        super().change_gradients()

    @torch.no_grad()
    def after_step(self) -> None:
        self._steps += 1
        add_product(self._squares, self._gradients, self._gradients)
        add_product(self._gain, self._gradients, steps_made(self.classifier, self._before), -1.0)
        if self._steps % STEPS == 0:
            self._take_stock()

    def _take_stock(self) -> None:
        """The score of what was walked since the last time, then the Fisher information anew."""
        for name, walked in steps_made(self.classifier, self._at).items():
            distance = 0.5 * self.fisher[name] * walked.square() + TINY
            self.score[name] += self._gain[name].clamp(min=0.0) / distance
            self.fisher[name].mul_(1.0 - SHARE).add_(self._squares[name], alpha=SHARE / STEPS)
        self._squares, self._gain = _zeros(self._at), _zeros(self._at)
        self._at = weights_of(self.classifier)

    @torch.no_grad()
    def end_task(self, task: Materials) -> None:
        if not self.fisher:
            self.begin_task(task)
        merged = {}
        for name, score in self.score.items():
            past = self.past_score.get(name)
            merged[name] = score if past is None else 0.5 * (fitted(past, score) + score)
        self.past_score = merged
        fisher, scores = _to_unit_range(self.fisher), _to_unit_range(merged)
        # The loss has λ, not λ/2, in front of its sum.
        importance = {
            name: 2.0 * (fitted(fisher[name], p) + fitted(scores[name], p))
            for name, p in self.classifier.named_parameters()
        }
        self.anchor(importance, instead=True)


def _zeros(like: Weights) -> Weights:
    return {name: torch.zeros_like(value) for name, value in like.items()}


def _to_unit_range(values: Weights) -> Weights:
    """Brought to [0, 1] by the smallest and the largest of the whole network."""
    low = torch.stack([v.min() for v in values.values()]).min()
    high = torch.stack([v.max() for v in values.values()]).max()
    return {name: (v - low) / (high - low + TINY) for name, v in values.items()}
