"""Finding an embedder by a word, a file, or the name stored with its vectors.

Vectors carry the name of the embedder they came from. Those that come with everlearn are found by
it alone, so that whoever opens a Memory later looks with the same eyes. An ONNX file has to be at
hand; how pictures are prepared for it stands in the name, where the file does not say it. Words and
files joined by ``+`` stand side by side.
"""

import os
import re
from collections.abc import Callable
from functools import partial

from everlearn.errors import InvalidParameter
from everlearn.images.embedders import SHIPPED, EfficientNetLite0, Embedder, OnnxEmbedder, Pixels
from everlearn.images.hub_models import HUBS, hub_embedder, hub_of
from everlearn.images.onnx_files import USUAL_CROP, Numbers
from everlearn.images.shipped import LCNET, LITE2, EfficientNetLite2, PPLCNetV2
from everlearn.images.side_by_side import SideBySide, parts_in

Given = str | os.PathLike[str]

# The whole shorter side of a picture: right more often than the usual centre of it, in held-out
# training pictures of CIFAR-100 by a point.
WHOLE = 1.0


def _two_networks(*, mirror: bool = False) -> SideBySide:
    return SideBySide(
        [EfficientNetLite0(crop=WHOLE, mirror=mirror), PPLCNetV2(crop=WHOLE, mirror=mirror)]
    )


# What is said on a command line or to a Memory, and what it stands for.
WORDS: dict[str, Callable[[], Embedder]] = {
    "fast": lambda: EfficientNetLite0(precision="int8"),
    "balanced": EfficientNetLite0,
    "best": _two_networks,
    "best-mirror": lambda: _two_networks(mirror=True),
    "efficientnet-lite0": EfficientNetLite0,
    "efficientnet-lite0-int8": lambda: EfficientNetLite0(precision="int8"),
    "efficientnet-lite2": EfficientNetLite2,
    "pp-lcnetv2": PPLCNetV2,
}
# Networks that come with everlearn or everlearn-networks, by their file.
OURS: dict[str, Callable[..., Embedder]] = {
    SHIPPED["float32"]: EfficientNetLite0,
    SHIPPED["int8"]: partial(EfficientNetLite0, precision="int8"),
    LITE2: EfficientNetLite2,
    LCNET: PPLCNetV2,
}
# What a new Memory looks with.
DEFAULT = "balanced"
BESIDE = "+"
_PIXELS_WORD = re.compile(r"pixels(?:-(\d+))?")

MIRROR = " mirror"
# A name may come from a file that somebody sent: a side of 60,000 would take all memory.
WIDEST_PIXELS = 512
_NUMBERS = r"[-+.\de]+|\([-+.\de, ]+\)|\[[-+.\de, ]+\]"
# Stem, digest, size, crop, mean and scale, as OnnxEmbedder writes them.
_FILE = re.compile(
    rf".+ [0-9a-f]{{16}} (\d+) ([.\d]+) ({_NUMBERS}) ({_NUMBERS})(?: (mean|first|rest))?"
)
_CROP = re.compile(r"1\.0|0\.\d*[1-9]")
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
    word : str or path-like
        ``fast``, ``balanced``, ``best`` or ``best-mirror``; ``efficientnet-lite0``,
        ``efficientnet-lite0-int8``, ``pp-lcnetv2``, ``pixels`` or ``pixels-N``; ``timm:NAME``,
        ``torchvision:NAME``, ``open_clip:NAME/WEIGHTS`` or ``transformers:NAME``; the path of an
        ONNX file; or several of these with ``+`` between them.
    size, mean, scale : optional
        As for :class:`OnnxEmbedder`; ``size`` for pixels as well.
    """
    parts = _side_by_side(word)
    if len(parts) > 1:
        if (size, mean, scale) != (None, None, None):
            raise InvalidParameter(
                f"size, mean and scale are of one file, but {word!r} names {len(parts)} networks; "
                "put a preprocessor_config.json beside the file"
            )
        return SideBySide([embedder_for(part) for part in parts])
    if str(word) in WORDS:
        return WORDS[str(word)]()
    if pixels := _PIXELS_WORD.fullmatch(str(word)):
        side = size or int(pixels[1] or 16)
        if not 0 < side <= WIDEST_PIXELS:
            raise InvalidParameter(f"pixels have a side of 1 to {WIDEST_PIXELS}, not {side}")
        return Pixels(size=side)
    if hub_of(str(word)):
        return hub_embedder(str(word))
    if not str(word).endswith(".onnx") and not os.path.exists(word):
        hubs = ", ".join(f"{hub}:NAME" for hub in HUBS)
        raise InvalidParameter(
            f"{str(word)!r} is no network; give {', '.join(map(repr, WORDS))}, 'pixels-16', the "
            f"path of an ONNX file, or a name of another package: {hubs}"
        )
    return OnnxEmbedder(word, size=size, mean=mean, scale=scale)


def as_embedder(meant: Embedder | Given) -> Embedder:
    """What a word or a file stands for; an embedder stands for itself."""
    return meant if isinstance(meant, Embedder) else embedder_for(meant)


def embedder_called(name: str | None) -> Embedder | None:
    """The embedder with this name, if it comes with everlearn."""
    name = name or ""
    if parts := parts_in(name):
        found = [part for own, _ in parts if (part := embedder_called(own)) is not None]
        return SideBySide(found) if len(found) == len(parts) else None
    plain = name.removesuffix(MIRROR)
    if pixels := _PIXELS.fullmatch(name):
        if not 0 < int(pixels[1][:6]) <= WIDEST_PIXELS:
            return None
        return Pixels(size=int(pixels[1]), colour=pixels[2] == "colour")
    stem, mirror, said = plain.split(" ")[0], plain != name, _FILE.fullmatch(plain)
    crop = float(said[2]) if said and _CROP.fullmatch(said[2]) else USUAL_CROP
    ours = OURS[stem](mirror=mirror, crop=crop) if stem in OURS else None
    return ours if ours is not None and ours.name == name else None


def prepared_as(name: str | None, given: Given) -> Embedder:
    """What a word or a file stands for, pictures prepared for the file as the name says.

    Whether it is the embedder with that name is for its own name to say.
    """
    name = name or ""
    parts, known = _side_by_side(given), [own for own, _ in parts_in(name)]
    if len(parts) > 1:
        # The names of as many networks say how pictures are prepared for each.
        known = known if len(known) == len(parts) else [""] * len(parts)
        return SideBySide([prepared_as(*pair) for pair in zip(known, parts, strict=True)])
    plain = name.removesuffix(MIRROR)
    said = _FILE.fullmatch(plain)
    if said is None or not os.path.isfile(given):
        return embedder_for(given)
    size, crop, mean, scale, tokens = said.groups()
    return OnnxEmbedder(
        given,
        size=int(size),
        crop=float(crop),
        mean=_numbers(mean),
        scale=_numbers(scale),
        mirror=plain != name,
        tokens=tokens,  # type: ignore[arg-type]
    )


def _side_by_side(given: Given) -> list[str]:
    """The networks that are named; a file may have the sign in its own name."""
    word = str(given)
    return [word] if os.path.exists(word) else [part.strip() for part in word.split(BESIDE)]


def _numbers(written: str) -> Numbers:
    """Numbers as they were given: the name that is made of them is the same again."""
    if written[0] not in "([":
        return _number(written)
    several = [_number(word) for word in written[1:-1].split(",") if word.strip()]
    return tuple(several) if written[0] == "(" else several


def _number(written: str) -> float:
    return int(written) if re.fullmatch(r"\s*-?\d+\s*", written) else float(written)
