"""Finds the main thing of a picture with the included network.

A network trained on pictures of things is more active where a thing is. With F_c the non-negative
channels of the last feature map of EfficientNet-Lite0,

    A(u, v) = Σ_c F_c(u, v),      mask = A > mean(A)

The main thing is the connected component of the mask with the most activation above the mean; the
result is its bounding box. After Wei, Luo, Wu and Zhou, *Selective Convolutional Descriptor
Aggregation for Fine-Grained Image Retrieval*, IEEE Transactions on Image Processing 26, 2017
(SCDA), who take the largest component.

The box is as coarse as the map, a cell every 32 pixels of a picture whose long side is 320. Cost:
about 25 ms of one core. Deterministic.
"""

from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from everlearn.images.decode import pillow_image
from everlearn.images.embedders import WEIGHTS
from everlearn.images.onnx_files import onnx_session
from everlearn.regions.boxes import WHOLE, Box, rounded
from everlearn.regions.onnx_outputs import with_free_sides, with_output

if TYPE_CHECKING:
    from PIL import Image

LONG_SIDE = 320
CELL = 32
MEAN, SCALE = 127.0, 128.0
FEATURE_MAP = "_conv_head.relu6"
FILE, SIDE = "efficientnet_lite0.onnx", 224

Map = NDArray[np.float32]


class MainThing:
    """Finds the main thing of pictures; loads the network with the first one.

    Examples
    --------
    >>> import numpy as np
    >>> from PIL import Image
    >>> from everlearn.regions.main_thing import MainThing
    >>> MainThing().box(Image.fromarray(np.zeros((64, 64, 3), dtype=np.uint8))).area <= 1.0
    True
    """

    name = "main thing 1"

    def __init__(self) -> None:
        self._session: Any = None

    def box(self, picture: "Image.Image") -> Box:
        """The box of the main thing; the whole picture if nothing stands out."""
        return box_of(self.activation(picture))

    def activation(self, picture: "Image.Image") -> Map:
        """The sum of the channels of the last feature map, a cell every 32 pixels."""
        pixels = np.asarray(_resized(picture), dtype=np.float32)
        planes = np.ascontiguousarray(((pixels - MEAN) / SCALE).transpose(2, 0, 1)[None])
        (features,) = self._loaded().run([FEATURE_MAP], {"image": planes})
        activation: Map = features[0].sum(axis=0)
        return activation

    def _loaded(self) -> Any:
        if self._session is None:
            with resources.as_file(WEIGHTS / FILE) as path:
                model = with_output(with_free_sides(path.read_bytes(), SIDE), FEATURE_MAP)
                self._session = onnx_session(model, path, threads=1)
        return self._session


def main_thing(picture: "Image.Image") -> Box:
    """The box of the main thing of one RGB picture, as shares of its sides.

    Examples
    --------
    >>> import numpy as np
    >>> from PIL import Image
    >>> from everlearn.regions import main_thing
    >>> len(main_thing(Image.fromarray(np.zeros((64, 64, 3), dtype=np.uint8))))
    4
    """
    return MainThing().box(picture)


def box_of(activation: Map) -> Box:
    """The bounding box of the component above the mean with the most activation."""
    from scipy import ndimage

    above = activation.astype(np.float64) - float(activation.mean(dtype=np.float64))
    parts, count = ndimage.label(above > 0.0)
    if count == 0:
        return WHOLE
    sums = ndimage.sum_labels(above, parts, np.arange(1, count + 1))
    rows, columns = np.nonzero(parts == 1 + int(np.argmax(sums)))
    height, width = activation.shape
    left, right = columns.min() / width, (columns.max() + 1) / width
    return rounded((left, rows.min() / height, right, (rows.max() + 1) / height))


def _resized(picture: "Image.Image") -> "Image.Image":
    """Resize to a long side of 320, with both sides whole cells."""
    shrink = LONG_SIDE / max(picture.size)
    size = [max(CELL, round(side * shrink / CELL) * CELL) for side in picture.size]
    return picture.resize((size[0], size[1]), pillow_image().Resampling.BICUBIC)
