"""SVM forests: nodes send an example to one side of a hyperplane.

f(x) = sgn w·x                                                                            (Eq. 3)
w = argmin λ/2 ‖w‖² + mean of max(0, 1 − y w·x),  y = one random meta-label per class     (Eq. 4)
"""

from typing import Any

from everlearn.errors import InvalidParameter
from everlearn.learners.forest.classifier import ForestClassifier
from everlearn.learners.forest.grove import Growth


class SVMForest(ForestClassifier):
    """A random forest of linear-SVM nodes that grows with new classes.

    Each node sends an example to one side of a hyperplane, trained to tell a random half of the
    classes from the other. Asking a tree costs O(d) per level.

    Parameters
    ----------
    update : {"uls", "igt", "rtst", "rust", "auto"}, default="rust"
        As for :class:`everlearn.NCMForest`; "rust" trains the hyperplanes of the nodes drawn on
        from where they are, once for either side of a new class, and keeps the better.
    regularisation : float, default=0.01
        λ of Eq. 4.
    epochs : int, default=5
        Passes over the examples of a node, between 200 and 20,000 steps in all.
    n_candidates : int, default=20
        How many random halves of the classes are tried at a node.
    n_estimators, update_fraction, node_sampling, min_samples, memory, whiten, random_state, n_jobs
        As for :class:`everlearn.NCMForest`.

    Attributes
    ----------
    classes_, n_trees_, n_nodes_, n_stored_, n_features_in_
        As for :class:`everlearn.NCMForest`.

    See Also
    --------
    NCMForest : Cheaper to train; what it says on promises holds here too.

    Notes
    -----
    λ and epochs were chosen on held-out training examples of 50 classes of CIFAR-100; between
    1e-4 and 1e-1 the choice hardly matters. Against the paper, hyperplanes have an intercept (the
    weight of one more feature that is always 1), so that a forest that starts with a handful of
    examples need not be centred; q new classes at once are tried in 2q of the 2^q ways; a known
    class without a meta-label at a node takes the side on which most of its examples are.

    References
    ----------
    Ristin, Guillaumin, Gall, Van Gool. Incremental Learning of Random Forests for Large-Scale
    Image Classification. PAMI 2015.
    Shalev-Shwartz, Singer, Srebro. Pegasos: Primal Estimated sub-Gradient Solver for SVM. 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import SVMForest
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 6.0]])
    >>> forest = SVMForest(n_estimators=5, random_state=0).fit(X, ["cup", "cup", "chair", "chair"])
    >>> forest.predict_one([5.0, 5.5])
    'chair'
    """

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
