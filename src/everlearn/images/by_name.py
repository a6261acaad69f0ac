"""The embedder that a name belongs to.

Vectors carry the name of the embedder they came from. Those that come with everlearn are found by
it alone, so that whoever opens a Memory later looks with the same eyes. An ONNX file has to be at
hand; how pictures are prepared for it stands in the name, where the file does not say it.
"""

import os
import re

from everlearn.images.embedders import SHIPPED, EfficientNetLite0, Embedder, OnnxEmbedder, Pixels
from everlearn.images.onnx_files import Numbers

MIRROR = " mirror"
_NUMBERS = r"[-+.\de]+|\([-+.\de, ]+\)|\[[-+.\de, ]+\]"
# Stem, digest, size, crop, mean and scale, as OnnxEmbedder writes them.
_FILE = re.compile(rf".+ [0-9a-f]{{16}} (\d+) ([.\d]+) ({_NUMBERS}) ({_NUMBERS})")
_PIXELS = re.compile(r"pixels (\d+) (grey|colour)")


def embedder_called(
    name: str | None, file: str | os.PathLike[str] | None = None
) -> Embedder | None:
    """The embedder with this name; ``None`` if it neither comes with everlearn nor is in a file.

    Parameters
    ----------
    name : str, optional
    file : path-like, optional
        An ONNX file. It is taken whatever the name is; what it does not say about the preparation
        of pictures is read from the name.
    """
    name = name or ""
    mirror, plain = name.endswith(MIRROR), name.removesuffix(MIRROR)
    found = _FILE.fullmatch(plain)
    if file is not None:
        if found is None:
            return OnnxEmbedder(file, mirror=mirror)
        size, crop, mean, scale = found.groups()
        return OnnxEmbedder(
            file,
            size=int(size),
            crop=float(crop),
            mean=_numbers(mean),
            scale=_numbers(scale),
            mirror=mirror,
        )
    if pixels := _PIXELS.fullmatch(plain):
        return Pixels(size=int(pixels[1]), colour=pixels[2] == "colour")
    for precision, stem in SHIPPED.items():
        if plain.split(" ")[0] == stem:
            ours = EfficientNetLite0(precision=precision, mirror=mirror)  # type: ignore[arg-type]
            return ours if ours.name == name else None
    return None


def _numbers(written: str) -> Numbers:
    """Numbers as they were given: the name that is made of them is the same again."""
    if written[0] not in "([":
        return _number(written)
    several = [_number(word) for word in written[1:-1].split(",") if word.strip()]
    return tuple(several) if written[0] == "(" else several


def _number(written: str) -> float:
    return int(written) if re.fullmatch(r"\s*-?\d+\s*", written) else float(written)
