"""Embedders: RGB pictures to feature vectors.

An embedder has two steps, so that threads can share the work: ``prepare`` scales one picture for
the model, ``run`` takes a batch of prepared pictures through it. Both are deterministic: the vector
of a picture does not depend on its batch, on threads, or on the run. Vectors are float32.

``name`` identifies the embedder of a vector, including its weights, so that vectors of different
embedders are never mixed.
"""

import hashlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import (
    DamagedModel,
    InvalidParameter,
    MissingPackage,
    NotAModel,
    WrongKind,
    WrongShape,
)
from everlearn.images.decode import RGB, pillow_image
from everlearn.images.onnx_files import (
    USUAL_CROP,
    Numbers,
    onnx_session,
    picture_input,
    picture_output,
    read_model,
    required,
    written_preparation,
)

if TYPE_CHECKING:
    from PIL import Image

Vectors = NDArray[np.float32]
# Left, top, right, bottom in pixels, possibly fractional.
Edges = tuple[float, float, float, float]

WEIGHTS = Path(__file__).parent / "weights"
# File names of EfficientNet-Lite0, by precision.
SHIPPED = {"float32": "efficientnet_lite0", "int8": "efficientnet_lite0_int8"}
DEFAULT_PRECISION: Literal["float32", "int8"] = "float32"
TOKENS = (None, "mean", "first", "rest")


class Embedder(ABC):
    """Turns pictures into vectors.

    Attributes
    ----------
    name : str
        Identifies the embedder, including its weights.
    n_features : int
        Length of a vector.
    at_least : int or None
        Shorter side, in pixels, to which a picture may be reduced while it is decoded.
    batch_size : int
        Best number of pictures per batch.
    threads : int or None
        Number of threads that may call ``run`` at a time; ``None`` for one per core.
    """

    name: str
    n_features: int
    at_least: int | None = None
    batch_size: int = 4
    threads: int | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {self.n_features} features>"

    @abstractmethod
    def prepare(self, picture: "Image.Image") -> Vectors:
        """Preprocess one RGB picture for the model."""

    def prepare_part(self, picture: "Image.Image", edges: Edges) -> Vectors:
        """Preprocess a part of one RGB picture: left, top, right, bottom in pixels."""
        left, top, right, bottom = edges
        size = max(1, round(right - left)), max(1, round(bottom - top))
        return self.prepare(picture.resize(size, pillow_image().Resampling.BICUBIC, box=edges))

    @abstractmethod
    def run(self, batch: Vectors) -> Vectors:
        """Vectors of prepared pictures, one row each."""

    def embed(self, images: Sequence[RGB]) -> Vectors:
        """Vectors of several pictures, one row each.

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
    """The downscaled picture itself, without a model.

    Good enough for digits and letters, and for objects that always look the same.

    Parameters
    ----------
    size : int, default=16
        The picture is scaled to size × size pixels.
    colour : bool, default=False
        Use red, green and blue instead of brightness.

    Notes
    -----
    *Cost*: that of scaling the picture.

    *Promises*: a vector depends on the picture and the weights alone: not on its batch, on threads
    or on the run.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn.images.embedders import Pixels
    >>> Pixels(size=2).embed([np.full((9, 5, 3), 255, dtype=np.uint8)]).tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """

    def __init__(self, *, size: int = 16, colour: bool = False) -> None:
        if size < 1:
            raise InvalidParameter(f"size must be at least 1, not {size}")
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
    """Base of network embedders: a centre crop, scaled, channels first."""

    def __init__(
        self,
        size: int,
        crop: float,
        mean: float | Sequence[float],
        scale: float | Sequence[float],
    ) -> None:
        if not 0.0 < crop <= 1.0:
            raise InvalidParameter(f"crop must be a share between 0 and 1, not {crop}")
        if size < 1:
            raise InvalidParameter(f"size must be at least 1, not {size}")
        self.size = size
        self.crop = crop
        self.mean = _per_channel(mean)
        self.scale = _per_channel(scale)
        if not self.scale.all():
            raise InvalidParameter(f"pixels cannot be divided by a scale of 0, given {scale!r}")
        # Network input for each of the 256 values of a pixel, one row per channel.
        values = np.repeat(np.arange(256, dtype=np.float32)[:, None], 3, axis=1)
        self._levels = np.ascontiguousarray(((values - self.mean) / self.scale).T)
        self.at_least = 2 * math.ceil(size / crop)

    def prepare(self, picture: "Image.Image") -> Vectors:
        return self.planes(centre_crop(picture, self.size, self.crop))

    def prepare_part(self, picture: "Image.Image", edges: Edges) -> Vectors:
        """The whole part, resized to a square: its edges matter as much as its centre."""
        size = (self.size, self.size)
        return self.planes(picture.resize(size, pillow_image().Resampling.BICUBIC, box=edges))

    def planes(self, square: "Image.Image") -> Vectors:
        """A square of ``size`` × ``size`` pixels, scaled, channels first."""
        pixels = np.asarray(square)
        planes = np.empty((3, *pixels.shape[:2]), dtype=np.float32)
        for channel, levels in enumerate(self._levels):
            np.take(levels, pixels[:, :, channel], out=planes[channel], mode="clip")
        return planes

    def _probed_width(self) -> int:
        return int(self.run(np.zeros((1, 3, self.size, self.size), np.float32)).shape[1])


class OnnxEmbedder(NetworkEmbedder):
    """Any ONNX model from pictures to vectors.

    Runs in onnxruntime on the CPU. Name, size and layout of the input (channels first or last) are
    read from the file, and the scaling of pixels if the file, or a ``preprocessor_config.json``
    beside it, specifies it. Of several outputs the one with a vector per picture is used; a feature
    map is averaged globally, and tokens are averaged.

    Parameters
    ----------
    path : path-like
    size : int, optional
        Side of the square input; read from the file if it specifies it.
    crop : float, optional
        Share of the shorter side that the centre crop keeps; defaults to 0.875.
    mean, scale : float or sequence of three, optional
        Pixels, from 0 to 255, become (value − mean) / scale. Required if the file does not specify
        them.
    threads : int, optional
        Threads onnxruntime uses for one call. With the default of one, calls from several threads
        run side by side, which is fastest for many pictures.
    mirror : bool, default=False
        Average the vectors of a picture and of its mirror image: a little more accurate, for twice
        the time.
    tokens : {"mean", "first", "rest"}, optional
        For a model with outputs (n, tokens, features): their mean, the first (CLS), or the mean of
        all others (patches). By default a vector is used if the model has one as well, otherwise
        the mean.
    sha256 : str, optional
        Expected digest of the file; raises ``DamagedModel`` otherwise.

    Notes
    -----
    A model of pictures and text (CLIP) may be given whole; its text input gets placeholders.

    A file written by :func:`everlearn.deep.embedding.export_onnx` specifies its preprocessing and
    has the name of the embedder it was made from: their vectors can be compared. Arguments override
    the file, and make it a different embedder.

    *Cost*: that of the network, on ``threads`` cores.

    *Promises*: a vector depends on the picture and the weights alone: not on its batch, on threads
    or on the run.

    Examples
    --------
    >>> from importlib.resources import files
    >>> import numpy as np
    >>> from everlearn import OnnxEmbedder
    >>> file = files("everlearn.images") / "weights" / "efficientnet_lite0.onnx"
    >>> embedder = OnnxEmbedder(str(file), mean=127.0, scale=128.0)
    >>> embedder.embed([np.zeros((40, 30, 3), dtype=np.uint8)]).shape
    (1, 1280)
    """

    # One picture at a time keeps its layers in the cache of its core.
    batch_size = 1

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size: int | None = None,
        crop: float | None = None,
        mean: Numbers | None = None,
        scale: Numbers | None = None,
        threads: int = 1,
        mirror: bool = False,
        tokens: Literal["mean", "first", "rest"] | None = None,
        sha256: str | None = None,
    ) -> None:
        if tokens not in TOKENS:
            raise InvalidParameter(f"tokens must be 'mean', 'first' or 'rest', not {tokens!r}")
        model = read_model(Path(path))
        digest = hashlib.sha256(model).hexdigest()
        if sha256 is not None and digest != sha256:
            raise DamagedModel(
                f"{path} is not the expected file: its SHA-256 is {digest}, not {sha256}; "
                "install everlearn again"
            )
        self._path = Path(path)
        self._session = onnx_session(model, Path(path), threads=threads)
        written = written_preparation(self._session, Path(path))
        self._input = picture_input(self._session, Path(path), size, written.size)
        self._output = picture_output(self._session, Path(path), tokens)
        as_written = crop is None and mean is None and scale is None and tokens is None
        crop = crop if crop is not None else written.crop or USUAL_CROP
        if self._input.kind == np.uint8:
            # A model that takes bytes scales them itself.
            mean, scale = 0.0, 1.0
        mean = required(Path(path), mean, written.mean, "mean")
        scale = required(Path(path), scale, written.scale, "scale")
        super().__init__(self._input.side, crop, mean, scale)
        self.mirror = mirror
        self.tokens = tokens
        own_name = f"{Path(path).stem} {digest[:16]} {self.size} {crop} {mean} {scale}"
        self.name = written.name if as_written and written.name else own_name
        if tokens is not None:
            self.name += f" {tokens}"
        if mirror:
            self.name += " mirror"
        self.n_features = self._probed_width()

    @property
    def model(self) -> bytes:
        """The file, including all weights."""
        return read_model(self._path)

    @property
    def plain(self) -> bool:
        """Whether its only input is float32, channels first, and its only output has vectors."""
        outputs = self._session.get_outputs()
        takes_planes = self._input.kind == np.float32 and not self._input.channels_last
        only_pictures = not self._input.others and not self._input.one_at_a_time
        return takes_planes and only_pictures and len(outputs) == 1 and len(outputs[0].shape) == 2

    def run(self, batch: Vectors) -> Vectors:
        vectors = self._run_model(batch)
        if self.mirror:
            vectors += self._run_model(np.ascontiguousarray(batch[..., ::-1]))
            vectors /= 2
        return vectors

    def _run_model(self, batch: Vectors) -> Vectors:
        pictures = batch.transpose(0, 2, 3, 1) if self._input.channels_last else batch
        pictures = np.ascontiguousarray(pictures).astype(self._input.kind, copy=False)
        parts = np.split(pictures, len(pictures)) if self._input.one_at_a_time else [pictures]
        found = []
        for part in parts:
            (output,) = self._session.run([self._output], self._feed(part))
            found.append(_as_vectors(output, self._output, self.tokens))
        vectors: Vectors = found[0] if len(found) == 1 else np.concatenate(found)
        return vectors

    def _feed(self, pictures: Any) -> dict[str, Any]:
        """All inputs for a batch of pictures, with placeholders for text."""
        inputs = {self._input.name: pictures}
        for name, shape, kind in self._input.others:
            default = [len(pictures), *([1] * (len(shape) - 1))] if shape else []
            sides = [
                fixed if isinstance(fixed, int) else free
                for free, fixed in zip(default, shape, strict=True)
            ]
            inputs[name] = np.full(sides, 1 if "mask" in name.lower() else 0, dtype=kind)
        return inputs


class EfficientNetLite0(OnnxEmbedder):
    """The included embedder: 1,280 features, CPU only.

    EfficientNet-Lite0 (trained on ImageNet by Google; Apache-2.0) without its classifier. Where
    the weights come from is in the files ``weights/*.json``, whose digests are checked on loading.

    Parameters
    ----------
    precision : {"float32", "int8"}, default="float32"
        ``"int8"`` takes about two thirds of the time (half on processors with VNNI), 3.8 MB instead
        of 6.8, and produces different vectors: the two are different embedders and are never mixed.
        Its answers do not depend on the processor. It comes with everlearn-networks.
    threads, mirror, crop
        As in :class:`OnnxEmbedder`.

    Notes
    -----
    *Cost*: about 10 ms of one core for a picture; 25 MB of memory.

    *Promises*: a vector depends on the picture and the weights alone: not on its batch, on threads
    or on the run.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import EfficientNetLite0
    >>> EfficientNetLite0().embed([np.zeros((40, 30, 3), dtype=np.uint8)]).shape
    (1, 1280)
    """

    def __init__(
        self,
        *,
        precision: Literal["float32", "int8"] = DEFAULT_PRECISION,
        threads: int = 1,
        mirror: bool = False,
        crop: float = USUAL_CROP,
    ) -> None:
        self.precision = precision
        path, settings = lite_settings(SHIPPED, precision)
        super().__init__(path, crop=crop, threads=threads, mirror=mirror, **settings)


def lite_settings(networks: dict[str, str], precision: str) -> tuple[Path, dict[str, Any]]:
    """The file of an EfficientNet-Lite in this precision, and its arguments for OnnxEmbedder.

    ``networks`` has the name of the network of each precision.
    """
    if precision not in networks:
        raise InvalidParameter(f"precision must be one of {', '.join(networks)}, not {precision!r}")
    path, provenance = network_file(networks[precision])
    return path, {"mean": 127.0, "scale": 128.0, "sha256": provenance["sha256"]}


def network_file(name: str) -> tuple[Path, dict[str, Any]]:
    """The ONNX file of a network, and its provenance, which includes the expected digest.

    Raises
    ------
    MissingPackage
        If the network comes with everlearn-networks, which is not installed.
    """
    description = WEIGHTS / f"{name}.json"
    if description.is_file():
        provenance: dict[str, Any] = json.loads(description.read_text("utf-8"))
        return WEIGHTS / provenance["file"], provenance
    try:
        import everlearn_networks
    except ModuleNotFoundError:
        raise MissingPackage(
            f"the network {name} comes with everlearn-networks, which is not installed; "
            "pip install 'everlearn[networks]'"
        ) from None
    return everlearn_networks.file(name), everlearn_networks.about(name)


def centre_crop(picture: "Image.Image", size: int, crop: float) -> "Image.Image":
    """The centre of a picture, size × size pixels.

    As if the shorter side were scaled to size / crop and a square of ``size`` cut out of the
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
    """Pixels as a Pillow image, after checking shape and type."""
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        raise WrongKind(f"a picture needs integers from 0 to 255 (uint8), not {pixels.dtype}")
    if pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise WrongShape(f"a picture needs the shape (height, width, 3), not {pixels.shape}")
    picture: Image.Image = pillow_image().fromarray(pixels)
    return picture


def _per_channel(value: float | Sequence[float]) -> Vectors:
    values = np.asarray(value, dtype=np.float32)
    if values.shape not in ((), (3,)):
        raise InvalidParameter(f"mean and scale must be one number or three, not {value!r}")
    return values


def _as_vectors(output: Any, name: str, tokens: str | None = None) -> Any:
    """One row per picture: tokens are averaged, and so are axes beyond the second."""
    vectors = np.asarray(output, dtype=np.float32)
    if vectors.ndim < 2:
        raise NotAModel(f"the model returns shape {vectors.shape}, expected one row per picture")
    if tokens is not None and vectors.ndim != 3:
        raise InvalidParameter(
            f"tokens={tokens!r} is for models with outputs (n, tokens, features); the output "
            f"{name} has the shape {vectors.shape}"
        )
    if tokens == "first":
        return np.ascontiguousarray(vectors[:, 0])
    if tokens == "rest":
        return vectors[:, 1:].mean(axis=1)
    if tokens == "mean" or (vectors.ndim == 3 and "hidden_state" in name):
        return vectors.mean(axis=1)
    return vectors.mean(axis=tuple(range(2, vectors.ndim))) if vectors.ndim > 2 else vectors
