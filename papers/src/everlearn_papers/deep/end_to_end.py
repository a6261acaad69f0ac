"""End-to-end incremental learning (Castro et al., ECCV 2018).

iCaRL with the network's own output layer in place of the nearest mean. The loss is cross-entropy
over all classes plus, for every older task, a distillation of that task's outputs (their Eq. 1-3,
temperature 2):

    L = L_C + Σ_f L_Df          L_Df = − 1/N Σ_i Σ_j p_ij^{1/T} log q_ij^{1/T}

After each task the network is fine-tuned on equally many exemplars of old and new classes with a
small learning rate, with distillation of the task's own outputs too (Sec. 4.2). Augmentation adds
brightness and contrast (Sec. 5). Exemplars are chosen by herding. ``regularization`` is the
distillation weight; 1 as printed. Cost and memory are those of iCaRL plus the balanced fine-tuning.

Left out: the noise added to gradients (their Eq. 4), which the authors found worth about a point on
a network trained from scratch at a learning rate of their own.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from everlearn.deep.descent import Recipe, outputs
from everlearn_papers.deep.icarl import ICaRL, distillation
from everlearn_papers.deep.rival import Materials, joined

# Balanced fine-tuning: fractions of the epochs and of the learning rate. The paper has 30 epochs
# after 40, at a tenth of the rate; half of our 60 epochs is 30 too.
BALANCED_EPOCHS, BALANCED_RATE = 0.5, 0.1


class EndToEnd(ICaRL):
    """Rival with exemplars, distillation per task and balanced fine-tuning."""

    _balancing = False

    def learn(self, task: Materials, classes: Sequence[int]) -> None:
        self._open_task(task, classes)
        self.begin_task(task)
        self.descend(self.materials(task), self.make_optimizer(), self._lit(self.recipe))
        self.exemplars.keep(task, self.unit_features(task), self.per_class)
        if len(self.tasks) > 1:
            self._balance(task)
        self.end_task(task)

    def loss(self, pictures: Tensor, slots: Tensor) -> Tensor:
        scores = self.classifier(pictures).float()
        loss = nn.functional.cross_entropy(scores, slots)
        if self.old is None:
            return loss
        with torch.no_grad():
            said = self.old(pictures).float()
        for number, (start, end) in enumerate(self.spans):
            if end <= said.shape[1] and self._distils(number):
                part = slice(start, end)
                loss = loss + self.regularization * distillation(scores[:, part], said[:, part])
        return loss

    def scores(self, asked: Materials) -> Tensor:
        return outputs(self.classifier, asked)  # type: ignore[arg-type]

    def _distils(self, number: int) -> bool:
        """Whether a task is distilled: old tasks always, the newest only while balancing."""
        return number < len(self.tasks) - 1 or self._balancing

    def _balance(self, task: Materials) -> None:
        """Fine-tune on equally many exemplars of new and old classes."""
        self.old = copy.deepcopy(self.classifier).eval()
        self._balancing = True
        recipe = self._lit(
            replace(
                self.recipe,
                epochs=balancing_epochs(self.recipe.epochs),
                learning_rate=BALANCED_RATE * self.recipe.learning_rate,
            )
        )
        nothing = _none_of(task)
        balanced = joined(nothing, self.exemplars.pixels, self.exemplars.slots)
        self.descend(balanced, self.make_optimizer(), recipe)
        self._balancing = False

    def _lit(self, recipe: Recipe) -> Recipe:
        return replace(recipe, augmentation=replace(recipe.augmentation, light=True))


def balancing_epochs(epochs: int) -> int:
    """Return the epochs of balanced fine-tuning that follow so many epochs of a task."""
    return max(1, round(BALANCED_EPOCHS * epochs))


def _none_of(task: Materials) -> Materials:
    """Return an empty set of examples of the task's kind and normalisation."""
    empty = copy.copy(task)
    empty.pixels, empty.slots = task.pixels[:0], task.slots[:0]
    return empty
