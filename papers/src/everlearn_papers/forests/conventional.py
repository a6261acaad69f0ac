"""Conventional random forest on the same code base: axis-aligned or random linear splits.

The baseline for NCM and SVM forests. Growing, leaves and updates are the same, so that results
differ only by the splitting functions.
"""

from typing import Any, ClassVar

from everlearn.errors import InvalidParameter
from everlearn.forest.classifier import ForestClassifier
from everlearn.forest.settings import NodeSamplingWord, Update, UpdateWord

KINDS = ("axis", "linear")


class ConventionalForest(ForestClassifier):
    """A random forest with class-blind splitting functions, chosen by information gain.

    Parameters
    ----------
    splits : {"axis", "linear"}, default="axis"
        Compare one random feature with a threshold, or the projection on a random direction. The
        threshold lies halfway between two random examples of the node.
    update : {"uls", "igt", "rtst", "auto"}, default="rtst"
        "rust" is not available: reusing subtrees needs class-aware splitting functions.
    n_estimators, update_fraction, node_sampling, n_candidates, min_samples, n_exemplars, \
    whiten, random_state, n_jobs
        As for :class:`everlearn.NCMForest`.
    """

    _renamed_parameters: ClassVar[dict[str, str | None]] = {}
    _updates = (Update.ULS, Update.IGT, Update.RTST, Update.AUTO)

    def __init__(
        self,
        *,
        splits: str = "axis",
        n_estimators: int = 50,
        update: UpdateWord = "rtst",
        update_fraction: float = 0.05,
        node_sampling: NodeSamplingWord = "quality",
        n_candidates: int = 100,
        min_samples: float = 10,
        n_exemplars: int | None = None,
        whiten: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.splits = splits
        self.n_estimators = n_estimators
        self.update = update
        self.update_fraction = update_fraction
        self.node_sampling = node_sampling
        self.n_candidates = n_candidates
        self.min_samples = min_samples
        self.n_exemplars = n_exemplars
        self.whiten = whiten
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.splits not in KINDS:
            raise InvalidParameter(f'splits is "axis" or "linear", not {self.splits!r}')

    def _split(self, n_classes: int) -> Any:
        from everlearn_papers.forests.class_blind import AxisSplit, LinearSplit

        return (AxisSplit if self.splits == "axis" else LinearSplit)(int(self.n_candidates))
