"""Opens ONNX files, and reads input size and preprocessing from their own metadata.

Name, size, layout (channels first or last) and type of the input are in the file itself. ONNX has
no standard for the scaling of pixels; it is searched in

1. the metadata that :func:`everlearn.deep.embedding.export_onnx` writes;
2. metadata called ``image_mean`` and ``image_std`` (or ``mean`` and ``std``);
3. ``preprocessor_config.json`` beside the file, which exports of DINOv2, CLIP and SigLIP come with.

Numbers of 2 and 3 refer to pixels from 0 to 1, unless a deviation is above one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.errors import CannotRead, InvalidParameter, MissingPackage, NotAModel
from everlearn.images.onnx_weights import with_weights
from everlearn.interrupts import deferred_interrupts

# Metadata key of everlearn's ONNX files: preprocessing and name.
ONNX_METADATA = "everlearn.embedder"
CONFIG_FILE = "preprocessor_config.json"
USUAL_CROP = 0.875
# Number types of inputs that are pictures.
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
# Number types of inputs that are not pictures.
OTHER_KINDS = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
}
# Names of outputs that are vectors of whole pictures, if a model has several.
VECTORS = ("image_embeds", "pooler_output", "embedding", "embeddings", "features")
LONGEST_CONFIG = 1 << 20

Numbers = float | Sequence[float]


@dataclass(frozen=True)
class PictureInput:
    """The input of a model: name, side of the square, layout and number type.

    ``others`` are inputs that are not pictures (text, masks), with their shape and type;
    ``one_at_a_time`` means that the model takes batches of one picture only.
    """

    name: str
    side: int
    channels_last: bool
    kind: Any
    others: tuple[tuple[str, tuple[Any, ...], Any], ...] = ()
    one_at_a_time: bool = False


@dataclass(frozen=True)
class Preparation:
    """Preprocessing of pixels from 0 to 255: (value − mean) / scale; ``None`` if not specified."""

    name: str | None = None
    crop: float | None = None
    mean: Numbers | None = None
    scale: Numbers | None = None
    size: int | None = None


def read_model(path: Path) -> bytes:
    """The file with its weights, including those in files beside it."""
    try:
        model = path.read_bytes()
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None
    # A tensor with external data names its file under the key "location" (onnx.proto).
    return with_weights(model, path) if b"location" in model else model


def onnx_session(model: bytes, path: Path, *, threads: int) -> Any:
    """An inference session on the CPU; errors refer to the model as ``path``."""
    try:
        with deferred_interrupts():
            import onnxruntime
    except ModuleNotFoundError:
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


def picture_input(
    session: Any, path: Path, size: int | None, written: int | None = None
) -> PictureInput:
    """The picture input of a model; ``written`` is the size specified beside it."""
    inputs = session.get_inputs()
    pictures = [i for i in inputs if len(i.shape) == 4 and i.type in KINDS]
    others = [i for i in inputs if i not in pictures]
    if len(pictures) != 1 or any(other.type not in OTHER_KINDS for other in others):
        found = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs)
        raise NotAModel(
            f"{path} does not take one batch of RGB pictures, (n, 3, height, width) or "
            f"(n, height, width, 3); it takes {found or 'nothing'}. Export only the part of it "
            "that processes pictures"
        )
    shape = pictures[0].shape
    channels_last = shape[3] == 3 and shape[1] != 3
    if not channels_last and isinstance(shape[1], int) and shape[1] != 3:
        raise NotAModel(f"{path} does not take RGB pictures: its input has the shape {shape}")
    sides = [side for side in (shape[1:3] if channels_last else shape[2:]) if isinstance(side, int)]
    size = size or (None if sides else written)
    known = {*sides, *([size] if size else [])}
    if len(known) != 1:
        raise InvalidParameter(
            f"{path} takes pictures of {' x '.join(map(str, sides)) or 'any size'}, size={size}; "
            "give the side of its square input (size=, --size)"
        )
    other_inputs = tuple(
        (other.name, tuple(other.shape), OTHER_KINDS[other.type]) for other in others
    )
    kind, single = KINDS[pictures[0].type], shape[0] == 1
    return PictureInput(
        pictures[0].name, int(known.pop()), channels_last, kind, other_inputs, single
    )


def picture_output(session: Any, path: Path, tokens: str | None = None) -> str:
    """The name of the output with one vector per picture.

    Of several outputs: the first with a name in ``VECTORS``, else the first with two axes, else the
    first. If ``tokens`` is given, the first with three axes.
    """
    outputs = session.get_outputs()
    if tokens is not None:
        outputs = [output for output in outputs if len(output.shape) == 3] or outputs
        return str(outputs[0].name)
    named = [output for output in outputs if output.name in VECTORS]
    flat = [output for output in outputs if len(output.shape) == 2]
    for group in (named, flat, outputs):
        if group:
            return str(group[0].name)
    raise NotAModel(f"{path} has no output")


def written_preparation(session: Any, path: Path) -> Preparation:
    """The preprocessing, as far as the file or the configuration beside it specifies it."""
    metadata = session.get_modelmeta().custom_metadata_map
    try:
        if ONNX_METADATA in metadata:
            own = json.loads(metadata[ONNX_METADATA])
            numbers = (_numbers(own["mean"], 1.0), _numbers(own["scale"], 1.0))
            return Preparation(str(own["name"]), float(own["crop"]), *numbers)
        for mean, deviation in (("image_mean", "image_std"), ("mean", "std")):
            if mean in metadata and deviation in metadata:
                both = json.loads(metadata[mean]), json.loads(metadata[deviation])
                return Preparation(None, None, *_in_pixel_units(*both))
        return _written_beside(path.with_name(CONFIG_FILE))
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        ArithmeticError,
    ) as error:
        raise NotAModel(f"{path} does not specify its preprocessing: {error!r}") from None


def required(path: Path, given: Numbers | None, written: Numbers | None, what: str) -> Numbers:
    """Arguments override file metadata; one of them must be present."""
    if given is not None:
        return given
    if written is not None:
        return written
    raise InvalidParameter(
        f"{path} does not specify how pixels are scaled, and neither does a {CONFIG_FILE} beside "
        f"it: give {what}= (--{what}), in units of 0 to 255. Networks of PyTorch mostly have the "
        "mean 123.675,116.28,103.53 and the scale 58.395,57.12,57.375, CLIP "
        "122.771,116.746,104.094 and 68.501,66.632,70.323, SigLIP and faces 127.5 and 127.5"
    )


def _written_beside(path: Path) -> Preparation:
    if not path.is_file() or path.stat().st_size > LONGEST_CONFIG:
        return Preparation()
    config = json.loads(path.read_text("utf-8"))
    size = _side(config)
    if not config.get("do_normalize", True):
        scale = 1.0 / float(config.get("rescale_factor", 1 / 255))
        return Preparation(mean=0.0, scale=scale, size=size)
    if "image_mean" not in config or "image_std" not in config:
        return Preparation(size=size)
    scaled = _in_pixel_units(config["image_mean"], config["image_std"])
    return Preparation(None, _crop(config), *scaled, size=size)


def _side(config: dict[str, Any]) -> int | None:
    """The side of the square input, if specified."""
    size = config.get("crop_size") if config.get("do_center_crop", False) else config.get("size")
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    return int(size) if isinstance(size, int) and size > 0 else None


def _crop(config: dict[str, Any]) -> float | None:
    """The share of the shorter side that is kept, if both sizes are specified."""
    if not config.get("do_center_crop", False):
        return 1.0
    resized, crop = config.get("size"), config.get("crop_size")
    shorter = resized.get("shortest_edge") if isinstance(resized, dict) else resized
    side = crop.get("height") if isinstance(crop, dict) else crop
    if not shorter or not side or not 0 < side <= shorter:
        return None
    return float(side) / float(shorter)


def _in_pixel_units(mean: Any, deviation: Any) -> tuple[Numbers, Numbers]:
    """Mean and deviation, converted to pixels from 0 to 255."""
    unit = 255.0 if np.max(deviation) <= 1.0 else 1.0
    return _numbers(mean, unit), _numbers(deviation, unit)


def _numbers(values: Any, unit: float) -> Numbers:
    numbers = np.asarray(values, dtype=np.float32) * np.float32(unit)
    if numbers.shape not in ((), (3,)) or not np.isfinite(numbers).all():
        raise ValueError(f"{values!r} is not one number or three")
    found: Numbers = numbers.tolist()
    return found
