"""RGB to vector: what turns a picture into the numbers a learner is taught.

An embedder does two things, so that threads can share the work: ``prepare`` brings one picture to
the size and scale the model wants, ``run`` takes a batch of prepared pictures through the model.
Both are deterministic: the vector of a picture does not depend on the batch it came in, on threads,
or on the run. A vector is float32.

``name`` says which embedder a vector came from, weights included, so that vectors of different
embedders are never mixed up.
"""

import hashlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import (
    CannotRead,
    InvalidParameter,
    MissingPackage,
    NotAModel,
    WrongKind,
    WrongShape,
)
from everlearn.features.decode import RGB, pillow_image

if TYPE_CHECKING:
    from PIL import Image

Vectors = NDArray[np.float32]

WEIGHTS = resources.files("everlearn.features") / "weights"


class Embedder(ABC):
    """Turns pictures into vectors.

    Attributes
    ----------
    name : str
        Which embedder this is, weights included.
    n_features : int
        The length of a vector.
    at_least : int or None
        How many pixels each side of a picture should have for nothing to be lost.
    batch_size : int
        How many pictures are best taken through the model together.
    threads : int or None
        How many threads may call ``run`` at a time; ``None`` for as many as there are cores.
    """

    name: str
    n_features: int
    at_least: int | None = None
    batch_size: int = 4
    threads: int | None = None

    @abstractmethod
    def prepare(self, picture: "Image.Image") -> Vectors:
        """One RGB picture as the model wants it."""

    @abstractmethod
    def run(self, batch: Vectors) -> Vectors:
        """Vectors of prepared pictures, one row each."""

    def embed(self, images: Sequence[RGB]) -> Vectors:
        """Vectors of some pictures, one row each.

        Parameters
        ----------
        images : sequence of uint8 arrays of shape (height, width, 3)
        """
        vectors = np.empty((len(images), self.n_features), dtype=np.float32)
        for start in range(0, len(images), self.batch_size):
            part = images[start : start + self.batch_size]
            vectors[start : start + len(part)] = self.run(
                np.stack([self.prepare(as_picture(image)) for image in part])
            )
        return vectors


class Pixels(Embedder):
    """The picture itself, made small: no model at all.

    Good enough for digits and letters, and for objects that always look the same.

    Parameters
    ----------
    size : int, default=16
        The picture is squeezed to size × size pixels.
    colour : bool, default=False
        Keep red, green and blue, or brightness alone.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn.features.embedders import Pixels
    >>> Pixels(size=2).embed([np.full((9, 5, 3), 255, dtype=np.uint8)]).tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """

    def __init__(self, *, size: int = 16, colour: bool = False) -> None:
        if size < 1:
            raise InvalidParameter(f"size is at least 1, not {size}")
        self.size = size
        self.colour = colour
        self.name = f"pixels {size} {'colour' if colour else 'grey'}"
        self.n_features = size * size * (3 if colour else 1)
        self.at_least = 2 * size

    def prepare(self, picture: "Image.Image") -> Vectors:
        box = pillow_image().Resampling.BOX
        picture = picture if self.colour else picture.convert("L")
        small = picture.resize((self.size, self.size), box)
        return np.asarray(small, dtype=np.float32).ravel() / np.float32(255)

    def run(self, batch: Vectors) -> Vectors:
        return batch


class NetworkEmbedder(Embedder):
    """What networks share: a centre crop, scaled, channels first."""

    def __init__(
        self,
        size: int,
        crop: float,
        mean: float | Sequence[float],
        scale: float | Sequence[float],
    ) -> None:
        if not 0.0 < crop <= 1.0:
            raise InvalidParameter(f"crop is a share between 0 and 1, not {crop}")
        if size < 1:
            raise InvalidParameter(f"size is at least 1, not {size}")
        self.size = size
        self.crop = crop
        self.mean = _per_channel(mean)
        self.scale = _per_channel(scale)
        self.at_least = 2 * math.ceil(size / crop)

    def prepare(self, picture: "Image.Image") -> Vectors:
        square = np.asarray(centre_crop(picture, self.size, self.crop)).astype(np.float32)
        square -= self.mean
        square /= self.scale
        return square.transpose(2, 0, 1)

    def _probed_width(self) -> int:
        return int(self.run(np.zeros((1, 3, self.size, self.size), np.float32)).shape[1])


class OnnxEmbedder(NetworkEmbedder):
    """Any model in an ONNX file that takes NCHW pictures and gives vectors.

    Runs in onnxruntime on the CPU. Outputs with more than two dimensions are averaged over all but
    the first two (a feature map becomes its global average).

    Parameters
    ----------
    path : path-like
    size : int, optional
        Side of the square the model takes; read from the file where the file says it.
    crop : float, default=0.875
        Share of the shorter side that the centre crop keeps.
    mean, scale : float or sequence of three, default=127, 128
        Pixels go in as (value − mean) / scale.
    threads : int, optional
        Threads onnxruntime uses for one call. With the default of one, calls from several threads
        run side by side, which is the fastest way through many pictures.
    """

    # One picture at a time keeps its layers in the cache of its core.
    batch_size = 1

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size: int | None = None,
        crop: float = 0.875,
        mean: float | Sequence[float] = 127.0,
        scale: float | Sequence[float] = 128.0,
        threads: int = 1,
    ) -> None:
        model = _read_model(Path(path))
        self._session = _session(model, Path(path), threads)
        self._input, side = _picture_input(self._session, Path(path), size)
        super().__init__(side, crop, mean, scale)
        digest = hashlib.sha256(model).hexdigest()[:16]
        self.name = f"{Path(path).stem} {digest} {side} {crop} {mean} {scale}"
        self.n_features = self._probed_width()

    def run(self, batch: Vectors) -> Vectors:
        output = np.asarray(self._session.run(None, {self._input: batch})[0], dtype=np.float32)
        if output.ndim < 2:
            raise NotAModel(f"the model gives shape {output.shape}; it should give one row each")
        return output.mean(axis=tuple(range(2, output.ndim))) if output.ndim > 2 else output


class EfficientNetLite0(OnnxEmbedder):
    """The embedder everlearn brings along: 1,280 features, 6.8 MB, CPU alone.

    EfficientNet-Lite0 (trained on ImageNet by Google; Apache-2.0) without its classifier. Where
    the weights come from is in ``weights/efficientnet_lite0.json``.
    """

    def __init__(self, *, threads: int = 1) -> None:
        with resources.as_file(WEIGHTS / "efficientnet_lite0.onnx") as path:
            super().__init__(path, threads=threads)


class TorchEmbedder(NetworkEmbedder):
    """Any ``torch.nn.Module`` that gives vectors, or a model of timm by its name.

    Parameters
    ----------
    module : torch.nn.Module or str
        Takes float32 NCHW. A name is looked up in timm, with its pretrained weights.
    name : str, optional
        What to call it; by default the class and a digest of the weights.
    size, crop, mean, scale
        As in :class:`OnnxEmbedder`; the defaults are those of ImageNet models in torch.
    device : str, default="cpu"
    """

    threads = 1
    batch_size = 32

    def __init__(
        self,
        module: Any,
        *,
        name: str | None = None,
        size: int = 224,
        crop: float = 0.875,
        mean: float | Sequence[float] = (123.675, 116.28, 103.53),
        scale: float | Sequence[float] = (58.395, 57.12, 57.375),
        device: str = "cpu",
    ) -> None:
        try:
            import torch
        except ImportError:
            raise MissingPackage(
                "TorchEmbedder needs torch; install it with: pip install 'everlearn[torch]'"
            ) from None
        super().__init__(size, crop, mean, scale)
        self._torch = torch
        self._module = (_timm_model(module) if isinstance(module, str) else module).eval()
        self._module.to(device)
        self.device = device
        weights = _digest_of_weights(self._module)
        self.name = name or f"{type(self._module).__name__} {weights} {size} {crop} {mean} {scale}"
        self.n_features = self._probed_width()

    def run(self, batch: Vectors) -> Vectors:
        with self._torch.inference_mode():
            output = self._module(self._torch.from_numpy(batch).to(self.device))
        if output.ndim > 2:
            output = output.flatten(2).mean(2)
        return np.asarray(output.float().cpu().numpy())


def centre_crop(picture: "Image.Image", size: int, crop: float) -> "Image.Image":
    """The centre of a picture, size × size pixels.

    As if the shorter side were brought to size / crop and a square of ``size`` cut out of the
    middle; only the square is computed.
    """
    width, height = picture.size
    enlarge = round(size / crop) / min(height, width)
    full_width, full_height = round(width * enlarge), round(height * enlarge)
    left, top = (full_width - size) // 2, (full_height - size) // 2
    across, down = width / full_width, height / full_height
    box = (left * across, top * down, (left + size) * across, (top + size) * down)
    return picture.resize((size, size), pillow_image().Resampling.BICUBIC, box=box)


def as_picture(image: RGB) -> "Image.Image":
    """Pixels as an image of Pillow's, after a look at their shape and kind."""
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        raise WrongKind(f"a picture holds whole numbers from 0 to 255 (uint8), not {pixels.dtype}")
    if pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise WrongShape(f"a picture has shape (height, width, 3), not {pixels.shape}")
    picture: Image.Image = pillow_image().fromarray(pixels)
    return picture


def _per_channel(value: float | Sequence[float]) -> Vectors:
    values = np.asarray(value, dtype=np.float32)
    if values.shape not in ((), (3,)):
        raise InvalidParameter(f"mean and scale are one number or three, not {value!r}")
    return values


def _read_model(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None


def _session(model: bytes, path: Path, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingPackage(
            "embedding images needs onnxruntime; install it with: pip install 'everlearn[images]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise NotAModel(f"{path} is not an ONNX model that onnxruntime can run: {error}") from None


def _picture_input(session: Any, path: Path, size: int | None) -> tuple[str, int]:
    """The name of the model's input, and the side of the square it takes."""
    inputs = session.get_inputs()
    shape = inputs[0].shape if len(inputs) == 1 else []
    if len(shape) != 4 or (shape[1] not in (3, None) and not isinstance(shape[1], str)):
        raise NotAModel(f"{path} does not take one batch of RGB pictures (n, 3, height, width)")
    sides = {side for side in shape[2:] if isinstance(side, int)} | ({size} if size else set())
    if len(sides) != 1:
        raise InvalidParameter(
            f"{path} takes pictures of {shape[2]} x {shape[3]} pixels, size={size}; "
            "give the size of the square it should get"
        )
    return inputs[0].name, int(sides.pop())


def _timm_model(name: str) -> Any:
    try:
        import timm
    except ImportError:
        raise MissingPackage(
            f"{name!r} is looked up in timm, which is not installed; pip install timm, "
            "or pass the module itself"
        ) from None
    return timm.create_model(name, pretrained=True, num_classes=0)


def _digest_of_weights(module: Any) -> str:
    digest = hashlib.sha256()
    for key, value in module.state_dict().items():
        digest.update(key.encode())
        digest.update(value.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
