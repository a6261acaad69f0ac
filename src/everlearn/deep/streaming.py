"""Deep streaming learning in one pass, from images to names (Hayes and Kanan 2020).

A network G, trained on base classes and then frozen, turns each image into a vector z = G(x), and a
streaming learner F learns (z, y) once: streaming LDA with a plastic or a fixed covariance,
recursive least squares, or nearest class mean. The learner starts with the base images, as in Sec.
4.1 of the paper ("re-start a streaming learning phase from the beginning of the dataset"). They
determine a fixed covariance.

    embedder = train_base(base_images, base_labels)
    deep = StreamingNetwork(embedder, StreamingLDA())
    deep.partial_fit(base_images, base_labels)      # the base, as a stream
    deep.partial_fit(image[None], ["cup"])          # then any class, one image at a time

No image is kept. Memory is that of the network and the learner: for LDA d² numbers and d per class.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.errors import NotStreaming
from everlearn.images.embedders import Embedder


class StreamingNetwork:
    """A network in front of a streaming learner.

    Parameters
    ----------
    embedder : Embedder
        Trained by :func:`everlearn.deep.trainer.train_base`, or any other.
    learner : an everlearn classifier
        Trained in place.
    unit : bool, default=False
        Normalise vectors to length one, as a Memory does.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import NearestClassMean
    >>> from everlearn.deep.streaming import StreamingNetwork
    >>> from everlearn.images.embedders import Pixels
    >>> dark, light = np.zeros((1, 8, 8, 3), np.uint8), np.full((1, 8, 8, 3), 255, np.uint8)
    >>> deep = StreamingNetwork(Pixels(size=2), NearestClassMean())
    >>> deep.partial_fit(dark, ["night"]).partial_fit(light, ["day"]).predict(light).tolist()
    ['day']
    """

    def __init__(self, embedder: Embedder, learner: Any, *, unit: bool = False) -> None:
        if not hasattr(learner, "partial_fit"):
            raise NotStreaming(f"{type(learner).__name__} has no partial_fit, so it cannot stream")
        self.embedder = embedder
        self.learner = learner
        self.unit = unit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.embedder!r}, {self.learner!r})"

    def partial_fit(self, images: Any, y: ArrayLike) -> Self:
        """Learn labelled images, each seen once."""
        self.learner.partial_fit(self.vectors(images), y)
        return self

    def predict(self, images: Any) -> NDArray[Any]:
        """The predicted name of each image."""
        answers: NDArray[Any] = self.learner.predict(self.vectors(images))
        return answers

    def decision_function(self, images: Any) -> NDArray[Any]:
        """The learner's scores, one column for each of ``classes_``."""
        scores: NDArray[Any] = self.learner.decision_function(self.vectors(images))
        return scores

    @property
    def classes_(self) -> NDArray[Any]:
        classes: NDArray[Any] = self.learner.classes_
        return classes

    def vectors(self, images: Any) -> NDArray[np.float64]:
        """The vectors of images as given to the learner: one row each, in double precision."""
        rows = self.embedder.embed(images).astype(np.float64)
        if not self.unit:
            return rows
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: NDArray[np.float64] = np.divide(
            rows, lengths, out=np.zeros_like(rows), where=lengths > 0
        )
        return scaled
