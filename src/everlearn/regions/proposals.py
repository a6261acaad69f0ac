"""Class-agnostic proposals: boxes that may contain a thing.

PicoDet (PaddleDetection; Apache-2.0) was trained to find eighty kinds of things, but finds others
as well: 97 to 98 % of kangaroos and raccoons, which are none of its classes, are among its boxes.
Its class names are ignored; the score of a box is that of its best class.

    picture → 416 × 416 → 3,598 boxes × 80 scores → score ≥ 0.03 → overlaps above 0.6 suppressed
            → at most 15

The network is in the distribution everlearn-networks. Cost: 35 ms of one core per picture.
Deterministic.
"""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import DamagedModel, MissingPackage
from everlearn.images.decode import pillow_image
from everlearn.images.onnx_files import onnx_session
from everlearn.regions.boxes import Boxes, suppressed

if TYPE_CHECKING:
    from PIL import Image

NETWORK = "picodet_s_416"
SIDE = 416
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)

LEAST_SCORE = 0.03
MOST_OVERLAP = 0.6
MOST = 15
# Maximum number of boxes of a faster setting, which has one point less of average precision on the
# data set ``scenes``.
FEW = 8
# Boxes with a side below this share of the picture's are noise.
SMALLEST = 0.01


@dataclass(frozen=True)
class Proposals:
    """Boxes that may contain a thing, most likely first.

    Attributes
    ----------
    boxes : ndarray of shape (n, 4)
        As shares of the picture.
    scores : ndarray of shape (n,)
        Probability that each contains a thing.
    classes : ndarray of shape (n,)
        The network's COCO class, of 80; not used for naming.
    """

    boxes: Boxes
    scores: Boxes
    classes: NDArray[np.intp]


class Proposer:
    """Proposes boxes; loads the network with the first picture.

    Parameters
    ----------
    most : int, default=15
        Maximum number of boxes per picture.
    least_score : float, default=0.03
    """

    def __init__(self, *, most: int = MOST, least_score: float = LEAST_SCORE) -> None:
        self.most = most
        self.least_score = least_score
        self._session: Any = None

    @property
    def name(self) -> str:
        """Identifies the network and the limits of its proposals."""
        return f"{NETWORK} {self.most} {self.least_score}"

    def propose(self, picture: "Image.Image") -> Proposals:
        """Boxes of one RGB picture."""
        small = picture.resize((SIDE, SIDE), pillow_image().Resampling.BICUBIC)
        pixels = (np.asarray(small, dtype=np.float32) / np.float32(255) - MEAN) / DEVIATION
        planes = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])
        boxes, scores = self._loaded().run(["boxes", "scores"], {"image": planes})
        return select_boxes(boxes[0], scores[0], self.least_score, self.most)

    def _loaded(self) -> Any:
        if self._session is None:
            self._session = _session()
        return self._session


def select_boxes(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], least_score: float, most: int
) -> Proposals:
    """Select boxes from the output of the network.

    Parameters
    ----------
    boxes : ndarray of shape (n, 4)
    scores : ndarray of shape (n_classes, n)
    """
    clipped = np.clip(boxes.astype(np.float64), 0.0, 1.0)
    best = scores.max(axis=0).astype(np.float64)
    sides = clipped[:, 2:] - clipped[:, :2]
    candidates = np.flatnonzero((best >= least_score) & (sides >= SMALLEST).all(axis=1))
    kept = candidates[
        suppressed(clipped[candidates], best[candidates], most_overlap=MOST_OVERLAP, most=most)
    ]
    return Proposals(clipped[kept], best[kept], scores[:, kept].argmax(axis=0))


def _session() -> Any:
    try:
        import everlearn_networks
    except ImportError:
        raise MissingPackage(
            "finding things in a picture needs the network PicoDet; install it with: "
            "pip install 'everlearn[networks]'"
        ) from None
    path, provenance = everlearn_networks.file(NETWORK), everlearn_networks.about(NETWORK)
    model = path.read_bytes()
    if hashlib.sha256(model).hexdigest() != provenance["sha256"]:
        raise DamagedModel(f"{path} is not the expected file; install everlearn-networks again")
    return onnx_session(model, path, threads=1)
