"""The SVM forest as a learner; the algorithm is in split_svm.py, grow.py and update/.

κ*(x) = argmax of the leaves' class distributions, averaged over the trees              (Eq. 2)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from everlearn.deprecation import DEPRECATED
from everlearn.forest.classifier import MOST_EPOCHS, MOST_STEPS, ForestClassifier
from everlearn.forest.settings import NodeSamplingWord, UpdateWord
from everlearn.statistics.labels import Label
from everlearn.validation import require_number, require_whole

if TYPE_CHECKING:
    from everlearn.forest.split_svm import SVMSplit


class SVMForest(ForestClassifier):
    """A random forest of linear-SVM nodes that grows with new classes.

    Each node sends an example to one side of a hyperplane, trained to separate a random half of the
    classes from the other. Asking a tree costs O(d) per level.

    Parameters
    ----------
    n_estimators : int, default=50
        The number of trees.
    update : {"uls", "igt", "rtst", "rust", "auto"}, default="rust"
        How ``partial_fit`` changes existing trees, from cheap to accurate: update only the leaf
        statistics, also grow leaves, also reuse subtrees ("rust": training of the drawn nodes'
        hyperplanes continues, once for either side of a new class, and the better one is kept),
        also retrain subtrees ("rtst": the drawn nodes are grown again). These are the paper's;
        "auto" grows a node again when it is several times as heavy as when it was grown, and is
        about as accurate as "rtst" at the cost of "rust".
    update_fraction : float, default=0.05
        π, the share of splitting nodes drawn for "rust" and "rtst": ⌈πN⌉ per call with a new
        class. A call with known classes only draws in proportion to the size of its batch.
    node_sampling : {"quality", "size", "uniform"}, default="quality"
        For "rust" and "rtst": draw nodes in inverse proportion to the information gained below
        them (Eq. 10), in inverse proportion to the size of their subtree, or uniformly.
    regularization : float, default=0.01
        λ of Eq. 4.
    epochs : int, default=5
        Passes over the examples of a node; at least 200 steps.
    max_steps : int, default=20,000
        Maximum number of steps per node: five full passes up to 4,000 examples.
    n_candidates : int, default=20
        Number of random halves of the classes tried at a node.
    min_samples : float, default=10
        μ: a split must leave more than this on both sides. If an average class has fewer than 10 μ
        examples, a tenth of it is used instead of μ.
    class_weight : mapping from labels to weights, optional
        Multiplies ``sample_weight``; a label missing from it has weight one.
    n_exemplars : int, optional
        Maximum number of stored examples per class, a uniform sample of all that were taught; each
        is weighted to represent the others. All are stored by default.
    whiten : bool, default=True
        Standardise features to mean zero and deviation one by the first batch, which should then
        contain the first classes together.
    random_state : int, RandomState or None, default=None
        The same seed gives the same forest, whatever the number of workers.
    n_jobs : int, optional
        Threads; −1 for all cores.
    memory : int, optional
        The former name of ``n_exemplars``.

        .. deprecated:: 0.2

    Attributes
    ----------
    classes_ : ndarray
        The labels known, sorted.
    n_trees_ : int
        More than ``n_estimators`` after a merge.
    n_nodes_ : ndarray of shape (n_trees_,)
        How many nodes each tree has.
    n_stored_ : int
        How many examples are stored.
    n_features_in_ : int

    See Also
    --------
    NCMForest : Cheaper to train, slower to ask.
    everlearn.forest.inside : The path of an example through a tree.

    Notes
    -----
    *Promises*: a class exists from its first example, a rejected batch changes nothing, a file
    holds the whole forest, and threads may ask while another teaches. Not guaranteed: a batch
    differs from its rows one by one, order matters, and ``forget`` removes examples from the leaves
    exactly but keeps the splitting functions they helped to choose. ``merge`` combines the trees of
    two forests; the result is not the forest trained on all examples together.

    λ and epochs were chosen on held-out training examples of 50 classes of CIFAR-100; between 1e-4
    and 1e-1 the choice hardly matters. Unlike in the paper, hyperplanes have an intercept (the
    weight of an additional feature that is always 1), so that a forest that starts with a handful
    of examples need not be centred; q new classes at once are tried with 2q of the 2^q
    meta-labelings; a known class without a meta-label at a node takes the side on which most of its
    examples are. Other choices that the paper leaves open are made as in :class:`NCMForest`. The
    first use on a machine compiles for some seconds; the result is cached on disk.

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
        update: UpdateWord = "rust",
        update_fraction: float = 0.05,
        node_sampling: NodeSamplingWord = "quality",
        regularization: float = 1e-2,
        epochs: int = 5,
        max_steps: int = 20_000,
        n_candidates: int = 20,
        min_samples: float = 10,
        class_weight: Mapping[Label, float] | None = None,
        n_exemplars: int | None = None,
        whiten: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory: int | str | None = DEPRECATED,
    ) -> None:
        self.n_estimators = n_estimators
        self.update = update
        self.update_fraction = update_fraction
        self.node_sampling = node_sampling
        self.regularization = regularization
        self.epochs = epochs
        self.max_steps = max_steps
        self.n_candidates = n_candidates
        self.min_samples = min_samples
        self.class_weight = class_weight
        self.n_exemplars = n_exemplars
        self.memory = memory
        self.whiten = whiten
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_whole("epochs", self.epochs, most=MOST_EPOCHS)
        require_whole("max_steps", self.max_steps, most=MOST_STEPS)
        require_number("regularization", self.regularization, above=0.0, most=1e6)

    def _split(self, n_classes: int) -> "SVMSplit":
        from everlearn.forest.split_svm import SVMSplit

        return SVMSplit(
            int(self.n_candidates),
            float(self.regularization),
            int(self.epochs),
            int(self.max_steps),
        )
