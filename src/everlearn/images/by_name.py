"""Which embedder is meant: by a word, a file, or the name that its vectors carry.

Vectors carry the name of the embedder they came from. Those that come with everlearn are found by
it alone, so that whoever opens a Memory later looks with the same eyes. An ONNX file has to be at
hand; how pictures are prepared for it stands in the name, where the file does not say it.
"""

import os
import re

from everlearn.errors import InvalidParameter
from everlearn.images.embedders import SHIPPED, EfficientNetLite0, Embedder, OnnxEmbedder, Pixels
from everlearn.images.onnx_files import Numbers

Given = str | os.PathLike[str]

# What is said on a command line, and the precision it stands for.
WORDS = {"efficientnet-lite0": "float32", "efficientnet-lite0-int8": "int8"}
_PIXELS_WORD = re.compile(r"pixels(?:-(\d+))?")

MIRROR = " mirror"
# A name may come from a file that somebody sent: a side of 60,000 would take all memory.
WIDEST_PIXELS = 512
_NUMBERS = r"[-+.\de]+|\([-+.\de, ]+\)|\[[-+.\de, ]+\]"
# Stem, digest, size, crop, mean and scale, as OnnxEmbedder writes them.
_FILE = re.compile(rf".+ [0-9a-f]{{16}} (\d+) ([.\d]+) ({_NUMBERS}) ({_NUMBERS})")
_PIXELS = re.compile(r"pixels (\d+) (grey|colour)")


def embedder_for(
    word: Given,
    *,
    size: int | None = None,
    mean: Numbers | None = None,
    scale: Numbers | None = None,
) -> Embedder:
    """The embedder that a word stands for, or the path of an ONNX file.

    Parameters
    ----------
    word : {"efficientnet-lite0", "efficientnet-lite0-int8", "pixels", "pixels-N"} or path-like
    size, mean, scale : optional
        As for :class:`OnnxEmbedder`; ``size`` for pixels as well.
    """
    if str(word) in WORDS:
        return EfficientNetLite0(precision=WORDS[str(word)])  # type: ignore[arg-type]
    if pixels := _PIXELS_WORD.fullmatch(str(word)):
        side = size or int(pixels[1] or 16)
        if not 0 < side <= WIDEST_PIXELS:
            raise InvalidParameter(f"pixels have a side of 1 to {WIDEST_PIXELS}, not {side}")
        return Pixels(size=side)
    if not str(word).endswith(".onnx") and not os.path.exists(word):
        raise InvalidParameter(
            f"{str(word)!r} is no embedder; give {', '.join(map(repr, WORDS))}, 'pixels-16' or the "
            "path of an ONNX file"
        )
    return OnnxEmbedder(word, size=size, mean=mean, scale=scale)


def embedder_called(name: str | None) -> Embedder | None:
    """The embedder with this name, if it comes with everlearn."""
    name = name or ""
    plain = name.removesuffix(MIRROR)
    if pixels := _PIXELS.fullmatch(name):
        if not 0 < int(pixels[1][:6]) <= WIDEST_PIXELS:
            return None
        return Pixels(size=int(pixels[1]), colour=pixels[2] == "colour")
    for precision, stem in SHIPPED.items():
        if plain.split(" ")[0] == stem:
            ours = EfficientNetLite0(precision=precision, mirror=plain != name)  # type: ignore[arg-type]
            return ours if ours.name == name else None
    return None


def prepared_as(name: str | None, given: Given) -> Embedder:
    """What a word or a file stands for, pictures prepared for the file as the name says.

    Whether it is the embedder with that name is for its own name to say.
    """
    name = name or ""
    plain = name.removesuffix(MIRROR)
    said = _FILE.fullmatch(plain)
    if said is None or str(given) in WORDS:
        return embedder_for(given)
    size, crop, mean, scale = said.groups()
    return OnnxEmbedder(
        given,
        size=int(size),
        crop=float(crop),
        mean=_numbers(mean),
        scale=_numbers(scale),
        mirror=plain != name,
    )


def _numbers(written: str) -> Numbers:
    """Numbers as they were given: the name that is made of them is the same again."""
    if written[0] not in "([":
        return _number(written)
    several = [_number(word) for word in written[1:-1].split(",") if word.strip()]
    return tuple(several) if written[0] == "(" else several


def _number(written: str) -> float:
    return int(written) if re.fullmatch(r"\s*-?\d+\s*", written) else float(written)
