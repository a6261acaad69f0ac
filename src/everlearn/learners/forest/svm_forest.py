"""SVM forests: nodes send an example to one side of a hyperplane.

f(x) = sgn w·x                                                                            (Eq. 3)
w = argmin λ/2 ‖w‖² + mean of max(0, 1 − y w·x),  y = one random meta-label per class     (Eq. 4)
"""

from typing import Any

from everlearn.errors import InvalidParameter
from everlearn.learners.forest.classifier import ForestClassifier
from everlearn.learners.forest.grove import Growth


class SVMForest(ForestClassifier):
    """A random forest of linear-SVM nodes that grows with new classes."""

    _updates = ("uls", "igt", "rtst", "rust")

    def __init__(
        self,
        *,
        n_estimators: int = 50,
        update: str = "rust",
        update_fraction: float = 0.05,
        node_sampling: str = "quality",
        regularisation: float = 1e-2,
        epochs: int = 5,
        n_candidates: int = 20,
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
        self.regularisation = regularisation
        self.epochs = epochs
        self.n_candidates = n_candidates
        self.min_samples = min_samples
        self.memory = memory
        self.whiten = whiten
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require_whole("epochs", 1)
        self._require_range("regularisation", 0.0, 1e6)
        if self.regularisation == 0:
            raise InvalidParameter("regularisation is a number above 0, not 0")

    def _growth(self, n_classes: int) -> Growth:
        return Growth(
            kind=1,
            subset=n_classes,
            n_candidates=self.n_candidates,
            smallest=float(self.min_samples),
            regularisation=float(self.regularisation),
            epochs=int(self.epochs),
            update=self.update,
            node_sampling=self.node_sampling,
            update_fraction=float(self.update_fraction),
            workers=self._workers(),
        )
