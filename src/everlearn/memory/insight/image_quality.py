"""Measures on a thumbnail whether a picture is sharp and bright enough to learn from."""

from dataclasses import dataclass

import numpy as np

from everlearn.errors import EverlearnError
from everlearn.images.decode import decode

# Pictures with a lower mean brightness, from 0 to 255, are dark.
DARK = 30.0
# Pictures with a lower sharpness are blurred: photographs have 0.35 and more; blurred by a fiftieth
# of their width, 0.02 to 0.15.
BLURRED = 0.15


@dataclass(frozen=True)
class ImageQuality:
    """Brightness and sharpness of a thumbnail.

    Attributes
    ----------
    brightness : float
        Mean, from 0 to 255.
    sharpness : float
        Mean squared Laplacian relative to the variance of the brightness.
    """

    brightness: float
    sharpness: float

    @property
    def dark(self) -> bool:
        return self.brightness < DARK

    @property
    def blurred(self) -> bool:
        return not self.dark and self.sharpness < BLURRED


def measure_quality(thumbnail: bytes | None) -> ImageQuality | None:
    """Measure a thumbnail; ``None`` if it is missing or cannot be read."""
    if thumbnail is None:
        return None
    try:
        pixels = decode(thumbnail)
    except EverlearnError:
        return None
    grey = pixels.astype(np.float64) @ [0.299, 0.587, 0.114]
    if min(grey.shape) < 3:
        return None
    centre = grey[1:-1, 1:-1]
    edges = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4.0 * centre
    return ImageQuality(float(grey.mean()), float(np.mean(edges**2) / (grey.var() + 1.0)))
