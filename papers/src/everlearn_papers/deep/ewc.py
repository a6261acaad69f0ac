"""Elastic weight consolidation (Kirkpatrick et al., PNAS 2017).

The loss is a Laplace approximation of the posterior of all tasks (their Eq. 3):

    L(θ) = L_now(θ) + Σ_k λ/2 Σ_i F_ki (θ_i − θ*_ki)²

F_k is the diagonal of the Fisher information at the end of task k,

    F_ki = E_x E_{y ~ p(y|x, θ*)} [ (∂ log p(y|x, θ*) / ∂θ_i)² ]

``regularization`` is λ. Each task keeps its own anchor. Cost after each
task: one forward and one backward pass for each of 512 examples; while learning: one multiplication
and addition per weight and step.
Memory: two numbers per weight, however many tasks (see ``importance``).

Where implementations differ: the label y is drawn from the network's own answer, as the definition
of the Fisher information has it; Avalanche, mammoth and the code of A-GEM take the true label (the
"empirical" Fisher), and all three square the gradient of a whole batch. ``labels="true"`` takes the
true label here too, example by example. The code of A-GEM keeps one anchor, a moving average of F
and no factor ½.
"""

import torch
from torch import Tensor

from everlearn.deep.descent import Shown, outputs
from everlearn_papers.deep.importance import Anchored, averaged_per_example, log_likelihood
from everlearn_papers.deep.rival import Materials, Rows, Weights


class EWC(Anchored):
    """Rival with a quadratic penalty weighted by the Fisher information."""

    own_anchors = True

    def __init__(self, *arguments: object, labels: str = "drawn", **settings: object) -> None:
        super().__init__(*arguments, **settings)
        self.labels = labels

    def end_task(self, task: Materials) -> None:
        self.anchor(self.fisher(task))

    def fisher(self, task: Materials) -> Weights:
        """Return the diagonal of the Fisher information, estimated on a task's examples."""
        allowed = self._allowed()
        if self.labels == "drawn":
            task = self._with_drawn_labels(task, allowed)
        return averaged_per_example(
            self.classifier, task, log_likelihood(allowed), torch.square, self.generator
        )

    def _with_drawn_labels(self, task: Materials, allowed: Tensor) -> Materials:
        shares = (outputs(self.classifier, task) + allowed).softmax(1)  # type: ignore[arg-type]
        drawn = torch.multinomial(shares.cpu(), 1, generator=self.generator)[:, 0]
        if isinstance(task, Shown):
            mean, scale = task.mean.cpu().numpy(), task.scale.cpu().numpy()
            return Shown(task.pixels, drawn, task.device, mean, scale)
        return Rows(task.pixels, drawn.to(task.device))

    def _allowed(self) -> Tensor:
        """Return a mask to add to scores: 0 for the classes compared, −inf for others."""
        n = self.classifier.output.out_features
        zeros = torch.zeros(1, n, device=self.tasks[-1].device)
        return self.masked(zeros, self.tasks[-1])[0]
