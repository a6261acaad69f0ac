"""NCM forests: nodes send an example the way of its nearest class mean.

c_κ^n = mean of the examples of class κ at node n, for κ in a random subset K^n          (Eq. 7)
f(x) = e_κ*,  κ* = argmin over K^n of ‖x − c_κ^n‖,  e_κ ∈ {left, right} by highest gain   (Eq. 8)
κ*(x) = argmax of the leaves' class distributions, averaged over the trees                (Eq. 2)
"""

from numbers import Real
from typing import Any

from everlearn.errors import InvalidParameter
from everlearn.learners.forest.classifier import ForestClassifier, subset_size
from everlearn.learners.forest.grove import Growth


class NCMForest(ForestClassifier):
    """A random forest of nearest-class-mean nodes that grows with new classes."""

    _updates = ("uls", "igt", "rtst", "rust")

    def __init__(
        self,
        *,
        n_estimators: int = 50,
        update: str = "rust",
        update_fraction: float = 0.05,
        node_sampling: str = "quality",
        class_subset: str | float = "sqrt",
        n_candidates: int = 1024,
        min_samples: float = 10,
        memory: int | None = None,
        whiten: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.update = update
        self.update_fraction = update_fraction
        self.node_sampling = node_sampling
        self.class_subset = class_subset
        self.n_candidates = n_candidates
        self.min_samples = min_samples
        self.memory = memory
        self.whiten = whiten
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        subset: Any = self.class_subset
        number = type(subset) is not bool and isinstance(subset, Real)
        share = number and 0 < subset <= 1
        if not (share or (isinstance(subset, str) and subset in ("sqrt", "log2"))):
            raise InvalidParameter(
                f'class_subset is "sqrt", "log2" or a share between 0 and 1, not {subset!r}'
            )

    def _growth(self, n_classes: int) -> Growth:
        return Growth(
            kind=0,
            subset=subset_size(self.class_subset, n_classes),
            n_candidates=self.n_candidates,
            smallest=float(self.min_samples),
            regularisation=0.0,
            epochs=0,
            update=self.update,
            node_sampling=self.node_sampling,
            update_fraction=float(self.update_fraction),
            workers=self._workers(),
        )
