"""Finds an embedder by name, by file, or by the name stored with its vectors.

Vectors carry the name of their embedder. Embedders included in everlearn are found by that name, so
that whoever opens a Memory later uses the same one. An ONNX file has to be given again; its
preprocessing is part of the stored name if the file does not specify it. Names and files joined by
``+`` are used side by side.
"""

import os
import re
from collections.abc import Callable
from functools import partial

from everlearn.errors import InvalidParameter, MissingPackage
from everlearn.images.embedders import SHIPPED, EfficientNetLite0, Embedder, OnnxEmbedder, Pixels
from everlearn.images.hub_models import HUBS, hub_embedder, hub_of
from everlearn.images.onnx_files import USUAL_CROP, Numbers
from everlearn.images.shipped import LCNET, LITE2, WHOLE, EfficientNetLite2, PPLCNetV2, balanced
from everlearn.images.side_by_side import SideBySide, parts_in

Given = str | os.PathLike[str]

_lite2_int8 = partial(EfficientNetLite2, precision="int8")


def _whole(*networks: Callable[..., Embedder], mirror: bool = False) -> SideBySide:
    """Networks side by side, each looking at the whole shorter side."""
    return SideBySide([network(crop=WHOLE, mirror=mirror) for network in networks])


# Names accepted on the command line and by a Memory, and their embedders.
WORDS: dict[str, Callable[[], Embedder]] = {
    "fast": lambda: EfficientNetLite0(precision="int8"),
    "basic": EfficientNetLite0,
    "balanced": balanced,
    "best": lambda: _whole(_lite2_int8, PPLCNetV2),
    "best-mirror": lambda: _whole(_lite2_int8, PPLCNetV2, mirror=True),
    "efficientnet-lite0": EfficientNetLite0,
    "efficientnet-lite0-int8": lambda: EfficientNetLite0(precision="int8"),
    "efficientnet-lite2": EfficientNetLite2,
    "efficientnet-lite2-int8": lambda: _lite2_int8(),
    "pp-lcnetv2": PPLCNetV2,
}
# What words stood for before: a Memory that was taught with it is still opened by the word.
FORMER: dict[str, Callable[[], Embedder]] = {
    "balanced": EfficientNetLite0,
    "best": lambda: _whole(EfficientNetLite0, PPLCNetV2),
    "best-mirror": lambda: _whole(EfficientNetLite0, PPLCNetV2, mirror=True),
}
# Networks that come with everlearn or everlearn-networks, by their file.
OURS: dict[str, Callable[..., Embedder]] = {
    SHIPPED["float32"]: EfficientNetLite0,
    SHIPPED["int8"]: partial(EfficientNetLite0, precision="int8"),
    LITE2["float32"]: EfficientNetLite2,
    LITE2["int8"]: _lite2_int8,
    LCNET: PPLCNetV2,
}
BESIDE = "+"
_PIXELS_WORD = re.compile(r"pixels(?:-(\d+))?")

MIRROR = " mirror"
# A name may come from an untrusted file: a side of 60,000 would exhaust memory.
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
    """The embedder for a name, or for the path of an ONNX file.

    Parameters
    ----------
    word : str or path-like
        ``basic``, ``fast``, ``balanced``, ``best`` or ``best-mirror``; ``efficientnet-lite0`` or
        ``efficientnet-lite2``, each also with ``-int8``; ``pp-lcnetv2``, ``pixels`` or
        ``pixels-N``; ``timm:NAME``, ``torchvision:NAME``, ``open_clip:NAME/WEIGHTS`` or
        ``transformers:NAME``; the path of an ONNX file; or several of these with ``+`` between
        them.
    size, mean, scale : optional
        As for :class:`OnnxEmbedder`; ``size`` for pixels as well.
    """
    parts = _side_by_side(word)
    if len(parts) > 1:
        if (size, mean, scale) != (None, None, None):
            raise InvalidParameter(
                f"size, mean and scale apply to one file, but {word!r} names {len(parts)} "
                "networks; put a preprocessor_config.json beside the file"
            )
        return SideBySide([embedder_for(part) for part in parts])
    if str(word) in WORDS:
        return WORDS[str(word)]()
    if pixels := _PIXELS_WORD.fullmatch(str(word)):
        side = size or int(pixels[1] or 16)
        if not 0 < side <= WIDEST_PIXELS:
            raise InvalidParameter(f"pixels need a side of 1 to {WIDEST_PIXELS}, not {side}")
        return Pixels(size=side)
    if hub_of(str(word)):
        return hub_embedder(str(word))
    if not str(word).endswith(".onnx") and not os.path.exists(word):
        hubs = ", ".join(f"{hub}:NAME" for hub in HUBS)
        raise InvalidParameter(
            f"{str(word)!r} is not a known network; use {', '.join(map(repr, WORDS))}, "
            f"'pixels-16', the path of an ONNX file, or a name of another package: {hubs}"
        )
    return OnnxEmbedder(word, size=size, mean=mean, scale=scale)


def as_embedder(meant: Embedder | Given) -> Embedder:
    """The embedder for a name or file; an embedder is returned unchanged."""
    return meant if isinstance(meant, Embedder) else embedder_for(meant)


def embedder_called(name: str | None) -> Embedder | None:
    """The embedder with this stored name, if it is included in everlearn."""
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
    """The embedder for a name or file, with the preprocessing from a stored name.

    If the name used to stand for another embedder, and that is the stored one, it is returned. The
    caller compares its name with the stored one.
    """
    name = name or ""
    try:
        found = _prepared_as(name, given)
        if found.name == name:
            return found
    except MissingPackage:
        # What the word stood for when the vectors were made may need less.
        former = _formerly(given)
        if former is None or former.name != name:
            raise
        return former
    former = _formerly(given)
    return former if former is not None and former.name == name else found


def _formerly(given: Given) -> Embedder | None:
    """The earlier meaning of a word, if it changed."""
    parts = _side_by_side(given)
    if not any(part in FORMER for part in parts):
        return None
    made = [FORMER[part]() if part in FORMER else embedder_for(part) for part in parts]
    return made[0] if len(made) == 1 else SideBySide(made)


def _prepared_as(name: str, given: Given) -> Embedder:
    parts, known = _side_by_side(given), [own for own, _ in parts_in(name)]
    if len(parts) > 1:
        # The stored names of as many networks give the preprocessing of each.
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
    """The networks in a word; a file name may itself contain the sign."""
    word = str(given)
    return [word] if os.path.exists(word) else [part.strip() for part in word.split(BESIDE)]


def _numbers(written: str) -> Numbers:
    """Parse numbers such that formatting them gives the same name again."""
    if written[0] not in "([":
        return _number(written)
    several = [_number(word) for word in written[1:-1].split(",") if word.strip()]
    return tuple(several) if written[0] == "(" else several


def _number(written: str) -> float:
    return int(written) if re.fullmatch(r"\s*-?\d+\s*", written) else float(written)
