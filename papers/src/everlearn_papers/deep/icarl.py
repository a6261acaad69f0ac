"""iCaRL: incremental classifier and representation learning (Rebuffi et al., CVPR 2017).

A few exemplars of each class are kept, picked by herding (Algorithm 4). A task's pictures and all
exemplars train the network together (Algorithm 3) with one sigmoid per class: for new classes the
target is the label, for old ones what the network said before the task (distillation),

    L = − Σ_x [ Σ_{k new} δ_{y=k} log g_k(x) + δ_{y≠k} log(1 − g_k(x))
              + Σ_{k old} q_k(x) log g_k(x) + (1 − q_k(x)) log(1 − g_k(x)) ]

and a picture is assigned to the class whose exemplars' mean is nearest, features normalised to unit
length (Algorithm 1). ``kept`` exemplars per class are stored, or ``budget`` in all, shared by the
classes so far. ``regularization`` is the distillation weight. Cost: training on the task and the
exemplars, and a forward pass through the old network. Memory: the exemplars, and the old network
while learning.

Where implementations differ: ``likelihood="softmax"`` trains with cross-entropy and distils with
softened cross-entropy (temperature 2), which PyCIL and FACIL call iCaRL; ``"sigmoid"`` is printed.
"""

import copy

import torch
from torch import Tensor, nn

from everlearn.deep.descent import Classifier, outputs
from everlearn_papers.deep.exemplars import Exemplars
from everlearn_papers.deep.rival import Materials, Rival, as_inputs, joined

TEMPERATURE = 2.0


class ICaRL(Rival):
    """Rival with exemplars, distillation and a nearest-mean-of-exemplars classifier."""

    keeps_examples = True

    def __init__(
        self,
        *arguments: object,
        budget: int | None = None,
        likelihood: str = "sigmoid",
        **settings: object,
    ) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self.budget = budget
        self.likelihood = likelihood
        self.exemplars = Exemplars()
        self.old: Classifier | None = None
        self._task: Materials | None = None

    @property
    def per_class(self) -> int:
        seen = max(end for _, end in self.spans)
        return self.kept if self.budget is None else max(1, self.budget // seen)

    def begin_task(self, task: Materials) -> None:
        if len(self.exemplars):
            self.old = copy.deepcopy(self.classifier).eval()

    def materials(self, task: Materials) -> Materials:
        if not len(self.exemplars):
            return task
        return joined(task, self.exemplars.pixels, self.exemplars.slots)

    def loss(self, pictures: Tensor, slots: Tensor) -> Tensor:
        scores = self.classifier(pictures).float()
        n_old = self.spans[-1][0] if self.old is not None else 0
        with torch.no_grad():
            said = self.old(pictures).float()[:, :n_old] if self.old is not None else scores[:, :0]
        if self.likelihood == "sigmoid":
            target = nn.functional.one_hot(slots, scores.shape[1]).float()
            target[:, :n_old] = said.sigmoid()
            losses = nn.functional.binary_cross_entropy_with_logits(
                scores, target, reduction="none"
            )
            weights = torch.ones(scores.shape[1], device=scores.device)
            weights[:n_old] = self.regularization
            return (losses * weights).sum(1).mean()
        loss = nn.functional.cross_entropy(scores, slots)
        return loss + self.regularization * distillation(scores[:, :n_old], said) if n_old else loss

    def end_task(self, task: Materials) -> None:
        self._task = task
        self.exemplars.keep(task, self.unit_features(task), self.per_class)
        self.old = None

    def scores(self, asked: Materials) -> Tensor:
        """Return minus the squared distance to the mean of each class's exemplars."""
        features = self.unit_features(asked)
        means = self.class_means(features.shape[1])
        return -(features[:, None, :] - means[None]).square().sum(2)

    @torch.no_grad()
    def class_means(self, width: int) -> Tensor:
        assert self._task is not None
        self.classifier.eval()
        device = self._task.device
        means = torch.zeros(max(self.exemplars.by_class) + 1, width, device=device)
        for slot, pixels in self.exemplars.by_class.items():
            features = self.classifier.features(as_inputs(self._task, pixels)).float()
            means[slot] = nn.functional.normalize(features).mean(0)
        return nn.functional.normalize(means)

    def unit_features(self, asked: Materials) -> Tensor:
        rows = outputs(_Features(self.classifier), asked)  # type: ignore[arg-type]
        return nn.functional.normalize(rows)

    def bytes_kept(self) -> int:
        return self.exemplars.n_bytes()


def distillation(scores: Tensor, said: Tensor) -> Tensor:
    """Return the cross-entropy between softened outputs (Hinton et al. 2015), times T²."""
    soft = (said / TEMPERATURE).softmax(1)
    log_soft = (scores / TEMPERATURE).log_softmax(1)
    return -(soft * log_soft).sum(1).mean() * TEMPERATURE**2


class _Features(nn.Module):
    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, pictures: Tensor) -> Tensor:
        return self.classifier.features(pictures)
