"""Motion proposals for fixed cameras.

A small grey copy I of each frame is compared with B, the running mean of earlier ones:

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
THRESHOLD = 18.0
# Components below this share of the picture are noise.
SMALLEST_SHARE = 0.002
# If more than this share of the picture changes at once, the light changed: the mean is restarted.
LIGHT_CHANGE_SHARE = 0.6


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
        self._background: NDArray[np.float64] | None = None

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
        if self._background is None or self._background.shape != grey.shape:
            self._background = grey
            return _no_proposals()
        changed = ndimage.uniform_filter(np.abs(grey - self._background), 3) > THRESHOLD
        if changed.mean() > LIGHT_CHANGE_SHARE:
            self._background = grey
            return _no_proposals()
        self._background = self._background + self.rate * (grey - self._background)
        dilated = ndimage.binary_dilation(changed, iterations=2)
        parts, _ = ndimage.label(dilated)
        height, width = grey.shape
        boxes, shares = [], []
        for number, slices in enumerate(ndimage.find_objects(parts), start=1):
            assert slices is not None  # labels have no gaps
            moved = float((changed[slices] & (parts[slices] == number)).sum()) / changed.size
            if moved >= SMALLEST_SHARE:
                rows, columns = slices
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
            return _no_proposals()
        corners, weights = np.array(boxes), np.array(shares)
        kept = merged(corners, weights)[:MOST]
        # The score of a box is the share of it that moves.
        sides = corners[kept, 2:] - corners[kept, :2]
        scores = np.clip(weights[kept] / np.maximum(sides.prod(axis=1), 1e-9), 0.05, 1.0)
        return Proposals(corners[kept], scores, np.zeros(len(kept), dtype=np.intp))


def _no_proposals() -> Proposals:
    return Proposals(np.empty((0, 4)), np.empty(0), np.empty(0, dtype=np.intp))
