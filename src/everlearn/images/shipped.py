"""Networks of the distribution everlearn-networks."""

from everlearn.images.embedders import OnnxEmbedder, network_file
from everlearn.images.onnx_files import USUAL_CROP

LCNET = "pp_lcnetv2_base"
LITE2 = "efficientnet_lite2"


class EfficientNetLite2(OnnxEmbedder):
    """EfficientNet-Lite2: 1,280 features of 260 × 260 pixels; comes with everlearn-networks.

    The larger sister of :class:`EfficientNetLite0`, trained on ImageNet by Google (Apache-2.0).

    Parameters
    ----------
    threads, mirror, crop
        As in :class:`OnnxEmbedder`.

    Notes
    -----
    *Cost*: about twice that of EfficientNet-Lite0; 35 MB of memory.

    *Promises*: a vector depends on the picture and the weights alone: not on its batch, on threads
    or on the run.
    """

    def __init__(self, *, threads: int = 1, mirror: bool = False, crop: float = USUAL_CROP) -> None:
        path, about = network_file(LITE2)
        super().__init__(
            path,
            crop=crop,
            mean=127.0,
            scale=128.0,
            threads=threads,
            mirror=mirror,
            sha256=about["sha256"],
        )


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
        path, about = network_file(LCNET)
        super().__init__(
            path,
            crop=crop,
            mean=(123.675, 116.28, 103.53),
            scale=(58.395, 57.12, 57.375),
            threads=threads,
            mirror=mirror,
            sha256=about["sha256"],
        )
