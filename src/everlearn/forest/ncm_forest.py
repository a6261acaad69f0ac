"""The NCM forest as a learner; the algorithm is in split_ncm.py, grow.py and update/.

κ*(x) = argmax of the leaves' class distributions, averaged over the trees              (Eq. 2)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from everlearn.deprecation import DEPRECATED
from everlearn.forest.classifier import ForestClassifier
from everlearn.forest.settings import NodeSamplingWord, SubsetWord, UpdateWord, subset_size
from everlearn.statistics.labels import Label
from everlearn.validation import require_number, require_one_of

if TYPE_CHECKING:
    from everlearn.forest.split_ncm import NCMSplit


class NCMForest(ForestClassifier):
    """A random forest of nearest-class-mean nodes that grows with new classes.

    Each node holds the means of a few random classes and sends an example to the side of the
    nearest. Training a tree costs O(√K d) per example and level, asking it O(√K d) per level.

    Parameters
    ----------
    n_estimators : int, default=50
        The number of trees.
    update : {"uls", "igt", "rtst", "rust", "auto"}, default="rust"
        How ``partial_fit`` changes existing trees, from cheap to accurate: update only the leaf
        statistics, also grow leaves, also reuse subtrees ("rust": new centroids join the drawn
        nodes), also retrain subtrees ("rtst": the drawn nodes are grown again). These are the
        paper's; "auto" grows a node again when it is several times as heavy as when it was grown,
        and is about as accurate as "rtst" at the cost of "rust".
    update_fraction : float, default=0.05
        π, the share of splitting nodes drawn for "rust" and "rtst": ⌈πN⌉ per call with a new
        class. A call with known classes only draws in proportion to the size of its batch.
    node_sampling : {"quality", "size", "uniform"}, default="quality"
        For "rust" and "rtst": draw nodes in inverse proportion to the information gained below
        them (Eq. 10), in inverse proportion to the size of their subtree, or uniformly.
    class_subset : {"sqrt", "log2"} or float, default="sqrt"
        Number of centroids of a node: the square root or the logarithm of the number of known
        classes, or a share of it; at least two, at most the number of classes at the node.
    n_candidates : int, default=1024
        Number of partitions of the centroids that are tried; all, if there are no more.
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
    n_stored_ : int
        How many examples are stored.
    n_features_in_ : int

    See Also
    --------
    SVMForest : More accurate and faster to ask, slower to train.
    everlearn.forest.inside : The path of an example through a tree.

    Notes
    -----
    *Promises*: a class exists from its first example, a rejected batch changes nothing, a file
    holds the whole forest, and threads may ask while another teaches. Not guaranteed: a batch
    differs from its rows one by one, order matters, and ``forget`` removes examples from the leaves
    exactly but keeps the splitting functions they helped to choose. ``merge`` combines the trees of
    two forests; the result is not the forest trained on all examples together.

    Where the paper leaves a choice: the deviation is floored at a tenth of the root mean square
    deviation; values are stored as float32, whitened, and clipped at ±10⁹; new examples are passed
    down before nodes are drawn; the root may be drawn; several new classes at once are added to a
    node together, and their sides chosen together by the highest gain; a leaf with too little
    weight is merged into its parent, which may grow again; there is no bagging; an example in an
    empty leaf is answered by the nearest ancestor that has any. The first use on a machine compiles
    for some seconds; the result is cached on disk.

    References
    ----------
    Ristin, Guillaumin, Gall, Van Gool. Incremental Learning of Random Forests for Large-Scale
    Image Classification. PAMI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import NCMForest
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 6.0]])
    >>> forest = NCMForest(n_estimators=5, random_state=0).fit(X, ["cup", "cup", "chair", "chair"])
    >>> forest.partial_fit([[-6.0, 6.0], [-6.0, 7.0]], ["lamp", "lamp"]).predict([[-6.0, 6.5]])
    array(['lamp'], dtype='<U5')
    """

    def __init__(
        self,
        *,
        n_estimators: int = 50,
        update: UpdateWord = "rust",
        update_fraction: float = 0.05,
        node_sampling: NodeSamplingWord = "quality",
        class_subset: SubsetWord | float = "sqrt",
        n_candidates: int = 1024,
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
        self.class_subset = class_subset
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
        if isinstance(self.class_subset, str):
            require_one_of("class_subset", self.class_subset, get_args(SubsetWord))
        else:
            require_number("class_subset", self.class_subset, above=0.0, most=1.0)

    def _split(self, n_classes: int) -> "NCMSplit":
        from everlearn.forest.split_ncm import NCMSplit

        return NCMSplit(subset_size(self.class_subset, n_classes), int(self.n_candidates))
