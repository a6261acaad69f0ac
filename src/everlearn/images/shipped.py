"""Networks of the distribution everlearn-networks."""

from importlib.util import find_spec
from typing import Literal

from everlearn.images.embedders import EfficientNetLite0, OnnxEmbedder, lite_settings, network_file
from everlearn.images.onnx_files import USUAL_CROP

# Crop that keeps the whole shorter side: on held-out training pictures of CIFAR-100, one point more
# accurate than the usual centre crop.
WHOLE_SIDE = 1.0
LCNET = "pp_lcnetv2_base"
LITE2 = {"float32": "efficientnet_lite2", "int8": "efficientnet_lite2_int8"}


class EfficientNetLite2(OnnxEmbedder):
    """EfficientNet-Lite2: 1,280 features of 260 × 260 pixels; comes with everlearn-networks.

    The larger sister of :class:`EfficientNetLite0`, trained on ImageNet by Google (Apache-2.0).

    Parameters
    ----------
    precision : {"float32", "int8"}, default="float32"
        ``"int8"`` takes half of the time on processors with VNNI, and 5.4 MB instead of 9.7. The
        two are different embedders and are never mixed.
    threads, mirror, crop
        As in :class:`OnnxEmbedder`.

    Notes
    -----
    *Cost*: about twice that of EfficientNet-Lite0 in float32, and as much as that in int8; 35 MB of
    memory.

    *Promises*: a vector depends on the picture and the weights alone: not on its batch, on threads
    or on the run.
    """

    def __init__(
        self,
        *,
        precision: Literal["float32", "int8"] = "float32",
        threads: int = 1,
        mirror: bool = False,
        crop: float = USUAL_CROP,
    ) -> None:
        self.precision = precision
        path, settings = lite_settings(LITE2, precision)
        super().__init__(path, crop=crop, threads=threads, mirror=mirror, **settings)


class PPLCNetV2(OnnxEmbedder):
    """PP-LCNetV2_base of PaddleClas: 1,280 features, CPU only; comes with everlearn-networks.

    Trained on ImageNet (Apache-2.0). Its features complement those of EfficientNet-Lite0, so that
    both side by side are more accurate than either (:class:`SideBySide`).

    Parameters
    ----------
    threads, mirror, crop
        As in :class:`OnnxEmbedder`.

    Notes
    -----
    *Cost*: about 1.4 times that of EfficientNet-Lite0; 30 MB of memory.

    *Promises*: a vector depends on the picture and the weights alone: not on its batch, on threads
    or on the run.
    """

    def __init__(self, *, threads: int = 1, mirror: bool = False, crop: float = USUAL_CROP) -> None:
        path, provenance = network_file(LCNET)
        super().__init__(
            path,
            crop=crop,
            mean=(123.675, 116.28, 103.53),
            scale=(58.395, 57.12, 57.375),
            threads=threads,
            mirror=mirror,
            sha256=provenance["sha256"],
        )


def balanced() -> EfficientNetLite2:
    """The most accurate embedder that takes no longer than EfficientNet-Lite0."""
    return EfficientNetLite2(precision="int8", crop=WHOLE_SIDE)


def default_embedder() -> OnnxEmbedder:
    """The embedder of a new Memory: ``balanced``, or ``basic`` without everlearn-networks."""
    return balanced() if find_spec("everlearn_networks") is not None else EfficientNetLite0()
