"""Motion proposals for fixed cameras.

The picture is converted to small and grey; B is its running mean over time:

    B ← B + r (I − B),      mask = |I − B| > 18 of 255, smoothed

Each connected component of the mask that is large enough gives a box. Cost: below 2 ms per frame. A
thing that stops becomes part of B after 1 / r frames. The first frame gives no boxes.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import InvalidParameter
from everlearn.images.decode import pillow_image
from everlearn.regions.boxes import merged
from everlearn.regions.proposals import MOST, Proposals

if TYPE_CHECKING:
    from PIL import Image

LONG_SIDE = 160
DIFFERENT = 18.0
# Components below this share of the picture are noise.
SMALLEST_SHARE = 0.002
# A change of this share of the picture at once is a change of light: the mean is restarted.
EVERYWHERE = 0.6


class MotionProposer:
    """Boxes around moving things, from successive frames of a fixed camera.

    Parameters
    ----------
    rate : float, default=0.05
        How fast the background follows: r above.
    """

    def __init__(self, *, rate: float = 0.05) -> None:
        if not 0.0 < rate <= 1.0:
            raise InvalidParameter(f"rate must be above 0 and at most 1, not {rate}")
        self.rate = rate
        self._still: NDArray[np.float64] | None = None

    @property
    def name(self) -> str:
        return f"motion {self.rate}"

    def propose(self, picture: "Image.Image") -> Proposals:
        """Boxes of what moved since the previous frames."""
        from scipy import ndimage

        shrink = min(1.0, LONG_SIDE / max(picture.size))
        size = [max(1, round(side * shrink)) for side in picture.size]
        small = picture.convert("L").resize((size[0], size[1]), pillow_image().Resampling.BOX)
        grey = np.asarray(small, dtype=np.float64)
        if self._still is None or self._still.shape != grey.shape:
            self._still = grey
            return _nothing()
        different = ndimage.uniform_filter(np.abs(grey - self._still), 3) > DIFFERENT
        if different.mean() > EVERYWHERE:
            self._still = grey
            return _nothing()
        self._still = self._still + self.rate * (grey - self._still)
        joined = ndimage.binary_dilation(different, iterations=2)
        parts, _ = ndimage.label(joined)
        height, width = grey.shape
        boxes, shares = [], []
        for number, place in enumerate(ndimage.find_objects(parts), start=1):
            assert place is not None  # labels have no gaps
            moved = float((different[place] & (parts[place] == number)).sum()) / different.size
            if moved >= SMALLEST_SHARE:
                rows, columns = place
                boxes.append(
                    (
                        columns.start / width,
                        rows.start / height,
                        columns.stop / width,
                        rows.stop / height,
                    )
                )
                shares.append(moved)
        if not boxes:
            return _nothing()
        corners, weights = np.array(boxes), np.array(shares)
        kept = merged(corners, weights)[:MOST]
        # The moving share of a box is its score.
        sides = corners[kept, 2:] - corners[kept, :2]
        scores = np.clip(weights[kept] / np.maximum(sides.prod(axis=1), 1e-9), 0.05, 1.0)
        return Proposals(corners[kept], scores, np.zeros(len(kept), dtype=np.intp))


def _nothing() -> Proposals:
    return Proposals(np.empty((0, 4)), np.empty(0), np.empty(0, dtype=np.intp))
