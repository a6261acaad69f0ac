"""Finds an embedder by name, by file, or by the name stored with its vectors.

Vectors carry the name of their embedder. Embedders included in everlearn are found by that name, so
that a Memory opened later uses the same one. An ONNX file has to be given again; its
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
from everlearn.images.shipped import (
    LCNET,
    LITE2,
    WHOLE_SIDE,
    EfficientNetLite2,
    PPLCNetV2,
    balanced,
)
from everlearn.images.side_by_side import SideBySide, parts_in

Given = str | os.PathLike[str]

_lite2_int8 = partial(EfficientNetLite2, precision="int8")


def _whole(*networks: Callable[..., Embedder], mirror: bool = False) -> SideBySide:
    """Networks side by side, each on a crop with the whole shorter side."""
    return SideBySide([network(crop=WHOLE_SIDE, mirror=mirror) for network in networks])


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
# Earlier meanings of words: a Memory taught with them is still opened by the word.
FORMER_WORDS: dict[str, Callable[[], Embedder]] = {
    "balanced": EfficientNetLite0,
    "best": lambda: _whole(EfficientNetLite0, PPLCNetV2),
    "best-mirror": lambda: _whole(EfficientNetLite0, PPLCNetV2, mirror=True),
}
# Networks that come with everlearn or everlearn-networks, by file name.
BUNDLED: dict[str, Callable[..., Embedder]] = {
    SHIPPED["float32"]: EfficientNetLite0,
    SHIPPED["int8"]: partial(EfficientNetLite0, precision="int8"),
    LITE2["float32"]: EfficientNetLite2,
    LITE2["int8"]: _lite2_int8,
    LCNET: PPLCNetV2,
}
SEPARATOR = "+"
_PIXELS_WORD = re.compile(r"pixels(?:-(\d+))?")

MIRROR = " mirror"
# A name may come from an untrusted file: a side of 60,000 pixels would exhaust memory.
WIDEST_PIXELS = 512
_NUMBERS = r"[-+.\de]+|\([-+.\de, ]+\)|\[[-+.\de, ]+\]"
# Stem, digest, size, crop, mean and scale, as OnnxEmbedder writes them.
_FILE = re.compile(
    rf".+ [0-9a-f]{{16}} ([1-9]\d{{0,3}}) ([.\d]+) ({_NUMBERS}) ({_NUMBERS})(?: (mean|first|rest))?"
)
_CROP = re.compile(r"1\.0|0\.\d*[1-9]")
_PIXELS = re.compile(r"pixels ([1-9]\d{0,2}) (grey|colour)")


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
    parts = _networks_in(word)
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


def as_embedder(chosen: Embedder | Given) -> Embedder:
    """The embedder for a name or file; an embedder is returned unchanged."""
    return chosen if isinstance(chosen, Embedder) else embedder_for(chosen)


def bundled_embedder(name: str | None) -> Embedder | None:
    """The embedder with this stored name, if it needs no file of the user's; otherwise ``None``."""
    name = name or ""
    if parts := parts_in(name):
        found = [part for own, _ in parts if (part := bundled_embedder(own)) is not None]
        return SideBySide(found) if len(found) == len(parts) else None
    plain = name.removesuffix(MIRROR)
    if pixels := _PIXELS.fullmatch(name):
        side, colour = int(pixels[1]), pixels[2] == "colour"
        return Pixels(size=side, colour=colour) if side <= WIDEST_PIXELS else None
    stem, mirror, match = plain.split(" ")[0], plain != name, _FILE.fullmatch(plain)
    crop = float(match[2]) if match and _CROP.fullmatch(match[2]) else USUAL_CROP
    ours = BUNDLED[stem](mirror=mirror, crop=crop) if stem in BUNDLED else None
    return ours if ours is not None and ours.name == name else None


def matching_embedder(name: str | None, given: Given) -> Embedder:
    """The embedder for a name or file, with the preprocessing from a stored name.

    If the word stood for another embedder earlier, and that is the stored one, it is returned. The
    result may still differ from the stored embedder: callers compare the names.
    """
    name = name or ""
    try:
        found = _matching_embedder(name, given)
        if found.name == name:
            return found
    except MissingPackage:
        # The former embedder may not need the missing package.
        former = _former_embedder(given)
        if former is None or former.name != name:
            raise
        return former
    former = _former_embedder(given)
    return former if former is not None and former.name == name else found


def _former_embedder(given: Given) -> Embedder | None:
    """The embedder that a word stood for earlier, if its meaning changed."""
    parts = _networks_in(given)
    if not any(part in FORMER_WORDS for part in parts):
        return None
    made = [FORMER_WORDS[part]() if part in FORMER_WORDS else embedder_for(part) for part in parts]
    return made[0] if len(made) == 1 else SideBySide(made)


def _matching_embedder(name: str, given: Given) -> Embedder:
    parts, known = _networks_in(given), [own for own, _ in parts_in(name)]
    if len(parts) > 1:
        # If as many networks are stored, each gets the preprocessing of its stored name.
        known = known if len(known) == len(parts) else [""] * len(parts)
        return SideBySide([matching_embedder(*pair) for pair in zip(known, parts, strict=True)])
    plain = name.removesuffix(MIRROR)
    match = _FILE.fullmatch(plain)
    if match is None or not os.path.isfile(given):
        return embedder_for(given)
    size, crop, mean, scale, tokens = match.groups()
    try:
        numbers = float(crop), _numbers(mean), _numbers(scale)
    except ValueError:
        # A damaged name: the caller reports that it is not that of the file.
        return embedder_for(given)
    return OnnxEmbedder(
        given,
        size=int(size),
        crop=numbers[0],
        mean=numbers[1],
        scale=numbers[2],
        mirror=plain != name,
        tokens=tokens,  # type: ignore[arg-type]
    )


def _networks_in(given: Given) -> list[str]:
    """The names or files joined by ``+``; an existing file may contain the sign itself."""
    word = str(given)
    return [word] if os.path.exists(word) else [part.strip() for part in word.split(SEPARATOR)]


def _numbers(written: str) -> Numbers:
    """Parse numbers such that formatting them gives the same name again."""
    if written[0] not in "([":
        return _number(written)
    several = [_number(word) for word in written[1:-1].split(",") if word.strip()]
    return tuple(several) if written[0] == "(" else several


def _number(written: str) -> float:
    return int(written) if re.fullmatch(r"\s*-?\d+\s*", written) else float(written)
