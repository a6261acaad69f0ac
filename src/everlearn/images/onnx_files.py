"""What an ONNX file says of the pictures it takes, so that nobody has to guess.

Name, size, layout (channels first or last) and kind of the input stand in the file itself. How the
pixels are to be scaled does not, by ONNX; it is looked for in

1. the metadata that :func:`everlearn.deep.embedding.export_onnx` writes;
2. metadata called ``image_mean`` and ``image_std`` (or ``mean`` and ``std``);
3. ``preprocessor_config.json`` beside the file, which exports of DINOv2, CLIP and SigLIP come with.

Numbers of 2 and 3 are about pixels from 0 to 1, as is usual there, unless they are above one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.errors import InvalidParameter, NotAModel

# Under this key an ONNX file of everlearn's says how pictures are prepared, and which name it has.
ONNX_METADATA = "everlearn.embedder"
BESIDE = "preprocessor_config.json"
USUAL_CROP = 0.875
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
# Outputs that are vectors of whole pictures, where a model has several.
VECTORS = ("image_embeds", "pooler_output", "embedding", "embeddings", "features")
LONGEST_CONFIG = 1 << 20

Numbers = float | Sequence[float]


@dataclass(frozen=True)
class PictureInput:
    """What a model takes: the input's name, the side of the square, layout and kind of numbers."""

    name: str
    side: int
    channels_last: bool
    kind: Any


@dataclass(frozen=True)
class Preparation:
    """How pixels from 0 to 255 are prepared: (value − mean) / scale; ``None`` is not said."""

    name: str | None = None
    crop: float | None = None
    mean: Numbers | None = None
    scale: Numbers | None = None


def picture_input(session: Any, path: Path, size: int | None) -> PictureInput:
    """The one input of a model, which has to take RGB pictures."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in KINDS:
        found = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs)
        raise NotAModel(
            f"{path} does not take one batch of RGB pictures, (n, 3, height, width) or "
            f"(n, height, width, 3); it takes {found or 'nothing'}. Export the part of it that "
            "sees pictures alone"
        )
    shape = inputs[0].shape
    last = shape[3] == 3 and shape[1] != 3
    if not last and isinstance(shape[1], int) and shape[1] != 3:
        raise NotAModel(f"{path} does not take RGB pictures: its input has the shape {shape}")
    sides = [side for side in (shape[1:3] if last else shape[2:]) if isinstance(side, int)]
    known = {*sides, *([size] if size else [])}
    if len(known) != 1:
        raise InvalidParameter(
            f"{path} takes pictures of {' x '.join(map(str, sides)) or 'any size'}, size={size}; "
            "give the size of the square it should get (size=, --size)"
        )
    return PictureInput(inputs[0].name, int(known.pop()), last, KINDS[inputs[0].type])


def picture_output(session: Any, path: Path) -> str:
    """The output that is one vector a picture; of several the one called so, or of two axes."""
    outputs = session.get_outputs()
    named = [output for output in outputs if output.name in VECTORS]
    flat = [output for output in outputs if len(output.shape) == 2]
    for group in (named, flat, outputs):
        if group:
            return str(group[0].name)
    raise NotAModel(f"{path} gives nothing")


def as_vectors(output: Any, name: str) -> Any:
    """One row a picture: tokens are averaged, and so is what lies beyond the second axis."""
    vectors = np.asarray(output, dtype=np.float32)
    if vectors.ndim < 2:
        raise NotAModel(f"the model gives shape {vectors.shape}; it should give one row each")
    if vectors.ndim == 3 and "hidden_state" in name:
        return vectors.mean(axis=1)
    return vectors.mean(axis=tuple(range(2, vectors.ndim))) if vectors.ndim > 2 else vectors


def written_preparation(session: Any, path: Path) -> Preparation:
    """How pictures are prepared, as far as the file or its neighbour says it."""
    metadata = session.get_modelmeta().custom_metadata_map
    try:
        if ONNX_METADATA in metadata:
            own = json.loads(metadata[ONNX_METADATA])
            numbers = (_numbers(own["mean"], 1.0), _numbers(own["scale"], 1.0))
            return Preparation(str(own["name"]), float(own["crop"]), *numbers)
        for mean, deviation in (("image_mean", "image_std"), ("mean", "std")):
            if mean in metadata and deviation in metadata:
                both = json.loads(metadata[mean]), json.loads(metadata[deviation])
                return Preparation(None, None, *_of_pixels(*both))
        return _written_beside(path.with_name(BESIDE))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotAModel(f"{path} does not say how its pictures are prepared: {error!r}") from None


def required(path: Path, given: Numbers | None, said: Numbers | None, what: str) -> Numbers:
    """What was given goes before what is said; one of them has to be there."""
    if given is not None:
        return given
    if said is not None:
        return said
    raise InvalidParameter(
        f"{path} does not say how its pixels are scaled, and neither does a {BESIDE} beside it: "
        f"give {what}= (--{what}), in units of 0 to 255. Networks of PyTorch mostly have the mean "
        "123.675,116.28,103.53 and the scale 58.395,57.12,57.375, CLIP 122.771,116.746,104.094 and "
        "68.501,66.632,70.323, SigLIP and faces 127.5 and 127.5"
    )


def _written_beside(path: Path) -> Preparation:
    if not path.is_file() or path.stat().st_size > LONGEST_CONFIG:
        return Preparation()
    said = json.loads(path.read_text())
    if not said.get("do_normalize", True):
        return Preparation(mean=0.0, scale=1.0 / float(said.get("rescale_factor", 1 / 255)))
    if "image_mean" not in said or "image_std" not in said:
        return Preparation()
    return Preparation(None, _crop(said), *_of_pixels(said["image_mean"], said["image_std"]))


def _crop(said: dict[str, Any]) -> float | None:
    """The share of the shorter side that stays, where both sizes are said."""
    if not said.get("do_center_crop", False):
        return 1.0
    whole, part = said.get("size"), said.get("crop_size")
    shorter = whole.get("shortest_edge") if isinstance(whole, dict) else whole
    side = part.get("height") if isinstance(part, dict) else part
    if not shorter or not side or not 0 < side <= shorter:
        return None
    return float(side) / float(shorter)


def _of_pixels(mean: Any, deviation: Any) -> tuple[Numbers, Numbers]:
    """Numbers for pixels from 0 to 255."""
    unit = 255.0 if np.max(deviation) <= 1.0 else 1.0
    return _numbers(mean, unit), _numbers(deviation, unit)


def _numbers(values: Any, unit: float) -> Numbers:
    numbers = np.asarray(values, dtype=np.float32) * np.float32(unit)
    if numbers.shape not in ((), (3,)) or not np.isfinite(numbers).all():
        raise ValueError(f"{values!r} is not one number or three")
    found: Numbers = numbers.tolist()
    return found
